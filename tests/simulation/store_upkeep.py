"""What a simulated store does besides serving: hears of its peers, leaves limbo, repairs, compares,
scrubs, and answers for a source that is away.

Production's own Vouching, Repair, Comparing, Scrub, Filler, Keeper and Proxying, with their calls
made in the simulated network.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from tests.simulation.endings import AGES
from tests.simulation.rules import Setup
from tests.simulation.world import Event

from quorate.protocol.answers import AnswerReading
from quorate.protocol.errors import Closed, ContentConflict, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.store import startup
from quorate.store.rules import repair_plan as plan
from quorate.store.rules import retention
from quorate.store.rules.changes import Agenda
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
)
from quorate.store.rules.proxy import Party
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.retention import Bounds
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.storage.interface import Table
from quorate.store.tasks.comparison import (
    Asked,
    Comparing,
)
from quorate.store.tasks.fetcher import (
    Fetch,
    Fetching,
    Filler,
    PeerFailed,
)
from quorate.store.tasks.lifecycle import AskedEnd, Keeper
from quorate.store.tasks.peer_answers import (
    AskAgain,
    Question,
    heard_from,
    read_inventory,
    since,
)
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.peer_views import (
    Neighbours,
    view_of,
)
from quorate.store.tasks.proxy import Proxying
from quorate.store.tasks.readmission import Vouching
from quorate.store.tasks.repair import Repair
from quorate.store.tasks.scrub import (
    Paced,
    Scrub,
)
from quorate.store.tasks.throttle import Pace
from quorate.transport.fetch import FetchCall
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

if TYPE_CHECKING:
    from tests.simulation.store_actor import StoreActor

ROUND_SECONDS = 0.8
LIMBO_ROUND_SECONDS = 0.1
FOUND_OUT_SECONDS = 0.5
ANSWER_SECONDS_MAX = 1.0
REPAIR_SECONDS = 0.4
COMPARE_SECONDS = 1.5
COMPARE_ALL_SECONDS = 5.0
SCRUB_SECONDS = 0.4
CHECK_SECONDS_MAX = 0.5
CHECK_AGAIN_SECONDS = 0.1
RELEASE_SECONDS = 0.3
LOOK_SECONDS = 0.2
AWAY_SECONDS = 0.6 * AGES
"""In the time of what lives and ends."""


async def _each(
    responses: Sequence[store_v1.InventoryResponse],
) -> AsyncIterator[store_v1.InventoryResponse]:
    for response in responses:
        yield response


class SimulatedPeers:
    """As quorate.store.tasks.peer_polling."""

    def __init__(self, store: StoreActor) -> None:
        self._store = store
        self._heard: dict[str, Heard] = {}
        self._reachable: set[str] = set()
        self.addresses = store.peers

    def heard(self) -> Mapping[str, Heard]:
        return dict(self._heard)

    def inventories(self) -> Mapping[str, Heard]:
        return {peer: heard for peer, heard in self._heard.items() if heard.counts}

    def answering(self) -> Mapping[str, Heard]:
        return {
            peer: heard for peer, heard in self.inventories().items() if peer in self._reachable
        }

    def forget(self) -> None:
        self._heard.clear()

    async def ask_all(self) -> None:
        await self._ask_each(self._ask)

    async def ask_briefly(self, heard: list[Heard]) -> None:
        async def ask(peer: str) -> None:
            if (answered := await self._question(peer, without_sources=True)) is not None:
                heard.append(replace(answered, counts=False))

        await self._ask_each(ask)

    async def _ask_each(self, question: Callable[[str], Awaitable[None]]) -> None:
        store = self._store
        left = set(self.addresses)
        answered = Event(store.process)

        async def ask(peer: str) -> None:
            await question(peer)
            left.discard(peer)
            answered.set()

        for peer in sorted(self.addresses):
            store.process.start(ask(peer))
        while left:
            await answered.pause()

    async def _ask(self, peer: str) -> None:
        heard = await self._question(peer)
        if heard is None:
            return
        self._heard[peer] = heard
        if peer not in self._reachable:
            self._note_changes(peer, self._heard)
        self._reachable.add(peer)
        if heard.counts and any(each.live for each in heard.answer.sources.values()):
            self._store.checker.endings.sign(self._store.label)

    async def _question(self, peer: str, *, without_sources: bool = False) -> Heard | None:
        store = self._store
        asked = Question(store.greeting(), store.core.standing.moment, store.world.now)
        before = self._heard.get(peer)
        request = store_v1.InventoryRequest(
            greeting=asked.greeting,
            without_sources=without_sources,
            since=None if without_sources else since(store.engine, before),
        )
        try:
            answer, who = await inventory_of(
                store, peer, request, before.answer if before is not None else None
            )
        except QuorateError:
            self._note_changes(peer, self._reachable)
            self._reachable.discard(peer)
            return None
        heard = heard_from(store.engine, asked, answer, who, store.world.now, before)
        if heard is None:
            return None
        if isinstance(heard, AskAgain) or not heard.counts:
            store.world.reach("answer of who does not know who asks", "%s to %s", peer, store.name)
        if isinstance(heard, AskAgain):
            return await self._question(peer, without_sources=without_sources)
        return heard

    def _note_changes(self, peer: str, among: Collection[str]) -> None:
        """Note that a peer of these has come or gone, and with it what is heard of its sources."""
        if peer in among and peer in self._heard:
            for source in self._heard[peer].answer.sources:
                self._store.engine.news.note(source)

    async def end_source(
        self, address: str, request: store_v1.DeregisterRequest
    ) -> store_v1.DeregisterResponse:
        store = self._store
        answer: store_v1.DeregisterResponse = await store.network.call(
            store.process, address, "end_source", request, ANSWER_SECONDS_MAX
        )
        return answer

    async def ask_about(self, source: SourceName, addresses: Collection[str]) -> list[PeerAnswer]:
        told: list[PeerAnswer] = []
        for peer in sorted(addresses):
            request = store_v1.InventoryRequest(source=source_to_wire(source))
            try:
                answer, _ = await inventory_of(self._store, peer, request)
            except QuorateError:
                continue
            told.append(answer)
            if (known := answer.knowledge(source)).begun.ended and not known.limbo:
                self._store.world.reach("tells of an end when asked", "%s", answer.store)
        return told


async def inventory_of(
    store: StoreActor,
    peer: str,
    request: store_v1.InventoryRequest,
    before: PeerAnswer | None = None,
) -> tuple[PeerAnswer, store_v1.Greeting]:
    """What a peer answers, and how it presents itself; raises QuorateError."""
    responses = await store.network.call(
        store.process, peer, "inventory", request, ANSWER_SECONDS_MAX
    )
    return await read_inventory(peer, _each(responses), before)


class SimulatedNeighbours:
    """As quorate.store.tasks.peer_views; every store is a peer here."""

    def __init__(self, store: StoreActor, peers: SimulatedPeers) -> None:
        self._store = store
        self._peers = peers
        self.address = store.name

    def answers(self) -> list[PeerAnswer]:
        return [item.answer for item in self._peers.inventories().values()]

    def may_have_begun(self, source: SourceName, answers: Sequence[PeerAnswer]) -> bool:
        state = self._store.engine.core.sources.get(source)
        begun_epoch = state.registration.begun.epoch if state is not None else 0
        return any(each.knowledge(source).begun.epoch > begun_epoch for each in answers)

    async def views(self, source: SourceName, fresh: bool = False) -> list[plan.PeerView]:
        known = {answer.address: answer for answer in self.answers()}
        if fresh:
            known = {}
            for peer in sorted(self._peers.addresses):
                request = store_v1.InventoryRequest(source=source_to_wire(source))
                try:
                    known[peer], _ = await inventory_of(self._store, peer, request)
                except QuorateError:
                    continue
        silent = sorted(self._peers.addresses - known.keys())
        return [
            *(view_of(answer, source) for answer in known.values()),
            *(plan.PeerView(peer) for peer in silent),
        ]


def filler_of(store: StoreActor, peers: SimulatedPeers) -> Filler:
    """Production's, with its peers in the simulated network."""

    @asynccontextmanager
    async def reached(peer: str) -> AsyncIterator[Fetch]:
        yield partial(_fetch_from, store, peer)

    async def sleep(seconds: float) -> None:
        # What is less than virtual time can tell apart would be slept for ever.
        await store.process.sleep(max(seconds, 1e-6))

    return Filler(store.engine, Pace(store.now), reached, peers.answering, sleep)


