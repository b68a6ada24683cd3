"""The stream of one source into the store, on a lane of the call Append.

The stream reads frames, hands them to the rules, submits the rows, and acknowledges durable batches
with one acknowledgement a commit. Which batches may be taken is decided in
quorate.store.rules.stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import grpc.aio

from quorate.protocol.errors import (
    ContentConflict,
    CorruptBatch,
    InvalidArgument,
    QuorateError,
    TakenForHung,
)
from quorate.protocol.framing import first_of
from quorate.protocol.limits import INSTANCE_BYTES_MAX, NOTHING, SEQUENCE_MAX
from quorate.protocol.wire import application_from_wire, pacing_from_wire
from quorate.store.engine import Engine
from quorate.store.rpc.long_requests import check_description
from quorate.store.rules.lifetimes import asked_lifetimes
from quorate.store.rules.receivers import waited_for
from quorate.store.rules.source_state import AppendStream
from quorate.store.storage.interface import Write
from quorate.transport.failures import check_version
from quorate.transport.heartbeat import Client, Listening
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.rpc.append")

Context = grpc.aio.ServicerContext[Any, Any]

RECEIVERS_SECONDS = 0.1
"""Seconds between two reports of the receivers' positions to a source that waits for them."""


def check_instance(instance: bytes) -> bytes:
    """Return it unchanged, or raise InvalidArgument."""
    if not 0 < len(instance) <= INSTANCE_BYTES_MAX:
        raise InvalidArgument("instance", f"must have 1 to {INSTANCE_BYTES_MAX} bytes")
    return instance


def _check_stable(frame: v1.Frame) -> None:
    """Raise InvalidArgument if a frame says that more is stable than a stream can have."""
    if frame.stable_upto > SEQUENCE_MAX:
        raise InvalidArgument("stable_upto", f"{frame.stable_upto} is not a sequence number")


class _Fragments:
    """The fragments of one message that were written, and of which the source is to be told."""

    def __init__(self, sequence: int, tells: Callable[[], None]) -> None:
        """sequence: the number of the message. tells: is called when there is something to tell."""
        self._sequence = sequence
        self.upto = 0
        """The bytes that were written of it; 0: the source knows."""
        self._tells = tells

    def acknowledge(self, upto: int) -> None:
        """Note that so many bytes were written."""
        self.upto = upto
        self._tells()

    def response(self) -> store_v1.AppendResponse:
        """Return what tells the source."""
        upto, self.upto = self.upto, 0
        taken = store_v1.FragmentTaken(sequence=self._sequence, upto=upto)
        return store_v1.AppendResponse(fragment_taken=taken)


class Lane(Protocol):
    """The lane of a stream."""

    def peer(self) -> str:
        """Return the connection of the client."""

    async def read(self) -> v1.Frame | None:
        """Return the next frame; None: none comes."""

    def tells(self) -> None:
        """Note that the stream has responses."""


