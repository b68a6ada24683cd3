"""A store in memory, in the test's own process, that does as it is told: refuse, delay, lose.

It keeps the rules that a source depends on and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
from tests.beats import Beats
from tests.held import merge_held

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.begin import NOT_BEGUN
from quorate.protocol.errors import (
    ContentConflict,
    Fenced,
    InLimbo,
    NotRegistered,
    OutOfOrder,
    QuorateError,
    SourceActive,
)
from quorate.protocol.framing import check_batch, read_payloads
from quorate.protocol.limits import MESSAGE_BYTES_MAX
from quorate.protocol.lineage import NO_LINEAGE
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.wire import (
    begin_from_wire,
    begin_to_wire,
    held_to_wire,
)
from quorate.store.rpc.bundle import Bundles
from quorate.transport.channels import new_server
from quorate.transport.failures import abort, failure_to_wire
from quorate.v1 import messages_pb2 as m
from quorate.v1 import store_pb2 as v1
from quorate.v1.store_pb2_grpc import StoreServicer, add_StoreServicer_to_server

Context = grpc.aio.ServicerContext[Any, Any]


class FakeStore(StoreServicer):  # type: ignore[misc]
    """Holds one source's stream."""

    def __init__(self) -> None:
        self.address = ""
        self.refusal: QuorateError | None = None
        """Every promise and begin fails with it."""
        self.reading = asyncio.Event()
        """Cleared: streams are not read from."""
        self.reading.set()
        self.deaf = False
        """Frames are read and forgotten."""
        self.acknowledging = asyncio.Event()
        """Cleared: nothing is acknowledged; what arrives is kept."""
        self.acknowledging.set()
        self.beating = asyncio.Event()
        """Cleared: heartbeats are not answered."""
        self.beating.set()
        self.stable_awaited = False
        """Acknowledgements say that somebody waits for what becomes stable."""
        self.acknowledges_upto = 1 << 62
        """Nothing above it is acknowledged."""
        self.answering = asyncio.Event()
        """Cleared: promises are not answered."""
        self.answering.set()
        self.limbo = False
        self.name = ""
        """What it calls itself; else its address."""
        self.incarnation = b"fake"
        self.replaced: list[v1.StoreReplaced] = []
        self.known_in: dict[str, v1.StoreReplaced] = {}
        """Said in the answers to `promise`, `begin` or, for `opened`, the opening of a stream."""
        """Other stores that it has to say came back without their data."""
        self.begins: list[v1.BeginRequest] = []
        self.skips: list[tuple[int, int]] = []
        self.frames: list[m.Frame] = []
        """Everything that came over streams."""
        self.opens: list[m.AppendOpen] = []
        self.promises: list[v1.PromiseRequest] = []
        self.deregistrations: list[v1.DeregisterRequest] = []
        self.goodbye: int | None = None
        self.stream: asyncio.Task[Any] | None = None
        self._bundles = Bundles()
        self._server: grpc.aio.Server | None = None
        self._news = asyncio.Event()
        self.forget()

    def forget(self) -> None:
        """As after the loss of its disk."""
        self.promised = 0
        self.begun = NOT_BEGUN
        self.batches: list[tuple[int, int, int, bytes]] = []
        self.messages: dict[int, bytes] = {}
        self.stable_upto = -1
        self.instance = b""
        self.ending: QuorateError | None = None

    async def start(self, address: str = "127.0.0.1:0") -> None:
        self._server = new_server()
        add_StoreServicer_to_server(self, self._server)
        self._server.add_generic_rpc_handlers((Beats(self.beating).handler(),))
        port = self._server.add_insecure_port(self.address or address)
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
        self.stream = None

    def end_stream(self, error: QuorateError) -> None:
        """End the open stream with this."""
        self.ending = error
        self._poke()

    def _taken_ending(self) -> QuorateError | None:
        ending, self.ending = self.ending, None
        return ending

    async def until_held(self, sequence: int) -> None:
        while sequence not in self.messages:
            await self._news.wait()

    async def until_stable(self, sequence: int) -> None:
        """Until it was told that this is stable."""
        while self.stable_upto < sequence:
            await self._news.wait()

    async def until_left(self) -> None:
        """Wait until no source has a stream here: nothing of one that was killed comes any more."""
        while self.stream is not None:
            await self._news.wait()

    def _poke(self) -> None:
        self._news.set()
        self._news.clear()

    async def Deregister(
        self, request: v1.DeregisterRequest, context: Context
    ) -> v1.DeregisterResponse:
        self.deregistrations.append(request)
        await self.answering.wait()
        if self.refusal is not None:
            await abort(context, self.refusal)
        return v1.DeregisterResponse(
            reg_id=7,
            last_sequence=max(self.messages, default=-1),
            incarnation=self.incarnation,
            begun=begin_to_wire(self.begun),
        )

    async def Promise(self, request: v1.PromiseRequest, context: Context) -> v1.PromiseResponse:
        self.promises.append(request)
        await self.answering.wait()
        if self.refusal is not None:
            await abort(context, self.refusal)
        same = request.instance == self.instance
        if self.stream is not None and not same and not request.take_over:
            await abort(context, SourceActive(request.source.topic, self.address))
        if request.epoch < self.promised or (request.epoch == self.promised and not same):
            await abort(context, Fenced("source", request.epoch, self.promised))
        if self.stream is not None and request.epoch > self.promised:
            self.end_stream(Fenced("source", self.promised, request.epoch))
        self.promised = request.epoch
        self.instance = request.instance
        return v1.PromiseResponse(
            reg_id=request.reg_id or 7,
            incarnation=self.incarnation,
            limbo=self.limbo,
            limbo_reason="as it was told to" if self.limbo else "",
            begun=begin_to_wire(self.begun),
            held=held_to_wire(self.held()),
            stable_upto=self.stable_upto,
            store_name=self.name or self.address,
            known=self._known_in("promise"),
        )

    def held(self) -> tuple[HeldRange, ...]:
        return merge_held(HeldRange(first, last, epoch) for first, last, epoch, _ in self.batches)

    async def Begin(self, request: v1.BeginRequest, context: Context) -> v1.BeginResponse:
        self.begins.append(request)
        if self.limbo:
            await abort(context, InLimbo(request.source.topic, self.address, "as it was told to"))
        if self.refusal is not None:
            await abort(context, self.refusal)
        begin = begin_from_wire(request.begin)
        if begin.epoch < self.promised:
            await abort(context, Fenced("source", begin.epoch, self.promised))
        await self._check_named(request.source.topic, request.incarnation, context)
        self.begun, self.promised = begin, begin.epoch
        lineage = begin.lineage
        batches = [batch for batch in self.batches if lineage.epoch_at(batch[0]) == batch[2]]
        aside = len(self.batches) - len(batches)
        self.batches = batches
        self.messages = {
            number: payload
            for number, payload in self.messages.items()
            if any(first <= number <= last for first, last, _, _ in batches)
        }
        return v1.BeginResponse(set_aside=aside, known=self._known_in("begin"))

    async def _check_named(self, topic: str, incarnation: bytes, context: Context) -> None:
        if incarnation != self.incarnation:
            await abort(context, NotRegistered(topic, "another incarnation"))

    async def Bundle(self, _: Any, context: Any) -> None:
        await self._bundles.serve(self, context, self.address)

    async def Append(
        self, requests: AsyncIterator[v1.AppendFrames], context: Context
    ) -> AsyncIterator[v1.AppendResponses]:
        del context
        told: asyncio.Queue[v1.LaneResponse | None] = asyncio.Queue()
        reading = asyncio.ensure_future(self._read_lanes(requests, told))
        try:
            while (response := await told.get()) is not None:
                yield v1.AppendResponses(responses=[response])
        finally:
            reading.cancel()

    async def _read_lanes(
        self,
        requests: AsyncIterator[v1.AppendFrames],
        told: asyncio.Queue[v1.LaneResponse | None],
    ) -> None:
        lanes: dict[int, asyncio.Queue[m.Frame | None]] = {}
        serving: list[asyncio.Task[None]] = []
        try:
            async for request in requests:
                await self.reading.wait()
                for each in request.frames:
                    if each.lane not in lanes:
                        lanes[each.lane] = asyncio.Queue()
                        stream = self._serve_lane(each.lane, lanes[each.lane], told)
                        serving.append(asyncio.ensure_future(stream))
                    frame = each.frame if each.HasField("frame") else None
                    lanes[each.lane].put_nowait(frame)
        finally:
            for task in serving:
                task.cancel()
            told.put_nowait(None)

    async def _serve_lane(
        self,
        number: int,
        frames: asyncio.Queue[m.Frame | None],
        told: asyncio.Queue[v1.LaneResponse | None],
    ) -> None:
        async def incoming() -> AsyncIterator[m.Frame]:
            while (frame := await frames.get()) is not None:
                yield frame

        try:
            async for response in self._append(incoming()):
                told.put_nowait(v1.LaneResponse(lane=number, response=response))
        except QuorateError as error:
            failed = v1.AppendResponse(failed=failure_to_wire(error))
            told.put_nowait(v1.LaneResponse(lane=number, response=failed))
        finally:
            told.put_nowait(v1.LaneResponse(lane=number))

    async def _append(self, incoming: AsyncIterator[m.Frame]) -> AsyncIterator[v1.AppendResponse]:
        opening = (await anext(incoming)).open
        self.opens.append(opening)
        epoch = opening.information.epoch
        if epoch < self.promised:
            raise Fenced("source", epoch, self.promised)
        topic = opening.information.source.topic
        if opening.incarnation != self.incarnation:
            raise NotRegistered(topic, "another incarnation")
        if epoch != self.begun.epoch:
            raise NotRegistered(topic, "not begun")
        expected = opening.retained_from
        while expected in self.messages:
            expected += 1
        self.ending = None
        self.stream = asyncio.current_task()
        mine = self.stream
        opened = v1.AppendOpened(
            next_sequence=expected,
            durability=m.DURABILITY_FSYNC,
            known=self._known_in("opened"),
            message_bytes_max=MESSAGE_BYTES_MAX,
        )
        yield v1.AppendResponse(opened=opened)
        reader = asyncio.ensure_future(self._read(incoming, expected))
        acknowledged = expected - 1
        try:
            while True:
                ending = self._taken_ending()
                if ending is not None:
                    raise ending
                while self.replaced:
                    yield v1.AppendResponse(replaced=self.replaced.pop(0))
                upto = acknowledged
                while upto < self.acknowledges_upto and upto + 1 in self.messages:
                    upto += 1
                for first, last in self.skips:
                    if upto + 1 == first:
                        upto = last
                        while upto + 1 in self.messages:
                            upto += 1
                if upto > acknowledged and self.acknowledging.is_set():
                    acknowledged = upto
                    durable = v1.Durable(upto=upto, stable_awaited=self.stable_awaited)
                    yield v1.AppendResponse(durable=durable)
                elif reader.done():
                    error = reader.result()
                    if error is not None:
                        raise error
                    return
                else:
                    await self._news.wait()
        finally:
            reader.cancel()
            if self.stream is mine:
                self.stream = None
                self._poke()

    def _known_in(self, answer: str) -> list[v1.StoreReplaced]:
        return [self.known_in[answer]] if answer in self.known_in else []

    def say_replaced(self, store_name: str, incarnation: bytes) -> None:
        """Tell the source that another store came back without its data."""
        said = v1.StoreReplaced(store_name=store_name, incarnation=incarnation)
        self.replaced.append(said)
        self._poke()

    def acknowledge_again(self) -> None:
        self.acknowledging.set()
        self._poke()

    def acknowledge_upto(self, upto: int) -> None:
        self.acknowledges_upto = upto
        self._poke()

    async def _read(self, requests: AsyncIterator[m.Frame], expected: int) -> QuorateError | None:
        try:
            await self.reading.wait()
            async for frame in requests:
                if self.deaf:
                    continue
                self.frames.append(frame)
                self.stable_upto = max(self.stable_upto, frame.stable_upto)
                match frame.WhichOneof("kind"):
                    case "batch":
                        header = check_batch(frame.batch)
                        if header.first > expected:
                            return OutOfOrder("source", expected, header.first, self.address)
                        payloads = read_payloads(frame.batch, header)
                        for number, payload in enumerate(payloads, header.first):
                            if self.messages.setdefault(number, payload) != payload:
                                return ContentConflict(
                                    "source", header.first, header.last, self.address
                                )
                        if header.last >= expected:
                            expected = header.last + 1
                            self.batches.append(
                                (header.first, header.last, header.epoch, frame.batch)
                            )
                    case "skip":
                        assert frame.skip.first == expected
                        assert frame.skip.last <= frame.stable_upto
                        self.skips.append((frame.skip.first, frame.skip.last))
                        expected = frame.skip.last + 1
                    case "goodbye":
                        self.goodbye = frame.goodbye.last_sequence
                self._poke()
                await self.reading.wait()
            return None
        finally:
            asyncio.get_running_loop().call_soon(self._poke)

    async def Fetch(
        self, request: m.FetchRequest, context: Context
    ) -> AsyncIterator[m.FetchResponse]:
        del context
        packing = AnswerPacking()
        for first, last, _, batch in sorted(self.batches):
            if last >= request.first and first <= request.last:
                packing.fetched(batch, Range(max(first, request.first), min(last, request.last)))
        packing.end(max(self.messages, default=-1), self.stable_upto, NO_LINEAGE)
        for response in packing.all():
            yield response
