"""One task for each store: it connects, asks, streams, and begins again.

A store that is slow, hung or away holds up no other. The core decides what to ask and what to send.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable
from typing import Any, Protocol

from quorate.protocol.delays import Delays
from quorate.protocol.errors import QuorateError, SourceActive, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.recovery import Promise
from quorate.protocol.wire import (
    begin_from_wire,
    begin_to_wire,
    held_from_wire,
    held_to_wire,
    markers_from_wire,
    source_to_wire,
)
from quorate.source.io.stream_writer import StreamWriter
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.receiver_pacing import told_from_wire
from quorate.source.protocol.registration import (
    AskBegin,
    AskPromise,
    Grant,
    Hold,
    OpenStream,
)
from quorate.transport.channels import UNANSWERED_SECONDS_MAX
from quorate.transport.connections import Connections
from quorate.transport.delays import delay
from quorate.transport.epochs import in_steps
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.transport.lanes import Lane
from quorate.v1 import store_pb2 as v1
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY

_log = logging.getLogger("quorate.source")
_GOODBYE_SECONDS_MAX = 2.0


class SessionOwner(Protocol):
    """The part of the engine that a session needs."""

    core: SourceCore

    def after_input(self) -> None:
        """Act on what follows from an input to the core."""

    def store_known(self, said: v1.StoreReplaced, teller: str) -> None:
        """Take what a store reports of a store's incarnation."""

    def after_receivers(self) -> None:
        """Let senders look again, because the core was told of receivers."""

    def stable_awaited(self) -> None:
        """Tell soon how far the stream is stable, because somebody at a store waits for that."""

    def store_idle(self) -> None:
        """Note that a stream has written, or a store has acknowledged, all frames there were."""


