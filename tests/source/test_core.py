"""The core played by hand: three stores a, b, c, and nothing that runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    Fenced,
    InLimbo,
    InvalidArgument,
    NotRegistered,
    PolicyNotInForce,
    SourceActive,
    Unreachable,
)
from quorate.protocol.framing import check_batch, encode_batch, read_payloads
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntergroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Promise
from quorate.source import events
from quorate.source.core import SourceCore
from quorate.source.options import FlightBehaviour, SourceOptions, StabilityEvents
from quorate.source.registration import AskBegin, AskPromise, Grant, Hold, OpenStream
from quorate.source.survivors import Kept
from quorate.v1.messages_pb2 import Frame

T = TypeVar("T")

NAME = SourceName("orders", 0x10)
STORES = tuple(StoreAddress(store, f"{store}:1") for store in "abc")
POLICY = Policy.majority_of("abc")
DOWN = Unreachable("x:1", "down")
FSYNC = 1


def new(options: SourceOptions | None = None, **remembered: Any) -> SourceCore:
    core = SourceCore(NAME, STORES, POLICY, options or SourceOptions(), b"me", **remembered)
    core.start(0.0)
    return core


def promise(core: SourceCore, promises: dict[str, Promise], now: float = 0.0) -> None:
    for store, answer in promises.items():
        core.promised(store, core.epoch, Grant(7, b"disk", answer), now)


def begin(core: SourceCore, stores: str, now: float = 0.0) -> None:
    for store in stores:
        core.begun(store, core.epoch, now)


def registered(options: SourceOptions | None = None) -> SourceCore:
    core = new(options)
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "abc")
    for store in "abc":
        core.opened(store, core.epoch, 0, FSYNC, 0.0)
    assert core.complete
    return core


def send(core: SourceCore, *payloads: bytes, now: float = 0.0) -> bytes:
    """Pack these messages into one batch and release it; returns its frame."""
    window = core.window
    window.payloads += payloads
    window.next_sequence += len(payloads)
    window.sent_bytes += sum(map(len, payloads))
    return core.release(core.take(0), now)


def frames(core: SourceCore, store: str, now: float = 0.0) -> list[Frame]:
    """Everything that this store's stream has to say."""
    said = []
    while (frame := core.next_frame(store, now)) is not None:
        said.append(Frame.FromString(frame))
    return said


def payloads(said: Sequence[Frame]) -> list[bytes]:
    return [
        payload
        for frame in said
        if frame.WhichOneof("kind") == "batch"
        for payload in read_payloads(frame.batch, check_batch(frame.batch))
    ]


def the(core: SourceCore, kind: type[T]) -> list[T]:
    return [event for event in core.events if isinstance(event, kind)]


def may_take(core: SourceCore) -> bool:
    return core.can_take


def earlier(upto: int, stable_upto: int = -1, epoch: int = 1) -> Promise:
    return Promise(
        epoch,
        Lineage((Term(epoch, 0),)),
        Membership((POLICY,), (POLICY,)),
        (HeldRange(0, upto, epoch),) if upto >= 0 else (),
        stable_upto,
    )


def batch(first: int, *payloads: bytes, epoch: int = 1) -> bytes:
    return encode_batch(NAME, epoch, first, payloads, 0)


def kept(first: int, *payloads: bytes, store: str = "a") -> Kept:
    return Kept(first, first + len(payloads) - 1, batch(first, *payloads), store)


def resumed(promises: dict[str, Promise], **remembered: Any) -> SourceCore:
    """A source that has started again: decided, and begun on those that promised."""
    core = new(**remembered)
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, promises)
    core.tick(5.0)
    begin(core, "".join(promises), 5.0)
    return core


# -- registration ---------------------------------------------------------------------------


def test_messages_are_accepted_once_enough_stores_take_the_stream() -> None:
    core = new()
    assert isinstance(core.refusal(), NotRegistered)
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "abc")
    assert core.step("a") == OpenStream(1)
    core.opened("a", core.epoch, 0, FSYNC, 0.0)
    core.opened("b", core.epoch, 0, FSYNC, 0.0)
    # The third has promised: it is worth a moment.
    assert not core.complete
    core.opened("c", core.epoch, 0, FSYNC, 0.0)
    assert core.refusal() is None
    complete = the(core, events.RegistrationComplete)
    assert complete == [events.RegistrationComplete(0, 1, ("a", "b", "c"), ())]
    assert [event.store for event in the(core, events.RegistrationSucceeded)] == ["a", "b", "c"]


