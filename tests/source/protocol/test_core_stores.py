"""The core played by hand: stores that are not to be believed, and what is told of messages."""

from __future__ import annotations

from math import inf
from typing import Any

from tests.source.core_support import (
    DOWN,
    FSYNC,
    NAME,
    batch,
    begin,
    earlier,
    kept,
    new,
    opened,
    promise,
    registered,
    send,
    streams,
    the,
)

from quorate.protocol.delays import Delays
from quorate.protocol.errors import (
    ContentConflict,
    Fenced,
    InLimbo,
    NoQuorum,
    NotRegistered,
    SourceActive,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.policy import Group, IntergroupRule, Policy
from quorate.protocol.recovery import Promise
from quorate.source import events
from quorate.source.options import SourceOptions, StabilityEvents
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import Grant

# -- stores that come back without their data ------------------------------------------------


def named(core: SourceCore, store: str, incarnation: bytes = b"", **known: Any) -> None:
    disk = incarnation or b"disk of " + store.encode()
    grant = Grant(7, disk, Promise(**known), f"store {store}")
    core.promised(store, core.epoch, grant, 1.0)


def with_named_stores() -> SourceCore:
    core = new()
    for store in "abc":
        named(core, store)
    begin(core, "abc")
    for store in "abc":
        opened(core, store, core.epoch, 0, FSYNC, 0.0)
    send(core, b"0", b"1")
    return core


def test_what_a_former_incarnation_acknowledged_makes_nothing_stable() -> None:
    core = with_named_stores()
    core.acknowledged("a", 1, 1.0)
    assert core.known("store a", b"new disk", [], 1.0, "b") == ["a"]
    core.acknowledged("a", 1, 1.0)
    core.acknowledged("b", 1, 1.0)
    assert core.stable_upto == -1
    assert the(core, events.StoreReplaced) == [events.StoreReplaced("a", b"new disk")]
    named(core, "a", b"new disk")
    begin(core, "a")
    opened(core, "a", core.epoch, 0, FSYNC, 1.0)
    assert core.stable_upto == -1
    core.acknowledged("a", 1, 1.0)
    assert core.stable_upto == 1


def test_what_is_stable_stays_stable_when_a_store_comes_back_without_it() -> None:
    core = with_named_stores()
    core.acknowledged("a", 1, 1.0)
    core.acknowledged("b", 0, 1.0)
    core.known("store a", b"new disk", [], 1.0, "b")
    assert core.stable_upto == 0
    core.acknowledged("b", 1, 1.0)
    assert core.stable_upto == 0
    core.acknowledged("c", 1, 1.0)
    assert core.stable_upto == 1


def test_a_store_that_left_and_answers_as_another_does_not_count_for_what_it_had() -> None:
    core = with_named_stores()
    core.acknowledged("a", 1, 1.0)
    core.failed("a", NotRegistered("orders", "blank"), 1.0)
    named(core, "a", b"new disk", limbo=True)
    core.acknowledged("b", 1, 1.0)
    assert core.stable_upto == -1


def test_what_a_replaced_store_promised_does_not_count_in_its_begin() -> None:
    core = new()
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    for store in "abc":
        held = earlier(5)
        core.promised(store, core.epoch, Grant(7, b"disk", held, f"store {store}"), 0.0)
    core.known("store a", b"new disk", [], 1.0, "b")
    core.promised("a", core.epoch, Grant(7, b"new disk", Promise(), "store a"), 1.0)
    begin(core, "ab")
    assert core.stable_upto == -1


def test_a_store_in_limbo_is_told_of_once_and_again_when_it_comes_back_to_it() -> None:
    core = with_named_stores()
    core.failed("c", InLimbo("orders", "c", "wiped"), 1.0)
    for _ in range(2):
        core.promised("c", 1, Grant(7, b"d", Promise(limbo=True), limbo_reason="wiped"), 1.0)
    assert the(core, events.StoreInLimbo) == [events.StoreInLimbo("c", "wiped")]
    core.promised("c", 1, Grant(7, b"d", Promise()), 2.0)
    begin(core, "c")
    core.failed("c", InLimbo("orders", "c", "wiped"), 3.0)
    assert len(the(core, events.StoreInLimbo)) == 2


def test_a_late_answer_with_a_newer_begun_epoch_makes_it_register_anew() -> None:
    core = new()
    core.failed("a", Fenced("orders", 1, 6), 0.0)
    promise(core, dict.fromkeys("ab", earlier(5, epoch=2)))
    core.tick(5.0)
    begin(core, "ab", 5.0)
    assert core.epoch == 7
    promise(core, {"c": earlier(8, epoch=4)}, 5.0)
    assert core.epoch == 8
    assert not core.complete


def test_receivers_are_told_of_an_epoch_once_it_was_begun() -> None:
    """One that waits for an epoch that never is would take nothing from who went on."""
    core = registered()
    core.failed("a", Fenced("orders", 1, 3), 1.0)
    core.tick(6.0)
    before = core.version
    assert (core.epoch, core.information().epoch) == (4, 1)
    promise(core, dict.fromkeys("ab", earlier(-1)), 6.0)
    core.tick(12.0)
    assert core.information().epoch == 1, "it is decided, and begun nowhere"
    begin(core, "ab", 12.0)
    assert core.information().epoch == 4
    assert core.version > before


# -- what the application is told of messages ------------------------------------------------

TWO_GROUPS = Policy((Group("g", tuple("abc")), Group("h", ("d",))), IntergroupRule.ALL)


def telling(level: StabilityEvents) -> SourceCore:
    stores = [StoreAddress(store, f"{store}:1") for store in "abcde"]
    core = SourceCore(NAME, stores, TWO_GROUPS, SourceOptions(stability_events=level), b"me")
    core.start(0.0)
    promise(core, dict.fromkeys("abcde", Promise()))
    begin(core, "abcde")
    streams(core, "abcde", 0.0, -1)
    return core


def test_every_acknowledgement_with_the_rules_that_are_met() -> None:
    core = telling(StabilityEvents.STORE)
    send(core, b"0", b"1")
    send(core, b"2")
    for store, upto in (("a", 1), ("d", 2), ("e", 2), ("b", 2), ("c", 2), ("c", 2)):
        core.acknowledged(store, upto, 1.0)
    assert the(core, events.StoreStable) == [
        events.StoreStable("a", "g", 0, 1, False, False, False),
        events.StoreStable("d", "h", 0, 2, True, False, False),
        events.StoreStable("e", "", 0, 2, False, False, False),
        events.StoreStable("b", "g", 0, 2, False, False, False),
        events.StoreStable("c", "g", 0, 2, True, True, True),
    ]
    assert the(core, events.MessageStable) == [
        events.MessageStable(0, 1, ("a", "b", "d"), ("g", "h")),
        events.MessageStable(2, 2, ("b", "c", "d"), ("g", "h")),
    ]


def test_only_what_was_asked_for_is_told() -> None:
    core = telling(StabilityEvents.MESSAGE)
    send(core, b"0")
    for store in "abd":
        core.acknowledged(store, 0, 1.0)
    assert not the(core, events.StoreStable)
    assert the(core, events.MessageStable) == [
        events.MessageStable(0, 0, ("a", "b", "d"), ("g", "h"))
    ]
    core = telling(StabilityEvents.NONE)
    send(core, b"0")
    for store in "abd":
        core.acknowledged(store, 0, 1.0)
    assert core.stable_upto == 0
    assert not the(core, events.MessageStable)


def test_what_was_stable_before_is_no_news() -> None:
    core = new(SourceOptions(stability_events=StabilityEvents.MESSAGE))
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, dict.fromkeys("abc", earlier(5, stable_upto=3)))
    begin(core, "abc")
    core.loaded([kept(4, b"4", b"5")], 0.0)
    assert [(e.first, e.last) for e in the(core, events.MessageStable)] == [(4, 5)]


