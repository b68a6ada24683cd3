"""A store that keeps registrations and positions, and no messages: its rules, over memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, combinations, product, takewhile

import pytest
from tests.store.support import (
    FIRST_LINEAGE,
    ORDERS,
    World,
    batch,
    information,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import Fenced, InvalidArgument
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Decision, Promise, decide
from quorate.store.rules import repair_plan
from quorate.store.rules.archive_restore import (
    History,
    close_refill,
    lacking,
    open_refill,
)
from quorate.store.rules.peer_knowledge import (
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.readmission import (
    Adoption,
    Ask,
    Stay,
    leave,
)
from quorate.store.rules.state_only import (
    not_kept_elsewhere,
    wanted_range,
)
from quorate.store.tasks.peer_views import own_view

RECORD = Membership((Policy.majority_of("abc"),), (Policy.majority_of("abc"),))


@pytest.fixture
def world() -> World:
    return World(takes_data=False)


def held(world: World) -> RangeSet:
    return world.core.sources[ORDERS].held.ranges


# What it does like any other store.


def test_it_fences_like_any_other(world: World) -> None:
    world.stream()
    world.promise(5, b"b", take_over=True)
    with pytest.raises(Fenced):
        world.promise(4, b"c", take_over=True)
    with pytest.raises(Fenced):
        world.open()
    after = world.restarted()
    with pytest.raises(Fenced):
        after.promise(5, b"c", take_over=True)


def test_it_says_truthfully_that_it_holds_nothing(world: World) -> None:
    world.stream()
    promised = world.promise(2, take_over=True)
    assert promised.held == ()
    assert promised.limbo == ""
    assert promised.registration.begun.epoch == 1


def test_it_keeps_registrations_and_positions_on_the_disk(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.keepalive(stream, 7))
    world.done(world.receivers.register(ORDERS, 0x20, 0, 1, b"r"))
    world.write(world.receivers.acknowledge(ORDERS, 0x20, 1, 6, 1, b"r"))
    after = world.restarted()
    state = after.core.sources[ORDERS]
    assert state.registration.begun.epoch == 1
    assert state.receivers[0x20].acknowledged_upto == 6
    assert state.held.stable_upto == 7


def test_a_position_goes_as_far_as_it_knows_of_messages(world: World) -> None:
    """Beyond that, who knows what a receiver means: it is told again when more is known."""
    stream = world.stream()
    world.done(world.receivers.register(ORDERS, 0x20, 0, 1, b"r"))
    record = world.core.sources[ORDERS].receivers[0x20]
    assert world.receivers.acknowledge(ORDERS, 0x20, 1, 9, 1, b"r") == ()
    world.write(world.core.streams.keepalive(stream, 4))
    world.write(world.receivers.acknowledge(ORDERS, 0x20, 1, 9, 1, b"r"))
    assert record.acknowledged_upto == 4
    world.write(world.core.streams.keepalive(stream, 20))
    world.write(world.receivers.acknowledge(ORDERS, 0x20, 1, 9, 1, b"r"))
    assert record.acknowledged_upto == 9


# What it does not.


def test_it_takes_no_batch_and_notes_no_hole(world: World) -> None:
    stream = world.stream()
    assert stream.expected == NOTHING
    for call in (
        lambda: world.append(stream, batch(0, 9)),
        lambda: world.core.streams.append_held(stream, batch(0, 9)),
        lambda: world.core.streams.skip(stream, 0, 9),
        lambda: world.core.streams.skip(stream, NOTHING, 9),
    ):
        with pytest.raises(InvalidArgument, match="state-only"):
            call()
    assert not held(world)
    assert world.core.streams.position == 0


def test_a_source_that_goes_on_late_opens_no_hole(world: World) -> None:
    world.promise(1)
    world.begin(FIRST_LINEAGE)
    stream = world.open(retained_from=50, stable_upto=60)
    state = stream.state
    assert (state.held.next_sequence, state.held.stable_upto) == (0, 60)
    assert state.holes() == []
    assert not repair_plan.lacking(own_view("s1", state), 60)


def test_what_is_stable_elsewhere_is_not_repaired_into_it(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.keepalive(stream, 99))
    state = stream.state
    assert not repair_plan.lacking(own_view("s1", state), 99)
    world.core.streams.closed(stream)
    assert not repair_plan.lacking(own_view("s1", state), 99), "nor while the source is away"


def test_an_archive_gives_it_the_lineage_and_no_messages(world: World) -> None:
    history = History(ORDERS, BeginRecord(FIRST_LINEAGE, RECORD), 0, 99, information=information())
    refill = world.done(open_refill(world.core, history))
    state = refill.state
    assert (state.lineage, state.held.stable_upto, state.limbo) == (FIRST_LINEAGE, 99, "")
    assert not lacking(state)
    assert wanted_range(state, 0, 99) is None
    assert world.done(close_refill(world.core, refill)) is True


# From one to the other.


def test_what_it_took_before_it_keeps_says_and_takes_no_more() -> None:
    before = World()
    before.append(before.stream(), batch(0, 9), stable_upto=4)
    after = before.restarted(takes_data=False)
    promised = after.promise(2, take_over=True)
    assert promised.held == (HeldRange(0, 9, 1),)
    after.begin(FIRST_LINEAGE.extended(9, 2))
    stream = after.open(2, retained_from=5)
    with pytest.raises(InvalidArgument, match="state-only"):
        after.append(stream, batch(10, 19, 2))
    assert held(after) == RangeSet([Range(0, 9)])
    state = stream.state
    after.write(after.core.streams.keepalive(stream, 19))
    assert not repair_plan.lacking(own_view("s1", state), 19)
    after.write(state.found_unreadable(3, 4))
    assert repair_plan.lacking(own_view("s1", state), 19) == RangeSet([Range(3, 4)])


def test_what_a_later_epoch_voids_is_set_aside_there_too() -> None:
    before = World()
    before.append(before.stream(), batch(0, 9), stable_upto=4)
    after = before.restarted(takes_data=False)
    after.promise(2, take_over=True)
    assert after.begin(FIRST_LINEAGE.extended(6, 2)) == 3
    assert held(after) == RangeSet([Range(0, 6)])


def test_who_keeps_messages_again_lacks_what_came_meanwhile(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.keepalive(stream, 30))
    after = world.restarted(takes_data=True)
    state = after.core.sources[ORDERS]
    assert repair_plan.lacking(own_view("s1", state), 30) == RangeSet([Range(0, 30)])
    again = after.open(retained_from=31, stable_upto=30)
    assert again.expected == 31
    assert state.holes() == [Range(0, 30)]
    assert after.append(again, batch(31, 35))
    assert held(after) == RangeSet([Range(31, 35)])


# What it fetches before it vouches again.


THREE = Policy.majority_of("abc")
POLICIES = (
    THREE,
    Policy.majority_of("abcd"),
    Policy((Group("g", tuple("abc"), IntragroupRule.ALL_ACTIVE),)),
    Policy((Group("g", ("a",)), Group("h", tuple("bcd")))),
    Policy((Group("g", tuple("ab")), Group("h", tuple("cd"))), IntergroupRule.ANY),
    Policy((Group("g", tuple("abc")), Group("h", ("d",))), IntergroupRule.ANY),
)


def subsets(stores: str) -> Iterator[frozenset[str]]:
    sizes = range(len(stores) + 1)
    return map(frozenset, chain.from_iterable(combinations(stores, n) for n in sizes))


def begun(policy: Policy, ranges: RangeSet) -> SourceKnowledge:
    return SourceKnowledge(
        promised_epoch=1,
        promised_to=b"i",
        begun=BeginRecord(FIRST_LINEAGE, Membership((policy,), (policy,))),
        held=tuple(HeldRange(each.first, each.last, 1) for each in ranges),
    )


def test_only_what_others_do_not_keep_safe_is_needed() -> None:
    has = {"b": RangeSet([Range(0, 9)]), "c": RangeSet([Range(0, 3), Range(6, 7)])}
    wanted = RangeSet([Range(2, 8)])
    assert not_kept_elsewhere(wanted, [THREE], has) == RangeSet([Range(4, 5), Range(8, 8)])
    both = [THREE, Policy.majority_of("bxy")]
    assert not_kept_elsewhere(wanted, both, has) == wanted


@pytest.mark.parametrize("policy", POLICIES)
def test_no_recovery_misses_what_was_stable_with_what_it_had_once(policy: Policy) -> None:
    """Every way in which a store lost what it held and is configured to hold nothing from now on.

    Each message of two was held by some stores, the wiped store a among them or not. Once a vouches
    again, everyone who may recover the stream finds what was stable.
    """
    others = "".join(sorted(policy.stores - {"a"}))
    everyone = "a" + others
    fetched = spared = 0
    for first, second in product(list(subsets(everyone)), repeat=2):
        has = {
            store: RangeSet([Range(n, n) for n, at in enumerate((first, second)) if store in at])
            for store in others
        }
        answers = [_said(store, begun(policy, has[store])) for store in others]
        left = leave(
            "a", "a:1", ORDERS, SourceKnowledge(), answers, [f"{o}:1" for o in others], False
        )
        assert not isinstance(left, Ask)
        if isinstance(left, Stay):
            continue
        has["a"] = left.fetch
        fetched += bool(left.fetch)
        spared += not left.fetch and bool(first & set(others))
        # A message is reported as stable only with all before it.
        stable_upto = len(list(takewhile(policy.stable, (first, second)))) - 1
        for answering in subsets(everyone):
            _finds(policy, {store: has[store] for store in answering}, stable_upto)
    without = policy.stores - {"a"}
    may_leave = policy.stable(without) and policy.blocks(without)
    assert (bool(fetched), bool(spared)) == (may_leave, may_leave)


def _said(store: str, knowledge: SourceKnowledge) -> PeerAnswer:
    return PeerAnswer(store, f"{store}:1", store.encode(), sources={ORDERS: knowledge})


def _finds(policy: Policy, has: Mapping[str, RangeSet], stable_upto: int) -> None:
    promises = {
        store: Promise(
            BeginRecord(FIRST_LINEAGE, Membership((policy,), (policy,))),
            tuple(HeldRange(each.first, each.last, 1) for each in ranges),
        )
        for store, ranges in has.items()
    }
    decision = decide(policy, promises)
    if isinstance(decision, Decision):
        assert decision.floor >= stable_upto


def test_a_wiped_one_that_never_held_anything_takes_over_all_but_the_messages() -> None:
    stable = RangeSet([Range(0, 99)])
    answers = [_said(store, begun(THREE, stable)) for store in "bc"]
    left = leave("a", "a:1", ORDERS, SourceKnowledge(), answers, ["b:1", "c:1"], False)
    assert isinstance(left, Adoption)
    assert not left.fetch
    assert (left.promised_epoch, left.begun.epoch, left.floor) == (1, 1, 99)


def test_leaving_limbo_opens_no_hole(world: World) -> None:
    world.stream()
    state = world.core.sources[ORDERS]
    world.write(state.enter_limbo("wiped"))
    adoption = Adoption(1, b"a", BeginRecord(Lineage((Term(1, 0),))), stable_upto=99, floor=99)
    assert world.done(world.core.leave_limbo(state, adoption)) is True
    assert (state.limbo, state.held.stable_upto, state.holes()) == ("", 99, [])
    assert world.restarted(takes_data=True).core.sources[ORDERS].held.next_sequence == 0
