"""What the simulated worlds are worth: every guard that is taken out must be missed.

A guard is taken out by patching the production code in the test; nothing in production knows of
it. A world then ends with a violation of what must hold, within a bounded number of seeds.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests import seams
from tests.simulation import store_upkeep
from tests.simulation.circumstances import (
    ALL_ACTIVE,
    EITHER,
    LAGGING,
    MOVED,
    SAFETY,
    SUCCESSION,
    THREE,
)
from tests.simulation.guards import Mutation, missed
from tests.simulation.network import End
from tests.simulation.source_actor import SourceInstance
from tests.simulation.store_writer import SimulatedWriter
from tests.simulation.weather import LASTING
from tests.world.patches_of_decisions import (
    a_stable_set_is_enough,
    hung_stores_are_waited_for,
    new_stores_are_believed_at_once,
    stores_count_before_they_begin,
)

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.attributes import Attributes
from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import StorageFailed
from quorate.protocol.framing import (
    BatchHeader,
    check_batch,
    encode_batch,
    read_header,
    read_messages,
)
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntragroupRule
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Decision
from quorate.receiver.protocol.consumed import Acknowledgements
from quorate.receiver.protocol.fetch_plan import (
    Answer,
    FetchPlan,
    ProvenGap,
)
from quorate.source.protocol.registration import (
    Grant,
    Registration,
)
from quorate.source.protocol.retention import Retention
from quorate.source.protocol.store_cursors import Streams
from quorate.store.rules import (
    retention,
)
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.lifetimes import (
    Lives,
    Who,
)
from quorate.store.rules.proxy import Gathering, Party
from quorate.store.rules.receivers import Receivers
from quorate.store.rules.repair_plan import OwnView
from quorate.store.rules.source_state import (
    AppendStream,
    SourceState,
)
from quorate.store.rules.stream import SourceStreams
from quorate.v1 import messages_pb2 as v1

_real_decide = seams.DECIDE_IN_SOURCE_REGISTRATION.real()
_real_begin = seams.STORE_CORE_BEGIN.real()
_real_promise = seams.STORE_CORE_PROMISE.real()
_real_again = seams.RESEND_PLAN_SENT_AGAIN.real()
_real_skip = seams.SOURCE_STREAMS_SKIP.real()
_real_register = seams.RECEIVERS_REGISTER.real()


def _promise_leaves_the_stream(to: pytest.MonkeyPatch) -> None:
    """A promise does not end the stream of the lower epoch."""
    seams.SOURCE_STATE_END_STREAM.replace(to, lambda *_: ())


def _begin_below_the_promise(to: pytest.MonkeyPatch) -> None:
    """A begin of a lower epoch than the promised one is taken."""

    def begin(self: StoreCore, source: Any, begin: BeginRecord, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and state.registration.begun.epoch < begin.epoch:
            state.registration = dataclasses.replace(
                state.registration, promised_epoch=begin.epoch, promised_to=instance
            )
        return _real_begin(self, source, begin, instance, *rest)

    seams.STORE_CORE_BEGIN.replace(to, begin)


def _same_promise_to_anyone(to: pytest.MonkeyPatch) -> None:
    """An epoch that was promised to one instance is promised to another, too."""

    def promise(self: StoreCore, source: Any, epoch: int, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and epoch == state.registration.promised_epoch:
            state.registration = dataclasses.replace(state.registration, promised_to=instance)
        return _real_promise(self, source, epoch, instance, *rest)

    seams.STORE_CORE_PROMISE.replace(to, promise)


def _promise_is_not_durable(to: pytest.MonkeyPatch) -> None:
    """A promise is answered without being written."""

    def promise(self: StoreCore, *arguments: Any) -> Any:
        change = _real_promise(self, *arguments)
        state = change.answer.state
        return dataclasses.replace(change, writes=() if state.held.ranges else change.writes)

    seams.STORE_CORE_PROMISE.replace(to, promise)


def _no_blocking_set(to: pytest.MonkeyPatch) -> None:
    """Whoever has answered by the end of the interval is enough to decide."""

    def decide(*arguments: Any) -> Any:
        with seams.POLICY_BLOCKS.replaced(lambda _, stores: bool(stores)):
            return _real_decide(*arguments)

    seams.DECIDE_IN_SOURCE_REGISTRATION.replace(to, decide)


def _no_floor(to: pytest.MonkeyPatch) -> None:
    """What may have been stable on silent stores does not count."""
    seams.RECOVERY_MAY_BE_STABLE_UPTO.replace(to, lambda *given: given[-1])


def _nothing_is_set_aside(to: pytest.MonkeyPatch) -> None:
    """A store keeps its tail when it takes a lineage over that does not have it."""
    seams.DIVERGES_AT_IN_ACCEPTOR.replace(to, lambda *_: SEQUENCE_MAX)


def _acknowledged_before_the_sync(to: pytest.MonkeyPatch) -> None:
    """A store acknowledges what is written and not synced."""

    async def commit(self: SimulatedWriter, commit: Any) -> None:
        if commit.writes:
            self._disk.write(commit.writes)
            self._process.later(self._disk.sync_seconds(), self._disk.sync_for_sure)

    to.setattr(SimulatedWriter, "_commit", commit)


def _gaps_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch that does not go on where the last one ended."""
    _lose_frames(to)

    def check_next(self: SourceStreams, stream: AppendStream, header: Any) -> None:
        self._check_open(stream)
        stream.expected = header.first

    seams.SOURCE_STREAMS_CHECK_NEXT.replace(to, check_next)