def _fetch_from(store: StoreActor, peer: str, state: SourceState, wanted: Range) -> Fetching:
    request = v1.FetchRequest(source=source_to_wire(state.name))
    request.first, request.last = wanted.first, wanted.last
    end = store.network.connect(store.process, peer, "fetch", request)

    return Fetching(
        FetchCall(
            AnswerReading(peer, state.name, wanted),
            lambda: end.read(ANSWER_SECONDS_MAX),
            lambda: end.close(Closed("The fetch")),
        )
    )


class SimulatedVouching(Vouching):
    """As it is, but for the network."""

    def __init__(self, store: StoreActor, peers: SimulatedPeers, filler: Filler) -> None:
        super().__init__(
            store.engine, cast(Peers, peers), filler, store.losses, store.name, store.draw
        )
        self._simulated = store

    async def check(self) -> None:
        store, peers = self._simulated, self._peers
        if not self._standing.unchecked:
            return
        heard: list[Heard] = []
        asked = Event(store.process)

        async def ask() -> None:
            await peers.ask_briefly(heard)
            asked.set()

        store.process.start(ask())
        await asked.wait(CHECK_SECONDS_MAX)
        while store.witnesses and not store.has_asked_a_witness(heard):
            # Who can tell is not there: to be believed until somebody is, is more than anything
            # can be done about, so that here it waits.
            store.world.note("%s waits for %s", store.name, sorted(store.witnesses))
            await store.process.sleep(CHECK_AGAIN_SECONDS)
            await peers.ask_briefly(heard)
        if await self._was_found_out(heard):
            store.found_out()
        store.witnesses.clear()
        self._standing.unchecked = ""
        store.checked.set()

    async def _fetch(self, state: SourceState, adoption: Adoption) -> None:
        if adoption.fetch.minus(state.held.ranges):
            self._simulated.world.reach("fetched to leave limbo", self._simulated.name)
        await super()._fetch(state, adoption)


