"""What the store's tests share: a core over memory, and a client of the wire contract."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio

from quorate.console.group.ports import free_addresses as free_addresses
from quorate.protocol.attributes import checked_attributes
from quorate.protocol.begin import BeginRecord
from quorate.protocol.framing import encode_batch, read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.lanes import lane_end, lane_frame
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.wire import (
    begin_to_wire,
    held_to_wire,
    source_to_wire,
)
from quorate.store import startup
from quorate.store.configuration import StoreConfiguration, load
from quorate.store.node import StoreNode
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Lives,
    Observed,
)
from quorate.store.rules.receivers import Receivers
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import (
    AppendStream,
    Change,
)
from quorate.store.rules.store_identity import Standing
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.reader import read
from quorate.store.storage.records import (
    COMMIT_KEY,
    CommitRecord,
    StoreRecord,
    pack_commit,
)
from quorate.transport.channels import frames_to, open_channel
from quorate.transport.failures import error_from_call, failure_from_wire
from quorate.transport.status import read_status, status_request
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

ORDERS = SourceName("orders", 0x10)
TRADES = SourceName("trades", 0x11)
MEMBERSHIP = Membership((), ())
INCARNATION = b"incarnation"
FIRST_LINEAGE = Lineage((Term(1, 0),))


def payload(sequence: int, salt: str = "") -> bytes:
    """The message that tests send under this number."""
    return f"{salt}message {sequence}".encode()


def batch(
    first: int,
    last: int,
    epoch: int = 1,
    source: SourceName = ORDERS,
    salt: str = "",
    key: bytes | None = None,
) -> bytes:
    """A batch of such messages, all with this key."""
    messages = [payload(sequence, salt) for sequence in range(first, last + 1)]
    attributes = [checked_attributes(key)] * len(messages)
    return encode_batch(
        source, epoch, first, messages, 1_700_000_000_000_000_000, attributes=attributes
    )


def information(
    source: SourceName = ORDERS,
    epoch: int = 1,
    version: int = 1,
    stores: Iterable[str] = (),
    pacing: v1.ReceiverPacing | None = None,
) -> v1.SourceInformation:
    return v1.SourceInformation(
        source=source_to_wire(source),
        address="127.0.0.1:9",
        epoch=epoch,
        version=version,
        stores=[v1.StoreEntry(name=store, address=store) for store in stores],
        receiver_pacing=pacing,
    )


class World:
    """A core over memory, where everything is written at once."""

    def __init__(
        self,
        storage: MemoryStorage | None = None,
        topics: tuple[str, ...] = (".*",),
        *,
        takes_data: bool = True,
    ):
        self.storage = storage or MemoryStorage()
        self.takes_data = takes_data
        self.topics = topics
        reg_ids = RegIds("s1")
        sources = startup.sources(self.storage, reg_ids)
        position = startup.last_commit(self.storage).position
        self.standing = Standing("s1", StoreRecord(INCARNATION), startup.peers(self.storage))
        lives = Lives(Observed(0.0, 1_700_000_000.0), lambda _: Lifetimes())
        identities = startup.identities(self.storage, reg_ids, sources, lives)
        self.core = StoreCore(
            "s1",
            topics,
            self.storage,
            sources,
            reg_ids,
            position,
            self.standing,
            identities,
            lambda _: takes_data,
        )
        self.receivers = Receivers("s1", sources, reg_ids)

    def restarted(self, *, takes_data: bool | None = None) -> World:
        self.storage.sync()
        takes_data = self.takes_data if takes_data is None else takes_data
        return World(self.storage.crash(), self.topics, takes_data=takes_data)

    def write(self, writes: Iterable[Write]) -> None:
        record = pack_commit(CommitRecord(1, self.core.streams.position))
        self.storage.write([*writes, Write(Table.META, COMMIT_KEY, record)])

    def done(self, change: Change[Any]) -> Any:
        self.write(change.writes)
        return change.answer

    def promise(
        self,
        epoch: int,
        instance: bytes = b"a",
        source: SourceName = ORDERS,
        reg_id: int = 0,
        take_over: bool = False,
        decided_epoch: int = 0,
    ) -> Any:
        return self.done(
            self.core.promise(source, epoch, instance, reg_id, take_over, decided_epoch)
        )

    def begin(
        self, lineage: Lineage, source: SourceName = ORDERS, membership: Membership = MEMBERSHIP
    ) -> int:
        """Begin, as whoever was promised the epoch; it is promised if it was to nobody."""
        epoch, state = lineage.epoch, self.core.known(source)
        if state is None or state.registration.promised_epoch < epoch:
            self.promise(epoch, source=source, take_over=True)
        state = self.core.known(source)
        instance = state.registration.promised_to if state is not None else b"a"
        incarnation = self.standing.record.incarnation
        change = self.core.begin(source, BeginRecord(lineage, membership), instance, incarnation)
        count: int = self.done(change)
        return count

    def open(
        self,
        epoch: int = 1,
        instance: bytes = b"a",
        retained_from: int = 0,
        stable_upto: int = NOTHING,
        source: SourceName = ORDERS,
    ) -> AppendStream:
        incarnation = self.standing.record.incarnation
        asked = information(source, epoch)
        opened = self.done(
            self.core.streams.open(asked, instance, incarnation, retained_from, stable_upto)
        )
        stream: AppendStream = opened.stream
        return stream

    def stream(self, epoch: int = 1, source: SourceName = ORDERS) -> AppendStream:
        """A source's first stream, all the way from its promise."""
        self.promise(epoch, source=source)
        self.begin(Lineage((Term(epoch, 0),)), source)
        return self.open(epoch, source=source)

    def append(self, stream: AppendStream, frame: bytes, stable_upto: int = NOTHING) -> bool:
        """Whether anything was written."""
        writes = self.core.streams.append(stream, frame, stable_upto)
        if writes is None:
            writes = self.core.streams.append_held(stream, frame)
        self.write(writes)
        return bool(writes)

    def fill(self, frame: bytes, lacking: Range) -> Range | None:
        """What was taken of a peer's batch."""
        part: Range | None = self.done(
            self.core.streams.fill(self.core.sources[ORDERS], frame, lacking)
        )
        return part