def _lose_frames(to: pytest.MonkeyPatch) -> None:
    """A transport that now and then loses a message in the middle of a stream."""
    real = End.transmit

    def transmit(self: End, arrive: Callable[[], None]) -> None:
        is_client = self.other is not None and self.other.process.name.startswith("store")
        world = self.process.world
        if is_client and self.process.name.startswith("source") and world.chooser.random() < 0.02:
            world.fault("message lost", self.process.name)
            return
        real(self, arrive)

    to.setattr(End, "transmit", transmit)


def _unstable_is_forgotten(to: pytest.MonkeyPatch) -> None:
    """The source lets go of what is not stable, and the stores take it for a hole."""

    def trim(self: Retention, *_: int) -> None:
        while len(self) > 3:
            self._frames.popleft()
            self.base += 1
        self._settled = max(self._settled, self.base)

    seams.SOURCE_RETENTION_TRIM.replace(to, trim)


def _unstable_is_acknowledged(to: pytest.MonkeyPatch) -> None:
    """A receiver acknowledges what is not stable."""

    def position(self: Acknowledgements, _: int) -> int | None:
        return self.consumed_upto()

    seams.ACKNOWLEDGEMENTS_POSITION.replace(to, position)


def _what_is_under_way_is_acknowledged(to: pytest.MonkeyPatch) -> None:
    """A receiver acknowledges a batch that its application is still at work on."""
    real = seams.RECEIVER_CURSOR_COUNT.real()
    seams.RECEIVER_CURSOR_COUNT.replace(to, lambda self, **_: real(self, last_is_done=True))


def _one_no_is_a_gap(to: pytest.MonkeyPatch) -> None:
    """A receiver gives up what one store lacks."""

    def gap(self: FetchPlan, _: float) -> ProvenGap | None:
        stream = self._stream
        if stream.behind:
            first = stream.next
            for peer in self._stores.values():
                if (upto := peer.refuses_upto(first)) >= first:
                    return ProvenGap(first, min(upto, stream.missing()[0].last), ())
        return None

    seams.FETCH_PLAN_GAP.replace(to, gap)
    to.setattr(store_upkeep, "REPAIR_SECONDS", 2.0)


def _not_yet_is_a_no(to: pytest.MonkeyPatch) -> None:
    """A store says that it does not have what it may yet get."""
    seams.STORE_FETCH_BEHIND.replace(to, lambda _, __, first, last: Range(first, last))