class SimulatedComparing(Comparing):
    """As it is, but that what it finds is told."""

    def __init__(self, store: StoreActor, filler: Filler) -> None:
        super().__init__(store.engine, store.apart, filler)
        self._simulated = store

    async def compare(
        self, state: SourceState, peer: plan.PeerView, asked: Asked, wanted: Range
    ) -> RangeSet:
        store = self._simulated
        divergent = await super().compare(state, peer, asked, wanted)
        store.world.reach("compared with a peer", "%s with %s: %s", store.name, peer.store, wanted)
        store.checker.compared(store.name, peer.store, divergent)
        return divergent

    async def _differing(
        self, state: SourceState, asked: Asked, wanted: Range, block: int
    ) -> list[Range]:
        found = await super()._differing(state, asked, wanted, block)
        if found:
            store = self._simulated
            store.world.reach("comparison found a difference", "%s %s", store.name, found)
        return found


@asynccontextmanager
async def _ask(store: StoreActor, peer: str) -> AsyncIterator[Asked]:
    async def digests(request: store_v1.DigestRequest) -> store_v1.DigestResponse:
        try:
            response: store_v1.DigestResponse = await store.network.call(
                store.process, peer, "digest", request, ANSWER_SECONDS_MAX
            )
        except QuorateError as error:
            raise PeerFailed(error) from None
        return response

    yield Asked(digests, partial(_fetch_from, store, peer))


class SimulatedScrub(Scrub):
    """As it is, but that it rests while nothing on the disk can be bad."""

    def __init__(self, store: StoreActor) -> None:
        # It goes by the time of day, which passes as fast as that of what lives and ends.
        super().__init__(
            store.engine,
            store.apart,
            startup.scrub(store.disk),
            SCRUB_SECONDS * AGES,
            store.clock.seconds,
            lambda: store.world.now * AGES,
            self._rest,
        )
        self._simulated = store

    async def _rest(self, seconds: float) -> None:
        store = self._simulated
        await store.process.sleep(seconds / AGES)
        while not store.disk.flipped:
            await store.process.sleep(SCRUB_SECONDS)

    async def check(self, state: SourceState, first: int, paced: Paced) -> int:
        before = self.unreadable
        checked = await super().check(state, first, paced)
        if self.unreadable > before:
            self._simulated.world.reach("scrub found what can not be read", self._simulated.name)
        return checked