class StoreSession:
    """The task that keeps one store up to date."""

    def __init__(
        self,
        store: StoreAddress,
        owner: SessionOwner,
        connections: Connections,
        instance: bytes,
        reg_id: int,
        take_over: bool,
        delays: Delays,
    ) -> None:
        self.store = store
        self.connection = connections.connect(store.address)
        self._application = connections.application
        self._owner = owner
        self._core = owner.core
        self._instance = instance
        self._reg_id = store.reg_id or reg_id
        self._take_over = take_over
        self._delays = delays
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._opens = 0
        """The epoch of the stream that was opened last."""
        self._opened: asyncio.Future[None] | None = None
        """Done when the store has answered; None: no stream is open."""
        self._ending: asyncio.Future[QuorateError | None] | None = None
        """Why the open stream ends; None: as the source wanted."""
        self._writer: StreamWriter | None = None
        """None: no stream is open, or the open one ends."""
        self._failures = 0
        self._named: tuple[bytes, ...] = ()
        """The incarnations that the store has last named with an answer, as serialized."""
        self._free_in: float | None = None

    @property
    def stub(self) -> Any:
        """The stub for the next call to the store."""
        return self.connection.store

    def wake(self) -> None:
        """Note a change: there may be a step to take or a frame to write."""
        self._news.set()
        if self._writer is not None:
            self._writer.write()

    def end_stream(self, error: QuorateError | None) -> None:
        """End the open stream, if there is one, and begin again.

        error: the reason; None: it ended as the source wanted.
        """
        if self._ending is not None and not self._ending.done():
            self._ending.set_result(error)
        if self._writer is not None:
            self._writer.stop()
            self._writer = None

    async def run(self) -> None:
        """Run until cancelled, or until the stream has said goodbye."""
        while not self._core.closing:
            step = self._core.step(self.store.name)
            failed_before, failed = self._failures > 0, True
            try:
                await self._take(step)
            except QuorateError as error:
                self._failed(error)
            except Exception as error:
                _log.exception("the session with store %s broke", self.store.name)
                self._failed(Unreachable(self.store.address, repr(error)))
            else:
                failed = False
                self._owner.after_input()
            same = self._core.step(self.store.name) == step and not isinstance(step, Hold)
            if same or (failed and failed_before):
                await self._pause()
            elif failed:
                self._failures += 1

    def _failed(self, error: QuorateError) -> None:
        # The end of a protection should not be missed by as much as the back-off has grown to.
        self._free_in = error.free_in if isinstance(error, SourceActive) else None
        self._core.failed(self.store.name, error, self._now())
        self._owner.after_input()

    def _now(self) -> float:
        return self._loop.time()

    async def _pause(self) -> None:
        """Wait before the same step is repeated; a new step ends the wait."""
        self._failures += 1
        seconds = delay(self._delays, self._failures)
        if self._free_in is not None:
            seconds = min(seconds, self._free_in + self._delays.first)
        step = self._core.step(self.store.name)
        if isinstance(step, OpenStream):
            await asyncio.sleep(seconds)  # each batch of other stores is a change
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._core.step(self.store.name) == step:
                    self._news.clear()
                    await self._news.wait()

    async def _take(self, step: object) -> None:
        match step:
            case AskPromise(epoch):
                async with self.connection.openings:
                    grant = await in_steps(epoch, self.ask)
                self._core.promised(self.store.name, epoch, grant, self._now())
            case AskBegin():
                async with self.connection.openings:
                    await self._begin(step)
                self._core.begun(
                    self.store.name, step.begin.epoch, self._now(), step.begin.membership
                )
            case OpenStream(epoch):
                await self._stream(epoch)
            case Hold():
                self._news.clear()
                await self._news.wait()

    async def _call(self, method: Any, request: Any) -> Any:
        with errors_of(self.store.address):
            return await method(request, timeout=UNANSWERED_SECONDS_MAX)

    async def ask(self, epoch: int) -> Grant:
        """Ask for the store's promise of this epoch, and return it with all that the store
        knows."""
        response: v1.PromiseResponse = await self._call(
            self.connection.bundle.promise,
            v1.PromiseRequest(
                source=source_to_wire(self._core.name),
                epoch=epoch,
                reg_id=self._reg_id,
                instance=self._instance,
                take_over=self._take_over,
                decided_epoch=self._core.registration.decided_epoch,
                protocol_version=PROTOCOL_VERSION,
            ),
        )
        self._tell_known(response.known)
        promise = Promise(
            begin_from_wire(response.begun),
            held_from_wire(response.held),
            response.stable_upto,
            response.limbo,
            markers_from_wire(response.markers),
            held_from_wire(response.accepted_losses),
            response.retained_from,
            response.durability != DURABILITY_STATE_ONLY,
        )
        return Grant(
            response.reg_id,
            response.incarnation,
            promise,
            response.store_name,
            response.limbo_reason,
            tuple((known.name, known.address) for known in response.information.stores),
        )

    def _tell_known(self, known: Iterable[v1.StoreReplaced]) -> None:
        """Take the incarnations that the store names. Most answers name the same ones."""
        known = list(known)
        named = tuple([said.SerializeToString() for said in known])
        if named == self._named:
            return
        for said in known:
            self._owner.store_known(said, self.store.name)
        self._named = named

    async def _begin(self, step: AskBegin) -> None:
        response = await self._call(
            self.connection.bundle.begin,
            v1.BeginRequest(
                source=source_to_wire(self._core.name),
                begin=begin_to_wire(step.begin),
                instance=self._instance,
                incarnation=step.incarnation,
                accepted_losses=held_to_wire(step.losses),
                protocol_version=PROTOCOL_VERSION,
            ),
        )
        self._tell_known(response.known)

    async def _stream(self, epoch: int) -> None:
        """Open the stream and keep it going until it ends. Raise the reason."""
        opened = self._opened = self._loop.create_future()
        ending = self._ending = self._loop.create_future()
        self._opens = epoch
        lane = self.connection.lanes.open(self._heard, self._over)
        try:
            async with self.connection.openings:
                lane.write(self._core.open_frame(self.store.name, self._application))
                await asyncio.wait(
                    (opened, ending),
                    timeout=UNANSWERED_SECONDS_MAX,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            if not opened.done() and not ending.done():
                raise Unreachable(self.store.address, "no answer to the opened stream")
            await self._serve(lane, ending)
        finally:
            self._ending = self._opened = None
            lane.close()

    async def _serve(self, lane: Lane, ending: asyncio.Future[QuorateError | None]) -> None:
        """Write until the stream ends. Raise the reason."""
        if ending.done():
            raise ending.result() or Unreachable(self.store.address, "the source ends")
        writer = self._writer = StreamWriter(
            self.store.name, self._core, lane, self._owner.store_idle, self._broke
        )
        try:
            writer.write()
            await asyncio.wait((writer.said_goodbye, ending), return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                # Why the stream ends, or that the store has all, is heard a little later.
                await asyncio.wait((ending,), timeout=_GOODBYE_SECONDS_MAX)
        finally:
            writer.stop()
            self._writer = None
        if ending.done() and (error := ending.result()) is not None:
            raise error

    def _take_opened(self, opened: v1.AppendOpened) -> None:
        self._tell_known(opened.known)
        self._tell_receivers(opened)
        if not self._core.opened(
            self.store.name,
            self._opens,
            opened.next_sequence,
            opened.durability,
            self._now(),
            opened.message_bytes_max,
        ):
            raise Unreachable(self.store.address, "a newer epoch begins")
        self._owner.after_input()

    def _tell_receivers(self, opened: v1.AppendOpened) -> None:
        if not self._core.pacing.waits:
            return
        if not opened.HasField("waited_for"):
            raise Unreachable(
                self.store.address,
                "it cannot report the positions of receivers, which receiver_pacing needs; upgrade "
                "the store",
            )
        self._core.receivers_told(self.store.name, told_from_wire(opened.waited_for))

    def _over(self, error: QuorateError | None) -> None:
        """End the stream, because its lane is over."""
        if error is None and not self._core.closing:
            error = Unreachable(self.store.address, "the store ended the stream")
        self.end_stream(error)

    def _heard(self, response: v1.AppendResponse) -> None:
        """Take a response of the store."""
        try:
            if response.HasField("durable"):
                self._failures = 0
                durable = response.durable
                self._core.acknowledged(self.store.name, durable.upto, self._now())
                if self._core.streams.stable_awaited(self.store.name, durable.stable_awaited):
                    self._owner.stable_awaited()
                self._owner.after_input()
                self._owner.store_idle()
            else:
                self._other(response)
        except Exception as error:
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """End the stream because of an error."""
        if not isinstance(error, QuorateError):
            _log.error("the session with store %s broke", self.store.name, exc_info=error)
            error = Unreachable(self.store.address, repr(error))
        self.end_stream(error)

    def _other(self, response: v1.AppendResponse) -> None:
        """Take a response that is no acknowledgement. Raise why the store ends the stream, if it
        does."""
        if response.HasField("failed"):
            raise failure_from_wire(response.failed, self.store.address)
        if response.HasField("opened") and self._opened is not None and not self._opened.done():
            self._take_opened(response.opened)
            self._opened.set_result(None)
        if response.HasField("fragment_taken"):
            taken = response.fragment_taken
            streams = self._core.streams
            streams.fragment_taken(self.store.name, taken.sequence, taken.upto, self._now())
            self.wake()
        if response.HasField("replaced"):
            self._named = ()
            self._owner.store_known(response.replaced, self.store.name)
        if response.HasField("waited_for"):
            self._core.receivers_told(self.store.name, told_from_wire(response.waited_for))
            self._owner.after_receivers()