def test_a_store_that_promises_and_hangs_is_not_waited_for_long() -> None:
    core = new()
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "ab")
    core.opened("a", core.epoch, 0, FSYNC, 1.0)
    core.opened("b", core.epoch, 0, FSYNC, 1.0)
    core.tick(2.9)
    assert not core.complete
    core.tick(3.0)
    assert the(core, events.RegistrationComplete)[0].missing == ("c",)


def test_what_a_quorum_holds_after_begin_is_stable_without_sending_it_again() -> None:
    core = resumed(dict.fromkeys("ab", earlier(9)))
    assert core.stable_upto == 9
    assert core.step("a") == OpenStream(2)
    assert core.window.next_sequence == 10
    assert core.retention.first == 10


def test_what_was_kept_but_is_not_stable_is_sent_again() -> None:
    core = resumed({"a": earlier(9, stable_upto=3), "b": earlier(5)})
    assert core.stable_upto == 5
    load = core.load()
    assert load is not None
    assert (load.first, load.last) == (6, 9)
    assert load.holders[6] == ("a",)
    assert core.loading
    core.loaded([kept(6, b"6", b"7"), kept(8, b"8", b"9")], 5.0)
    core.opened("a", core.epoch, 10, FSYNC, 5.0)
    core.opened("b", core.epoch, 6, FSYNC, 5.0)
    assert core.complete
    assert payloads(frames(core, "b")) == [b"6", b"7", b"8", b"9"]
    assert frames(core, "a") == []
    assert core.stable_upto == 5
    core.acknowledged("b", 9, 5.0)
    assert core.stable_upto == 9


def test_what_a_store_sets_aside_does_not_count_for_what_gets_its_number() -> None:
    core = new(SourceOptions(consensus=Behaviour.LOWEST))
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, {"a": earlier(9), "b": earlier(5), "c": earlier(5)})
    begin(core, "abc")
    for store in "bc":
        core.opened(store, core.epoch, 6, FSYNC, 5.0)
    core.tick(5.0)
    assert core.window.next_sequence == 6
    send(core, b"new 6")
    core.acknowledged("b", 6, 5.0)
    assert core.stable_upto == 5
    core.acknowledged("c", 6, 5.0)
    assert core.stable_upto == 6


def test_a_registration_that_gets_stuck_is_begun_anew_and_forgets_nothing() -> None:
    core = new(stable_upto=3, unstable=[batch(4, b"4", b"5")])
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    promise(core, dict.fromkeys("ab", earlier(3, 3)))
    core.tick(5.0)
    stuck = core.epoch
    core.begun("b", stuck, 5.0)
    core.failed("a", DOWN, 5.0)
    core.tick(29.0)
    assert core.epoch == stuck
    core.tick(31.0)
    assert core.epoch == stuck + 1
    assert [core.step(store) for store in "abc"] == [AskPromise(stuck + 1)] * 3
    promise(core, dict.fromkeys("bc", earlier(3, 3)))
    core.tick(35.0)
    begin(core, "bc", 35.0)
    for store in "bc":
        core.opened(store, core.epoch, 4, FSYNC, 35.0)
    assert payloads(frames(core, "b")) == [b"4", b"5"]


def test_a_stream_that_somebody_else_went_on_with_is_not_taken_back() -> None:
    core = registered()
    send(core, b"0", b"1")
    core.failed("c", Fenced("orders", 1, 4), 0.0)
    core.tick(9.0)
    assert core.epoch == 5
    theirs = Promise(
        4,
        Lineage((Term(1, 0), Term(4, 1))),
        Membership((POLICY,), (POLICY,)),
        (HeldRange(0, 0, 1), HeldRange(1, 7, 4)),
    )
    promise(core, {"a": earlier(1), "c": theirs})
    core.tick(20.0)
    assert isinstance(core.error, Fenced)
    assert [core.step(store) for store in "abc"] == [Hold()] * 3


