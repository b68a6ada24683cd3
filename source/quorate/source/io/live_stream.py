"""The live stream of one source to its receivers, and what the source retains for them.

Each receiver has a queue bounded in bytes. A receiver that is too slow loses its queue, sees the
jump in the sequence numbers, and catches up from the stores. It never slows the source. Which
messages are stable is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc.aio

from quorate.protocol.errors import Closed, InvalidArgument, NotRegistered
from quorate.protocol.fragments import LargeBatch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import FRAGMENT_BYTES
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
from quorate.transport.event_log import EventLog
from quorate.transport.failures import abort
from quorate.transport.heartbeat import Listening
from quorate.v1 import messages_pb2 as v1
from quorate.v1.source_pb2 import DELIVERY_LEVEL_STABLE, AttachRequest, ConfirmRequest

_log = logging.getLogger("quorate.source")
_FRAME_OVERHEAD = 100
_LAST_FRAMES_SECONDS = 0.5
_CLOSED = "the source was closed"
_WENT_AWAY = "it left, or its connection broke"

Context = grpc.aio.ServicerContext[Any, bytes]


class _Receiver:
    """One attached receiver, with the frames that wait for it."""

    def __init__(self, session_id: int, address: str, wants_stable: bool, queue_bytes: int) -> None:
        self.session_id = session_id
        self.address = address
        self.wants_stable = wants_stable
        self.told_stable_upto = -1
        self.keepalive_due = False
        self.ended = False
        """Whether the source has closed: the stream ends behind the frames that wait."""
        self.reason = _WENT_AWAY
        """Why the live stream ends, in words."""
        self.limit = asyncio.Timeout(None)
        """Cuts off the live stream, also in the middle of a write."""
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

    def cut_off(self, time: float, reason: str) -> None:
        """Cut off the stream at this time, if it has not ended by then."""
        self.reason = reason
        if not self.limit.expired():
            self.limit.reschedule(time)

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


class LiveStream:
    """The receivers of one source, and what each of them is sent."""

    def __init__(
        self,
        core: SourceCore,
        options: SourceOptions,
        log: EventLog[events.Event],
        confirmed: Callable[[], None],
    ) -> None:
        """Begin without receivers.

        confirmed: is called after a receiver has confirmed what it consumed.
        """
        self._core = core
        self._confirmed = confirmed
        self._options = options
        self._log = log
        # A dictionary in the place of a set: it keeps the order in which they came.
        self._receivers: dict[_Receiver, None] = {}
        self._left = asyncio.Event()

    @property
    def name(self) -> SourceName:
        """The name of the source."""
        return self._core.name

    @property
    def started(self) -> bool:
        """Whether receivers may attach."""
        return self._core.started

    # -- called by the source ---------------------------------------------------------------

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

    @property
    def rests(self) -> bool:
        """Whether every receiver was told how far the stream is stable."""
        stable_upto = self._core.stable_upto
        return all(receiver.told_stable_upto >= stable_upto for receiver in self._receivers)

    async def end(self, goodbye: bytes | None = None) -> None:
        """End the stream of every receiver, after its queued frames have gone out, if that is
        quick.

        goodbye: the last frame of each. No receiver attaches from now on.
        """
        if goodbye is not None:
            self.publish(goodbye)
        cut_off_at = asyncio.get_running_loop().time() + _LAST_FRAMES_SECONDS
        for receiver in self._receivers:
            receiver.ended = True
            receiver.cut_off(cut_off_at, _CLOSED)
            receiver.news.set()
        while self._receivers:
            self._left.clear()
            await self._left.wait()

    # -- called by the server ---------------------------------------------------------------

    async def attach(self, request: AttachRequest, context: Context, listening: Listening) -> None:
        """Serve the live stream to a receiver, until one of them ends it.

        listening: to the receivers of the server; a silent one is cut off.
        """
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
        self._receivers[receiver] = None
        self._log.add(events.ReceiverAttached(receiver.session_id, receiver.address))
        try:
            with listening.to(receiver.address, partial(receiver.cut_off, 0.0)):
                async with receiver.limit:
                    await self._serve(receiver, context)
        except TimeoutError:
            pass  # the receiver hangs, or did not take its last frames
        except grpc.aio.BaseError:
            # gRPC raises this when a receiver goes away in the middle of a frame.
            _log.debug("receiver %#x of %s went away", receiver.session_id, core.name)
        finally:
            self._receivers.pop(receiver, None)
            self._left.set()
            self._log.add(
                events.ReceiverDetached(receiver.session_id, receiver.address, receiver.reason)
            )
        if receiver.limit.expired() and not receiver.ended:
            await abort(context, Closed(f"The live stream of {core.name} ({receiver.reason})"))

    async def _serve(self, receiver: _Receiver, context: Context) -> None:
        core = self._core
        attached = v1.Attached(
            information=core.information(),
            next_sequence=core.packed_upto + 1,
            confirm=asks_for_confirmation(self._options),
        )
        receiver.told_stable_upto = stable_upto = core.stable_upto
        await context.write(
            v1.Frame(attached=attached, stable_upto=stable_upto).SerializeToString()
        )
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

    def fetch(self, request: v1.FetchRequest) -> Iterator[v1.FetchResponse]:
        """Return the responses with what the source retains of a range.

        Raises InvalidArgument.
        """
        if not 0 <= request.first <= request.last:
            raise InvalidArgument("range", f"[{request.first}, {request.last}] is not a range")
        return answers(self._core, request.first, request.last)

    def confirm(self, request: ConfirmRequest) -> None:
        """Note what a receiver has consumed."""
        self._core.confirmed(request.session_id, request.reg_id, request.source_epoch, request.upto)
        self._confirmed()