def test_what_leaves_the_retention_and_whether_a_store_lacked_it() -> None:
    core = registered(SourceOptions(reclaim_events=True, retention_bytes_max=10_000))
    for size in (1, 6_000, 6_000, 1):
        send(core, bytes(size))
    for store, upto in (("a", 0), ("b", 0), ("c", 0), ("a", 2), ("b", 2)):
        core.acknowledged(store, upto, 1.0)
    core.tick(1.0)
    assert the(core, events.Reclaimed) == [
        events.Reclaimed(1, 1, forced=True),
        events.Reclaimed(0, 0, forced=False),
    ]
    for store in "abc":
        core.acknowledged(store, 3, 2.0)
    core.tick(2.0)
    core.tick(2.1)
    assert the(core, events.Reclaimed)[2:] == [events.Reclaimed(2, 3, forced=False)]


def test_only_what_a_store_lacked_is_told_of_without_asking() -> None:
    core = registered(SourceOptions(retention_bytes_max=3_000))
    for size in (1, 6_000):
        send(core, bytes(size))
    for store, upto in (("a", 0), ("b", 0), ("c", 0), ("a", 1), ("b", 1)):
        core.acknowledged(store, upto, 1.0)
    core.tick(1.0)
    assert the(core, events.Reclaimed) == [events.Reclaimed(1, 1, forced=True)]