def test_the_publish_store_goes_on_behind_what_was_kept() -> None:
    unstable = [batch(4, b"4", b"5"), batch(6, b"6"), batch(7, b"7", b"8")]
    core = resumed(dict.fromkeys("ab", earlier(6)), stable_upto=3, unstable=unstable)
    load = core.load()
    assert load is not None
    assert (load.first, load.last) == (4, 6)
    core.loaded([kept(4, b"4", b"5", b"6")], 5.0)
    assert core.window.next_sequence == 9
    core.opened("a", core.epoch, 7, FSYNC, 5.0)
    (frame,) = frames(core, "a")
    header = check_batch(frame.batch)
    assert (header.first, header.last, header.epoch) == (7, 8, 2)
    assert payloads([frame]) == [b"7", b"8"]


def test_a_publish_store_that_contradicts_the_stores_is_reported() -> None:
    core = resumed(dict.fromkeys("ab", earlier(6)), stable_upto=3, unstable=[batch(4, b"other")])
    core.loaded([kept(4, b"4", b"5", b"6")], 5.0)
    assert isinstance(core.error, ContentConflict)
    assert (core.error.first, core.error.store) == (4, "a")


def test_a_store_that_answers_late_is_brought_up() -> None:
    core = resumed(dict.fromkeys("ab", earlier(9)))
    core.opened("a", core.epoch, 10, FSYNC, 5.0)
    core.opened("b", core.epoch, 10, FSYNC, 5.0)
    send(core, b"10")
    assert core.step("c") == AskPromise(2)
    promise(core, {"c": earlier(9)}, 6.0)
    begin(core, "c", 6.0)
    core.opened("c", core.epoch, 10, FSYNC, 6.0)
    assert payloads(frames(core, "c")) == [b"10"]
    core.acknowledged("c", 10, 6.0)
    assert the(core, events.StoreCaughtUp) == [events.StoreCaughtUp("c", 10)]


# -- changing the stores --------------------------------------------------------------------

OLD = Layout.plain("a=a:1,b=b:1,x=x:1")


def answer_of(core: SourceCore, held_upto: int) -> Promise:
    """What a store says that has begun this core's epoch."""
    registration = core.registration
    return Promise(
        registration.lineage.epoch,
        registration.lineage,
        registration.membership,
        (HeldRange(0, held_upto, 1),) if held_upto >= 0 else (),
    )


def look(
    core: SourceCore, answers: dict[str, Promise | None], now: float, disk: bytes = b""
) -> None:
    """Answer all looks that are due."""
    epoch = core.epoch
    for store in core.looks_due(now):
        answer, grant = answers.get(store), core.registration.grant(store)
        if answer is not None:
            grant = Grant(7, disk or (grant.incarnation if grant else b""), answer)
        core.looked(store, epoch, grant if answer else None, now)


def moving(kept_upto: int = 3, others_kept_upto: int | None = None) -> SourceCore:
    """A source that moves from a, b, x to a, b, c, and has begun on all of them."""
    core = new(previous=[OLD])
    assert list(core.stores) == ["a", "b", "c", "x"]
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    others = kept_upto if others_kept_upto is None else others_kept_upto
    record = Membership((OLD.policy,), (OLD.policy,))
    answer, other = (replace(earlier(upto), membership=record) for upto in (kept_upto, others))
    promise(core, {"a": answer, "b": other, "x": other, "c": Promise()}, 0.1)
    begin(core, "abcx", 0.2)
    return core


def streams(core: SourceCore, stores: str, now: float, upto: int = 3) -> None:
    for store in stores:
        assert core.opened(store, core.epoch, upto + 1, FSYNC, now)


def test_a_stream_moves_by_way_of_both_policies_and_the_record_then_forgets_the_old_one() -> None:
    core = moving()
    assert core.registration.membership == Membership((OLD.policy,), (OLD.policy, POLICY))
    core.loaded([kept(0, b"0", b"1", b"2", b"3")], 0.2)
    streams(core, "abcx", 0.3)
    assert core.complete
    assert core.stable_upto == 3
    first = core.epoch
    look(core, dict.fromkeys("abcx", answer_of(core, 3)), 0.4)
    assert core.epoch == first + 1
    # Messages are accepted meanwhile, and wait.
    assert core.refusal() is None
    assert not core.can_commit
    promise(core, dict.fromkeys("abcx", answer_of(core, 3)), 0.5)
    asked = core.step("a")
    assert isinstance(asked, AskBegin)
    assert asked.membership == Membership((OLD.policy, POLICY), (POLICY,))
    begin(core, "ab", 0.6)
    # Enough have begun; now they are told to forget where the record came from.
    for store in "abc":
        asked = core.step(store)
        assert isinstance(asked, AskBegin)
        assert asked.membership == Membership((POLICY,), (POLICY,))
    begin(core, "bc", 0.7)
    assert list(core.stores) == ["a", "b", "c"]
    streams(core, "bc", 0.8)
    assert core.complete
    assert the(core, events.MembershipChanged) == [
        events.MembershipChanged((OLD.policy,), (OLD.policy, POLICY), first, False),
        events.MembershipChanged((OLD.policy, POLICY), (POLICY,), first + 1, False),
        events.MembershipChanged((OLD.policy, POLICY), (POLICY,), first + 1, True),
    ]
    assert not the(core, events.QuorumLost)
    assert len(the(core, events.RegistrationSucceeded)) == 7
    assert [entry.name for entry in core.information().stores] == ["a", "b", "c"]