def configuration(directory: Path, name: str = "s1", **overrides: Any) -> StoreConfiguration:
    alone = {"name": name, "data_directory": directory, "listen": "127.0.0.1:0", "peers": ()}
    values = alone | overrides
    return load(None, values)


async def vouches(node: StoreNode) -> None:
    """Return when a store that is in limbo vouches again for what it lacks."""
    async with asyncio.timeout(60):
        while node.in_limbo:
            assert node.peers is not None
            node.peers.hurry()
            await node.peers.next_round()


@asynccontextmanager
async def running(directory: Path, name: str = "s1", **overrides: Any) -> AsyncIterator[StoreNode]:
    node = StoreNode(configuration(directory, name, **overrides))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


class Client:
    """Speaks the wire contract to one store; errors come as they would to an SDK."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = open_channel(address)
        self.stub = StoreStub(self.channel)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    async def call(self, method: str, request: Any) -> Any:
        try:
            return await getattr(self.stub, method)(request, timeout=20)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(self.address, error) from error

    async def promise(
        self, epoch: int = 1, instance: bytes = b"a", source: SourceName = ORDERS, **fields: Any
    ) -> store_v1.PromiseResponse:
        request = store_v1.PromiseRequest(
            source=source_to_wire(source),
            epoch=epoch,
            instance=instance,
            protocol_version=PROTOCOL_VERSION,
            **fields,
        )
        response: store_v1.PromiseResponse = await self.call("Promise", request)
        return response

    async def begin(
        self,
        lineage: Lineage = FIRST_LINEAGE,
        source: SourceName = ORDERS,
        instance: bytes = b"a",
        membership: Membership = MEMBERSHIP,
        losses: Iterable[HeldRange] = (),
        incarnation: bytes = b"",
    ) -> store_v1.BeginResponse:
        request = store_v1.BeginRequest(
            source=source_to_wire(source),
            begin=begin_to_wire(BeginRecord(lineage, membership)),
            protocol_version=PROTOCOL_VERSION,
            instance=instance,
            incarnation=incarnation or (await self.status()).incarnation,
            accepted_losses=held_to_wire(losses),
        )
        response: store_v1.BeginResponse = await self.call("Begin", request)
        return response

    async def end(self, source: SourceName = ORDERS, epoch: int = 2) -> None:
        """End a source, as a coordinator of which enough stores have begun the end."""
        request = store_v1.DeregisterRequest(
            source=source_to_wire(source),
            epoch=epoch,
            instance=b"ends",
            protocol_version=PROTOCOL_VERSION,
        )
        promise: store_v1.DeregisterResponse = await self.call("Deregister", request)
        request.membership.CopyFrom(promise.begun.membership)
        request.incarnation, request.durable = promise.incarnation, True
        await self.call("Deregister", request)

    async def open(
        self,
        epoch: int = 1,
        instance: bytes = b"a",
        retained_from: int = 0,
        stable_upto: int = NOTHING,
        source: SourceName = ORDERS,
        stores: Iterable[str] = (),
        pacing: v1.ReceiverPacing | None = None,
        lifetimes: v1.Lifetimes | None = None,
        incarnation: bytes = b"",
    ) -> Stream:
        """incarnation: of the store; empty: the one that it has."""
        incarnation = incarnation or (await self.status()).incarnation
        stream = Stream(self.address, LaneCall(self.channel))
        request = v1.AppendOpen(
            information=information(source, epoch, 1, stores, pacing),
            instance=instance,
            incarnation=incarnation,
            retained_from=retained_from,
            protocol_version=PROTOCOL_VERSION,
            lifetimes=lifetimes,
        )
        await stream.send(v1.Frame(open=request, stable_upto=stable_upto))
        response = await stream.read()
        stream.next_sequence = response.opened.next_sequence
        stream.durability = response.opened.durability
        stream.opened = response.opened
        return stream

    async def stream(
        self, epoch: int = 1, source: SourceName = ORDERS, stores: Iterable[str] = ()
    ) -> Stream:
        """A source's first stream, all the way from its promise."""
        await self.promise(epoch, source=source)
        await self.begin(Lineage((Term(epoch, 0),)), source)
        return await self.open(epoch, source=source, stores=stores)

    async def fetch(
        self, first: int = 0, last: int = 2**62, source: SourceName = ORDERS
    ) -> Fetched:
        request = v1.FetchRequest(
            source=source_to_wire(source),
            first=first,
            last=last,
            protocol_version=PROTOCOL_VERSION,
        )
        fetched = Fetched()
        try:
            async for response in self.stub.Fetch(request):
                fetched.responses += 1
                for answer in response.answers:
                    fetched.take(answer)
        except grpc.aio.AioRpcError as error:
            raise error_from_call(self.address, error) from error
        return fetched

    async def status(self) -> store_v1.StatusResponse:
        try:
            return await read_status(self.stub.Status(status_request()))
        except grpc.aio.AioRpcError as error:
            raise error_from_call(self.address, error) from error


