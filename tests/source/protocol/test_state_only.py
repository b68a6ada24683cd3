"""Stores that keep a source's registration and none of its messages: the core played by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.source.core_support import (
    DOWN,
    FSYNC,
    NAME,
    POLICY,
    begin,
    earlier,
    frames,
    new,
    opened,
    payloads,
    positions,
    promise,
    send,
    the,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import NeverStable, NoQuorum, NotRegistered
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.pacing import ReceiverPacing
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Decision, Promise, decide
from quorate.source import events
from quorate.source.options import SourceOptions
from quorate.source.protocol.backups import Backups
from quorate.source.protocol.catch_up import (
    LOOK_SECONDS,
    BringingUp,
)
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.state_only import never_stable
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY as STATE_ONLY

NONE = Promise(takes_data=False)


def registered(options: SourceOptions | None = None) -> SourceCore:
    """With a, b and c, of which c takes no messages."""
    core = new(options)
    promise(core, {"a": Promise(), "b": Promise(), "c": NONE})
    begin(core, "abc")
    for store in "abc":
        core.receivers_told(store, positions({}))
        opened(core, store, core.epoch, 0, STATE_ONLY if store == "c" else FSYNC, 0.0)
    assert core.complete
    return core


def test_it_is_told_and_is_no_store_that_is_missing() -> None:
    core = registered()
    (complete,) = the(core, events.RegistrationComplete)
    assert (complete.stores, complete.missing) == (("a", "b"), ())
    assert the(core, events.StoreKeepsState) == [events.StoreKeepsState("c")]
    core.failed("c", DOWN, 1.0)
    opened(core, "c", core.epoch, 0, STATE_ONLY, 1.0)
    assert len(the(core, events.StoreKeepsState)) == 1, "it is no news"


def test_it_is_sent_no_messages_and_never_counts_as_a_holder() -> None:
    core = registered()
    send(core, b"0", b"1")
    assert payloads(frames(core, "a")) == [b"0", b"1"]
    assert frames(core, "c") == []
    core.acknowledged("a", 1, 1.0)
    assert core.stable_upto == -1, "a and c are a majority, but c has nothing"
    core.acknowledged("b", 1, 1.0)
    assert core.stable_upto == 1
    assert core.tracker.holders(1) == ("a", "b")


def test_it_is_told_what_is_stable_soon_and_once() -> None:
    core = registered()
    send(core, b"0")
    for store in "ab":
        core.acknowledged(store, 0, 1.0)
    assert core.streams.stable_news(core.stable_upto)
    (frame,) = frames(core, "c")
    assert (frame.WhichOneof("kind"), frame.stable_upto) == ("keepalive", 0)
    assert not core.streams.stable_news(core.stable_upto)
    assert frames(core, "c") == []
    core.streams.keepalives_due(core.stable_upto)
    assert frames(core, "c") == [], "it knows"


def test_it_neither_lags_nor_is_silent_nor_holds_anything_back() -> None:
    core = registered(SourceOptions(retention_bytes_max=1 << 20))
    for number in range(3):
        send(core, b"%d" % number)
        for store in "ab":
            frames(core, store)
            core.acknowledged(store, number, 1.0)
    assert core.streams.silent(1_000.0, 3.0) == []
    assert len(core.retention) == 0, "every store that takes messages has them"
    core.tick(1_000.0)
    assert not the(core, events.StoreUnresponsive)
    assert not the(core, events.StoreCaughtUp)


def test_it_is_no_measure_of_when_to_pack() -> None:
    core = registered()
    send(core, b"0")
    for store in "abc":
        frames(core, store)
    core.acknowledged("a", 0, 1.0)
    assert not core.idle_quorum(), "a and c have nothing to do, but b has"
    core.acknowledged("b", 0, 1.0)
    assert core.idle_quorum()


def test_without_enough_others_nothing_is_accepted() -> None:
    core = registered()
    core.failed("b", DOWN, 1.0)
    assert not core.complete
    refusal = core.refusal()
    assert isinstance(refusal, NotRegistered)
    assert "stores that take it: a; c keep no messages" in str(refusal)
    core.failed("c", DOWN, 1.0)
    opened(core, "b", core.epoch, 0, FSYNC, 2.0)
    assert core.complete, "c is not needed for messages"


def test_one_that_turns_while_the_source_goes_on_counts_for_what_it_has() -> None:
    core = registered()
    core.failed("c", DOWN, 1.0)
    opened(core, "c", core.epoch, 0, FSYNC, 1.0)
    send(core, b"0")
    for store in "ac":
        core.acknowledged(store, 0, 1.0)
    assert core.stable_upto == 0
    core.failed("c", DOWN, 2.0)
    opened(core, "c", core.epoch, 1, STATE_ONLY, 2.0)
    send(core, b"1")
    core.acknowledged("a", 1, 2.0)
    assert core.stable_upto == 0
    assert core.tracker.holders(0) == ("a", "c")
    assert the(core, events.StoreKeepsState) == [events.StoreKeepsState("c")] * 2


def test_what_one_had_said_that_it_holds_counts_for_nothing_new() -> None:
    """It was a store that took messages, and promises as one that does not."""
    core = new()
    had = replace(earlier(3), takes_data=False)
    core.registration.epoch = 2
    promise(core, {"a": earlier(1), "b": earlier(1), "c": had})
    assert core.registration.lineage.terms[-1].first == 4
    begin(core, "abc")
    assert core.tracker.acknowledged_upto("c") is None


# Policies that can not be met.


ALL = Policy((Group("g", tuple("abc"), IntragroupRule.ALL),))


def with_policy(policy: Policy) -> SourceCore:
    stores = [StoreAddress(store, f"{store}:1") for store in sorted(policy.stores)]
    core = SourceCore(NAME, stores, policy, SourceOptions(), b"me")
    core.start(0.0)
    return core


def test_a_policy_that_needs_it_is_refused_at_once() -> None:
    core = with_policy(ALL)
    promise(core, {"a": Promise(), "b": Promise(), "c": NONE})
    assert isinstance(core.error, NeverStable)
    keeps_none = "These stores keep no messages of this topic (durability = state-only): c."
    assert f"g (all of a, b, c). {keeps_none}" in str(core.error)
    assert core.registration.unused_promises() == {"a", "b", "c"}, "they are taken back"


def test_it_is_known_before_all_have_answered() -> None:
    core = with_policy(ALL)
    promise(core, {"c": NONE})
    assert core.error is None, "the others may still answer within the interval"
    core.tick(60.0)
    assert isinstance(core.error, NeverStable)


def test_who_did_not_answer_may_take_messages() -> None:
    core = with_policy(POLICY)
    promise(core, {"a": Promise(), "c": NONE})
    core.tick(60.0)
    assert core.error is None


def test_who_waits_in_vain_for_others_is_told_of_it() -> None:
    core = with_policy(POLICY)
    promise(core, {"a": Promise(), "c": NONE})
    error = core.registration.unfinished()
    assert isinstance(error, NoQuorum)
    assert "c: keeps no messages of this topic" in str(error)


def test_stores_that_turn_later_are_waited_for() -> None:
    core = registered()
    for store in "ab":
        core.failed(store, DOWN, 1.0)
        opened(core, store, core.epoch, 0, STATE_ONLY, 1.0)
    assert (core.complete, core.error) == (False, None)
    core._register_anew(core.epoch + 1, 2.0)
    promise(core, dict.fromkeys("abc", NONE), 2.0)
    assert core.error is None


@pytest.mark.parametrize(
    ("policy", "state_only", "can_be"),
    [
        (POLICY, "c", True),
        (POLICY, "bc", False),
        (ALL, "a", False),
        (Policy((Group("g", tuple("abc"), IntragroupRule.ALL_ACTIVE),)), "c", True),
        (Policy((Group("g", tuple("ab")), Group("h", ("c",))), IntergroupRule.ANY), "ab", True),
        (Policy((Group("g", tuple("ab")), Group("h", ("c",))), IntergroupRule.ALL), "c", False),
        (
            Policy(
                (
                    *(Group(name, (name,)) for name in "ab"),
                    Group("h", tuple("cde"), IntragroupRule.ALL),
                ),
                IntergroupRule.ALL_ACTIVE,
            ),
            "c",
            False,
        ),
    ],
)
def test_by_the_others_alone(policy: Policy, state_only: str, can_be: bool) -> None:
    promises = {store: Promise(takes_data=store not in state_only) for store in "abcde"}
    assert (never_stable(NAME, policy, (), promises) is None) == can_be


def test_the_policies_in_force_have_to_be_met_as_well() -> None:
    former = Policy.majority_of("xyz")
    record = Promise(
        BeginRecord(Lineage((Term(1, 0),)), Membership((former,), (former, POLICY))),
        takes_data=False,
    )
    error = never_stable(NAME, POLICY, (), {"x": record, "y": record})
    assert isinstance(error, NeverStable)
    assert error.state_only == "x, y"
    unheard = {"x": NONE, "y": NONE}
    assert never_stable(NAME, POLICY, (former,), unheard) is not None
    assert never_stable(NAME, POLICY, (), unheard) is None


# What else asks who is there.


def test_it_has_no_say_in_how_much_is_kept() -> None:
    kept = {}
    for behaviour in (Behaviour.LOWEST, Behaviour.MAJORITY):
        promises = {"a": earlier(9), "b": earlier(5), "c": replace(earlier(-1), takes_data=False)}
        decision = decide(POLICY, promises, behaviour)
        assert isinstance(decision, Decision)
        kept[behaviour] = decision.kept_upto
    assert kept == {Behaviour.LOWEST: 5, Behaviour.MAJORITY: 5}


def test_no_backup_steps_in_for_one_that_is_there() -> None:
    policy = Policy((Group("g", tuple("abc"), backups=("d",)),))
    backups = Backups(policy, 1.0)
    for now in (0.0, 10.0):
        assert backups.wanted(policy, {"a", "b", "c"}, {"a", "b", "c"}, now) == policy
    core = registered()
    assert core.streams.connected() == {"a", "b", "c"}
    assert core.streams.open_stores() == {"a", "b"}


def test_a_stream_moves_to_all_active_stores_though_one_takes_no_messages() -> None:
    new_policy = Policy((Group("g", tuple("cde"), IntragroupRule.ALL_ACTIVE),))
    moving = BringingUp([POLICY, new_policy], new_policy)
    everything = RangeSet([Range(0, 9)])
    for store in "abcde":
        moving.joined(store, 0.0, takes_data=store != "e")
    for store in moving.due(LOOK_SECONDS):
        moving.answered(store, RangeSet() if store == "e" else everything, 1.0)
    assert moving.ready(9)


# Receivers that the source waits for.


def test_it_tells_where_receivers_are_like_any_other() -> None:
    """It knows their positions, and a receiver that two stores forgot is waited for no more."""
    core = registered(SourceOptions(receiver_pacing=ReceiverPacing(messages=10)))
    for store in "abc":
        core.receivers_told(store, positions({1: 4}))
    assert core.window.paced_upto == 14
    core.receivers_told("c", positions({1: 7}))
    assert core.window.paced_upto == 17
    core.receivers_told("a", positions({}))
    assert core.window.paced_upto == 17, "a was away when it registered, perhaps"
    core.receivers_told("c", positions({}))
    assert core.window.paced_upto == SEQUENCE_MAX, "a and c are a blocking set"