def test_what_a_former_incarnation_holds_brings_nothing_up() -> None:
    """Its answer was still on its way when the store had joined again, without all that."""
    core = moving()
    core.loaded([kept(0, b"0", b"1", b"2", b"3")], 0.2)
    streams(core, "abcx", 0.3)
    first = core.epoch
    look(core, dict.fromkeys("abcx", answer_of(core, 3)), 0.4, disk=b"former disk")
    assert core.epoch == first
    look(core, dict.fromkeys("abcx", answer_of(core, 3)), 5.0)
    assert core.epoch == first + 1


def test_a_store_that_the_stream_has_left_may_be_wiped() -> None:
    core = moving()
    core.loaded([kept(0, b"0", b"1", b"2", b"3")], 0.2)
    streams(core, "abcx", 0.3)
    look(core, dict.fromkeys("abcx", answer_of(core, 3)), 0.4)
    for store in "abcx":
        grant = Grant(7, b"disk", answer_of(core, 3), f"store {store}")
        core.promised(store, core.epoch, grant, 0.5)
    begin(core, "xab", 0.6)
    begin(core, "bc", 0.7)
    begin(core, "x", 0.8)
    assert list(core.stores) == ["a", "b", "c"]
    assert core.known("store x", b"new disk", [], 0.9, "b") == []
    assert core.known("store a", b"new disk", [], 0.9, "b") == ["a"]


def test_the_old_stores_are_needed_until_the_new_ones_have_everything() -> None:
    core = moving()
    core.loaded([kept(0, b"0", b"1", b"2", b"3")], 0.2)
    streams(core, "abcx", 0.3)
    first = core.epoch
    some, everything = answer_of(core, 1), answer_of(core, 3)
    look(core, {"a": everything, "b": some, "c": some, "x": everything}, 0.4)
    assert core.looks_due(0.5) == []
    core.tick(0.5)
    assert core.epoch == first
    look(core, {"a": everything, "b": None, "c": some, "x": everything}, 1.0)
    assert core.epoch == first
    core.failed("b", DOWN, 1.2)
    look(core, {"a": everything, "c": everything, "x": None}, 1.6)
    assert core.epoch == first + 1


def test_what_is_kept_must_be_stable_before_the_new_policy_is_alone() -> None:
    core = moving(others_kept_upto=1)
    core.loaded([kept(2, b"2", b"3")], 0.2)
    for store in "abcx":
        assert core.opened(store, core.epoch, 2, FSYNC, 0.3)
    first = core.epoch
    assert core.stable_upto == 1
    look(core, dict.fromkeys("abcx", answer_of(core, 3)), 0.4)
    assert core.epoch == first
    core.acknowledged("a", 3, 0.5)
    core.acknowledged("c", 3, 0.5)
    core.tick(0.5)
    # Not under the old policy.
    assert core.epoch == first
    core.acknowledged("x", 3, 0.6)
    core.tick(0.6)
    assert core.epoch == first + 1


def test_another_registration_in_the_middle_begins_the_change_again() -> None:
    core = moving(-1)
    streams(core, "abcx", 0.3, -1)
    look(core, dict.fromkeys("abcx", answer_of(core, -1)), 0.4)
    # Somebody promised in between and went away again.
    core.failed("a", Fenced("orders", core.epoch, core.epoch + 3), 0.5)
    other = replace(
        answer_of(core, -1), begun_epoch=core.epoch - 1, lineage=Lineage((Term(core.epoch - 1, 0),))
    )
    promise(core, dict.fromkeys("abcx", other), 0.6)
    asked = core.step("a")
    assert isinstance(asked, AskBegin)
    assert asked.membership.to_policies == (OLD.policy, POLICY)