class SimulatedRepair(Repair):
    """As it is, but for the network."""

    def __init__(self, store: StoreActor, peers: SimulatedPeers, filler: Filler) -> None:
        self.filler = filler
        self._engine = store.engine
        self._neighbours = cast(Neighbours, SimulatedNeighbours(store, peers))
        self._losses = store.losses
        self._clock = store.now
        self._comparing = SimulatedComparing(store, filler)
        self._ask = partial(_ask, store)
        self._compare_seconds = COMPARE_SECONDS
        self._compare_all_seconds = COMPARE_ALL_SECONDS
        self._cases = {}
        self._not_adopted = {}
        self._agenda = Agenda(store.engine.news)
        self._to_adopt = Agenda(store.engine.news)
        self._simulated = store

    async def round(self) -> None:
        """Look once for what lacks, and compare what is due."""
        store = self._simulated
        begun = {name: state.registration.begun.epoch for name, state in store.core.sources.items()}
        await self._adopt_all()
        for name, state in list(store.core.sources.items()):
            if state.registration.begun.epoch > begun.get(name, 0) and not state.live:
                store.world.reach("begin taken over from a peer", store.name)
            try:
                if await self._mend(state, self._case(state), fresh=False):
                    await self._compare_due(state, self._case(state))
            except ContentConflict as error:
                store.checker.conflict(error)
            except QuorateError as error:
                store.world.note("%s: repair: %s", store.name, error)

    async def _run_errands(
        self, state: SourceState, views: list[plan.PeerView], stable_upto: int
    ) -> None:
        before = self.filler.taken[state.name]
        await super()._run_errands(state, views, stable_upto)
        if self.filler.taken[state.name] > before:
            self._simulated.world.reach("repair filled a hole", self._simulated.name)


class SimulatedProxying(Proxying):
    """As it is, but that a source is given up sooner: nothing is away for long here."""

    def __init__(self, store: StoreActor, peers: SimulatedPeers, *, enabled: bool) -> None:
        super().__init__(store.engine, cast(Peers, peers), enabled=enabled)
        self._simulated = store

    def _is_away(self, state: SourceState) -> bool:
        if state.live or not state.registration.begun.epoch:
            return False
        silent = self._engine.core.identities.lives.silent(Who(state.name))
        return state.name in self._engine.announced or silent >= AWAY_SECONDS

    def _found_stable(self, source: SourceName, upto: int, among: Sequence[Party]) -> None:
        super()._found_stable(source, upto, among)
        store, following = self._simulated, among[0]
        store.checker.found_stable(
            [Setup.of(policy) for policy in following.begun.policies],
            following.begun.epoch,
            upto,
            [
                party.store
                for party in among
                if party.begun.lineage == following.begun.lineage
                and not party.is_promised
                and party.takes_data
            ],
        )
        store.world.reach("proxy found out what is stable", store.name)

    def _changed(self, source: SourceName, *, announced: bool) -> None:
        super()._changed(source, announced=announced)
        if announced:
            self._simulated.world.reach("answers for a source that is away", self._simulated.name)


class SimulatedKeeper(Keeper):
    """A keeper that tells the checker when it ends a source."""

    def __init__(self, store: StoreActor, peers: SimulatedPeers, proxying: Proxying) -> None:
        super().__init__(
            store.engine,
            cast(Peers, peers),
            proxying,
            store.losses,
            store.mortality.grace,
            store.now,
            self._name_end,
        )
        self._simulated = store
        self._ends = 0

    def _name_end(self) -> bytes:
        self._ends += 1
        store = self._simulated
        return f"{store.starts}.{self._ends} of {store.label}".encode()

    async def end_source(self, asked: AskedEnd) -> store_v1.DeregisterResponse:
        store = self._simulated
        if asked.expired and asked.instance.endswith(store.label.encode()) and not asked.membership:
            store.checker.expires(store.label, asked.epoch)
        answer = await super().end_source(asked)
        if not (asked.membership or answer.limbo):
            store.checker.promised(store.label, asked.epoch)
        return answer