def _unreadable_is_absent(to: pytest.MonkeyPatch) -> None:
    """A store answers of a batch that it can not read that it does not have it."""
    real = seams.STORE_FETCH_PACK_LACKING.real()

    class Packing(AnswerPacking):
        def missing(self, part: Range, why: v1.Lookup, detail: str) -> None:
            absent = v1.LOOKUP_ABSENT if why == v1.LOOKUP_UNKNOWN else why
            super().missing(part, absent, detail)

    def pack_lacking(packing: AnswerPacking, *rest: Any) -> None:
        # What it lacks is said as it is: a store in limbo can not say.
        others: Any = SimpleNamespace(missing=partial(AnswerPacking.missing, packing))
        real(others, *rest)

    seams.ANSWER_PACKING_IN_STORE_FETCH.replace(to, Packing)
    seams.STORE_FETCH_PACK_LACKING.replace(to, pack_lacking)


def _unknown_is_a_no(to: pytest.MonkeyPatch) -> None:
    """A receiver takes it for a "no" that a store can not say."""
    answers = seams.RECEIVER_FETCH_ANSWERS
    answers.replace(to, {**answers.real(), v1.LOOKUP_UNKNOWN: Answer.ABSENT})


def _nothing_is_held_back(to: pytest.MonkeyPatch) -> None:
    """A receiver that wants what is stable is handed everything."""
    seams.RECEIVER_STREAM_LIMIT.replace(to, lambda _: SEQUENCE_MAX)


def _positions_are_made_up(to: pytest.MonkeyPatch) -> None:
    """A store says that a receiver has acknowledged everything."""

    def register(self: Receivers, *arguments: Any, **more: Any) -> Any:
        change = _real_register(self, *arguments, **more)
        high = change.answer.high
        answer = dataclasses.replace(change.answer, acknowledged_upto=high)
        return dataclasses.replace(change, answer=answer)

    seams.RECEIVERS_REGISTER.replace(to, register)


def _set_aside_counts_as_held(to: pytest.MonkeyPatch) -> None:
    """What was set aside still counts as held."""
    real = seams.ACCEPTOR_SET_ASIDE.real()

    def set_aside(reads: Any, state: Any, parts: Any) -> Any:
        before = RangeSet(state.held.ranges)
        answer = real(reads, state, parts)
        state.held.ranges = before
        return answer

    seams.ACCEPTOR_SET_ASIDE.replace(to, set_aside)


def _old_epochs_are_sent(to: pytest.MonkeyPatch) -> None:
    """A source that sends again what it has as it was, of its old epoch."""

    def again(_: int, kept_upto: int, unstable: Sequence[bytes]) -> Any:
        for own in unstable:
            epoch = read_header(own).epoch
            yield from _real_again(epoch, kept_upto, [own])

    seams.RESEND_PLAN_SENT_AGAIN.replace(to, again)


def _retries_get_new_numbers(to: pytest.MonkeyPatch) -> None:
    """A source sends again what it has as if it were new, whatever the stores have kept."""

    def again(epoch: int, kept_upto: int, unstable: Iterable[bytes]) -> Any:
        for own in unstable:
            header = check_batch(own)
            first, messages = kept_upto + 1, read_messages(own, header)
            kept_upto += len(messages[0])
            batch = _encoded(header, epoch, first, *messages)
            yield first, kept_upto, batch

    seams.RESEND_PLAN_SENT_AGAIN.replace(to, again)


def _stores_take_any_epoch(to: pytest.MonkeyPatch) -> None:
    """A store takes a batch of an epoch that its lineage does not name."""
    _old_epochs_are_sent(to)
    real = seams.SOURCE_STREAMS_APPEND.real()

    def append(self: SourceStreams, stream: AppendStream, frame: bytes, stable_upto: int) -> Any:
        epoch, stream.epoch = stream.epoch, read_header(frame).epoch
        try:
            return real(self, stream, frame, stable_upto)
        finally:
            stream.epoch = epoch

    seams.SOURCE_STREAMS_APPEND.replace(to, append)
    seams.STORE_STREAM_CHECK_BELONGS.replace(to, lambda *_: None)