class LaneCall:
    """A call of Append that carries one lane."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._call: Any = frames_to(
            channel, "/quorate.v1.Store/Append", store_v1.AppendResponses.FromString
        )
        self._heard: deque[store_v1.LaneResponse] = deque()
        self.cancel = self._call.cancel

    async def write(self, frame: bytes) -> None:
        await self._call.write(lane_frame(1, frame))

    async def done_writing(self) -> None:
        await self._call.write(lane_end(1))

    async def read(self) -> Any:
        """The next response; EOF: the lane is over."""
        while not self._heard:
            responses = await self._call.read()
            if responses is grpc.aio.EOF:
                return responses
            self._heard.extend(responses.responses)
        heard = self._heard.popleft()
        return heard.response if heard.HasField("response") else grpc.aio.EOF


class Stream:
    """A source's stream into a store."""

    def __init__(self, address: str, call: LaneCall) -> None:
        self._address = address
        self.call = call
        self.next_sequence = 0
        self.durability = v1.DURABILITY_UNSPECIFIED
        self.opened = store_v1.AppendOpened()
        self.acknowledged_upto = NOTHING

    async def send(self, frame: v1.Frame) -> None:
        await self.call.write(frame.SerializeToString())

    async def batch(self, frame: bytes, stable_upto: int = NOTHING) -> None:
        await self.send(v1.Frame(batch=frame, stable_upto=stable_upto))

    async def append(self, first: int, last: int, epoch: int = 1, **fields: Any) -> None:
        """Send a batch and wait until it is durable."""
        await self.batch(batch(first, last, epoch, **fields))
        await self.durable(last)

    async def durable(self, upto: int) -> None:
        if upto < self.next_sequence:
            return  # the store said so when the stream was opened, and does not again
        while (await self.read()).durable.upto < upto:
            pass

    async def read(self) -> store_v1.AppendResponse:
        """The next response; raises what the store ended the stream with."""
        try:
            # Python 3.11's wait_for forgets a cancellation that meets an answer.
            async with asyncio.timeout(30):
                response = await self.call.read()
            if response is grpc.aio.EOF:
                raise EOFError
        except grpc.aio.AioRpcError as error:
            raise error_from_call(self._address, error) from error
        assert isinstance(response, store_v1.AppendResponse)
        if response.HasField("failed"):
            raise failure_from_wire(response.failed, self._address)
        if response.WhichOneof("kind") == "durable":
            self.acknowledged_upto = response.durable.upto
        return response

    async def ended(self) -> BaseException:
        """What the store ended the stream with."""
        try:
            while True:
                await self.read()
        except Exception as error:
            return error

    async def close(self) -> None:
        """Half-close, and wait until everything is acknowledged."""
        await self.call.done_writing()
        ended = await self.ended()
        assert isinstance(ended, EOFError), ended


