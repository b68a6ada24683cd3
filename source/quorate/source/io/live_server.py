"""The source's server for its receivers: the live stream, and what the source retains.

Each receiver has a queue bounded in bytes. A receiver that is too slow loses its queue, sees the
jump in the sequence numbers, and catches up from the stores. It never slows the source. Which
messages are stable is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    NotRegistered,
    QuorateError,
    UnknownTopic,
)
from quorate.protocol.fragments import LargeBatch
from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.protocol.wire import source_from_wire
from quorate.source import events
from quorate.source.options import SourceOptions, asks_for_confirmation
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.fetch_answers import answers
from quorate.source.protocol.frames import (
    Framed,
    fragment_frame,
    information_frame,
    keepalive_frame,
)
from quorate.transport.channels import frame_stream_handler, new_server
from quorate.transport.event_log import EventLog
from quorate.transport.failures import abort, check_version
from quorate.transport.heartbeat import Listening
from quorate.v1 import messages_pb2 as v1
from quorate.v1.source_pb2 import (
    DELIVERY_LEVEL_STABLE,
    AttachRequest,
    ConfirmRequest,
    ConfirmResponse,
)

_log = logging.getLogger("quorate.source")
_SERVICE = "quorate.v1.Source"
_FRAME_OVERHEAD = 100
_LAST_FRAMES_SECONDS = 0.5
_CLOSED = "the source was closed"
_WENT_AWAY = "it left, or its connection broke"


class _Receiver:
    """One attached receiver, with the frames that wait for it."""

    def __init__(self, session_id: int, address: str, wants_stable: bool, queue_bytes: int) -> None:
        self.session_id = session_id
        self.address = address
        self.wants_stable = wants_stable
        self.told_stable_upto = -1
        self.keepalive_due = False
        self.ended = False
        self.reason = _WENT_AWAY
        """Why the live stream ends, in words."""
        self.news = asyncio.Event()
        self._frames: deque[tuple[Framed, int]] = deque()
        """The frames, each with how far it says that the stream is stable."""
        self._large: LargeBatch | None = None
        self._fragment_at = 0
        self._bytes = 0
        self._bytes_max = queue_bytes

    def put(self, frame: Framed, stable_upto: int) -> int:
        """Queue a frame. Return how many frames were dropped because the receiver is too slow."""
        dropped = 0
        self._bytes += len(frame) + _FRAME_OVERHEAD
        if self._bytes > self._bytes_max and self._frames:
            dropped = len(self._frames)
            self._frames.clear()
            self._bytes = len(frame) + _FRAME_OVERHEAD
        self._frames.append((frame, stable_upto))
        self.news.set()
        return dropped

    def take(self, stable_upto: int) -> bytes | None:
        """Return the next frame, or fragment of a large batch; None: none waits.

        A large batch that was begun no longer waits: it is sent to its end.
        """
        if self._large is None:
            if not self._frames:
                return None
            frame, told = self._frames.popleft()
            self._bytes -= len(frame) + _FRAME_OVERHEAD
            if isinstance(frame, bytes):
                self.told_stable_upto = max(self.told_stable_upto, told)
                return frame
            self._large, self._fragment_at = frame, 0
        self.told_stable_upto = stable_upto
        fragment = fragment_frame(self._large, self._fragment_at, stable_upto)
        self._fragment_at += FRAGMENT_BYTES
        if self._fragment_at >= self._large.size:
            self._large = None
        return fragment


class LiveServer:
    """The source's own gRPC service."""

    def __init__(
        self,
        core: SourceCore,
        options: SourceOptions,
        log: EventLog[events.Event],
        confirmed: Callable[[], None],
    ) -> None:
        """Make a server that does not listen yet.

        confirmed: is called after a receiver has confirmed what it consumed.
        """
        self._core = core
        self._confirmed = confirmed
        self._options = options
        self._log = log
        self._receivers: set[_Receiver] = set()
        self._listening = Listening()
        self._server = new_server()
        self._server.add_generic_rpc_handlers(
            (
                self._listening.handler(),
                grpc.method_handlers_generic_handler(
                    _SERVICE,
                    {
                        "Attach": frame_stream_handler(self._attach, AttachRequest.FromString),
                        "Fetch": grpc.unary_stream_rpc_method_handler(
                            self._fetch,
                            request_deserializer=v1.FetchRequest.FromString,
                            response_serializer=v1.FetchResponse.SerializeToString,
                        ),
                        "Confirm": grpc.unary_unary_rpc_method_handler(
                            self._confirm,
                            request_deserializer=ConfirmRequest.FromString,
                            response_serializer=ConfirmResponse.SerializeToString,
                        ),
                    },
                ),
            )
        )

    async def start(self) -> str:
        """Listen, and return the address for receivers. Raise InvalidArgument if that fails."""
        listen = self._options.listen
        try:
            port = self._server.add_insecure_port(listen)
        except RuntimeError as error:
            raise InvalidArgument("listen", f"{listen} cannot be listened on: {error}") from error
        await self._server.start()
        address = self._options.advertise or listen.rpartition(":")[0]
        host, colon, given = address.rpartition(":")
        if colon and given.isdigit():
            return f"{host}:{int(given) or port}"
        return f"{address}:{port}"

    async def stop(self, goodbye: bytes | None = None) -> None:
        """End all streams, after their queued frames have gone out, if that is quick.

        goodbye: the last frame of each.
        """
        if goodbye is not None:
            self.publish(goodbye)
        for receiver in self._receivers:
            receiver.ended = True
            receiver.reason = _CLOSED
            receiver.news.set()
        await self._server.stop(_LAST_FRAMES_SECONDS)

    # -- called by the engine ---------------------------------------------------------------

    def publish(self, frame: Framed) -> None:
        """Queue a frame for every receiver."""
        for receiver in self._receivers:
            dropped = receiver.put(frame, self._core.stable_upto)
            if dropped:
                self._log.add(events.ReceiverOverrun(receiver.session_id, dropped))

    def inform(self) -> None:
        """Send the changed registration information to every receiver."""
        if self._receivers:
            self.publish(information_frame(self._core.information(), self._core.stable_upto))

    def stable_advanced(self) -> None:
        """Tell receivers that wait for stability how far it is, unless a batch is about to."""
        if not self._core.packs_soon:
            for receiver in self._receivers:
                if receiver.wants_stable:
                    receiver.news.set()

    def keepalives_due(self) -> None:
        """Tell every receiver how far the stream is stable, if that is news."""
        for receiver in self._receivers:
            if receiver.told_stable_upto < self._core.stable_upto:
                receiver.keepalive_due = True
                receiver.news.set()

    # -- the service ------------------------------------------------------------------------

    async def _attach(
        self, request: AttachRequest, context: grpc.aio.ServicerContext[Any, bytes]
    ) -> None:
        await self._check(request.source, request.protocol_version, context)
        core = self._core
        if not core.started:
            await abort(context, NotRegistered(str(core.name), "it is still registering"))
        receiver = _Receiver(
            request.session_id,
            context.peer(),
            # Receivers acknowledge only stable messages. A source that waits for acknowledgements
            # sends no batch that would say what is stable.
            request.delivery == DELIVERY_LEVEL_STABLE or core.pacing.waits,
            self._options.receiver_queue_bytes,
        )
        self._receivers.add(receiver)
        self._log.add(events.ReceiverAttached(receiver.session_id, receiver.address))
        attached = v1.Attached(
            information=core.information(),
            next_sequence=core.packed_upto + 1,
            confirm=asks_for_confirmation(self._options),
        )
        receiver.told_stable_upto = core.stable_upto
        hello = v1.Frame(attached=attached, stable_upto=core.stable_upto).SerializeToString()
        is_silent = False
        try:
            is_silent = await self._until_silent(receiver, hello, context)
        except grpc.aio.BaseError:
            # gRPC raises this when a receiver goes away in the middle of a frame.
            _log.debug("receiver %#x of %s went away", receiver.session_id, core.name)
        finally:
            self._receivers.discard(receiver)
            self._log.add(
                events.ReceiverDetached(receiver.session_id, receiver.address, receiver.reason)
            )
        if is_silent:
            await abort(context, Closed(f"The live stream of {core.name} ({receiver.reason})"))

    async def _until_silent(
        self,
        receiver: _Receiver,
        hello: bytes,
        context: grpc.aio.ServicerContext[Any, bytes],
    ) -> bool:
        """Serve the live stream until the source closes. Return whether the receiver fell silent.

        A write to a receiver that hangs may wait for ever, so the silence cuts it off.
        """

        def silenced(silence: str) -> None:
            receiver.reason = silence
            limit.reschedule(0.0)

        try:
            with self._listening.to(receiver.address, silenced):
                async with asyncio.timeout(None) as limit:
                    await context.write(hello)
                    await self._live(receiver, context)
        except TimeoutError:
            return True
        return False

    async def _live(
        self, receiver: _Receiver, context: grpc.aio.ServicerContext[Any, bytes]
    ) -> None:
        core = self._core
        while True:
            receiver.news.clear()
            stable_upto = core.stable_upto
            frame = receiver.take(stable_upto)
            if frame is not None:
                receiver.keepalive_due = False
                await context.write(frame)
            elif receiver.ended:
                return
            elif receiver.keepalive_due or (
                receiver.wants_stable and receiver.told_stable_upto < stable_upto
            ):
                receiver.keepalive_due = False
                receiver.told_stable_upto = stable_upto
                await context.write(keepalive_frame(stable_upto))
            else:
                await receiver.news.wait()

    async def _fetch(
        self,
        request: v1.FetchRequest,
        context: grpc.aio.ServicerContext[v1.FetchRequest, v1.FetchResponse],
    ) -> AsyncIterator[v1.FetchResponse]:
        await self._check(request.source, request.protocol_version, context)
        if not 0 <= request.first <= request.last:
            detail = f"[{request.first}, {request.last}] is not a range"
            await abort(context, InvalidArgument("range", detail))
        for response in answers(self._core, request.first, request.last):
            yield response

    async def _confirm(
        self,
        request: ConfirmRequest,
        context: grpc.aio.ServicerContext[ConfirmRequest, ConfirmResponse],
    ) -> ConfirmResponse:
        await self._check(request.source, request.protocol_version, context)
        self._core.confirmed(request.session_id, request.reg_id, request.source_epoch, request.upto)
        self._confirmed()
        return ConfirmResponse()

    async def _check(
        self, source: v1.SourceName, version: int, context: grpc.aio.ServicerContext[Any, Any]
    ) -> None:
        try:
            check_version(self._core.address, version)
            name = source_from_wire(source)
            if name != self._core.name:
                raise UnknownTopic(name.topic, str(self._core.name))
        except QuorateError as error:
            await abort(context, error)
