"""A store of the simulated world: the production core over a simulated disk, and a thin shell.

The shell does what quorate.store's append does, in virtual time; the engine is production's own,
and so is what it does when it is asked for something. Nothing here decides what is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast

from tests.simulation.asks import (
    AppendRequest,
    AskedAcknowledge,
    AskedBegin,
    AskedDeregister,
    AskedPromise,
    Begun,
    Durable,
    Entry,
    Opened,
    Promised,
    Registered,
)
from tests.simulation.checker import Checker
from tests.simulation.disk import CachedDisk, Disk, Snapshot
from tests.simulation.endings import AGES, FOR_EVER, IMMORTAL, Ageing, Mortality
from tests.simulation.network import End, Network
from tests.simulation.store_disks import StoreOf
from tests.simulation.store_requests import SimulatedRequests
from tests.simulation.store_upkeep import StoreUpkeep
from tests.simulation.store_writer import SimulatedWriter
from tests.simulation.world import Event, Pending, Process, WallClock, World

from quorate.protocol.errors import Closed, ContentConflict, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import Word
from quorate.protocol.ranges import Range
from quorate.protocol.recovery import Promise
from quorate.protocol.wire import pacing_from_wire
from quorate.receiver.protocol.registration import RegistrationRequest
from quorate.source.protocol.registration import Grant
from quorate.store import startup
from quorate.store.engine import Engine
from quorate.store.rpc import requests
from quorate.store.rpc.fetch import fetch
from quorate.store.rpc.inventory import inventory
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.lifetimes import Lives
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.receivers import (
    Receivers,
    waited_for,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import (
    AppendStream,
    SourceState,
)
from quorate.store.rules.store_identity import (
    Standing,
    started,
)
from quorate.store.storage.clean_shutdown import (
    REASON,
    Run,
)
from quorate.store.storage.group_commit import Writer
from quorate.store.storage.index import entries
from quorate.store.storage.interface import (
    Reads,
    Write,
)
from quorate.store.storage.large_batches import LargeRow, read_fragment
from quorate.store.storage.reader import (
    StoredBatch,
    read,
)
from quorate.store.storage.records import (
    StoreRecord,
    position_key,
)
from quorate.store.tasks.comparison import digests_for
from quorate.store.tasks.lifecycle import asked_of
from quorate.store.turns import Turn
from quorate.store.watchers import Directory
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

A = TypeVar("A")

SILENCE_SECONDS = 3.0
RECEIVERS_SECONDS = 0.1
FETCH_BATCHES = 4


class AppendCall:
    """One source's stream into the store, as the shell sees it."""

    def __init__(self, end: End) -> None:
        self.stream_end = end
        self.over: Pending[None] = Pending()
        self.commit = 0
        self.heard = 0.0
        """When the source was last heard."""
        self._before_opened: list[store_v1.StoreReplaced] | None = []

    def opened(self, opened: Opened) -> None:
        """The first answer; what came before goes after it."""
        self.stream_end.send(opened)
        waiting, self._before_opened = self._before_opened, None
        for store in waiting or ():
            self.stream_end.send(store)

    def acknowledge(self, upto: int) -> None:
        self.stream_end.send(Durable(upto))

    def end(self, error: QuorateError) -> None:
        self.over.fail(error)

    def replaced(self, store: store_v1.StoreReplaced) -> None:
        if self._before_opened is not None:
            self._before_opened.append(store)
        else:
            self.stream_end.send(store)