def test_a_change_that_gets_stuck_is_a_lost_quorum_in_the_end() -> None:
    core = moving(-1)
    streams(core, "abcx", 0.3, -1)
    look(core, dict.fromkeys("abcx", answer_of(core, -1)), 0.4)
    core.tick(5.0)
    assert core.refusal() is None
    core.tick(11.0)
    assert isinstance(core.refusal(), NotRegistered)
    assert the(core, events.QuorumLost) == [events.QuorumLost(())]


def test_stores_that_only_the_record_names_are_found_through_it() -> None:
    elsewhere = Membership((OLD.policy,), (OLD.policy,), (("x", "x:9"),))
    core = new(previous=[Layout.plain("a=a:1,b=b:1,x=x:1")])
    assert core.stores["x"].address == "x:1"
    there = Policy.majority_of("pqr")
    record = Membership((OLD.policy,), (OLD.policy, there), (("p", "p:1"), ("q", "q:1")))
    grant = Grant(
        7, b"disk", replace(earlier(3), membership=record), addresses=(("r", "r:1"), ("x", "x:2"))
    )
    core.promised("a", core.epoch, grant, 0.1)
    assert core.stores_version > 1
    assert {name: store.address for name, store in core.stores.items()} == {
        name: f"{name}:1" for name in "abcpqrx"
    }
    assert elsewhere.addresses == (("x", "x:9"),)


def test_a_store_keeps_its_name() -> None:
    core = new(previous=[OLD])
    record = Membership((OLD.policy,), (OLD.policy,), (("y", "a:1"),))
    core.promised("a", 1, Grant(7, b"disk", replace(earlier(3), membership=record)), 0.1)
    core.tick(0.2)
    assert isinstance(core.error, InvalidArgument)
    assert "a:1 is called a here and y" in str(core.error)


def test_a_configuration_that_does_not_follow_on_the_one_in_force_changes_nothing() -> None:
    core = new()
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    newer = Policy.majority_of("def")
    answer = replace(earlier(3), membership=Membership((newer,), (newer,), (("d", "d:1"),)))
    promise(core, {"a": answer}, 0.1)
    assert list(core.stores) == ["a", "b", "c"]
    promise(core, {"b": answer, "c": Promise()}, 0.2)
    error = core.error
    assert isinstance(error, PolicyNotInForce)
    assert (error.in_force, error.configured) == (str(newer), str(POLICY))
    assert core.step("a") == Hold()


# -- backups --------------------------------------------------------------------------------


def with_backup() -> SourceCore:
    policy = Policy((Group("g", tuple("abc"), backups=("d",)),))
    stores = [StoreAddress(store, f"{store}:1") for store in "abcd"]
    core = SourceCore(NAME, stores, policy, SourceOptions(backup_after=2.0), b"me")
    core.start(0.0)
    assert list(core.stores) == ["a", "b", "c"]
    promise(core, dict.fromkeys("abc", Promise()))
    begin(core, "abc")
    streams(core, "abc", 0.0, -1)
    return core


def change(core: SourceCore, stores: str, now: float) -> None:
    """Both registrations of a change of the stores, on those that answer."""
    for _ in range(2):
        promise(core, dict.fromkeys(stores, answer_of(core, -1)), now)
        while isinstance(core.step(stores[0]), AskBegin):
            begin(core, stores, now)
        streams(core, "".join(store for store in stores if store in core.stores), now, -1)
        look(core, dict.fromkeys(stores, answer_of(core, -1)), now)


def test_no_backup_steps_in_where_that_would_stop_what_still_goes_on() -> None:
    policy = Policy((Group("g", tuple("abc"), backups=("d",)), Group("h", tuple("xyz"))))
    stores = [StoreAddress(store, f"{store}:1") for store in "abcdxyz"]
    core = SourceCore(NAME, stores, policy, SourceOptions(backup_after=2.0), b"me")
    core.start(0.0)
    promise(core, dict.fromkeys("abcxyz", Promise()))
    begin(core, "abcxyz")
    streams(core, "abcxyz", 0.0, -1)
    for store in "cxy":
        core.failed(store, DOWN, 1.0)
    for now in (1.0, 5.0, 9.0):
        core.tick(now)
    # The second group lacks its quorum: a registration would have to wait for it.
    assert core.epoch == 1
    assert core.complete
    promise(core, {"x": answer_of(core, -1)}, 9.0)
    begin(core, "x", 9.0)
    streams(core, "x", 9.0, -1)
    core.tick(9.1)
    assert core.epoch == 2


