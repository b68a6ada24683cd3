"""A store of the simulated world: the production core over a simulated disk, and a thin shell.

The shell does what quorate.store's engine, writer, append, fetch and repair do, in virtual time.
Nothing here decides what is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from tests.simulation.checker import Checker
from tests.simulation.disk import Disk
from tests.simulation.network import End, Network
from tests.simulation.world import Event, Pending, Process, World

from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    QuorateError,
    StorageFailed,
    Unreachable,
)
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Promise
from quorate.protocol.wire import lineage_to_wire, membership_from_wire, membership_to_wire
from quorate.source.registration import AskBegin, Grant
from quorate.store import restart
from quorate.store.core import StoreCore
from quorate.store.limbo import Standing
from quorate.store.reading import read
from quorate.store.receivers import Receivers, Registered
from quorate.store.records import COMMIT_KEY, CommitRecord, StoreRecord, pack_commit
from quorate.store.state import AppendStream, Change, RegIds, SourceState
from quorate.store.storage import Table, Write
from quorate.v1 import messages_pb2 as v1

A = TypeVar("A")

SILENCE_SECONDS = 3.0
REPAIR_SECONDS = 0.4
FETCH_BATCHES = 4


class AskedPromise(NamedTuple):
    source: SourceName
    epoch: int
    instance: bytes
    take_over: bool


class AskedBegin(NamedTuple):
    source: SourceName
    step: AskBegin
    instance: bytes


class AskedReceiver(NamedTuple):
    source: SourceName
    session_id: int
    epoch: int


class AskedAcknowledge(NamedTuple):
    source: SourceName
    session_id: int
    epoch: int
    upto: int


class AppendRequest(NamedTuple):
    instance: bytes


class Opened(NamedTuple):
    next_sequence: int


class Durable(NamedTuple):
    upto: int


class Entry(NamedTuple):
    """What a store's directory says of a source."""

    information: v1.SourceInformation
    live: bool


@dataclass(eq=False)
class AppendCall:
    """One source's stream into the store, as the shell sees it."""

    end: End
    over: Pending[None] = field(default_factory=Pending)
    commit: int = 0
    heard: float = 0.0
    """When the source was last heard."""

    def acknowledge(self, upto: int) -> None:
        self.end.send(Durable(upto))


@dataclass
class _Commit:
    number: int
    writes: list[Write] = field(default_factory=list)
    uptos: dict[AppendCall, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.writes or self.uptos)