class Fetched:
    """What a fetch gave, by number."""

    def __init__(self) -> None:
        self.messages: dict[int, bytes] = {}
        self.missing: list[tuple[int, int, v1.Lookup]] = []
        self.high = NOTHING
        self.stable_upto = NOTHING
        self.responses = 0

    def take(self, answer: v1.FetchAnswer) -> None:
        match answer.WhichOneof("kind"):
            case "fetched":
                header = read_header(answer.fetched.batch)
                messages = read_payloads(answer.fetched.batch, header)
                for sequence in range(answer.fetched.first, answer.fetched.last + 1):
                    assert sequence not in self.messages
                    self.messages[sequence] = messages[sequence - header.first]
            case "missing":
                missing = answer.missing
                self.missing.append((missing.first, missing.last, missing.why))
            case "end":
                self.high, self.stable_upto = answer.end.high, answer.end.stable_upto


def held(world: World) -> list[tuple[int, int, int]]:
    """The ranges that the store holds of ORDERS: first, last and epoch."""
    state = world.core.sources[ORDERS]
    return [(item.first, item.last, item.epoch) for item in state.held_by_epoch()]


def stored(world: World, first: int, last: int) -> list[tuple[int, int, bytes]]:
    """Read [first, last] of ORDERS: first, last and batch; all of it must be held."""
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(first, last), 100)
    assert [item.problem for item in found if item.problem] == []
    return [(item.part.first, item.part.last, item.frame) for item in found]