class StoreUpkeep:
    """All of it, for one process of a store."""

    def __init__(self, store: StoreActor) -> None:
        self._store = store
        self._round = Event(store.process)
        self.peers = SimulatedPeers(store)
        filler = filler_of(store, self.peers)
        self._vouching = SimulatedVouching(store, self.peers, filler)
        self._repair = SimulatedRepair(store, self.peers, filler)
        self._scrub = SimulatedScrub(store)
        proxying = SimulatedProxying(store, self.peers, enabled=store.proxies)
        self.keeper = SimulatedKeeper(store, self.peers, proxying)

    async def start(self) -> None:
        """Ask the peers whether the disk was put back, and then begin."""
        await self._vouching.check()
        for task in (self._ask(), self._vouch(), self._mend(), self._scrub.run()):
            self._store.process.start(task)
        if self._store.proxies or self._store.mortality.is_kept:
            self._store.process.start(self._keep())
        if self._store.lets_go:
            self._store.process.start(self._let_go())

    async def _ask(self) -> None:
        store = self._store
        while True:
            await self.peers.ask_all()
            self._round.set()
            seconds = LIMBO_ROUND_SECONDS if store.core.in_limbo else ROUND_SECONDS
            await store.process.sleep(seconds * store.world.chooser.uniform(0.8, 1.2))

    async def _vouch(self) -> None:
        store = self._store
        while True:
            await self._round.pause()
            heard = self.peers.heard()
            try:
                if await self._vouching.follow(heard):
                    store.found_out()
                    await store.process.sleep(FOUND_OUT_SECONDS)
            except ContentConflict as error:
                store.checker.conflict(error)
            except QuorateError as error:
                store.world.note("%s stays in limbo: %s", store.name, error)
            if store.core.standing.record.limbo or store.has_asked_a_witness(heard.values()):
                store.witnesses.clear()  # it does not believe itself any more, or never will
            if not store.witnesses:
                store.checker.look_at(store)

    async def _mend(self) -> None:
        store = self._store
        while True:
            await store.process.sleep(REPAIR_SECONDS * store.world.chooser.uniform(0.8, 1.2))
            await self._repair.round()

    async def _let_go(self) -> None:
        """Keep few messages, now more and now less; nobody is asked whether he has them."""
        store = self._store
        chooser = random.Random(f"{store.world.seed} {store.name} {store.starts}")
        while True:
            await store.process.sleep(RELEASE_SECONDS * chooser.uniform(0.2, 2.0))
            for state in list(store.core.sources.values()):
                messages = chooser.choice((0, 5, 20, 50))
                # Of messages some stay; what is old goes, however little is left.
                await self.let_go(state, Bounds(messages=messages, seconds=0 if messages else 1))
            if chooser.random() < 0.5:
                continue
            found = retention.reclaim(store.disk, 0, chooser.choice((1, 8, 64)))
            if found.positions is not None:
                store.engine.writer.submit(found.writes, sync=False)
                if any(write.table is Table.JOURNAL for write in found.writes):
                    store.world.reach("batch left the journal", store.name)

    async def let_go(self, state: SourceState, bounds: Bounds) -> None:
        """Let what is stable go, but for so much."""
        store = self._store
        await store.engine.settled_range(state, 0, state.held.stable_upto)
        if store.core.sources.get(state.name) is not state:
            return
        limit = retention.limit(
            state, retention.conditions(state, bounds), store.core.limbo_of(state), {}, ()
        )
        rows = index.entries(store.disk, state.reg_id, 0, SEQUENCE_MAX)
        going, _ = retention.choose(rows, state, bounds, limit.upto, store.core.streams.position)
        if not going:
            return
        store.checker.lets_go(store, going[-1].last)
        writes = retention.let_go(store.disk, state, going)
        store.world.reach("let go of what is stable", "%s %s", store.name, going[-1].last)
        await store.engine.writer.durable(store.engine.submit(state, writes))

    async def _keep(self) -> None:
        """Note who is away, and answer for it if that falls to this store."""
        store = self._store
        while True:
            await store.process.sleep(LOOK_SECONDS * store.world.chooser.uniform(0.8, 1.2))
            await self.keeper.look(store.world.now)