def _numbers_are_used_twice(to: pytest.MonkeyPatch) -> None:
    """A source that sends a store what it has already, with other content."""
    real_opened, real_frame = (
        seams.STORE_CURSORS_OPENED.real(),
        seams.STORE_CURSORS_NEXT_FRAME.real(),
    )
    held: dict[tuple[int, str], int] = {}

    def opened(self: Streams, store: str, next_sequence: int, *rest: Any) -> Any:
        held[id(self), store] = next_sequence
        return real_opened(self, store, min(next_sequence, rest[-1].first), *rest)

    def next_frame(self: Streams, store: str, *rest: Any) -> Any:
        frame = real_frame(self, store, *rest)
        if frame is None or self.cursors[store].next_sequence > held[id(self), store]:
            return frame
        return _other_content(frame)

    seams.STORE_CURSORS_OPENED.replace(to, opened)
    seams.STORE_CURSORS_NEXT_FRAME.replace(to, next_frame)


def _encoded(
    header: BatchHeader,
    epoch: int,
    first: int,
    payloads: Sequence[bytes],
    attributes: Sequence[Attributes] | None,
) -> bytes:
    """Another batch that was made at the same time."""
    made = header.timestamp_ns
    return encode_batch(header.source, epoch, first, payloads, made, b"", attributes or ())


def _other_content(frame: bytes) -> bytes:
    parsed = v1.Frame.FromString(frame)
    if parsed.WhichOneof("kind") != "batch":
        return frame
    header = check_batch(parsed.batch)
    payloads, attributes = read_messages(parsed.batch, header)
    reversed_ = [payload[::-1] for payload in payloads]
    parsed.batch = _encoded(header, header.epoch, header.first, reversed_, attributes)
    return parsed.SerializeToString()


def _skips_of_unstable_are_taken(to: pytest.MonkeyPatch) -> None:
    """A store lets a source skip what is not stable."""
    _unstable_is_forgotten(to)

    def skip(self: SourceStreams, stream: AppendStream, first: int, last: int) -> Any:
        stream.state.held.stable_upto = max(stream.state.held.stable_upto, last)
        return _real_skip(self, stream, first, last)

    seams.SOURCE_STREAMS_SKIP.replace(to, skip)


# Limbo, and stores that are not to be believed.


def _limbo_is_a_no(to: pytest.MonkeyPatch) -> None:
    """What a store in limbo lacks counts as if it had never been there."""
    real = seams.SOURCE_REGISTRATION_PROMISED.real()

    def promised(self: Registration, store: str, epoch: int, grant: Grant) -> Any:
        promise = dataclasses.replace(grant.promise, limbo=False)
        return real(self, store, epoch, dataclasses.replace(grant, promise=promise))

    seams.SOURCE_REGISTRATION_PROMISED.replace(to, promised)


def _limbo_ends_at_what_is_known_stable(to: pytest.MonkeyPatch) -> None:
    """A store leaves limbo with what others were told is stable, not with what may be stable."""
    real = seams.READMISSION_RULES_LACKING.real()

    def lacking(decision: Decision, me: str) -> Any:
        wanted = real(decision, me)
        wanted.remove(decision.stable_upto + 1, SEQUENCE_MAX)
        return wanted

    seams.READMISSION_RULES_LACKING.replace(to, lacking)


def _copies_are_not_told(to: pytest.MonkeyPatch) -> None:
    """G4: a store whose disk was put back goes on with what it finds."""
    seams.STANDING_CHECK_REMEMBERED.replace(to, lambda *_: "")


def _stores_serve_before_they_ask(to: pytest.MonkeyPatch) -> None:
    """A store that starts vouches for what it finds until a peer contradicts it."""
    seams.STANDING_BEGIN_CHECK.replace(to, lambda *_: None)


