"""Repair and anti-entropy: fetches from peers what this store lacks, and compares with them.

It runs in the background, one source at a time, at the pace of quorate.store.tasks.throttle. Repair
takes over a begin that this store missed, then fetches missing messages, and then compares. The
plan is made in quorate.store.rules.repair_plan; here it is only carried out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf

from quorate.protocol import delays
from quorate.protocol.errors import (
    BrokenAnswer,
    ContentConflict,
    CorruptBatch,
    Fenced,
    InvalidArgument,
    OtherLineage,
    QuorateError,
    TopicRefused,
)
from quorate.protocol.figures import counted
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules import repair_plan as plan
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.acceptor import Missed
from quorate.store.rules.changes import Agenda
from quorate.store.rules.conflicts import Conflict, conflicts, fence, parted, settle
from quorate.store.rules.digest import BLOCK
from quorate.store.rules.peer_knowledge import PeerAnswer, SourceKnowledge
from quorate.store.rules.readmission import reg_id_of
from quorate.store.rules.retention import take_over
from quorate.store.rules.source_state import Change, SourceState
from quorate.store.storage.interface import Write
from quorate.store.tasks.comparison import (
    Comparing,
    ask,
)
from quorate.store.tasks.executor import Apart
from quorate.store.tasks.fetcher import (
    Filler,
    PeerFailed,
    reached,
)
from quorate.store.tasks.loss_exchange import learn_losses, learn_poison
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.peer_views import (
    Neighbours,
    own_view,
    view_of,
)
from quorate.store.tasks.scrub import Scrub
from quorate.store.tasks.throttle import Pace
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.tasks.repair")

ROUND_SECONDS = 1.0
"""Seconds from one round of repair to the next."""
UNPOLLED_SECONDS = 8.0
"""Seconds for which repair leaves a source without news alone if it has stores that are not polled.
Only a look asks these for news."""
COMPARE_SECONDS = 60.0
"""Seconds from one comparison of newly stable messages with a peer to the next."""
COMPARE_ALL_SECONDS = 24 * 3600.0
"""Seconds from one comparison of all stable messages with a peer to the next."""
PROGRESS_SECONDS = 0.5
"""Seconds from one report of progress to an operator to the next."""
_SHOWN_MAX = 5


@dataclass(slots=True)
class _Compared:
    """The progress of comparing a source with one peer."""

    incarnation: bytes = b""
    """The incarnation of the peer. After it has changed all is compared anew."""
    view: plan.PeerView = field(default_factory=lambda: plan.PeerView(""))
    """The peer as it last answered."""
    next_sequence: int = 0
    what: object = None
    """The extent of what was compared last: while it is that, there is nothing new to compare."""
    at: float = float("-inf")
    all_at: float = float("-inf")
    divergent: RangeSet = field(default_factory=RangeSet)

    def look_again(self) -> None:
        """Compare what differed once more, in case that an operator has settled it."""
        if self.divergent:
            first = next(iter(self.divergent)).first
            self.next_sequence = min(self.next_sequence, first - first % BLOCK)

    def is_over(self, what: object) -> bool:
        """Return whether nothing of this extent is left to compare."""
        return what == self.what and not self.divergent


@dataclass(slots=True)
class _Case:
    """The state of repair for one source."""

    until: float = 0.0
    """The time before which repair leaves the source alone, by the clock of repair."""
    failures: int = 0
    """The number of times in a row that no peer could help."""
    seen: object = None
    """The state of the source, here and at the peers, when repair last looked."""
    quiet: bool = False
    """Whether repair leaves the source alone until then only while its state is that."""
    lacking: int = 0
    """The number of messages that were missing when repair last looked."""
    complained: list[Range] = field(default_factory=list)
    in_conflict: list[Conflict] = field(default_factory=list)
    """The conflicts that were logged."""
    compared: dict[str, _Compared] = field(default_factory=dict)
    """The progress with each peer, by its name."""

    def with_peer(self, peer: plan.PeerView) -> _Compared:
        """Return the progress with a peer, which has answered."""
        seen = self.compared.get(peer.store)
        if seen is None or seen.incarnation != peer.incarnation:
            seen = self.compared[peer.store] = _Compared(peer.incarnation)
        seen.view = peer
        return seen

    @property
    def is_divergent(self) -> bool:
        """Whether a peer holds other content."""
        return any(each.divergent for each in self.compared.values())


class Repair:
    """The repair of one store."""

    def __init__(
        self,
        engine: Engine,
        apart: Apart,
        peers: Peers,
        losses: Losses,
        scrub: Scrub,
        address: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """address: the address at which peers know this store, so that it does not ask itself."""
        self.pace = Pace(clock)
        self._engine = engine
        self.filler = Filler(
            engine, self.pace, partial(reached, peers.open_channel), peers.answering
        )
        self._comparing = Comparing(engine, apart, self.filler)
        self._ask = partial(ask, peers.open_channel)
        self._compare_seconds = COMPARE_SECONDS
        self._compare_all_seconds = COMPARE_ALL_SECONDS
        self._neighbours = Neighbours(engine, peers, address)
        self._losses = losses
        self._scrub = scrub
        self._clock = clock
        self._cases: dict[SourceName, _Case] = {}
        self._not_adopted: dict[SourceName, str] = {}
        self._agenda = Agenda(engine.news, engine.core.sources)
        self._to_adopt = Agenda(engine.news)
        """The sources of which a peer may have told a begin, or a loss, that is news here."""
        self._turn = asyncio.Lock()
        self._now = "idle"

    # In the background.

    async def run(self) -> None:
        """Repair and compare each source when it is due, until cancelled."""
        while True:
            await self._adopt_all()
            await self._look_round()
            await asyncio.sleep(ROUND_SECONDS)

    async def _look_round(self) -> None:
        """Look after the sources that are due."""
        answers, turn = self._neighbours.answers(), Turn(self._clock)
        sources = self._engine.core.sources
        for source in self._agenda.due(self._clock()):
            await turn.pause()
            if (state := sources.get(source)) is None:
                self._cases.pop(source, None)
                continue
            case, seen = self._case(state), _seen(state, answers)
            if self._clock() >= case.until or (case.quiet and seen != case.seen):
                await self._look_after(state, case, seen)
            self._agenda.again(source, case.until)

    async def _look_after(self, state: SourceState, case: _Case, seen: object) -> None:
        async with self._turn:
            done = await self._tried(state, self._mend(state, case, fresh=False))
            if done:
                await self._tried(state, self._compare_due(state, case))
            self._note_conflicts(state, case)
            self._now = "idle"
        case.failures = 0 if done else case.failures + 1
        # A change that the look itself made is looked at in the next round.
        case.quiet = done and seen == _seen(state, self._neighbours.answers())
        case.seen = seen
        now = self._clock()
        if not done:
            case.until = now + delays.delay_after(delays.REPAIR, case.failures)
        elif not case.quiet:
            case.until = now + ROUND_SECONDS
        elif not self._neighbours.are_polled(state.name):
            case.until = now + UNPOLLED_SECONDS
        else:
            case.until = self._compare_at(state, case)

    def _compare_at(self, state: SourceState, case: _Case) -> float:
        """Return when a source is to be compared with a peer next, if there is no news of it."""
        due_at = inf
        for seen in case.compared.values():
            due_at = min(due_at, seen.all_at + self._compare_all_seconds)
            if not seen.is_over(self._extent(state, seen.view)):
                due_at = min(due_at, seen.at + self._compare_seconds)
        return due_at

    async def _tried(self, state: SourceState, work: object) -> bool:
        """Await the work, and return whether it succeeded. An error is logged."""
        try:
            return bool(await work)  # type: ignore[misc]
        except QuorateError as error:
            level = logging.ERROR if isinstance(error, ContentConflict) else logging.WARNING
            _log.log(level, "repair of %s: %s", state.name, error)
        except Exception:
            _log.exception("repair of %s failed unexpectedly; it is tried again", state.name)
        return False

    def _case(self, state: SourceState) -> _Case:
        case = self._cases.get(state.name)
        if case is None:
            case = self._cases[state.name] = _Case()
        return case

    # Begins that were missed, and losses that were accepted elsewhere.

    async def _adopt_all(self) -> None:
        answers, turn = self._neighbours.answers(), Turn(self._clock)
        core = self._engine.core
        for source in self._to_adopt.due(self._clock()):
            await turn.pause()
            if not any(source in answer.sources for answer in answers):
                continue
            state = core.known(source)
            for answer in answers:
                knowledge = answer.sources.get(source)
                if source in core.sources and state is not None and knowledge is not None:
                    self._learn_losses(state, knowledge, answer.store)
            if not self._neighbours.may_have_begun(source, answers):
                continue
            self._to_adopt.again(source, self._clock() + ROUND_SECONDS)
            try:
                await self._adopt(source)
            except QuorateError as error:
                self._note_not_adopted(source, error)

    def _note_not_adopted(self, source: SourceName, error: QuorateError) -> None:
        """Log an error once. One that may pass, or is no fault, is logged for debugging only."""
        level = logging.WARNING
        if error.retryable or isinstance(error, TopicRefused | Fenced):
            level = logging.DEBUG
        elif isinstance(error, ContentConflict):
            level = logging.ERROR
        if self._not_adopted.get(source) != str(error):
            self._not_adopted[source] = str(error)
            _log.log(level, "taking over a begin of %s: %s", source, error)

    def _learn_losses(self, state: SourceState, known: SourceKnowledge, told_by: str) -> None:
        writes: tuple[Write, ...] = ()
        if known.accepted_losses:
            writes += learn_losses(self._losses, state, known.accepted_losses, f"store {told_by}")
        if known.poison:
            writes += learn_poison(self._losses, state, known.poison)
        if writes:
            self._engine.submit(state, writes)

    async def _adopt(self, source: SourceName) -> None:
        """Take over the newest begin of a source that this store missed, if there is one."""
        engine, core = self._engine, self._engine.core
        state = core.known(source)
        if core.limbo_of(state) or core.emptying(source):
            return
        views = [view for view in await self._neighbours.views(source) if view.answered]
        own = own_view(core.store, state, self._neighbours.address)
        found = plan.begin_to_adopt(own, views)
        if found is None or found.begun.membership is None:
            return
        mine = reg_id_of(core.store, (self._neighbours.address,), found.information)
        missed = Missed(
            found.begun,
            found.promised_to,
            found.information,
            mine if core.reg_ids.is_free(mine) else found.reg_id,
        )
        if state is not None:
            await engine.settled(state)
        change = core.adopt(source, missed)
        state = core.known(source)
        assert state is not None
        set_aside = await engine.made_durable(state, change)
        if missed.begun.ended:
            engine.has_ended(source)
            _log.info("%s ended while this store was away", source)
            return
        engine.changed(source)
        _log.info("took epoch %d of %s over from %s", found.begun.epoch, source, found.store)
        if set_aside:
            level = (
                logging.INFO if found.begun.generation > own.begun.generation else logging.WARNING
            )
            what = "epoch %d of %s set %d messages aside"
            _log.log(level, what, found.begun.epoch, source, set_aside)

    # Missing messages.

    async def _mend(self, state: SourceState, case: _Case, fresh: bool) -> bool:
        """Fetch the missing messages of one source. Return whether none is missing afterwards."""
        core = self._engine.core
        if core.limbo_of(state):
            return False  # readmission comes first, and fetches by itself
        views = await self._neighbours.views(state.name, fresh)
        await self._take_over(state, views)
        own = own_view(core.store, state)
        stable_upto = plan.stable_upto(own, views)
        wanted = plan.lacking(own, stable_upto)
        case.lacking = wanted.count()
        if wanted and not fresh:
            views = await self._neighbours.views(state.name, fresh=True)
            await self._take_over(state, views)
        if wanted:
            await self._run_errands(state, views, stable_upto)
        if learnt := core.streams.learn_stable(state, stable_upto):
            self._engine.submit(state, learnt)
        rest = plan.lacking(own_view(core.store, state), stable_upto)
        if rest and list(rest) != case.complained:
            # Peers may have let messages go since they were asked.
            await self._take_over(state, await self._neighbours.views(state.name, fresh=True))
            rest = plan.lacking(own_view(core.store, state), stable_upto)
        case.lacking = rest.count()
        self._complain(state, case, list(rest))
        return not rest

    async def _take_over(self, state: SourceState, views: list[plan.PeerView]) -> None:
        """Take over what peers let go: it is not fetched, and given up where it is unreadable."""
        engine = self._engine
        released = plan.retained_from(own_view(engine.core.store, state), views)
        if released <= state.held.retained_from and not state.unneeded(released):
            return
        await engine.settled_range(state, 0, released - 1)
        if engine.core.sources.get(state.name) is not state or engine.core.limbo_of(state):
            return
        # The lineage may have changed meanwhile; its stable part has not.
        released = plan.retained_from(own_view(engine.core.store, state), views)
        markers = [marker for view in views for marker in view.markers]
        writes = take_over(engine.reads, state, released, markers)
        await engine.writer.durable(engine.submit(state, writes))

    async def _run_errands(
        self, state: SourceState, views: list[plan.PeerView], stable_upto: int
    ) -> None:
        store, filled = self._engine.core.store, 0
        wanted = plan.lacking(own_view(store, state), stable_upto)
        for peer, ranges in _by_peer(plan.errands(wanted, own_view(store, state), views)):
            self._now = f"fetching {state.name} from {peer.store or peer.address}"
            done = await self.filler.fill(
                state,
                peer.address,
                ranges,
                lambda: plan.lacking(own_view(store, state), stable_upto),
                stable_upto,
            )
            filled += done.messages
            if done.failed is not None:
                self._note_failed(state, done.failed)
            if not plan.lacking(own_view(store, state), stable_upto):
                break
        if filled:
            _log.info("repaired %s of %s", counted(filled, "message"), state.name)

    @staticmethod
    def _note_failed(state: SourceState, error: QuorateError) -> None:
        """Log a peer's error; as a warning only if the peer answered, and its answer is bad."""
        bad = isinstance(error, BrokenAnswer | CorruptBatch | OtherLineage)
        _log.log(logging.WARNING if bad else logging.DEBUG, "%s: %s", state.name, error)

    def _complain(self, state: SourceState, case: _Case, rest: list[Range]) -> None:
        if rest and rest != case.complained:
            shown = ", ".join(map(str, rest[:_SHOWN_MAX]))
            _log.warning("%s lacks %s, and no peer could give it", state.name, shown)
        case.complained = rest

    # Divergence.

    async def _compare_due(self, state: SourceState, case: _Case) -> bool:
        for peer in await self._neighbours.views(state.name):
            if not peer.answered:
                continue
            seen = case.with_peer(peer)
            now = self._clock()
            if now - seen.all_at >= self._compare_all_seconds:
                seen.next_sequence, seen.what, seen.all_at = 0, None, now
            elif now - seen.at < self._compare_seconds:
                continue
            seen.at = now
            seen.look_again()
            await self._compare(state, peer, seen)
        return True

    async def _compare(self, state: SourceState, peer: plan.PeerView, seen: _Compared) -> bool:
        """Compare the messages not compared yet. Return whether the peer answered to the end."""
        what = self._extent(state, peer)
        if seen.is_over(what):
            return True
        if await self._compare_rest(state, peer, seen):
            seen.what = what
            return True
        return False

    async def _compare_rest(self, state: SourceState, peer: plan.PeerView, seen: _Compared) -> bool:
        if not (state.held.ranges and peer.held):
            return True
        upto = plan.comparable_upto(own_view(self._engine.core.store, state), peer)
        if upto < seen.next_sequence:
            return True
        self._now = f"comparing {state.name} with {peer.store}"
        # Messages that either store let go are not compared.
        first = max(seen.next_sequence, state.held.retained_from, peer.retained_from)
        if first > seen.next_sequence:
            seen.divergent = seen.divergent.minus((Range(seen.next_sequence, first - 1),))
        if upto < first:
            return True
        wanted = Range(first, upto)
        async with self._ask(peer.address) as asked:
            try:
                found = await self._comparing.compare(state, peer, asked, wanted)
            except PeerFailed as failed:
                self._note_failed(state, failed.error)
                return False
        seen.divergent = seen.divergent.minus((wanted,)).union(found)
        # The last block may still grow, so it is compared again once it has.
        seen.next_sequence = upto + 1 - (upto + 1) % BLOCK
        return True

    def _extent(self, state: SourceState, peer: plan.PeerView) -> object:
        """Return what of a source could be compared with a peer now."""
        held = state.held
        upto = plan.comparable_upto(own_view(self._engine.core.store, state), peer)
        return upto, held.retained_from, held.ranges.count(), peer.retained_from, peer.held

    # Conflicts.

    def conflicts(self, state: SourceState) -> list[Conflict]:
        """Return the conflicts of this store in one source, by the latest answers of its peers."""
        case = self._cases.get(state.name)
        compared = {} if case is None else case.compared
        answers = self._neighbours.answers()
        if self._agree(state, compared, answers):
            return []
        peers = {store: seen.view for store, seen in compared.items()}
        for answer in answers:
            peers[answer.store] = view_of(answer, state.name)
        own = own_view(self._engine.core.store, state)
        divergent = {store: seen.divergent for store, seen in compared.items()}
        return conflicts(own, peers.values(), divergent, state.refused)

    @staticmethod
    def _agree(
        state: SourceState, compared: Mapping[str, _Compared], answers: Iterable[PeerAnswer]
    ) -> bool:
        """Return whether all peers and the source have what the store has, as most do."""
        name, lineage = state.name, state.lineage
        return (
            not state.refused
            and all(answer.knowledge(name).begun.lineage == lineage for answer in answers)
            and not any(
                seen.divergent or seen.view.begun.lineage != lineage for seen in compared.values()
            )
        )

    def _note_conflicts(self, state: SourceState, case: _Case) -> None:
        """Log new conflicts with other stores. The refusal of a source was logged at its time."""
        found = [each for each in self.conflicts(state) if each.other]
        if found == case.in_conflict:
            return
        case.in_conflict = found
        self._engine.news.note(state.name)
        for each in found:
            _log.error(
                "stores %s and %s hold other content for %s %s; nothing was overwritten. See "
                "`quorate status`, and say with `quorate conflict settle` which one is kept",
                self._engine.core.store,
                each.other,
                state.name,
                each.part,
            )

    async def settle(self, state: SourceState, keep: str, ranges: RangeSet) -> Change[int]:
        """Settle a conflict in favour of another store; see quorate.store.rules.conflicts.settle.

        The caller writes the change at once. Raises InvalidArgument, StorageFailed, CorruptBatch.
        """
        engine = self._engine
        own = engine.core.store
        views = await self._neighbours.views(state.name, fresh=True)
        kept = next((view for view in views if view.answered and view.store == keep), None)
        if kept is None or not kept.begun.epoch:
            detail = f"store {own} knows no store {keep} that answers and has {state.name}"
            raise InvalidArgument("keep", detail)
        if parted(own_view(own, state), kept) is not None:
            await engine.made_durable(state, fence(state, kept))
            await engine.settled(state)
        else:
            for part in ranges:
                await engine.settled_range(state, part.first, part.last)
        if engine.core.sources.get(state.name) is not state:
            raise InvalidArgument("source", f"{state.name} is being deleted")
        self.compare_anew(state)
        return settle(engine.reads, state, kept, parted(own_view(own, state), kept), ranges)

    def compare_anew(self, state: SourceState) -> None:
        """Repair a source at once, and compare it from the start."""
        self._cases.pop(state.name, None)
        self._agenda.owe((state.name,))

    # For operators.

    async def now(
        self, source: SourceName | None, thorough: bool
    ) -> AsyncGenerator[store_v1.RepairProgress, None]:
        """Repair one source, or all, and yield the progress. Each source's last has a verdict."""
        await self._adopt_all()
        core = self._engine.core
        names = [source] if source is not None else sorted(core.sources)
        for name in names:
            state = core.sources.get(name)
            if state is None:
                reason = self._engine.limbo_reason_without(name)
                yield store_v1.RepairProgress(
                    source=source_to_wire(name),
                    verdict=f"in limbo: {reason}" if reason else "does not know it",
                    complete=not reason,
                )
                continue
            async for progress in self._repair_now(state, thorough):
                yield progress

    async def _repair_now(
        self, state: SourceState, thorough: bool
    ) -> AsyncGenerator[store_v1.RepairProgress, None]:
        case = self._case(state)
        before = self.filler.taken[state.name], self.filler.bytes, self._scrub.messages

        def progress(verdict: str = "") -> store_v1.RepairProgress:
            divergent = RangeSet(each.part for each in self.conflicts(state)).count()
            in_limbo = bool(self._engine.core.limbo_of(state))
            return store_v1.RepairProgress(
                source=source_to_wire(state.name),
                filled_messages=self.filler.taken[state.name] - before[0],
                filled_bytes=self.filler.bytes - before[1],
                checked_messages=self._scrub.messages - before[2] if thorough else 0,
                lacking=case.lacking,
                divergent=divergent,
                verdict=verdict,
                complete=bool(verdict) and not (case.lacking or divergent or in_limbo),
            )

        task = asyncio.create_task(self._thoroughly(state, case, thorough))
        try:
            while not task.done():
                await asyncio.wait((task,), timeout=PROGRESS_SECONDS)
                if not task.done():
                    yield progress()
            yield progress(task.result())
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _thoroughly(self, state: SourceState, case: _Case, thorough: bool) -> str:
        """Repair and compare with fresh answers, and return the verdict, for people.

        thorough: read and check all held batches first.
        """
        if reason := self._engine.core.limbo_of(state):
            return f"in limbo: {reason}"
        async with self._turn:
            try:
                if thorough:
                    self._now = f"reading {state.name}"
                    self.pace.work()
                    await self._scrub.check(state, 0, self._at_repair_pace)
                await self._mend(state, case, fresh=True)
                silent: list[str] = []
                for peer in await self._neighbours.views(state.name, fresh=True):
                    if not peer.answered:
                        silent.append(peer.address)
                        continue
                    seen = case.with_peer(peer)
                    seen.next_sequence, seen.what = 0, None
                    seen.at = seen.all_at = self._clock()
                    if not await self._compare(state, peer, seen):
                        silent.append(peer.address)
                if state.unreadable:  # the comparison may have found it
                    await self._mend(state, case, fresh=True)
            finally:
                self.pace.worked()
                self._now = "idle"
        return self._verdict(state, case, silent)

    async def _at_repair_pace(self, size: int, seconds: float) -> None:
        del size, seconds  # the pace measures by itself
        self.pace.worked()
        await self.filler.rest()
        self.pace.work()

    def _verdict(self, state: SourceState, case: _Case, silent: list[str]) -> str:
        parts: list[str] = []
        if case.lacking:
            shown = ", ".join(map(str, case.complained[:_SHOWN_MAX]))
            parts.append(f"lacks {case.lacking:,} messages that no peer could give: {shown}")
        found: dict[str, list[Range]] = {}
        for each in self.conflicts(state):
            found.setdefault(each.other, []).append(each.part)
        for other, ranges in found.items():
            than = f"than store {other}" if other else "than the source, which it refused,"
            shown = ", ".join(map(str, ranges[:_SHOWN_MAX]))
            parts.append(f"has other content {than} for {shown}: `quorate conflict settle`")
        if lost := state.lost():
            parts.append(f"{lost.count():,} messages are lost, as an operator accepted")
        if silent:
            parts.append(f"did not answer: {', '.join(silent)}")
        whole = "whole" if state.takes_data else "keeps no messages of it (durability = state-only)"
        return "; ".join(parts) or whole

    def status(self) -> store_v1.RepairStatus:
        """Return the status of repair, for people."""
        compared = [case for case in self._cases.values() if case.compared]
        return store_v1.RepairStatus(
            messages=self.filler.taken.total(),
            bytes=self.filler.bytes,
            bytes_per_second=self.pace.bytes_per_second(),
            lacking=sum(case.lacking for case in self._cases.values()),
            compared=len(compared),
            divergent=sum(case.is_divergent for case in compared),
            now=self._now,
            scrub=self._scrub.status(),
        )


def _by_peer(errands: list[plan.Errand]) -> list[tuple[plan.PeerView, list[Range]]]:
    """Return the errands grouped by peer, in the order in which the peers first occur."""
    found: dict[str, tuple[plan.PeerView, list[Range]]] = {}
    for errand in errands:
        found.setdefault(errand.peer.address, (errand.peer, []))[1].append(errand.wanted)
    return list(found.values())


def _seen(state: SourceState, answers: Sequence[PeerAnswer]) -> object:
    """Return what repair acts on: it has nothing new to do for a source while this is the same."""
    held, name = state.held, state.name
    theirs = [
        (
            answer.incarnation,
            each.begun.epoch,
            each.begun.generation,
            each.stable_upto,
            each.retained_from,
            each.held,
        )
        for answer in answers
        if (each := answer.sources.get(name)) is not None
    ]
    own = (state.registration, held.next_sequence, held.ranges.count(), held.stable_upto)
    return (own, held.retained_from, state.live, state.unreadable, state.losses, theirs)
