"""A scriptable group: three stores and a source that do what a test tells them to.

The message with number n in epoch e is always the text "e:n".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc.aio
from tests.beats import Beats
from tests.protocol.broken_answers import Breach, answers_of

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.errors import (
    Deregistered,
    Fenced,
    NotRegistered,
    QuorateError,
    StoreStopping,
    UnknownTopic,
)
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import Word
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import lineage_to_wire, policy_to_wire, source_to_wire
from quorate.store.rpc.bundle import Bundles
from quorate.transport.channels import new_server
from quorate.transport.failures import abort, check_version, failure_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import source_pb2 as source_v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.source_pb2_grpc import SourceServicer, add_SourceServicer_to_server
from quorate.v1.store_pb2_grpc import StoreServicer, add_StoreServicer_to_server

NAME = SourceName("orders", 7)
BATCH = 10


def frame(first: int, last: int, epoch: int = 1, source: SourceName = NAME) -> bytes:
    payloads = [f"{epoch}:{n}".encode() for n in range(first, last + 1)]
    return encode_batch(source, epoch, first, payloads, 0)


class Served:
    """What one peer has of a stream, and how it answers a fetch."""

    def __init__(self, source: SourceName = NAME) -> None:
        self.source = source
        self.lineage = Lineage((Term(1, 0),))
        self.held = RangeSet()
        self.unknown = RangeSet()
        self.why: list[tuple[int, int, v1.Lookup]] = []
        """Ranges that are answered with this value of Lookup."""
        self.corrupt = RangeSet()
        self.stable_upto = NOTHING
        self.information = v1.SourceInformation()
        self.live = False
        self.proxy = ""
        self.fetches: list[tuple[int, int]] = []
        self.hangs = False
        self.refuses: QuorateError | None = None
        self.breach: Breach | None = None
        """How it breaks off."""

    @property
    def high(self) -> int:
        return self.held.high

    async def fetch(self, request: v1.FetchRequest, context: Any) -> AsyncIterator[Any]:
        self.fetches.append((request.first, request.last))
        if self.refuses is not None:
            await abort(context, self.refuses)
        if self.hangs:
            await asyncio.Event().wait()
        responses = self._responses(request)
        for response in responses if self.breach is None else self.breach(answers_of(responses)):
            yield response

    def _responses(self, request: v1.FetchRequest) -> Iterator[v1.FetchResponse]:
        first, packing = request.first, AnswerPacking()
        while first <= min(request.last, self.high):
            last = self._same_upto(first, min(request.last, self.high, first + BATCH - 1))
            if (why := self._why(first)) is not None:
                packing.missing(Range(first, last), why, "")
            elif first in self.held:
                batch = bytearray(frame(first, last, self.lineage.epoch_at(first), self.source))
                if first in self.corrupt:
                    batch[-1] ^= 1
                packing.fetched(bytes(batch), Range(first, last))
            else:
                packing.missing(Range(first, last), v1.LOOKUP_ABSENT, "")
            first = last + 1
            yield from packing.full()
        packing.end(self.high, self.stable_upto, self.lineage)
        yield from packing.all()

    def _why(self, number: int) -> v1.Lookup | None:
        if number in self.unknown:
            return v1.LOOKUP_UNKNOWN
        return next((why for first, last, why in self.why if first <= number <= last), None)

    def _same_upto(self, first: int, last: int) -> int:
        def kind(number: int) -> tuple[bool, int | None, bool, int]:
            return (
                number in self.held,
                self._why(number),
                number in self.corrupt,
                self.lineage.epoch_at(number),
            )

        return next((n - 1 for n in range(first + 1, last + 1) if kind(n) != kind(first)), last)


class FakeStore(StoreServicer):  # type: ignore[misc]
    """One store."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.address = ""
        self.sources: dict[SourceName, Served] = {}
        self.receivers: dict[tuple[SourceName, int], list[int]] = {}
        """Epoch and position of each receiver."""
        self.instances: dict[tuple[SourceName, int], tuple[int, bytes]] = {}
        self.source_reg_id = 1
        self.limbo = False
        self.asked_to_register = 0
        self.ended: dict[tuple[SourceName, int], int] = {}
        self.spent = 0
        """Up to which epoch a receiver is over."""
        self.registrations_fail: QuorateError | None = None
        self.refused_instances: set[bytes] = set()
        """The receivers that hear that it is stopping."""
        self.registrations_hang = False
        self.hanging: SourceName | None = None
        """The source whose receivers get no answer."""
        self.acknowledgements: list[int] = []
        self.acknowledgements_hang = False
        self.refuses_too: list[store_v1.RefusedAcknowledgement] = []
        """Positions that it refuses besides, though nobody told it of them."""
        self.first_since = 0
        """The answer of Locate, whatever the time."""
        self.locate_fails: QuorateError | None = None
        self.locate_hangs = False
        self.signs_of_life = 0
        """Acknowledgements of nothing."""
        self.registrations: list[Any] = []
        self.questions: list[Any] = []
        """The requests of receivers that registered nothing."""
        self.snapshots = 0
        """The directories that were sent whole."""
        self.deregistrations: list[Any] = []
        self.deregistrations_hang = False
        self.word = Word()
        """Who it says that it is, and whom it knows."""
        self.changed = asyncio.Condition()
        self.tells = 0
        """How often there was something new for those that watch."""
        self.beating = asyncio.Event()
        """Cleared: heartbeats are not answered."""
        self.beating.set()
        self._server: grpc.aio.Server | None = None
        self._bundles = Bundles()

    async def start(self) -> None:
        self._server = new_server()
        add_StoreServicer_to_server(self, self._server)
        self._server.add_generic_rpc_handlers((Beats(self.beating).handler(),))
        port = self._server.add_insecure_port(self.address or "127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)

    async def tell(self) -> None:
        """Let those that watch hear of what is new."""
        self.tells += 1
        async with self.changed:
            self.changed.notify_all()

    async def Bundle(self, _: Any, context: Any) -> None:
        await self._bundles.serve(self, context, self.address)

    async def RegisterReceiver(self, request: Any, context: Any) -> Any:
        (self.questions if request.asks_only else self.registrations).append(request)
        await self.tell()
        source = _name(request.source)
        if self.registrations_hang or source == self.hanging:
            await asyncio.Event().wait()
        if self.registrations_fail is not None:
            await abort(context, self.registrations_fail)
        if request.instance in self.refused_instances:
            await abort(context, StoreStopping(self.name))
        served = self.sources.get(source)
        if served is None:
            await abort(context, UnknownTopic(source.topic, ""))
        who = (source, request.session_id)
        receiver = self.receivers.get(who)
        if request.asks_only:
            return self._registered(request, max(self.ended.get(who, 0), request.ended_epoch))
        if receiver is not None and (request.epoch, request.instance) < self._ballot(who):
            await abort(context, Fenced("receiver", request.epoch, receiver[0]))
        ended = max(self.ended.get(who, 0), request.ended_epoch)
        if request.epoch <= ended and request.is_open:
            await abort(context, Deregistered("receiver"))
        if receiver is None and request.epoch <= self.spent and not request.is_open:
            await abort(context, Fenced("receiver", request.epoch, self.spent))
        if request.epoch <= ended:
            await abort(context, Fenced("receiver", request.epoch, ended))
        if ended > self.ended.get(who, 0):
            # It was away, and what it has is of a receiver that ended.
            self.receivers.pop(who, None)
            self.ended[who] = ended
        answer = self._registered(request, ended)
        self.asked_to_register += 1
        self.receivers[who] = [request.epoch, answer.acknowledged_upto]
        self.instances[who] = (request.epoch, request.instance)
        await self.tell()
        return answer

    def _registered(self, request: Any, ended: int) -> store_v1.RegisterReceiverResponse:
        who = (_name(request.source), request.session_id)
        served, receiver = self.sources[who[0]], self.receivers.get(who)
        if ended > self.ended.get(who, 0):
            receiver = None
        return store_v1.RegisterReceiverResponse(
            reg_id=request.reg_id or 100,
            source_reg_id=self.source_reg_id,
            acknowledged_upto=receiver[1] if receiver else NOTHING,
            low=served.held.low,
            high=served.high,
            stable_upto=served.stable_upto,
            known=receiver is not None,
            limbo=self.limbo,
            lineage=lineage_to_wire(served.lineage),
            ended_epoch=ended,
            incarnation=self.word.incarnation,
            known_stores=self.word.known,
            epoch=max(ended, receiver[0] if receiver else self.spent),
        )

    def _ballot(self, who: tuple[SourceName, int]) -> tuple[int, bytes]:
        """Return the ballot of a row. Unless a test names the instance it is greater than any."""
        epoch, known = self.receivers[who][0], self.instances.get(who)
        return known if known is not None and known[0] == epoch else (epoch, b"\xff")

    async def Deregister(self, request: Any, context: Any) -> Any:
        self.deregistrations.append(request)
        if self.deregistrations_hang:
            await asyncio.Event().wait()
        who = (_name(request.source), request.receiver_session_id)
        receiver = self.receivers.get(who, [0, NOTHING])
        if request.epoch < receiver[0]:
            await abort(context, Fenced("receiver", request.epoch, receiver[0]))
        self.receivers.pop(who, None)
        await self.tell()
        return store_v1.DeregisterResponse(
            reg_id=100,
            last_sequence=receiver[1],
            incarnation=self.word.incarnation,
            known_stores=self.word.known,
        )

    async def Acknowledge(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        refused, shortened = [*self.refuses_too], []
        if self.acknowledgements_hang:
            await asyncio.Event().wait()
        for one in request.acknowledgements:
            source = _name(one.source)
            receiver = self.receivers.get((source, request.session_id))
            error: QuorateError | None = None
            who, ballot = (source, request.session_id), (one.epoch, one.instance)
            if one.epoch <= self.ended.get(who, 0):
                error = Deregistered("receiver")
            elif receiver is None or ballot > self._ballot(who):
                error = NotRegistered("receiver", "not known")
            elif ballot < self._ballot(who):
                error = Fenced("receiver", one.epoch, receiver[0])
            elif one.upto < 0:
                self.signs_of_life += 1
            else:
                served = self.sources[source]
                is_behind = one.source_epoch > served.lineage.epoch
                known = served.stable_upto if is_behind else served.high
                receiver[1] = max(receiver[1], min(one.upto, known))
                self.acknowledgements.append(one.upto)
                if receiver[1] < one.upto:
                    shortened.append(store_v1.Acknowledgement(source=one.source, upto=receiver[1]))
            if error is not None:
                refused.append(
                    store_v1.RefusedAcknowledgement(
                        source=one.source, failure=failure_to_wire(error)
                    )
                )
        async with self.changed:
            self.changed.notify_all()
        return store_v1.AcknowledgeResponse(refused=refused, shortened=shortened)

    async def Locate(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        if self.locate_hangs:
            await asyncio.Event().wait()
        if self.locate_fails is not None:
            await abort(context, self.locate_fails)
        return store_v1.LocateResponse(sequence=self.first_since)

    async def Fetch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        served = self.sources.get(_name(request.source))
        if served is None:
            await abort(context, UnknownTopic(request.source.topic, ""))
        async for response in served.fetch(request, context):
            yield response

    async def Watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            check_version(self.address, request.protocol_version)
        except QuorateError as error:
            await abort(context, error)
        told: dict[SourceName, bytes] = {}
        first = True
        while True:
            tells_before = self.tells
            for source, served in list(self.sources.items()):
                if request.topic and request.topic != source.topic:
                    continue
                if not request.topic and not re.fullmatch(request.topic_pattern, source.topic):
                    continue
                entry = store_v1.DirectoryEntry(
                    information=served.information,
                    live=served.live,
                    proxy=served.proxy,
                    next_sequence=served.high + 1,
                    begun_epoch=served.lineage.epoch,
                )
                if told.get(source) != entry.SerializeToString():
                    told[source] = entry.SerializeToString()
                    yield store_v1.WatchResponse(entry=entry)
            if first:
                first = False
                topics = sorted({source.topic for source in self.sources})
                yield store_v1.WatchResponse(snapshot_end=store_v1.SnapshotEnd(topics=topics))
                self.snapshots += 1
                await self.tell()
            async with self.changed:
                # News that comes while an entry is sent must not be missed.
                while self.tells == tells_before:
                    await self.changed.wait()

    async def until(self, what: Any) -> None:
        """Wait until something is true of this store, looked at after each acknowledgement."""
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(what)


class FakeSource(SourceServicer):  # type: ignore[misc]
    """A source's own service."""

    def __init__(self, source: SourceName = NAME) -> None:
        self.address = ""
        self.served = Served(source)
        self.next_sequence = 0
        self.attached: list[asyncio.Queue[v1.Frame | None]] = []
        self.requests: list[Any] = []
        self.asks_for_confirmation = False
        self.confirmed: list[tuple[int, int, int]] = []
        """Session, epoch and number of each."""
        self.changed = asyncio.Condition()
        self.beating = asyncio.Event()
        """Cleared: heartbeats are not answered."""
        self.beating.set()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        self._server = new_server()
        add_SourceServicer_to_server(self, self._server)
        self._server.add_generic_rpc_handlers((Beats(self.beating).handler(),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)

    async def Attach(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: ARG002
        self.requests.append(request)
        frames: asyncio.Queue[v1.Frame | None] = asyncio.Queue()
        attached = v1.Attached(
            information=self.served.information,
            next_sequence=self.next_sequence,
            confirm=self.asks_for_confirmation,
        )
        self.attached.append(frames)
        async with self.changed:
            self.changed.notify_all()
        yield v1.Frame(attached=attached, stable_upto=self.served.stable_upto)
        while (one := await frames.get()) is not None:
            yield one

    async def Fetch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        async for response in self.served.fetch(request, context):
            yield response

    async def Confirm(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        self.confirmed.append((request.session_id, request.source_epoch, request.upto))
        async with self.changed:
            self.changed.notify_all()
        return source_v1.ConfirmResponse()

    async def until_confirmed(self, upto: int, epoch: int = 1) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: (0x20, epoch, upto) in self.confirmed)

    async def until_attached(self, times: int = 1) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.attached) >= times)

    def say(self, one: v1.Frame | None) -> None:
        for frames in self.attached:
            frames.put_nowait(one)


class Group:
    """Three stores, a source, and what is sent through them."""

    def __init__(self, source: SourceName = NAME) -> None:
        self.name = source
        self.stores = [FakeStore(name) for name in "abc"]
        self.policy = Policy.majority_of("abc")
        self.source = FakeSource(source)
        self.epoch = 1
        self.lineage = Lineage((Term(1, 0),))
        self.next = 0

    async def start(self) -> None:
        for store in self.stores:
            await store.start()
        await self.source.start()

    async def stop(self) -> None:
        for store in self.stores:
            await store.stop()
        await self.source.stop()

    @property
    def addresses(self) -> str:
        return ",".join(f"{store.name}={store.address}" for store in self.stores)

    def served(self) -> list[Served]:
        """By each store."""
        return [store.sources[self.name] for store in self.stores]

    async def announce(self, *, live: bool = True) -> None:
        """Put the source into the directory of every store."""
        information = v1.SourceInformation(
            source=source_to_wire(self.name),
            address=self.source.address,
            epoch=self.epoch,
            policy=policy_to_wire(self.policy),
            stores=[v1.StoreEntry(name=s.name, address=s.address) for s in self.stores],
            version=1,
        )
        self.source.served.information = information
        self.source.served.lineage = self.lineage
        for store in self.stores:
            served = store.sources.setdefault(self.name, Served(self.name))
            served.information, served.live, served.lineage = information, live, self.lineage
            await store.tell()

    def store(self, last: int, *, stable: bool = True) -> None:
        """Messages up to this one are on every store, and sent."""
        if last >= self.next:
            for served in (*self.served(), self.source.served):
                served.held.add(self.next, last)
        self.next = self.source.next_sequence = last + 1
        if stable:
            self.stable(last)

    def stable(self, upto: int) -> None:
        for served in (*self.served(), self.source.served):
            served.stable_upto = upto

    def send(self, last: int, *, live: bool = True, stable: bool = True) -> None:
        """Messages up to this one go out; not live: the live stream drops them."""
        first, told = self.next, self.source.served.stable_upto
        self.store(last, stable=stable)
        if live:
            while first <= last:
                upto = min(first + BATCH - 1, last)
                batch = frame(first, upto, self.lineage.epoch_at(first), self.name)
                self.source.say(v1.Frame(batch=batch, stable_upto=told))
                first = upto + 1
            if stable:
                self.keepalive()

    def keepalive(self) -> None:
        stable_upto = self.source.served.stable_upto
        self.source.say(v1.Frame(keepalive=v1.Keepalive(), stable_upto=stable_upto))

    async def restart_source(self, kept_upto: int) -> None:
        """Another source object takes over, in a new epoch and at a new address."""
        await self.source.stop()
        self.epoch += 1
        self.lineage = self.lineage.extended(kept_upto, self.epoch)
        self.next = kept_upto + 1
        old = self.source
        self.source = FakeSource(self.name)
        self.source.next_sequence = self.next
        self.source.served.stable_upto = old.served.stable_upto
        for served in self.served():
            served.held.remove(kept_upto + 1, max(served.held.high, kept_upto + 1))
        if kept_upto >= 0:
            self.source.served.held.add(0, kept_upto)
        await self.source.start()
        await self.announce()

    async def register_anew(self, kept_upto: int, *, inform: bool = True) -> None:
        """The source begins a new epoch where it is; inform: and says so on its live stream."""
        self.epoch += 1
        self.lineage = self.lineage.extended(kept_upto, self.epoch)
        self.next = self.source.next_sequence = kept_upto + 1
        for served in (*self.served(), self.source.served):
            served.held.remove(kept_upto + 1, max(served.held.high, kept_upto + 1))
        await self.announce()
        if inform:
            self.source.say(v1.Frame(information=self.source.served.information))

    async def begin_anew(self) -> None:
        """The stream is ended, with all that stores had of its receivers; another one begins."""
        self.stable(NOTHING)
        await self.restart_source(kept_upto=NOTHING)
        for store in self.stores:
            for receiver in store.receivers.values():
                receiver[1] = NOTHING

    async def move(self, stores: list[FakeStore], policy: Policy | None = None) -> None:
        """The source goes over to these stores, in a new epoch, and tells the old ones so."""
        old, self.stores = self.stores, stores
        self.policy = policy or Policy.majority_of(store.name for store in stores)
        for store in stores:
            if not store.address:
                await store.start()
            served = store.sources.setdefault(self.name, Served(self.name))
            served.held.add(0, self.next - 1)
            served.stable_upto = self.source.served.stable_upto
        await self.register_anew(kept_upto=self.next - 1)
        for store in old:
            store.sources[self.name].information = self.source.served.information
            await store.tell()


def _name(wire: v1.SourceName) -> SourceName:
    return SourceName(wire.topic, wire.session_id)