def _reboots_go_unnoticed(to: pytest.MonkeyPatch) -> None:
    """A store that did not sync goes on after its host went down as if it had everything."""
    seams.RUN_MAY_HAVE_LOST.replace(to, lambda *_: False)


def _the_clock_decides_alone(to: pytest.MonkeyPatch) -> None:
    """What is overdue by the time of day is deleted at once when a store starts."""

    def overdue(self: Lives, who: Who) -> bool:
        return self.marked(who)

    seams.LIVES_OVERDUE.replace(to, overdue)


def _greetings_hide_what_was_known(to: pytest.MonkeyPatch) -> None:
    """A peer forgets what a store was when that greets with less."""
    seams.WAS_PUT_BACK.replace(to, lambda *_: False)


def _one_copy_is_enough_for_a_proxy(to: pytest.MonkeyPatch) -> None:
    """A proxy takes for stable what one store alone has."""

    def look(_: Gathering, now: float, among: Sequence[Party]) -> int:  # noqa: ARG001
        told = max(party.stable_upto for party in among)
        return max(party.held.contiguous_upto(told + 1) for party in among)

    seams.GATHERING_LOOK.replace(to, look)


def _failed_syncs_are_tried_again(to: pytest.MonkeyPatch) -> None:
    """A store goes on after a failed sync."""
    real = SimulatedWriter._commit

    async def commit(self: SimulatedWriter, commit: Any) -> None:
        with contextlib.suppress(StorageFailed):
            await real(self, commit)

    to.setattr(SimulatedWriter, "_commit", commit)


def _nobody_repairs(to: pytest.MonkeyPatch) -> None:
    """What a store missed is made up for by nobody."""
    seams.REPAIR_PLAN_LACKING.replace(to, lambda *_: RangeSet())


def _repair_waits_for_a_pause(to: pytest.MonkeyPatch) -> None:
    """A store to which a source streams puts off what it missed until the source has left."""
    real = seams.REPAIR_PLAN_LACKING.real()

    def lacking(own: OwnView, stable: int) -> RangeSet:
        return RangeSet() if own.live else real(own, stable)

    seams.REPAIR_PLAN_LACKING.replace(to, lacking)


def _what_was_let_go_is_missed(to: pytest.MonkeyPatch) -> None:
    """A decision wants also what stores have let go on purpose."""
    seams.RECOVERY_RELEASED_BELOW.replace(to, lambda *_: 0)


def _what_is_unstable_is_let_go(to: pytest.MonkeyPatch) -> None:
    """A store lets go of what it has, and says that it was stable."""

    def limit(state: SourceState, *_: Any) -> retention.Limit:
        state.held.stable_upto = state.held.next_sequence - 1
        return retention.Limit(state.held.stable_upto, "")

    seams.RETENTION_RULES_LIMIT.replace(to, limit)


def _repair_follows_the_open_tail(to: pytest.MonkeyPatch) -> None:
    """Repair takes for stable whatever a peer holds."""

    def stable_upto(own: Any, peers: Any) -> int:
        ends = [item.last for peer in peers for item in peer.held]
        return int(max((own.stable_upto, *ends)))

    seams.REPAIR_PLAN_STABLE_UPTO.replace(to, stable_upto)


def _active_stores_are_enough(to: pytest.MonkeyPatch) -> None:
    """`all-active` asks for those that are active, however few."""
    real = seams.GROUP_HOLDS.real()

    def holds(self: Group, holders: Any, active: Any) -> Any:
        if self.rule is IntragroupRule.ALL_ACTIVE and active:
            return all(store in holders for store in self.stores if store in active)
        return real(self, holders, active)

    seams.GROUP_HOLDS.replace(to, holds)


# Changing the stores.


def _only_the_new_stores_count(to: pytest.MonkeyPatch) -> None:
    """A begin record does not say where it came from."""
    seams.MEMBERSHIP_POLICIES.replace(to, property(lambda self: self.to_policies))
    real = seams.SOURCE_REGISTRATION_ADOPT.real()

    def adopt(self: Registration, decision: Decision, now: float) -> None:
        real(self, decision, now)
        self.membership = dataclasses.replace(
            self.membership, from_policies=(self._policy,), to_policies=(self._policy,)
        )

    seams.SOURCE_REGISTRATION_ADOPT.replace(to, adopt)