def test_a_backup_steps_in_and_the_member_gets_its_place_back() -> None:
    core = with_backup()
    core.failed("c", DOWN, 1.0)
    core.tick(1.0)
    core.tick(2.9)
    assert core.epoch == 1
    core.tick(3.0)
    assert core.epoch == 2
    assert list(core.stores) == ["a", "b", "c", "d"]
    assert core.complete
    # The store that is known to be away is not waited for.
    change(core, "abd", 3.0)
    assert core.epoch == 3
    assert core.registration.membership.policies == (Policy((Group("g", ("a", "b", "d")),)),)
    assert the(core, events.BackupSteppedIn) == [events.BackupSteppedIn("g", "c", "d")]
    send(core, b"x")
    core.acknowledged("a", 0, 3.5)
    assert core.stable_upto == -1
    core.acknowledged("d", 0, 3.5)
    assert core.stable_upto == 0
    # The member is back: it takes the stream again, but counts only once it has its place.
    promise(core, {"c": answer_of(core, -1)}, 4.0)
    begin(core, "c", 4.0)
    assert core.opened("c", core.epoch, 0, FSYNC, 4.0)
    core.tick(4.1)
    assert core.epoch == 3
    frames(core, "c")
    core.acknowledged("c", 0, 4.2)
    core.tick(4.3)
    assert core.epoch == 4
    assert core.registration.policy == Policy((Group("g", ("a", "b", "c")),))
    assert core.complete


# -- streaming ------------------------------------------------------------------------------


def test_every_store_gets_the_same_bytes_and_a_quorum_makes_them_stable() -> None:
    core = registered()
    frame = send(core, b"x", b"y")
    assert [core.next_frame(store, 0.0) for store in "abc"] == [frame] * 3
    core.acknowledged("a", 1, 0.0)
    assert core.stable_upto == -1
    core.acknowledged("c", 1, 0.0)
    assert core.stable_upto == 1
    assert core.tracker.holders(1) == ("a", "c")
    assert Frame.FromString(send(core, b"z")).stable_upto == 1


def test_a_stream_is_idle_once_everything_was_written_and_acknowledged() -> None:
    core = registered()
    assert not core.idle_quorum()
    frames(core, "a")
    frames(core, "b")
    assert core.idle_quorum()
    send(core, b"x")
    assert not core.idle_quorum()
    frames(core, "a")
    frames(core, "b")
    assert not core.idle_quorum()
    core.acknowledged("a", 0, 0.0)
    assert not core.idle_quorum()
    core.acknowledged("b", 0, 0.0)
    assert core.idle_quorum()


def test_a_lagging_store_gets_what_is_retained_and_skips_the_rest() -> None:
    core = registered(SourceOptions(retention_bytes_max=1000))
    for number in range(10):
        send(core, b"%d" % number * 100)
        core.acknowledged("a", number, 0.0)
        core.acknowledged("b", number, 0.0)
    skip, *batches = frames(core, "c")
    assert (skip.skip.first, skip.stable_upto) == (0, 9)
    assert core.retention.first == skip.skip.last + 1 > 0
    assert payloads(batches)[-1] == b"9" * 100
    assert core.retention.settled_memory <= 1000


def test_what_goes_while_a_stream_is_being_opened_is_skipped() -> None:
    core = registered(SourceOptions(retention_bytes_max=0))
    send(core, b"0", b"1")
    core.failed("c", DOWN, 0.0)
    opening = Frame.FromString(core.open_frame()).open
    assert opening.retained_from == 0
    core.acknowledged("a", 1, 0.0)
    core.acknowledged("b", 1, 0.0)
    send(core, b"2")
    core.opened("c", core.epoch, 0, FSYNC, 0.0)
    skip, *batches = frames(core, "c")
    assert (skip.skip.first, skip.skip.last) == (0, 1)
    assert payloads(batches) == [b"2"]