class AppendCall:
    """The stream on one lane, from its first frame to its end."""

    def __init__(self, engine: Engine, lane: Lane, address: str, listening: Listening) -> None:
        """listening: to the source, whose stream ends when it is silent."""
        self._lane = lane
        self._listening = listening
        self._engine = engine
        self._streams = engine.core.streams
        self._address = address
        self._over: asyncio.Future[QuorateError] = asyncio.get_running_loop().create_future()
        self._topic = ""
        self._opened: store_v1.AppendOpened | None = None
        """The answer to the first frame, until it is told."""
        self._upto = NOTHING
        self._told = NOTHING
        self._awaited = False
        """Whether the source was told that somebody waits for what becomes stable."""
        self._asks = False
        """Whether the source is to be told so now."""
        self._fragments = _Fragments(NOTHING, lane.tells)
        self._replaced: list[store_v1.StoreReplaced] = []
        self._receivers: store_v1.WaitedFor | None = None
        """The positions to report of the receivers for which the source waits; None: for none."""
        self._receivers_told: store_v1.WaitedFor | None = None
        self._commit = 0

    def end(self, error: QuorateError) -> None:
        """End the call with this error, after the batches that it has taken are acknowledged."""
        if not self._over.done():
            self._over.set_result(error)

    def acknowledge(self, upto: int) -> None:
        """Acknowledge everything up to this number as durable."""
        self._upto = upto
        self._lane.tells()

    def ask_for_stable(self) -> None:
        """Tell the source that somebody waits for what becomes stable, unless it knows.

        An acknowledgement says it. So the last one is repeated.
        """
        if not self._awaited and self._told > NOTHING:
            self._asks = True
            self._lane.tells()

    def replaced(self, store: store_v1.StoreReplaced) -> None:
        """Tell the source that another store has a new incarnation, before later acknowledgements.

        The source must not count acknowledgements of that store's former incarnation together with
        the ones that this store sends from now on.
        """
        self._replaced.append(store)
        self._lane.tells()

    async def run(self) -> None:
        """Serve the call. Raises the error with which it must fail."""
        frame = await self._lane.read()
        if frame is None:
            return
        stream = await self._open(frame)
        name = stream.state.name

        def silenced(silence: str) -> None:
            self.end(TakenForHung(self._address, str(name), silence))

        self._engine.askers[stream] = self.ask_for_stable
        try:
            with self._listening.to(self._lane.peer(), silenced) as client:
                await self._serve(stream, client)
        finally:
            del self._engine.askers[stream]
            self._engine.closed(stream)
            _log.info("stream of %s, epoch %d, is over", name, stream.epoch)

    async def _open(self, frame: v1.Frame) -> AppendStream:
        if frame.WhichOneof("kind") != "open":
            raise InvalidArgument("append", "the first frame must be AppendOpen")
        request = frame.open
        check_version(self._address, request.protocol_version)
        check_description("information", request.information)
        _check_stable(frame)
        # The whole request is checked first: a later error would leave a stream without a call.
        engine, wire = self._engine, request.lifetimes
        lifetimes = asked_lifetimes(wire.activity_timeout_seconds, wire.state_lifetime_seconds)
        application = application_from_wire(request.application)
        waits = pacing_from_wire(request.information) is not None
        change = self._streams.open(
            request.information,
            check_instance(request.instance),
            request.incarnation,
            request.retained_from,
            frame.stable_upto,
        )
        stream = change.answer.stream
        stream.state.application = application
        try:
            came = engine.core.identities.came(stream.state, lifetimes)
            engine.opened(stream, self)
            if came:
                engine.submit(stream.state, came)
            if waits:
                self._receivers = waited_for(stream.state)
            await engine.made_durable(stream.state, change)
            self._opened = store_v1.AppendOpened(
                next_sequence=change.answer.next_sequence,
                durability=engine.durability(stream.state.name.topic),
                known=engine.core.standing.known(),
                waited_for=self._receivers,
                message_bytes_max=self._streams.message_bytes_max,
            )
        except BaseException:
            engine.closed(stream)
            raise
        self._topic = stream.state.name.topic
        self._upto = self._told = change.answer.next_sequence - 1
        self._receivers_told = self._receivers
        self._lane.tells()
        _log.info(
            "stream of %s, epoch %d, goes on at %d",
            stream.state.name,
            stream.epoch,
            change.answer.next_sequence,
        )
        return stream

    async def _serve(self, stream: AppendStream, client: Client) -> None:
        reading = asyncio.create_task(self._read(stream, client))
        tasks: list[asyncio.Task[None]] = [reading]
        if self._receivers is not None:
            tasks.append(asyncio.create_task(self._watch_receivers(stream)))
        try:
            await asyncio.wait((reading, self._over), return_when=asyncio.FIRST_COMPLETED)
            # The taken batches are acknowledged before the source hears why the stream ends.
            if self._engine.writer.failure is None:
                await self._engine.writer.durable(self._commit)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._over.done():
            raise self._over.result()
        reading.result()

    async def _read(self, stream: AppendStream, client: Client) -> None:
        """Take frames until the source sends no more, or the stream is over."""
        durability = self._engine.durability(stream.state.name.topic)
        while True:
            frame = await self._lane.read()
            if frame is None or self._over.done():
                return
            client.heard()
            stable_upto = stream.state.held.stable_upto
            try:
                _check_stable(frame)
                kind = frame.WhichOneof("kind")
                if kind == "batch":
                    await self._take(stream, frame, durability)
                elif kind == "fragment":
                    await self._take_fragment(stream, frame, durability)
                else:
                    self._control(stream, frame)
            except QuorateError as error:
                if isinstance(error, ContentConflict | CorruptBatch):
                    # Log it now: a source that hears of it hangs up, which cancels this call.
                    _log.error("%s", error)
                if isinstance(error, ContentConflict):
                    self._engine.met_conflict(stream.state, error, stream.instance)
                self.end(error)
            if stream.state.held.stable_upto > stable_upto:
                self._engine.stable_tail.changed(stream.state.name)

    async def _take(self, stream: AppendStream, frame: v1.Frame, durability: v1.Durability) -> None:
        engine, batch, before = self._engine, frame.batch, stream.expected
        writes = self._streams.append(stream, batch, frame.stable_upto)
        if writes is None:
            await engine.settled(stream.state)
            writes = self._streams.append_held(stream, batch)
        self._count(len(batch), stream.expected - before)
        await self._submit(stream, writes, first_of(batch), durability)

    def _count(self, size: int, messages: int) -> None:
        received = self._engine.received
        received.batches += 1
        received.messages += messages
        received.bytes += size

    async def _submit(
        self, stream: AppendStream, writes: Sequence[Write], first: int, durability: v1.Durability
    ) -> None:
        """Submit the rows of a batch, which concern numbers from first on."""
        engine, state = self._engine, stream.state
        sync, upto = durability == v1.DURABILITY_FSYNC, stream.expected - 1
        if durability == v1.DURABILITY_MEMORY:
            self._commit = engine.submit_new(state, writes, first, sync)
            self.acknowledge(upto)
        else:
            self._commit = engine.submit_new(state, writes, first, sync, self, upto)
        if engine.writer.full:
            await engine.writer.room()

    async def _take_fragment(
        self, stream: AppendStream, frame: v1.Frame, durability: v1.Durability
    ) -> None:
        engine, streams, fragment = self._engine, self._streams, frame.fragment
        at, data = fragment.at, fragment.data
        writes = streams.fragment(stream, at, fragment.size, data, frame.stable_upto)
        arrival = stream.arrival
        assert arrival is not None
        if not at:
            self._fragments = _Fragments(arrival.header.first, self._lane.tells)
        # The sync of the batch's own rows is the fragments' sync, too.
        upto = at + len(data)
        self._commit = engine.submit(stream.state, writes, False, self._fragments, upto)
        if arrival.is_whole:
            compared = await engine.compared(stream.state, arrival)
            before = stream.expected
            rows = streams.append_large(stream, arrival, compared)
            self._count(arrival.size, stream.expected - before)
            await self._submit(stream, rows, arrival.header.first, durability)

    def _control(self, stream: AppendStream, frame: v1.Frame) -> None:
        engine, streams = self._engine, self._streams
        writes = streams.keepalive(stream, frame.stable_upto)
        match frame.WhichOneof("kind"):
            case "keepalive":
                if writes:
                    self._commit = engine.submit_stable(stream.state, writes)
                return
            case "skip":
                skipped = streams.skip(stream, frame.skip.first, frame.skip.last)
                self._commit = engine.submit(stream.state, skipped, True, self, stream.expected - 1)
            case "information":
                check_description("information", frame.information)
                writes += streams.inform(stream, frame.information)
                engine.changed(stream.state.name)
            case "goodbye":
                writes += streams.goodbye(stream)
            case other:
                raise InvalidArgument("append", f"a frame of kind {other} is out of place")
        if writes:
            self._commit = engine.submit(stream.state, writes)

    def responses(self) -> list[store_v1.AppendResponse]:
        """Return what the source is to be told now, in this order."""
        found = [store_v1.AppendResponse(replaced=each) for each in self._replaced]
        self._replaced.clear()
        if self._opened is not None:
            found.insert(0, store_v1.AppendResponse(opened=self._opened))
            self._opened = None
        if (receivers := self._receivers) is not self._receivers_told:
            found.append(store_v1.AppendResponse(waited_for=receivers))
            self._receivers_told = receivers
        if self._fragments.upto:
            found.append(self._fragments.response())
        if (upto := self._upto) > self._told or self._asks:
            self._awaited = self._engine.stable_tail.watches(self._topic)
            durable = store_v1.Durable(upto=upto, stable_awaited=self._awaited)
            found.append(store_v1.AppendResponse(durable=durable))
            self._told, self._asks = upto, False
        return found

    async def _watch_receivers(self, stream: AppendStream) -> None:
        """Report the receivers' positions to a source that waits for them, after each change."""
        while True:
            await asyncio.sleep(RECEIVERS_SECONDS)
            receivers = waited_for(stream.state)
            if receivers != self._receivers:
                # The rows of these positions may not be durable yet.
                await self._engine.writer.durable(self._engine.submitted(stream.state))
                self._receivers = receivers
                self._lane.tells()