def test_a_store_that_refuses_is_told_of_once() -> None:
    core = new()
    active = SourceActive("orders", "c")
    for now in (0.1, 0.2):
        core.failed("c", active, now)
    core.failed("b", DOWN, 0.3)
    assert the(core, events.RegistrationRefused) == [events.RegistrationRefused("c", active)]


def test_messages_that_a_store_has_otherwise_are_not_stable() -> None:
    core = registered()
    send(core, b"0")
    conflict = ContentConflict("orders", 0, 0, "a")
    for now in (1.0, 2.0):
        core.failed("a", conflict, now)
    assert the(core, events.NotStable) == [], "the others may still make them stable"
    (unresponsive,) = the(core, events.StoreUnresponsive)
    assert unresponsive.reason is conflict, "which is said once"
    core.failed("b", ContentConflict("orders", 0, 0, "b"), 3.0)
    cause = events.NotStableCause.REFUSED
    assert the(core, events.NotStable) == [
        events.NotStable(0, 0, cause, "b"),
        events.NotStable(0, 0, events.NotStableCause.ENDED),
    ]


def test_for_whom_a_registration_waits_is_told_once_and_again_when_it_waits_for_enough() -> None:
    core = new()
    promise(core, {"a": Promise()}, 0.05)
    for now in (0.1, 0.4, 0.5, 0.6, 3.0, 4.0):
        core.tick(now)
    assert the(core, events.WaitingForStores) == [
        events.WaitingForStores(("b", "c"), 2.5),
        events.WaitingForStores(("b", "c"), 0.0),
    ]


def test_a_source_that_may_give_up_ends_after_so_long_with_too_few_stores() -> None:
    core = registered(SourceOptions(delays=Delays(give_up_after=20.0)))
    core.tick(100.0)
    for store in "bc":
        core.failed(store, DOWN, 100.0)
    assert not core.complete
    core.tick(119.0)
    assert the(core, events.SourceFailed) == []
    core.tick(120.0)
    assert isinstance(core.error, NoQuorum)
    assert core.error.silent == "b, c"


def test_the_messages_that_were_not_known_to_be_stable_are_told_at_the_end() -> None:
    core = registered()
    send(core, b"0", b"1")
    for store in "ab":
        core.acknowledged(store, 0, 1.0)
    core.window.add([b"2"], [], 1, 0)
    core.fail(DOWN)
    core.fail(DOWN)
    assert core.events[-2:] == [
        events.NotStable(1, 2, events.NotStableCause.ENDED),
        events.SourceFailed(DOWN),
    ]


def test_what_a_publish_store_remembers_is_told_if_the_registration_fails() -> None:
    core = new(stable_upto=4, unstable=[batch(5, b"5", b"6")])
    core.fail(DOWN)
    assert the(core, events.NotStable) == [events.NotStable(5, 6, events.NotStableCause.ENDED)]


def test_no_message_is_told_if_all_were_stable() -> None:
    core = registered()
    send(core, b"0")
    for store in "ab":
        core.acknowledged(store, 0, 1.0)
    core.fail(DOWN)
    assert the(core, events.NotStable) == []


def test_a_source_that_was_idle_gives_up_no_sooner() -> None:
    core = registered(SourceOptions(delays=Delays(give_up_after=20.0)))
    for store in "bc":
        core.failed(store, DOWN, 1000.0)
    core.tick(1000.1)
    assert core.error is None
    core.tick(1020.0)
    assert isinstance(core.error, NoQuorum)


def test_a_source_gives_up_for_nothing_if_stores_come_back_in_time() -> None:
    core = registered(SourceOptions(delays=Delays(give_up_after=20.0)))
    for store in "bc":
        core.failed(store, DOWN, 10.0)
    opened(core, "b", core.epoch, 0, FSYNC, 11.0)
    core.tick(15.0)
    core.failed("b", DOWN, 30.0)
    core.tick(34.0)
    assert core.error is None


def test_the_wait_for_another_instance_is_told_once() -> None:
    core = new()
    core.registration.wait_until(30.0)
    for store in "abc":
        core.failed(store, SourceActive("orders", store, 6000), 0.1)
    for now in (0.1, 1.1, 2.1):
        core.tick(now)
    waiting = the(core, events.WaitingForIdentity)
    assert waiting == [events.WaitingForIdentity(("a", "b", "c"), 6.0)]
    assert the(core, events.WaitingForStores) == [], "all of them have answered"
    core.registration.wait_until(inf)
    promise(core, dict.fromkeys("abc", Promise()), 6.2)
    core.tick(6.3)
    assert core.error is None
    assert the(core, events.WaitingForIdentity) == waiting