def test_a_stream_may_go_on_in_the_middle_of_a_batch() -> None:
    core = registered()
    send(core, b"0", b"1", b"2")
    core.failed("c", DOWN, 0.0)
    core.opened("c", core.epoch, 1, FSYNC, 0.0)
    assert payloads(frames(core, "c")) == [b"0", b"1", b"2"]


def test_what_no_store_lacks_is_not_retained() -> None:
    core = registered()
    send(core, b"x")
    for store in "abc":
        core.acknowledged(store, 0, 0.0)
    assert len(core.retention) == 0


def test_a_store_that_reconnects_goes_on_where_it_is() -> None:
    core = registered()
    send(core, b"x")
    send(core, b"y")
    frames(core, "c")
    core.failed("c", DOWN, 1.0)
    core.opened("c", core.epoch, 1, FSYNC, 2.0)
    assert payloads(frames(core, "c")) == [b"y"]


def test_a_store_that_lost_its_disk_no_longer_counts_for_what_it_acknowledged() -> None:
    core = registered()
    send(core, b"x")
    core.acknowledged("a", 0, 0.0)
    core.failed("a", NotRegistered("orders", "wiped"), 1.0)
    assert core.step("a") == AskPromise(1)
    promise(core, {"a": Promise()}, 1.0)
    begin(core, "a", 1.0)
    core.opened("a", core.epoch, 0, FSYNC, 1.0)
    core.acknowledged("b", 0, 1.0)
    assert core.stable_upto == -1
    core.acknowledged("a", 0, 1.0)
    assert core.stable_upto == 0


def test_losing_the_quorum_stops_sending_until_it_is_back() -> None:
    core = registered()
    core.failed("b", DOWN, 1.0)
    assert core.complete
    core.failed("c", DOWN, 1.0)
    assert isinstance(core.refusal(), NotRegistered)
    assert [event.quorum_lost for event in the(core, events.StoreUnresponsive)] == [False, True]
    assert the(core, events.QuorumLost) == [events.QuorumLost(("a",))]
    core.failed("c", DOWN, 2.0)
    assert len(the(core, events.StoreUnresponsive)) == 2
    core.opened("c", core.epoch, 0, FSYNC, 3.0)
    assert core.refusal() is None
    assert the(core, events.RegistrationComplete)[-1].missing == ("b",)


def test_a_fenced_source_accepts_nothing_more() -> None:
    core = registered()
    for store in "ab":
        core.failed(store, Fenced("orders", 1, 2), 1.0)
    assert isinstance(core.refusal(), Fenced)
    assert len(the(core, events.SourceFailed)) == 1


def test_a_store_kept_away_by_a_promise_to_nobody_is_won_back_by_a_higher_epoch() -> None:
    core = registered()
    send(core, b"x")
    core.failed("c", Fenced("orders", 1, 7), 1.0)
    core.tick(2.0)
    assert core.epoch == 1
    core.tick(4.0)
    assert core.epoch == 8
    assert isinstance(core.refusal(), NotRegistered)
    # What has gathered stays gathered.
    core.window.payloads.append(b"y")
    core.window.next_sequence += 1
    core.window.sent_bytes += 1
    answer = earlier(0)
    promise(core, {"a": answer, "b": earlier(-1), "c": earlier(-1)}, 4.0)
    begin(core, "abc", 4.0)
    core.loaded([kept(0, b"x")], 4.0)
    core.opened("a", core.epoch, 1, FSYNC, 4.0)
    core.opened("b", core.epoch, 0, FSYNC, 4.0)
    core.opened("c", core.epoch, 0, FSYNC, 4.0)
    assert core.complete
    assert core.window.next_sequence == 2
    core.release(core.take(0), 4.0)
    said = frames(core, "b")
    assert payloads(said) == [b"x", b"y"]
    assert [check_batch(frame.batch).epoch for frame in said] == [1, 8]


def test_other_content_on_a_store_ends_the_source() -> None:
    core = registered()
    conflict = ContentConflict("orders", 0, 0, "a")
    core.failed("a", conflict, 1.0)
    assert core.refusal() is conflict


def test_a_store_that_acknowledges_nothing_is_noticed() -> None:
    core = registered()
    send(core, b"x")
    core.next_frame("a", 1.0)
    assert core.streams.silent(10.0, 10.0) == []
    assert core.streams.silent(11.5, 10.0) == ["a"]
    core.acknowledged("a", 0, 11.6)
    assert core.streams.silent(100.0, 10.0) == []


