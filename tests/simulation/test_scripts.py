"""Guards that chance finds missing too seldom: for each the shortest way to what it is there for.

A scripted world goes that way with the guard and without it: with it everything holds, without it
something is violated. In every script the first message is stable on all stores; A, B and C are
store1, store2 and store3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from tests import seams
from tests.simulation.endings import AGES, VOTE_SECONDS, Mortality
from tests.simulation.guards import Guard
from tests.simulation.receiver_actor import ReceiverInstance
from tests.simulation.rules import Party, Setup, majority_of
from tests.simulation.script import LOOK_SECONDS, Script, play

from quorate.protocol.begin import BeginRecord
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Decision
from quorate.receiver.protocol.stream import Stream
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import (
    Grant,
    OwnKnowledge,
    Phase,
    Registration,
)
from quorate.store.engine import Engine
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.rules.repair_plan import (
    OwnView,
    PeerView,
)
from quorate.store.rules.source_state import (
    Change,
    SourceState,
)

A, B, C = "store1", "store2", "store3"
ALL = (A, B, C)
D, E = "store4", "store5"
FIVE = majority_of((*ALL, D, E))
EITHER = Setup((Party("here", ALL), Party("there", (D, E))), "any")
BACKED = Setup((Party("stores", ALL, backups=(D,)),))
OLD = majority_of(ALL)
NEW = majority_of(["store4", "store5", "store6"])
KEPT_SECONDS = 2.0
MORTAL = Mortality(Lifetimes(0.0, KEPT_SECONDS * AGES))


def _begin(script: Script) -> None:
    """The first source sends a message that all stores have."""
    script.until_complete()
    assert script.send(*ALL) == 0
    script.until(lambda: script.source.core.stable_upto == 0)


# Only stores that have begun count towards stability.


def _stores_count_before_they_begin(to: pytest.MonkeyPatch) -> None:
    """What a store said in its promise counts towards stability before it has begun."""
    real = seams.SOURCE_CORE_BEGIN.real()

    def begin(self: SourceCore, decision: Decision) -> None:
        real(self, decision)
        for store, held in decision.holders.items():
            self.tracker.join(store)
            self.tracker.acknowledge(store, held.contiguous_upto(self.stable_upto + 1))

    seams.SOURCE_CORE_BEGIN.replace(to, begin)


def _an_older_epoch_begins_late(script: Script) -> None:
    """B alone has 1 of epoch 1. Epoch 2, of A and C, voids it, but its begin is on its way. A is
    wiped, and fetches 1 from B. So epoch 3, of A and B, finds it on two stores. It ends before
    anybody begins it, C begins epoch 2, and epoch 4, of A and C, goes on from there."""
    _begin(script)
    script.cut("source1", A, C)
    assert script.send(B) == 1
    script.source.kill()
    second = script.start_source(B)
    begin_at_c: list[Callable[[], None]] = []

    def hold_begins() -> None:
        script.mute("source2", A)
        begin_at_c.append(script.mute("source2", C))

    script.until_decided(second, hold_begins)
    script.run(0.01)
    second.kill()
    script.wipe(A)
    script.until(lambda: script.knows(A) and not script.state(A).limbo)
    assert script.has(A, 1)
    third = script.start_source(C)
    script.until_decided(third, lambda: script.cut("source3", A, B))
    third.kill()
    begin_at_c[0]()
    script.until(lambda: script.begun(C) == 2)
    script.start_source(B)
    script.until_complete()
    assert script.source.core.registration.lineage.epoch_at(1) == 4


# What is void by the lineage is held by nobody.


def _void_batches_are_kept(to: pytest.MonkeyPatch) -> None:
    """A recovery counts what a store holds, of whatever epoch."""

    def belonging(_: Lineage, held: Iterable[HeldRange]) -> RangeSet:
        return RangeSet(Range(item.first, item.last) for item in held)

    seams.LINEAGE_BELONGING.replace(to, belonging)


def _void_under_the_same_number(script: Script) -> None:
    """B alone has 1 of epoch 1, C alone has another 1, of epoch 2; epoch 3 is of B and C."""
    _begin(script)
    script.cut("source1", A, C)
    assert script.send(B) == 1
    script.source.kill()
    script.cut(B, A, C)
    script.start_source(B)
    script.until_complete()
    script.cut("source2", A)
    assert script.send(C) == 1
    script.source.kill()
    script.start_source(A)
    script.until_complete()


# An answer counts for the epoch that was asked for.


def _old_answers_count(to: pytest.MonkeyPatch) -> None:
    """A late answer to a request of an older epoch counts for the present one."""
    real_promised, real_begun = (
        seams.SOURCE_REGISTRATION_PROMISED.real(),
        seams.SOURCE_REGISTRATION_BEGUN.real(),
    )

    def promised(self: Registration, store: str, _: int, grant: Grant) -> Any:
        return real_promised(self, store, self.epoch, grant)

    def begun(self: Registration, store: str, _: int, *rest: Any) -> Any:
        return real_begun(self, store, self.epoch, *rest)

    seams.SOURCE_REGISTRATION_PROMISED.replace(to, promised)
    seams.SOURCE_REGISTRATION_BEGUN.replace(to, begun)


def _a_promise_is_heard_late(script: Script) -> None:
    """A promises epoch 2 to the second source, which does not hear so. The third begins epoch 3 on
    A and C, where 1 becomes stable, and B has promised it. Then the second is refused by B, goes on
    to epoch 4, and hears what A said of epoch 2, before there was a 1."""
    _begin(script)
    script.source.kill()
    script.cut(B, A, C)
    script.mute("source2", C)
    ask_b = script.mute("source2", B)
    second = script.start_source()
    script.until(lambda: script.promised(A) == 2)
    hear_a = script.mute(A, "source2")
    third = script.start_source()
    script.until_decided(third, lambda: script.cut("source3", B))
    script.until_complete()
    assert script.send_stable() == 1
    third.kill()
    script.mute("source2", A)
    ask_b()
    script.until(lambda: second.core.epoch == 4)
    hear_a()
    script.run(LOOK_SECONDS)
    assert second.core.registration.phase is Phase.PROMISING
    second.kill()
    script.start_source()
    script.until_complete()


# The old stores are let go when the new ones have everything.


def _new_stores_are_believed_at_once(to: pytest.MonkeyPatch) -> None:
    """The old stores are let go before the new ones have what was stable on them."""
    seams.BRINGING_UP_READY.replace(to, lambda *_: True)


def _old_stores_are_switched_off(script: Script) -> None:
    """The source moves to other stores, which for a while do not reach the old ones. Once it says
    that it has moved the old ones are switched off."""
    script.source.kill()
    script.sources.change_setup(0)
    script.start_source()
    _begin(script)
    for _ in range(3):
        script.send_stable()
    script.source.kill()
    ways = [script.cut(store, *OLD.stores) for store in NEW.stores]
    script.sources.change_setup(1)
    source = script.start_source()
    script.until_complete()
    script.run(1.0)
    for free in ways:
        free()
    registration = source.core.registration
    script.until(lambda: registration.final and registration.phase is Phase.STREAMING)
    script.until_complete()
    for store in OLD.stores:
        script.stores[store].crash()
    script.until(script.all_done, LOOK_SECONDS)


def _what_was_let_go_is_not_brought_up(to: pytest.MonkeyPatch) -> None:
    """Of what the old stores let go the new ones need not know."""
    seams.CATCH_UP_LOOK_KNOWN.replace(to, lambda _, held: held)


def _switched_off_after_they_let_go(script: Script) -> None:
    """The same, but that the old stores have let go of what is stable. The source has the rest, and
    another one comes when they are switched off."""
    script.source.kill()
    script.sources.change_setup(0)
    script.start_source()
    _begin(script)
    assert script.send_stable() == 1
    script.until(lambda: all(script.state(store).held.stable_upto == 1 for store in OLD.stores))
    for store in OLD.stores:
        script.mute(store, script.source.process.name)
    assert script.send(*OLD.stores) == 2
    script.source.kill()
    for store in OLD.stores:
        script.let_go(store)
    ways = [script.cut(store, *OLD.stores) for store in NEW.stores]
    script.sources.change_setup(1)
    source = script.start_source()
    script.until_complete()
    script.run(1.0)
    registration = source.core.registration
    if not registration.final:
        for free in ways:
            free()
    script.until(lambda: registration.final and registration.phase is Phase.STREAMING)
    script.until_complete()
    source.kill()
    for store in OLD.stores:
        script.stores[store].crash()
    script.start_source()
    script.until_complete()


# A lineage travels whole.


def _lineages_are_lists_of_begins(to: pytest.MonkeyPatch) -> None:
    """A store adds an epoch to those that it has begun, whatever lineage comes with it."""
    real = seams.STORE_CORE_FOLLOW.real()

    def follow(self: StoreCore, state: Any, record: Any, begin: BeginRecord) -> Any:
        last = begin.lineage.terms[-1]
        before = [term for term in state.lineage.terms if term.first < last.first]
        return real(self, state, record, replace(begin, lineage=Lineage((*before, last))))

    seams.STORE_CORE_FOLLOW.replace(to, follow)


def _a_minority_began_in_between(script: Script) -> None:
    """B alone has 1 of epoch 1. Epoch 2, from 1 on, is begun by A alone. Epoch 3, of B and C, has
    not heard of it: it keeps 1, which becomes stable. A takes epoch 3 over from the others, and is
    asked first when epoch 4, of A and C, is decided."""
    _begin(script)
    script.cut("source1", A, C)
    assert script.send(B) == 1
    script.source.kill()
    second = script.start_source(B)
    script.until_decided(second, lambda: script.cut("source2", C))
    script.until(lambda: script.begun(A) == 2)
    second.kill()
    alone = script.cut(A, B, C)
    third = script.start_source(A)
    script.until(lambda: third.core.stable_upto == 1)
    third.kill()
    alone()
    script.until(lambda: script.begun(A) == 3)
    hear_c = script.mute(C, "source4")
    fourth = script.start_source(B)
    script.until(lambda: fourth.core.registration.grant(A))
    hear_c()
    script.until_complete()


# What was answered is durable.


def _answers_before_the_commit(to: pytest.MonkeyPatch) -> None:
    """A store answers what is not durable yet."""

    async def made_durable(self: Engine, state: Any, change: Change[Any]) -> Any:
        self.end_streams(change)
        self.submit(state, change.writes)
        return change.answer

    seams.STORE_ENGINE_MADE_DURABLE.replace(to, made_durable)


def _a_promise_is_lost_in_a_crash(script: Script) -> None:
    """A promises epoch 2, and crashes before that is written; the source of epoch 1 goes on."""
    _begin(script)
    first = script.source
    second = script.start_source(B, C)
    script.until(lambda: script.promised(A) == 2)
    script.stores[A].crash()
    second.kill()
    script.stores[A].start()
    script.run(LOOK_SECONDS)
    first.send()
    script.run(LOOK_SECONDS)
    first.kill()
    script.start_source()
    script.until_complete()


def _others_promises_are_taken_back_too(to: pytest.MonkeyPatch) -> None:
    """Who takes a promise back makes the store forget what it promised before."""

    def may_matter(state: SourceState) -> bool:
        return bool(state.registration.begun.epoch or state.held.ranges or state.limbo)

    seams.STORE_DEREGISTRATION_MAY_MATTER.replace(to, may_matter)


def _taken_back_when_a_minority_has_begun(script: Script) -> None:
    """C alone has begun epoch 3, which A and B have promised, too. The next source reaches only
    these, gives up, and takes their promises back. The stream begins on A, B and D, of which the
    last promised epoch 1 to the first; then C is back."""
    alone = script.cut(C, A, B, D, E)
    script.until(lambda: all(map(script.knows, ALL)))
    script.source.kill()
    second = script.start_source(D, E)
    script.until(lambda: all(script.promised(each) == 2 for each in ALL))
    second.kill()
    third = script.start_source(D, E)
    script.until_decided(third, lambda: script.cut(third.process.name, A, B))
    script.until(lambda: script.begun(C) == 3)
    third.kill()
    fourth = script.start_source(C, D, E)
    script.until(lambda: all(map(fourth.core.registration.grant, (A, B))))
    fourth.give_up()
    script.run(LOOK_SECONDS)
    fourth.kill()
    fifth = script.start_source(C, E)
    script.until_complete()
    assert script.send_stable() == 0
    fifth.kill()
    alone()
    script.start_source(A, E)
    script.until_complete()


# What can not be read says nothing.


def _unreadable_is_a_no(to: pytest.MonkeyPatch) -> None:
    """A store vouches though it can not read what it had."""
    seams.STORE_CORE_DOUBT_OF.replace(to, StoreCore.limbo_of)


def _only_copy_left_turns(script: Script) -> None:
    """1 is stable on A and B, of which nobody was told; A is away, and B can not read it."""
    _begin(script)
    script.cut("source1", C)
    assert script.send_stable() == 1
    script.source.kill()
    assert script.state(B).held.stable_upto == 0
    script.cut(A, B, C)
    script.flip(B)
    script.until(lambda: script.state(B).unreadable)
    script.start_source(A)
    script.run(1.0)
    assert script.source.core.registration.phase is Phase.PROMISING


# Quorums of several groups need not meet.


def _who_stood_back_learns_nothing(to: pytest.MonkeyPatch) -> None:
    """One that a backup stands in for takes no begin over from its peers."""

    def names(peer: PeerView, own: OwnView) -> bool:
        policies = peer.begun.policies
        return any(own.store in policy.stores for policy in policies)

    seams.REPAIR_PLAN_NAMES.replace(to, names)


def _stands_back_with_a_tail_that_turned(script: Script) -> None:
    """C alone has 1, and can not read it any more. It hears nobody while the next source begins
    without 1, and a backup stands in."""
    _begin(script)
    script.cut("source1", A, B)
    assert script.send(C) == 1
    script.source.kill()
    script.cut(C, A, B, D)
    script.flip(C)
    script.until(lambda: script.state(C).unreadable)
    script.start_source()
    script.until(lambda: script.world.reached["backup steps in"])
    assert script.send_stable() == 1
    script.network.heal()
    script.until(lambda: script.begun(C) > 1)


def _a_stable_set_is_enough(to: pytest.MonkeyPatch) -> None:
    """A decision needs no more stores than a message does."""
    real = seams.DECIDE_IN_SOURCE_REGISTRATION.real()

    def decide(*arguments: Any) -> Any:
        with seams.POLICY_BLOCKS.replaced(Policy.stable):
            return real(*arguments)

    seams.DECIDE_IN_SOURCE_REGISTRATION.replace(to, decide)


def _the_other_group_has_it(script: Script) -> None:
    """One group alone has 1, which is stable. The next source reaches only the other group."""
    script.until_complete()
    assert script.send_stable() == 0
    script.cut("source1", *ALL)
    assert script.send_stable() == 1
    script.source.kill()
    script.start_source(D, E)
    script.run(1.0)


# A hung store.


def _hung_stores_are_waited_for(to: pytest.MonkeyPatch) -> None:
    """A source registers when all have answered, however long that takes."""
    real = seams.SOURCE_REGISTRATION_DECIDE.real()

    def decide(self: Registration, _: float, own: OwnKnowledge) -> Any:
        return real(self, self._started_at, own)

    seams.SOURCE_REGISTRATION_DECIDE.replace(to, decide)


def _one_store_hangs(script: Script) -> None:
    """C takes calls, and answers none; the others are enough."""
    _begin(script)
    script.source.kill()
    script.stores[C].process.pause()
    script.start_source()
    script.until_complete()


# Receivers.


def _withdrawn_stays_consumed(to: pytest.MonkeyPatch) -> None:
    """A receiver goes on counting from what was withdrawn."""
    seams.ACKNOWLEDGEMENTS_WITHDRAW.replace(to, lambda *_: None)


def _consumed_and_withdrawn(script: Script) -> None:
    """A receiver has consumed 1 of epoch 1, which is withdrawn. It hears that 1 is stable, in epoch
    2, before it has the message."""
    receiver = script.receiver(1)
    _begin(script)
    script.until_handed(receiver, 0)
    script.run(LOOK_SECONDS)
    script.cut("source1", *ALL)
    assert script.send() == 1
    script.until(lambda: receiver.acknowledgements.consumed_upto() == 1)
    script.source.kill()
    _hears_only_that_it_is_stable(script, receiver)
    script.run(LOOK_SECONDS)


def _hears_only_that_it_is_stable(script: Script, receiver: ReceiverInstance, *away: str) -> None:
    """1 of epoch 2 is sent, not to those stores; the receiver knows that it is stable, and no
    more. Of the stores only those are heard by it from then on."""
    name = receiver.name
    second = script.start_source(*away)
    script.until_complete()
    script.until(lambda: receiver.stream.lineage.epoch == 2)
    hear = script.mute("source2", name)
    for store in ALL:
        if store not in away:
            script.mute(store, name)
    assert script.send_stable() == 1
    script.network.reset("source2", name)
    script.until(lambda: not receiver.plan.attached)
    hear()
    script.until(lambda: receiver.plan.attached)
    script.mute(second.process.name, name)
    assert receiver.stream.stable_upto == 1


def _receivers_take_void_batches(to: pytest.MonkeyPatch) -> None:
    """A receiver takes batches of epochs that the lineage does not name for their numbers."""

    def valid(_: Stream, __: Any, first: int, last: int) -> Range | None:
        return Range(first, last) if first <= last else None

    seams.RECEIVER_STREAM_VALID.replace(to, valid)


def _a_store_gives_what_is_void(script: Script) -> None:
    """B alone has 1 of epoch 1, and has not heard of epoch 2, in which there is another one. A
    receiver that knows epoch 2 reaches no other store than B."""
    receiver = script.receiver(0)
    _begin(script)
    script.until_handed(receiver, 0)
    script.cut("source1", A, C, receiver.name)
    assert script.send(B) == 1
    script.source.kill()
    script.cut(B, A, C)
    _hears_only_that_it_is_stable(script, receiver, B)
    script.run(2.0)


def _stable_of_any_epoch(to: pytest.MonkeyPatch) -> None:
    """A receiver takes `stable` of another lineage for its own.

    A receiver that attaches learns the lineage before it hears what is stable, and a source that
    goes over to a newer epoch with its receivers attached has kept all that it sent them, or ends.
    So this guard matters only without that one: both are taken out together.
    """
    real = seams.RECEIVER_STREAM_STABLE.real()

    def stable(self: Stream, upto: int, _: int) -> None:
        real(self, upto, self.lineage.epoch)

    seams.RECEIVER_STREAM_STABLE.replace(to, stable)
    seams.FOLLOWING_LACKS_LINEAGE.replace(to, lambda *_: False)


def _stable_in_a_lineage_that_is_not_known(script: Script) -> None:
    """A receiver of what is stable has 1 of epoch 1, waiting. Another 1 becomes stable in epoch 2,
    and it attaches to that source before it has heard of its lineage."""
    receiver = script.receiver(0)
    _begin(script)
    script.until_handed(receiver, 0)
    script.cut("source1", *ALL)
    assert script.send() == 1
    script.until(lambda: receiver.stream._waiting)
    script.source.kill()
    hear = script.cut("source2", receiver.name)
    script.mute(receiver.name, *ALL)
    script.start_source()
    script.until_complete()
    assert script.send_stable() == 1
    script.until(lambda: receiver.record.epoch == 2)
    assert receiver.stream.lineage.epoch == 1
    hear()
    script.run(1.0)


# Who was replaced does not come back.


def _replaced_ones_come_back(to: pytest.MonkeyPatch) -> None:
    """A source that was open says nothing of that when it registers anew."""
    seams.SOURCE_REGISTRATION_DECIDED_EPOCH.replace(to, 0)


def _replaced_and_told_so_by_one(script: Script) -> None:
    """The second source reaches only A, and B and C start again: the third replaces it there. Then
    the third registers with A, too. The second hears from A alone that somebody came after it, and
    registers anew when it reaches all."""
    _begin(script)
    script.source.kill()
    second = script.start_source()
    script.until_complete()
    free = script.cut("source2", B, C)
    for store in (B, C):
        script.stores[store].crash()
        script.stores[store].start()
    reach = script.cut("source3", A)
    third = script.start_source(take_over=False)
    script.until_complete()
    reach()
    epoch = second.core.epoch
    script.until(lambda: second.core.epoch > epoch)
    free()
    script.until(lambda: second.core.error is not None)
    script.until(third.send)
    script.until(lambda: third.core.stable_upto == 1)


# What expires at some stores, and is asked for at others.


def _expires_under_who_waits(to: pytest.MonkeyPatch) -> None:
    """A source that waits for stores does not show the others that it lives."""
    seams.SOURCE_REGISTRATION_TIME_PASSES.replace(to, lambda *_: None)


def _the_others_are_out_of_reach_for_long(script: Script) -> None:
    """A source registers that reaches A alone, for longer than A and B keep what nobody asks for.
    C is down."""
    _begin(script)
    script.source.kill()
    script.stores[C].crash()
    script.start_source(B, C)
    script.run(2 * KEPT_SECONDS)
    script.checker.require(script.knows(A), "I6", "it expired while its source waited for others")
    script.stores[C].start()
    script.network.heal()
    script.until_complete()


def _nobody_is_asked_before_a_source_expires(to: pytest.MonkeyPatch) -> None:
    """A store deletes a source of which it has heard nothing, though others hear it well."""
    seams.MAY_EXPIRE_IN_LIFECYCLE.replace(to, lambda *_: True)


def _one_is_cut_off_for_long(script: Script) -> None:
    """C hears nobody for longer than it keeps a source, which streams to A and B."""
    _begin(script)
    script.run(VOTE_SECONDS)
    script.cut(C, A, B, script.source.process.name)
    script.run(4 * KEPT_SECONDS)
    script.network.heal()
    script.until_complete()


GUARDS = (
    Guard(_stores_count_before_they_begin, _an_older_epoch_begins_late, "I1"),
    Guard(_void_batches_are_kept, _void_under_the_same_number, "I1"),
    Guard(_old_answers_count, _a_promise_is_heard_late, "I1", seeds=10),
    Guard(
        _new_stores_are_believed_at_once,
        _old_stores_are_switched_off,
        "I6",
        {"setups": (OLD, NEW)},
        seeds=10,
    ),
    Guard(
        _what_was_let_go_is_not_brought_up,
        _switched_off_after_they_let_go,
        "I6",
        {"setups": (OLD, NEW)},
        seeds=10,
    ),
    Guard(_lineages_are_lists_of_begins, _a_minority_began_in_between, "I1"),
    Guard(_answers_before_the_commit, _a_promise_is_lost_in_a_crash, "I5"),
    Guard(
        _others_promises_are_taken_back_too,
        _taken_back_when_a_minority_has_begun,
        "I1",
        {"setups": (FIVE,)},
    ),
    Guard(_unreadable_is_a_no, _only_copy_left_turns, "I1"),
    Guard(
        _who_stood_back_learns_nothing,
        _stands_back_with_a_tail_that_turned,
        "I6",
        {"setups": (BACKED,)},
    ),
    Guard(_a_stable_set_is_enough, _the_other_group_has_it, "I1", {"setups": (EITHER,)}),
    Guard(_hung_stores_are_waited_for, _one_store_hangs, "I6"),
    Guard(_replaced_ones_come_back, _replaced_and_told_so_by_one, "I6"),
    Guard(_withdrawn_stays_consumed, _consumed_and_withdrawn, "I4"),
    Guard(
        _expires_under_who_waits,
        _the_others_are_out_of_reach_for_long,
        "I6",
        {"mortality": MORTAL},
    ),
    Guard(
        _nobody_is_asked_before_a_source_expires,
        _one_is_cut_off_for_long,
        "I1",
        {"mortality": MORTAL},
    ),
    Guard(_receivers_take_void_batches, _a_store_gives_what_is_void, "I3"),
    # What it attaches to, and what it asks for the lineage, is the same source.
    Guard(_stable_of_any_epoch, _stable_in_a_lineage_that_is_not_known, "I3", seeds=10),
)


def test_a_store_that_doubts_is_failed_though_its_disk_can_be_read_again() -> None:
    """A bit that turns back: nothing more may be destroyed until the store has read it again."""

    def turn_back(script: Script) -> None:
        _only_copy_left_turns(script)
        script.flip(B)
        script.checker.look_at(script.stores[B])
        assert B in script.checker.failed
        script.until(lambda: B not in script.checker.failed)
        assert not script.state(B).unreadable

    play(turn_back, 0)


def test_what_a_store_had_counts_though_its_disk_has_again_what_was_set_aside() -> None:
    """What was stable before it was put back is so also for whoever hears it later."""

    def put_back(script: Script) -> None:
        _begin(script)
        script.cut("source1", B, C)
        assert script.send(A) == 1
        copy = script.copy(A)
        script.source.kill()
        meet_a = script.cut("source2", A)
        script.start_source()
        script.until_complete()
        meet_a()
        script.until(lambda: script.begun(A) == 2 and not script.has(A, 1))
        script.cut("source2", B)
        answer = script.mute(C, "source2")
        assert script.send(A, C) == 1
        script.run(0.05)
        script.put_back(A, copy, B, C)
        assert script.source.core.stable_upto == 0
        answer()
        script.until(lambda: script.source.core.stable_upto == 1)
        script.stores[A].start()

    play(put_back, 0)