def _predecessors_are_not_named(to: pytest.MonkeyPatch) -> None:
    """A new configuration does not know those before it."""
    real = SourceInstance.__init__

    def init(self: SourceInstance, *arguments: Any, **named: Any) -> None:
        named["previous"] = ()
        real(self, *arguments, **named)

    to.setattr(SourceInstance, "__init__", init)
    seams.SOURCE_REGISTRATION_MAY_GO_ON.replace(to, lambda *_: True)


# For which messages an epoch is in force.


def _begun_epochs_add_up(to: pytest.MonkeyPatch) -> None:
    """A store takes for its lineage all epochs that it has begun, besides those that it is told: so
    what a minority has begun voids what was kept by those who never heard of it."""
    real = seams.STORE_CORE_FOLLOW.real()

    def follow(self: StoreCore, state: Any, record: Any, begin: BeginRecord) -> Any:
        terms: list[Term] = []
        both = {*state.lineage.terms, *begin.lineage.terms}
        for term in sorted(both, key=lambda term: term.epoch):
            while terms and terms[-1].first >= term.first:
                terms.pop()
            terms.append(term)
        added_up = dataclasses.replace(begin, lineage=Lineage(tuple(terms)))
        return real(self, state, record, added_up)

    seams.STORE_CORE_FOLLOW.replace(to, follow)