def test_quiet_streams_say_that_the_source_lives_and_what_is_stable() -> None:
    core = registered()
    send(core, b"x")
    frames(core, "a")
    core.acknowledged("b", 0, 0.0)
    core.acknowledged("c", 0, 0.0)
    assert frames(core, "a") == []
    core.streams.keepalives_due()
    (frame,) = frames(core, "a")
    assert frame.WhichOneof("kind") == "keepalive"
    assert frame.stable_upto == 0


def test_stores_are_told_when_a_late_one_gives_a_reg_id() -> None:
    core = new()
    promise(core, dict.fromkeys("ab", Promise()))
    core.tick(3.0)
    begin(core, "ab", 3.0)
    for store in "ab":
        core.opened(store, core.epoch, 0, FSYNC, 3.0)
    before = core.version
    promise(core, {"c": Promise()}, 4.0)
    assert core.version > before
    (frame,) = frames(core, "a")
    assert [entry.reg_id for entry in frame.information.stores] == [7, 7, 7]


def test_what_is_not_stable_in_time_is_reported_once() -> None:
    core = registered(SourceOptions(stability_lifetime=60.0))
    send(core, b"x", now=1.0)
    send(core, b"y", now=30.0)
    core.tick(60.0)
    assert the(core, events.NotStable) == []
    core.tick(61.0)
    core.tick(62.0)
    assert the(core, events.NotStable) == [events.NotStable(0, 0, events.NotStableCause.TIMEOUT)]
    core.tick(90.0)
    late = events.NotStable(1, 1, events.NotStableCause.TIMEOUT)
    assert the(core, events.NotStable)[1:] == [late]


def test_an_exceeded_flight_is_told_once_and_relieved_once() -> None:
    core = registered(SourceOptions(flight_messages=2, flight_behaviour=FlightBehaviour.NOTIFY))
    send(core, b"x", b"y", b"z")
    core.note_exceeded()
    core.note_exceeded()
    assert the(core, events.FlightExceeded) == [events.FlightExceeded(3, 3)]
    for store in "ab":
        core.acknowledged(store, 2, 0.0)
    assert the(core, events.FlightRelieved) == [events.FlightRelieved(2)]


def test_closed_it_accepts_nothing_but_what_was_accepted_still_goes_out() -> None:
    core = registered()
    core.window.payloads.append(b"x")
    core.window.next_sequence += 1
    core.window.sent_bytes += 1
    core.stop_accepting()
    assert isinstance(core.refusal(), Closed)
    assert core.can_take
    core.release(core.take(0), 0.0)
    assert payloads(frames(core, "a")) == [b"x"]
    assert Frame.FromString(core.goodbye_frame()).goodbye.last_sequence == 0


def test_nothing_is_packed_between_epochs_or_while_a_batch_is_being_written() -> None:
    core = registered()
    for _ in range(2):
        core.window.payloads.append(b"x")
        core.window.next_sequence += 1
    packed = core.take(0)
    core.window.payloads.append(b"y")
    core.window.next_sequence += 1
    core.failed("c", Fenced("orders", 1, 7), 1.0)
    assert not may_take(core)
    core.tick(5.0)
    assert core.epoch == 1
    core.release(packed, 5.0)
    assert may_take(core)
    core.tick(5.0)
    assert core.epoch == 8
    assert not may_take(core)


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
        core.opened(store, core.epoch, 0, FSYNC, 0.0)
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
    core.opened("a", core.epoch, 0, FSYNC, 1.0)
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
        events.MessageStable(0, 1, ("a", "b", "d", "e"), ("g", "h")),
        events.MessageStable(2, 2, ("b", "c", "d", "e"), ("g", "h")),
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
    core.failed("b", ContentConflict("orders", 0, 0, "b"), 1.0)
    cause = events.NotStableCause.REFUSED
    assert the(core, events.NotStable) == [events.NotStable(0, 0, cause, "b")]


def test_for_whom_a_registration_waits_is_told_once_and_again_when_it_waits_for_enough() -> None:
    core = new()
    promise(core, {"a": Promise()}, 0.05)
    for now in (0.1, 0.2):
        core.tick(now)
    core.tick(3.0)
    core.tick(4.0)
    assert the(core, events.WaitingForStores) == [
        events.WaitingForStores(("b", "c"), 2.9),
        events.WaitingForStores(("b", "c"), 0.0),
    ]