class _Watchers:
    """Who watches the directory."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ends: list[End] = []

    def add(self, end: End) -> None:
        self._ends.append(end)
        for source in dict.fromkeys(self._engine.known_sources()):
            self._tell(source, end)

    def changed(self, source: SourceName) -> None:
        self._ends = [end for end in self._ends if end.error is None]
        for end in self._ends:
            self._tell(source, end)

    def _tell(self, source: SourceName, end: End) -> None:
        entry = self._engine.entry(source)
        if entry is not None:
            end.send(Entry(entry.information, entry.live, entry.proxy))


class _Engine(Engine):
    """As it is, but what it finds unreadable must have been destroyed."""

    def __init__(
        self,
        core: StoreCore,
        receivers: Receivers,
        writer: Writer,
        reads: Reads,
        durability: Callable[[str], v1.Durability],
        checker: Checker,
    ) -> None:
        super().__init__(core, receivers, writer, reads, durability)
        self._checker = checker

    def found_unreadable(self, state: SourceState, part: Range, problem: str) -> bool:
        is_news = super().found_unreadable(state, part, problem)
        if is_news:
            self._checker.unreadable(self.core.store, part, problem)
        return is_news


def remembers_more(witness: StoreOf, name: str, copy: Snapshot) -> bool:
    """Whether a store remembers more starts or commits of another one than that has when it starts
    from a copy.

    Before the group is founded there is nothing to be put back; who does is told to start over.
    What is not on its disk for good, a crash may make it forget.
    """
    record = startup.store_record(witness.disk.synced)
    if record is None or record.blank:
        return False
    known = startup.peers(witness.disk.synced).get(name)
    was = startup.store_record(copy.rows)
    if known is None or was is None:
        return False
    if known.incarnation != was.incarnation:
        return was.incarnation in known.former
    commits = startup.last_commit(copy.rows).number
    return known.starts > was.starts or known.commits > commits


class StoreActor:
    """A store: its disk stays, its processes come and go."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        name: str,
        peers: Sequence[str],
        founds: bool,
        proxies: bool,
        cached: bool = False,
        mortality: Mortality = IMMORTAL,
        *,
        lets_go: bool = False,
        state_only: bool = False,
        copy: Snapshot | None = None,
    ) -> None:
        """founds: an operator says that a group is new; else the stores find out together.

        proxies: it answers for a source that is away. cached: it acknowledges
        what is in the page cache. mortality: of every source and receiver. lets_go: it keeps few
        messages of what is stable. state_only: it takes no messages. copy: it runs on this copy of
        its disk, beside the one that it was made of.
        """
        self.world = world
        self.network = network
        self.checker = checker
        self.name = name
        self.label = name if copy is None else f"{name}, a copy"
        """Of this one of those that run under the name."""
        self.peers = frozenset(peers) - {name}
        self.disk = (CachedDisk if cached else Disk)(world, self.label, checker)
        self._drawn = 0
        self.starts = 0
        self._founds = founds
        self.proxies = proxies
        self.mortality = mortality
        self.clock = WallClock(world, AGES)
        self.witnesses: set[str] = set()
        """Who can tell that its disk was put back; empty: it was not, or that was found out."""
        self._witnessed_since = 0.0
        self._given_back: set[tuple[int, bytes]] = set()
        """Promises, by epoch and instance: they led to nothing, or to what is over."""
        self.lets_go = lets_go
        self.state_only = state_only
        """As it is configured; counts from its next start on."""
        self._is_gone = False
        if copy is not None:
            self.starts = 1
            self.disk.put_back(copy)
            checker.endings.stops(self.label)
        self.start()

    # Life.

    @property
    def alive(self) -> bool:
        return self.process.alive

    def draw(self) -> bytes:
        """A new incarnation."""
        self._drawn += 1
        return f"{self.label}, the {self._drawn}".encode()

    def start(self) -> None:
        """Start a process on what the disk has."""
        self.starts += 1
        self._keep_witnesses()
        durability = v1.DURABILITY_FSYNC if self.is_synced else v1.DURABILITY_OS
        if self.state_only:
            durability = v1.DURABILITY_STATE_ONLY
        self.process = Process(self.world, self.label)
        reg_ids = RegIds(self.name)
        sources = startup.sources(self.disk, reg_ids)
        losses = startup.losses(self.disk)
        commit = startup.last_commit(self.disk)
        assert commit.number >= self.disk.acknowledged, (
            f"{self.name} came back with commit {commit.number} after having acknowledged "
            f"{self.disk.acknowledged}"
        )
        standing = self._standing(commit.number, sources)
        observed = Ageing(self.world.now, self.clock.seconds())
        lives = Lives(observed, self.mortality.of)
        self.core = StoreCore(
            self.name,
            (".*",),
            self.disk,
            sources,
            reg_ids,
            commit.position,
            standing,
            startup.identities(self.disk, reg_ids, sources, lives),
            lambda _: durability != v1.DURABILITY_STATE_ONLY,
        )
        self.receivers = Receivers(self.name, sources, reg_ids)
        self.losses = Losses(self.name, sources, self.disk, losses)
        self.writer = SimulatedWriter(
            self.process,
            self.disk,
            commit.number,
            lambda: self.core.streams.position,
            partial(self.checker.submitted, self.label),
        )
        writer = cast(Writer, self.writer)
        self.engine = _Engine(
            self.core, self.receivers, writer, self.disk, lambda _: durability, self.checker
        )
        self._watchers = _Watchers(self.engine)
        self.engine.directory = cast(Directory, self._watchers)
        self.checked = Event(self.process)
        if self.starts > 1:  # a new disk was not put back
            standing.begin_check(self.peers)
        self.network.serve(self.process, self)
        self.process.start(self.writer.run(self.crash))
        self.upkeep = StoreUpkeep(self)
        self.requests = SimulatedRequests(self)
        self.process.start(self.upkeep.start())
        self.checker.started(self)
        self.world.note("%s starts at commit %s", self.label, commit.number)

    def _standing(self, commits: int, sources: Mapping[SourceName, SourceState]) -> Standing:
        record = startup.store_record(self.disk)
        if record is None and self._founds:
            record = StoreRecord(self.draw())
        self._founds = False
        record = started(self.name, record, self.peers, self.draw)
        standing = Standing(self.name, record, startup.peers(self.disk), commits)
        doubted = self._doubted(standing, sources)
        self.disk.write((standing.row(), *doubted))
        self.disk.sync_for_sure()
        self.disk.run = Run(self.disk.boot, "fsync" if self.is_synced else "os")
        return standing

    def _doubted(
        self, standing: Standing, sources: Mapping[SourceName, SourceState]
    ) -> list[Write]:
        """Put in limbo what a host that went down may have lost."""
        run, boot = self.disk.run, self.disk.boot
        lost = [
            state
            for name, state in sources.items()
            if run is not None and run.may_have_lost(name.topic, boot)
        ]
        if lost:
            self.world.reach("in limbo for what was only cached", self.name)
            standing.renew(self.draw())
        return [write for state in lost for write in state.enter_limbo(REASON)]

    @property
    def is_synced(self) -> bool:
        """What it acknowledges is on the disk."""
        return self.state_only or not isinstance(self.disk, CachedDisk)

    def greeting(self) -> store_v1.Greeting:
        return self.core.standing.greeting(self.name, self.disk.acknowledged)

    def knows(self, other: StoreActor) -> bool:
        """Whether this one has met the other in its present run."""
        known = self.core.standing.peers.get(other.name)
        record = other.core.standing.record
        run = known and (known.incarnation, known.starts)
        return run == (record.incarnation, record.starts)

    def journal_keys(self, source: SourceName, sequence: int) -> list[bytes]:
        """Where the journal has the batch with this number, if it has one."""
        state = self.core.sources.get(source)
        if state is None:
            return []
        found = entries(self.disk.synced, state.reg_id, sequence, sequence)
        return [position_key(entry.position) for entry in found]

    def remembers_more(self, other: StoreActor, copy: Snapshot) -> bool:
        """Whether this one remembers more of the other than that has when it starts from a copy."""
        return remembers_more(self, other.name, copy)

    def put_back(self, copy: Snapshot, witnesses: Iterable[str]) -> None:
        """Stop, and have on the disk what the copy has."""
        if self.alive:
            self.crash()
        self.disk.put_back(copy)
        self.is_witnessed_by(witnesses)

    def is_witnessed_by(self, witnesses: Iterable[str]) -> None:
        """These can tell that its disk is not what the store was last."""
        self.witnesses = set(witnesses)
        self._witnessed_since = self.world.now

    def _keep_witnesses(self) -> None:
        """Begin blank if nobody can tell any more that the disk was put back.

        With each start, and with each commit, it has more of what peers compare.
        """
        if self.witnesses:
            copy = self.disk.snapshot()
            for name in list(self.witnesses):
                if not remembers_more(self.checker.stores[name], self.name, copy):
                    self.forgotten_by(name)

    def has_asked_a_witness(self, heard: Iterable[Heard]) -> bool:
        """Whether one of these answers tells it, if nothing is amiss with that."""
        return any(
            each.answer.store in self.witnesses and each.asked >= self._witnessed_since
            for each in heard
        )

    async def commits_anew(self, count: int) -> None:
        """Commit so often, though nobody is there to ask for anything."""
        for _ in range(count):
            await self.writer.durable(self.writer.submit((self.core.standing.row(),)))

    def forgotten_by(self, other: str) -> None:
        """Another store lost what it knew: if nobody is left who can tell, the disk goes, too."""
        if other in self.witnesses:
            self.witnesses.discard(other)
            if not self.witnesses:
                self.wipe()

    def wipe(self) -> None:
        """Stop, and have nothing on the disk."""
        if self.alive:
            self.crash()
        self.disk.wipe()
        self.witnesses.clear()

    def found_out(self) -> None:
        self.world.reach("found out as a copy", self.label)
        self.witnesses.clear()

    @property
    def has_begun(self) -> bool:
        """It knows of a source that has begun."""
        return any(state.registration.begun.epoch for state in self.core.sources.values())

    def now(self) -> float:
        """A clock that only goes forwards."""
        return self.world.now

    def start_if_down(self) -> None:
        if not self.alive and not self._is_gone:
            self.start()

    # A copy beside it.

    def double(self, copy: Snapshot, witnesses: Iterable[str]) -> StoreActor:
        """Another process under this name, on a copy of the disk, configured alike."""
        double = StoreActor(
            self.world,
            self.network,
            self.checker,
            self.name,
            tuple(self.peers),
            False,
            self.proxies,
            isinstance(self.disk, CachedDisk),
            self.mortality,
            lets_go=self.lets_go,
            state_only=self.state_only,
            copy=copy,
        )
        double.is_witnessed_by(witnesses)
        return double

    def go(self) -> Snapshot:
        """Stop for good; what is on its disk."""
        if self.alive:
            self.crash()
        self._is_gone = True
        return self.disk.snapshot()

    def crash(self) -> None:
        self.checker.endings.stops(self.label)
        self.process.kill()
        self.network.killed(self.process)
        self.disk.crash()

    async def serving(self) -> None:
        """Return once the peers were asked what they remember of this store."""
        if self.core.standing.unchecked:
            await self.checked.wait()

    # Sources.

    async def promise(self, asked: AskedPromise) -> Promised:
        await self.serving()
        promised, incarnation = await self.requests.promise(asked)
        record = promised.registration
        if promised.limbo:
            self.world.reach("promise refused in limbo", "%s: %s", self.name, promised.limbo)
        elif (asked.epoch, asked.instance) not in self._given_back:
            # Else whoever asked has given it back, or ended the source, before it was answered.
            self.checker.promised(self.label, asked.epoch)
        self.world.note("%s promised %s; holds %s", self.label, asked.epoch, promised.held)
        information = record.information
        stores = information.stores if information is not None else ()
        addresses = tuple((known.name, known.address) for known in stores)
        grant = Grant(
            promised.state.reg_id,
            incarnation,
            Promise(
                promised.begun,
                promised.held,
                promised.stable_upto,
                bool(promised.limbo),
                promised.markers,
                record.begun.lineage.parted(promised.state.lost()),
                promised.retained_from,
                promised.state.takes_data,
            ),
            self.name,
            promised.limbo,
            addresses,
        )
        return Promised(self.core.standing.known(), grant)

    async def begin(self, asked: AskedBegin) -> Begun:
        await self.serving()
        source, step, instance = asked
        set_aside = await self.requests.begin(
            requests.AskedBegin(
                source,
                step.begin,
                instance,
                step.incarnation,
                step.losses,
            )
        )
        self.checker.begun(self.name, step.begin.epoch)
        self.world.note(
            "%s began %s %s, %s set aside",
            self.name,
            step.begin.epoch,
            step.begin.lineage,
            set_aside,
        )
        if set_aside:
            self.world.reach("divergent tail set aside", "by %s: %s", self.name, set_aside)
        return Begun(self.core.standing.known(), set_aside)

    async def append(self, end: End, request: AppendRequest) -> None:
        await self.serving()
        frame = v1.Frame.FromString(await end.read(SILENCE_SECONDS))
        asked = frame.open
        name = SourceName(asked.information.source.topic, asked.information.source.session_id)
        before = self.core.sources.get(name)
        lacks_from = before.held.next_sequence if before is not None else 0
        change = self.core.streams.open(
            asked.information,
            request.instance,
            asked.incarnation,
            asked.retained_from,
            frame.stable_upto,
        )
        stream = change.answer.stream
        if asked.retained_from > lacks_from and stream.state.takes_data:
            self.world.reach("hole opened by a new stream", "%s from %s", self.name, lacks_from)
        call = AppendCall(end)
        waits = pacing_from_wire(asked.information) is not None
        told = waited_for(stream.state) if waits else None
        self.engine.opened(stream, call)
        self.checker.endings.stream(self.label, opens=True)
        came = self.core.identities.came(stream.state, FOR_EVER)
        await self.engine.made_durable(
            stream.state, replace(change, writes=(*change.writes, *came))
        )
        if end.error is not None:
            self._closed(stream)
            return
        durability = self.engine.durability(name.topic)
        known = self.core.standing.known()
        call.opened(Opened(change.answer.next_sequence, durability, known, told))
        tasks = [
            self.process.start(self._read(stream, call)),
            self.process.start(self._watch_silence(call)),
        ]
        if told is not None:
            tasks.append(self.process.start(self._watch_receivers(stream, call, told)))
        try:
            await call.over
        except QuorateError as error:
            await self.writer.durable(call.commit)
            for task in tasks:
                task.cancel()
            self._closed(stream)
            self.world.note("%s: stream of epoch %s ends: %s", self.name, stream.epoch, type(error))
            raise

    def _closed(self, stream: AppendStream) -> None:
        self.engine.closed(stream)
        self.checker.endings.stream(self.label, opens=False)

    async def _read(self, stream: AppendStream, call: AppendCall) -> None:
        try:
            while not call.over.done:
                frame = v1.Frame.FromString(await call.stream_end.read())
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
        self.checker.require(stream.state.takes_data, "I6", f"{self.name} is sent messages")
        engine, batch = self.engine, frame.batch
        writes = self.core.streams.append(stream, batch, frame.stable_upto)
        if writes is None:
            self.world.reach("batch overlaps what is held", self.name)
            await engine.settled(stream.state)
            writes = self.core.streams.append_held(stream, batch)
        self.checker.changes(self.label, stream.epoch, "takes batches")
        upto = stream.expected - 1
        call.commit = engine.submit(stream.state, writes, self.is_synced, call, upto)

    def _control(self, stream: AppendStream, call: AppendCall, frame: v1.Frame) -> None:
        core, engine = self.core, self.engine
        writes = core.streams.keepalive(stream, frame.stable_upto)
        match frame.WhichOneof("kind"):
            case "keepalive":
                if writes:
                    call.commit = engine.submit_stable(stream.state, writes)
                return
            case "skip":
                skipped = core.streams.skip(stream, frame.skip.first, frame.skip.last)
                self.world.reach("hole opened by Skip", "%s %s", self.name, frame.skip.first)
                call.commit = engine.submit(stream.state, skipped, True, call, stream.expected - 1)
            case "information":
                writes += core.streams.inform(stream, frame.information)
                engine.changed(stream.state.name)
            case "goodbye":
                writes += core.streams.goodbye(stream)
        if writes:
            call.commit = engine.submit(stream.state, writes)

    async def _watch_receivers(
        self, stream: AppendStream, call: AppendCall, told: store_v1.WaitedFor
    ) -> None:
        while True:
            await self.process.sleep(RECEIVERS_SECONDS)
            receivers = waited_for(stream.state)
            if receivers != told:
                await self.writer.durable(self.engine.submitted(stream.state))
                call.stream_end.send(receivers)
                told = receivers

    async def _watch_silence(self, call: AppendCall) -> None:
        call.heard = self.world.now
        while self.world.now - call.heard <= SILENCE_SECONDS:
            await self.process.sleep(SILENCE_SECONDS / 2)
        call.end(Closed("A silent stream"))

    # Receivers.

    async def register_receiver(self, asked: RegistrationRequest) -> Registered:
        await self.serving()
        registered = await self.requests.register_receiver(
            requests.AskedReceiver(
                asked.source,
                asked.session_id,
                asked.epoch,
                asked.instance,
                asked.take_over,
                FOR_EVER,
                asked.ended_epoch,
                asks_only=asked.asks_only,
                is_open=asked.is_open,
            )
        )
        answer = registered.answer
        if not asked.asks_only:
            self.checker.receivers.registered(
                self.label,
                asked.session_id,
                (asked.epoch, asked.instance),
                remembered=answer.known or answer.ended_epoch > 0,
            )
        return Registered(registered, self._word())

    def _word(self) -> Word:
        standing = self.core.standing
        return Word(standing.record.incarnation, tuple(standing.known()))

    def _turn(self) -> Turn:
        """Return turns that never end: no virtual time passes during a call's own work."""
        return Turn(lambda: self.world.now)

    async def acknowledge(self, asked: AskedAcknowledge) -> None:
        await self.serving()
        position = requests.AskedPosition(
            asked.source, asked.epoch, asked.upto, asked.source_epoch, asked.instance
        )
        moved = await self.requests.acknowledge(asked.session_id, [position], self._turn())
        for _, error in moved.refused:
            raise error

    async def fetch(self, end: End, request: v1.FetchRequest) -> None:
        await self.serving()
        source = SourceName(request.source.topic, request.source.session_id)
        async for response in fetch(
            self.engine,
            self._read_chunk,
            self._read_fragment,
            source,
            request.first,
            request.last,
        ):
            await end.write(response)

    async def _read_chunk(self, state: SourceState, piece: Range, count: int) -> list[StoredBatch]:
        """Few batches at once, and anything may happen before they are read, and after."""
        lineage = state.lineage
        await self.process.sleep(self.world.chooser.uniform(0.0, 0.001))
        chunk = read(self.disk, state.reg_id, state.name, piece, min(count, FETCH_BATCHES))
        await self.process.sleep(self.world.chooser.uniform(0.0, 0.001))
        if state.lineage is not lineage:
            self.world.reach("epoch begun during a fetch", self.name)
        return chunk

    async def _read_fragment(self, row: LargeRow, number: int) -> bytes:
        return read_fragment(self.disk, row, number)

    async def apart(self, work: Callable[[], A]) -> A:
        """Anything may happen before it is done."""
        await self.process.sleep(self.world.chooser.uniform(0.0, 0.001))
        return work()

    # The end of an identity.

    async def deregister(self, asked: AskedDeregister) -> Word:
        await self.serving()
        self._given_back.add((asked.epoch, asked.unused_promise_to or asked.instance))
        await self.upkeep.keeper.deregister(
            asked.source, asked.receiver, asked.epoch, asked.unused_promise_to, asked.instance
        )
        return self._word()

    async def end_source(self, request: store_v1.DeregisterRequest) -> store_v1.DeregisterResponse:
        await self.serving()
        return await self.upkeep.keeper.end_source(asked_of(request))

    # The directory, and other stores.

    async def watch(self, end: End, _: Any) -> None:
        await self.serving()
        self._watchers.add(end)
        while True:
            await end.read()

    async def digest(self, request: store_v1.DigestRequest) -> store_v1.DigestResponse:
        await self.serving()
        return await digests_for(self.engine, self.apart, request)

    async def inventory(
        self, request: store_v1.InventoryRequest
    ) -> list[store_v1.InventoryResponse]:
        return [
            each async for each in inventory(self.engine, self.greeting(), request, self._turn())
        ]