MUTATIONS = (
    Mutation(_begun_epochs_add_up, SUCCESSION, SAFETY, seeds=300),
    Mutation(stores_count_before_they_begin, SUCCESSION, ("I1",), seeds=300),
    Mutation(_promise_leaves_the_stream, {"kinds": ("pause_source",), "outlives": False}),
    Mutation(_begin_below_the_promise, {}, ("I5",), 80),
    Mutation(_same_promise_to_anyone),
    Mutation(
        _promise_is_not_durable,
        {"kinds": ("pause_source", "crash_store", "crash_store"), "outlives": False, **THREE},
        ("I5",),
        40,
    ),
    Mutation(_no_blocking_set, {"kinds": ("fail_sync", "pause_source", "crash_stores"), **THREE}),
    Mutation(
        _retries_get_new_numbers, {"kinds": ("strand_source", "crash_source"), "outlives": True}
    ),
    Mutation(
        _greetings_hide_what_was_known,
        {
            "kinds": ("put_back_in_need", "copy_disk", "crash_store", "copy_disk"),
            **LAGGING,
            "pause_between_faults": 0.15,
            "failure_rate": 0.15,
        },
        ("I1",),
    ),
    Mutation(_one_copy_is_enough_for_a_proxy, {"proxies": True, "kinds": ("strand_source",)}),
    Mutation(_no_floor, {"kinds": ("strand_source", "pause_store"), **LAGGING}),
    Mutation(_nothing_is_set_aside, {"kinds": ("strand_source",)}),
    Mutation(_acknowledged_before_the_sync),
    Mutation(_gaps_are_taken),
    Mutation(_unstable_is_forgotten),
    Mutation(_unstable_is_acknowledged, {"kinds": ("strand_source", "crash_receiver")}),
    Mutation(_what_is_under_way_is_acknowledged, rules=("I4",)),
    Mutation(
        _one_no_is_a_gap,
        {"kinds": ("leave_behind", "crash_receiver"), "pause_between_sends": 0.03, **THREE},
    ),
    Mutation(_not_yet_is_a_no, {"kinds": ("pause_source", "pause_receiver"), **THREE}, ("I3",)),
    # Only where no store has a good copy any more: one that has it makes up for every false "no".
    Mutation(
        _unreadable_is_absent, {"kinds": ("lose_batch", "crash_receiver"), **THREE}, ("I3",), 20
    ),
    Mutation(_unknown_is_a_no, {"kinds": ("lose_batch", "crash_receiver"), **THREE}, ("I3",), 20),
    Mutation(_nothing_is_held_back),
    Mutation(_positions_are_made_up),
    Mutation(
        _set_aside_counts_as_held,
        {"kinds": ("rotate",), **THREE, "pause_between_faults": 0.4},
    ),
    Mutation(
        _stores_take_any_epoch,
        {
            "outlives": True,
            "honest": False,
            "faulty_seconds": 2.0,
            "complete_seconds": 3.0,
            "kinds": ("crash_source",),
            **THREE,
        },
        ("I3",),
    ),
    Mutation(
        _limbo_ends_at_what_is_known_stable, {"kinds": ("wipe_store", "crash_source"), **THREE}
    ),
    Mutation(_failed_syncs_are_tried_again, {"kinds": ("fail_sync", "crash_stores")}),
    Mutation(_nobody_repairs, {"kinds": ("leave_behind",), "complete_seconds": 10.0}),
    Mutation(
        _repair_waits_for_a_pause,
        {
            "kinds": ("lag_store", "lag_store", "crash_source"),
            "pause_between_sends": 0.03,
            "complete_seconds": 8.0,
            **THREE,
        },
        ("I6",),
        20,
    ),
    Mutation(_what_was_let_go_is_missed, {"kinds": ("crash_source",), "lets_go": True}, ("I6",)),
    Mutation(_what_is_unstable_is_let_go, {"kinds": ("strand_source",), "lets_go": True}, SAFETY),
    Mutation(_repair_follows_the_open_tail, {"kinds": ("strand_source", "partition")}),
    Mutation(_active_stores_are_enough, {"kinds": ("partition",), "setups": ALL_ACTIVE}),
    Mutation(
        a_stable_set_is_enough,
        {
            "kinds": ("pause_store", "pause_store", "crash_store", "crash_source"),
            "setups": EITHER,
            "pause_between_faults": 0.06,
            "faulty_seconds": 6.0,
        },
        ("I1",),
        100,
    ),
    Mutation(
        hung_stores_are_waited_for,
        {"kinds": ("hang_store", "pause_store", "crash_source"), **THREE},
        ("I6",),
        20,
    ),
    Mutation(_only_the_new_stores_count, {"kinds": ("crash_source", "partition"), "setups": MOVED}),
    Mutation(_predecessors_are_not_named, {"kinds": ("crash_source",), "setups": MOVED}),
    Mutation(
        new_stores_are_believed_at_once,
        {
            "kinds": ("retire_stores", "retire_stores", "crash_source", "leave_behind"),
            "setups": MOVED,
            "pause_between_faults": 0.06,
        },
        ("I1",),
        40,
    ),
    Mutation(_limbo_is_a_no, {"kinds": ("wipe_in_need",), **LAGGING}),
    Mutation(
        _copies_are_not_told,
        {
            "kinds": ("put_back_in_need", "copy_disk", "crash_store", "copy_disk"),
            **LAGGING,
            "pause_between_faults": 0.15,
        },
    ),
    Mutation(
        _stores_serve_before_they_ask,
        {
            "kinds": ("put_back_in_need", "copy_disk", "crash_store", "copy_disk"),
            **LAGGING,
            "pause_between_faults": 0.15,
        },
    ),
    Mutation(
        _reboots_go_unnoticed,
        {
            "kinds": ("reboot_in_need",),
            **LAGGING,
            "cached": ("store1", "store2", "store3"),
        },
    ),
    Mutation(
        _the_clock_decides_alone,
        {"kinds": ("jump_clock", "crash_source"), "mortality": LASTING[1], **THREE},
    ),
    Mutation(_skips_of_unstable_are_taken, {"kinds": ("leave_behind", "crash_store")}, ("I1",)),
)


@pytest.mark.big
@pytest.mark.timeout(600)  # Some guards are missed by one world in hundreds.
@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed(mutation, monkeypatch)