class StoreActor:
    """A store: its disk stays, its processes come and go."""

    def __init__(
        self, world: World, network: Network, checker: Checker, name: str, peers: Sequence[str]
    ) -> None:
        self.world = world
        self.network = network
        self.checker = checker
        self.name = name
        self.disk = Disk(world, name, checker)
        self._peers = [peer for peer in peers if peer != name]
        self._acknowledged_commit = 0
        self.start()

    # Life.

    @property
    def alive(self) -> bool:
        return self.process.alive

    def start(self) -> None:
        """Start a process on what the disk has."""
        self.process = Process(self.world, self.name)
        reg_ids = RegIds(self.name)
        sources = restart.sources(self.disk, reg_ids)
        commit = restart.last_commit(self.disk)
        assert commit.number >= self._acknowledged_commit, (
            f"{self.name} came back with commit {commit.number} after having acknowledged "
            f"{self._acknowledged_commit}"
        )
        standing = Standing(self.name, StoreRecord(self.name.encode()), {})
        self.core = StoreCore(
            self.name, (".*",), self.disk, sources, reg_ids, commit.position, standing
        )
        self.receivers = Receivers(self.name, sources, reg_ids)
        self._committed = commit.number
        self._pending = _Commit(commit.number + 1)
        self._arrived = Event(self.process)
        self._waiting: dict[int, list[Pending[None]]] = {}
        self._commits: dict[int, int] = {}
        self._calls: dict[AppendStream, AppendCall] = {}
        self._watchers: list[End] = []
        self.network.serve(self.process, self)
        self.process.start(self._write())
        self.process.start(self._repair())
        self.checker.started(self)
        self.world.note("%s starts at commit %s", self.name, commit.number)

    def start_if_down(self) -> None:
        if not self.alive:
            self.start()

    def crash(self) -> None:
        self.process.kill()
        self.network.killed(self.process)
        self.disk.crash()

    # The writer: group commit.

    def submit(
        self,
        state: SourceState,
        writes: Sequence[Write],
        call: AppendCall | None = None,
        upto: int = 0,
    ) -> int:
        """Have rows written; returns the number of their commit."""
        pending = self._pending
        number = pending.number
        if not writes and call is None:
            number = pending.number if pending else pending.number - 1
        else:
            pending.writes.extend(writes)
            if call is not None:
                pending.uptos[call] = upto
            self._arrived.set()
        self._commits[state.reg_id] = number
        return number

    async def durable(self, number: int) -> None:
        if number > self._committed:
            pending: Pending[None] = Pending()
            self._waiting.setdefault(number, []).append(pending)
            await pending

    async def settled(self, state: SourceState) -> None:
        while (number := self._commits.get(state.reg_id, 0)) > self._committed:
            await self.durable(number)

    async def made_durable(self, state: SourceState, change: Change[A]) -> A:
        self._end_streams(change)
        await self.durable(self.submit(state, change.writes))
        return change.answer

    async def _write(self) -> None:
        while True:
            while not self._pending:
                self._arrived.clear()
                await self._arrived.wait()
            commit = self._pending
            self._pending = _Commit(commit.number + 1)
            try:
                await self.commit(commit)
            except StorageFailed:
                self.crash()
                return
            self._on_committed(commit)

    async def commit(self, commit: _Commit) -> None:
        """Return once it is on the disk; raises StorageFailed."""
        if not commit.writes:
            return
        record = CommitRecord(commit.number, self.core.position)
        commit.writes.append(Write(Table.META, COMMIT_KEY, pack_commit(record)))
        await self.process.sleep(0.0001)
        self.disk.write(commit.writes)
        await self.process.sleep(self.disk.sync_seconds())
        self.disk.sync()

    def _on_committed(self, commit: _Commit) -> None:
        self._committed = self._acknowledged_commit = commit.number
        for pending in self._waiting.pop(commit.number, ()):
            pending.set(None)
        for call, upto in commit.uptos.items():
            call.acknowledge(upto)

    # Sources.

    async def promise(self, asked: AskedPromise) -> Grant:
        change = self.core.promise(asked.source, asked.epoch, asked.instance, 0, asked.take_over)
        promised = await self.made_durable(change.answer.state, change)
        self.checker.promised(self.name, asked.epoch)
        record = promised.registration
        membership: Membership | None = None
        if record.membership is not None:
            membership = membership_from_wire(record.membership)
        self.world.note("%s promised %s; holds %s", self.name, asked.epoch, promised.held)
        return Grant(
            promised.state.reg_id,
            self.name.encode(),
            Promise(
                record.begun_epoch,
                record.lineage,
                membership,
                promised.held,
                promised.stable_upto,
            ),
        )

    async def begin(self, asked: AskedBegin) -> int:
        source, step, instance = asked
        state = self.core.sources.get(source)
        if state is not None:
            await self.settled(state)
        change = self._checked_begin(source, step, instance)
        self.checker.changes(self.name, step.epoch, "begins")
        set_aside = await self.made_durable(self.core.sources[source], change)
        self.checker.begun(self.name, step.epoch)
        self.world.note(
            "%s began %s %s, %s set aside", self.name, step.epoch, step.lineage, set_aside
        )
        if set_aside:
            self.world.reach("divergent tail set aside", "by %s: %s", self.name, set_aside)
        return set_aside

    def _checked_begin(self, source: SourceName, step: AskBegin, instance: bytes) -> Change[int]:
        membership = membership_to_wire(step.membership)
        try:
            return self.core.begin(source, step.epoch, step.lineage, membership, instance)
        except ContentConflict as error:
            self.checker.conflict(error)
            raise

    async def append(self, end: End, request: AppendRequest) -> None:
        frame = v1.Frame.FromString(await end.read(SILENCE_SECONDS))
        asked = frame.open
        name = SourceName(asked.information.source.topic, asked.information.source.session_id)
        before = self.core.sources.get(name)
        lacks_from = before.held.next_sequence if before is not None else 0
        change = self.core.open(
            asked.information, request.instance, asked.retained_from, frame.stable_upto
        )
        stream = change.answer.stream
        if asked.retained_from > lacks_from:
            self.world.reach("hole opened by a new stream", "%s from %s", self.name, lacks_from)
        call = self._calls[stream] = AppendCall(end)
        self._tell_watchers(stream.state)
        await self.made_durable(stream.state, change)
        if end.error is not None:
            self._closed(stream)
            return
        end.send(Opened(change.answer.next_sequence))
        reading = self.process.start(self._read(stream, call))
        watching = self.process.start(self._watch_silence(call))
        try:
            await call.over
        except QuorateError as error:
            await self.durable(call.commit)
            for task in (reading, watching):
                task.cancel()
            self._closed(stream)
            self.world.note("%s: stream of epoch %s ends: %s", self.name, stream.epoch, type(error))
            raise

    async def _read(self, stream: AppendStream, call: AppendCall) -> None:
        try:
            while not call.over.done:
                frame = v1.Frame.FromString(await call.end.read())
                call.heard = self.world.now
                if frame.WhichOneof("kind") == "batch":
                    await self._take(stream, call, frame)
                else:
                    self._control(stream, call, frame)
        except QuorateError as error:
            if isinstance(error, ContentConflict):
                self.checker.conflict(error)
            call.over.fail(error)

    async def _take(self, stream: AppendStream, call: AppendCall, frame: v1.Frame) -> None:
        batch = frame.batch
        writes = self.core.append(stream, batch, frame.stable_upto)
        if writes is None:
            self.world.reach("batch overlaps what is held", self.name)
            await self.settled(stream.state)
            writes = self.core.append_held(stream, batch)
        self.checker.changes(self.name, stream.epoch, "takes batches")
        call.commit = self.submit(stream.state, writes, call, stream.expected - 1)

    def _control(self, stream: AppendStream, call: AppendCall, frame: v1.Frame) -> None:
        core = self.core
        writes = core.keepalive(stream, frame.stable_upto)
        match frame.WhichOneof("kind"):
            case "skip":
                skipped = core.skip(stream, frame.skip.first, frame.skip.last)
                self.world.reach("hole opened by Skip", "%s %s", self.name, frame.skip.first)
                call.commit = self.submit(stream.state, skipped, call, stream.expected - 1)
            case "information":
                writes += core.inform(stream, frame.information)
                self._tell_watchers(stream.state)
            case "goodbye":
                writes += core.goodbye(stream)
        if writes:
            call.commit = self.submit(stream.state, writes)

    async def _watch_silence(self, call: AppendCall) -> None:
        call.heard = self.world.now
        while self.world.now - call.heard <= SILENCE_SECONDS:
            await self.process.sleep(SILENCE_SECONDS / 2)
        call.over.fail(Closed("A silent stream"))

    def _end_streams(self, change: Change[A]) -> None:
        for stream, error in change.endings:
            if (call := self._calls.get(stream)) is not None:
                call.over.fail(error)
            self._tell_watchers(stream.state)

    def _closed(self, stream: AppendStream) -> None:
        self._calls.pop(stream, None)
        if writes := self.core.closed(stream):
            self._tell_watchers(stream.state)
            self.submit(stream.state, writes)

    # Receivers.

    async def register_receiver(self, asked: AskedReceiver) -> Registered:
        change = self.receivers.register(asked.source, asked.session_id, 0, asked.epoch)
        return await self.made_durable(change.answer.state, change)

    async def acknowledge(self, asked: AskedAcknowledge) -> None:
        writes = self.receivers.acknowledge(*asked)
        commit = 0
        if writes:
            commit = self.submit(self.core.sources[asked.source], writes)
        await self.durable(commit)

    async def fetch(self, end: End, request: v1.FetchRequest) -> None:
        source = SourceName(request.source.topic, request.source.session_id)
        first, last = request.first, request.last
        state = self.receivers.source(source)
        await self.settled(state)
        lineage, high = state.lineage, state.held.ranges.high
        while first <= min(last, high):
            if state.lineage is not lineage:
                await self.settled(state)
                lineage, high = state.lineage, state.held.ranges.high
                continue
            piece, is_held = state.piece(first, min(last, high))
            if not is_held:
                await end.write(_missing(piece, v1.LOOKUP_ABSENT))
                first = piece.last + 1
                continue
            await self.process.sleep(self.world.chooser.uniform(0.0, 0.001))
            chunk = read(self.disk, state.reg_id, source, piece, FETCH_BATCHES)
            await self.process.sleep(self.world.chooser.uniform(0.0, 0.001))
            if state.lineage is not lineage:
                self.world.reach("epoch begun during a fetch", self.name)
                continue
            for batch in chunk:
                assert not batch.problem, f"{self.name} can not read {batch.part}: {batch.problem}"
                fetched = v1.Fetched(
                    batch=batch.frame, first=batch.part.first, last=batch.part.last
                )
                await end.write(v1.FetchResponse(fetched=fetched))
            first = chunk[-1].part.last + 1
        await end.write(
            v1.FetchResponse(
                end=v1.FetchEnd(
                    high=state.held.ranges.high,
                    stable_upto=state.held.stable_upto,
                    lineage=lineage_to_wire(state.lineage),
                )
            )
        )

    # The directory.

    async def watch(self, end: End, _: Any) -> None:
        for state in self.core.sources.values():
            if state.registration.information is not None:
                end.send(Entry(state.registration.information, state.live))
        self._watchers.append(end)
        while True:
            await end.read()

    def _tell_watchers(self, state: SourceState) -> None:
        if state.registration.information is not None:
            self._watchers = [end for end in self._watchers if end.error is None]
            for end in self._watchers:
                end.send(Entry(state.registration.information, state.live))

    # Repair.

    async def _repair(self) -> None:
        while True:
            await self.process.sleep(REPAIR_SECONDS * self.world.chooser.uniform(0.8, 1.2))
            for state in list(self.core.sources.values()):
                for peer in self._peers:
                    wanted = self._lacking(state)
                    if not wanted and state.live:
                        break
                    try:
                        await self._fill_from(state, peer, wanted)
                    except ContentConflict as error:
                        self.checker.conflict(error)
                    except QuorateError:
                        pass

    def _lacking(self, state: SourceState) -> list[Range]:
        stable_upto = state.held.stable_upto
        return [
            Range(item.first, min(item.last, stable_upto))
            for item in RangeSet(state.holes())
            if item.first <= stable_upto
        ]

    async def _fill_from(self, state: SourceState, peer: str, wanted: list[Range]) -> None:
        for item in wanted:
            await self._fill(state, peer, item)
        if state.live:
            return
        begins = state.held.next_sequence
        upto = await self._fill(state, peer, Range(begins, begins), only_end=True)
        if begins <= upto and not state.live:
            await self._fill(state, peer, Range(begins, upto))

    async def _fill(
        self, state: SourceState, peer: str, wanted: Range, only_end: bool = False
    ) -> int:
        """Returns what the peer was told is stable."""
        request = v1.FetchRequest(first=wanted.first, last=wanted.last)
        request.source.topic, request.source.session_id = state.name.topic, state.name.session_id
        end = self.network.connect(self.process, peer, "fetch", request)
        try:
            while True:
                answer = await end.read(SILENCE_SECONDS)
                if answer.HasField("end"):
                    return int(answer.end.stable_upto)
                if only_end or not answer.HasField("fetched"):
                    continue
                frame = answer.fetched.batch
                header = read_header(frame)
                if not state.lacks_all(header.first, header.last):
                    await self.settled(state)
                change = self.core.fill(state.name, frame, wanted)
                part = change.answer
                if part is None:
                    self.world.reach("repair met another lineage", self.name)
                    end.close(Closed("The fetch"))
                    return -1
                if change.writes:
                    self.world.reach("repair filled a hole", "%s %s", self.name, part)
                writes = change.writes + self.core.learn_stable(state, part.last)
                self.submit(state, writes)
        except Unreachable:
            end.close(Closed("The fetch"))
            return -1


def _missing(where: Range, why: v1.Lookup) -> v1.FetchResponse:
    return v1.FetchResponse(missing=v1.Missing(first=where.first, last=where.last, why=why))
