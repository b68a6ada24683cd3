"""The core played by hand: its stores change, and backups stand in."""

from __future__ import annotations

from tests.begun import rebegun
from tests.source.core_support import (
    DOWN,
    FSYNC,
    NAME,
    POLICY,
    answer_of,
    begin,
    earlier,
    frames,
    kept,
    look,
    new,
    opened,
    promise,
    send,
    streams,
    the,
)

from quorate.protocol.errors import (
    Fenced,
    InvalidArgument,
    NotRegistered,
    PolicyNotInForce,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.policy import Group, Membership, Policy
from quorate.protocol.recovery import Promise
from quorate.source import events
from quorate.source.options import SourceOptions
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.registration import (
    AskBegin,
    Grant,
    Hold,
)

# -- changing the stores --------------------------------------------------------------------

OLD = Layout.plain("a=a:1,b=b:1,x=x:1")


def moving(kept_upto: int = 3, others_kept_upto: int | None = None) -> SourceCore:
    """A source that moves from a, b, x to a, b, c, and has begun on all of them."""
    core = new(previous=[OLD])
    assert list(core.stores) == ["a", "b", "c", "x"]
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    others = kept_upto if others_kept_upto is None else others_kept_upto
    record = Membership((OLD.policy,), (OLD.policy,))
    answer, other = (rebegun(earlier(upto), membership=record) for upto in (kept_upto, others))
    promise(core, {"a": answer, "b": other, "x": other, "c": Promise()}, 0.1)
    begin(core, "abcx", 0.2)
    return core


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
    assert asked.begin.membership == Membership((OLD.policy, POLICY), (POLICY,))
    begin(core, "ab", 0.6)
    # Enough have begun; now they are told to forget where the record came from.
    for store in "abc":
        asked = core.step(store)
        assert isinstance(asked, AskBegin)
        assert asked.begin.membership == Membership((POLICY,), (POLICY,))
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


def test_a_source_that_closes_asks_no_store_what_it_holds() -> None:
    """Its connections may be closed already."""
    core = moving()
    core.loaded([kept(0, b"0", b"1", b"2", b"3")], 0.2)
    streams(core, "abcx", 0.3)
    assert set(core.looks_due(0.4)) == set("abcx")
    core = moving()
    core.loaded([kept(0, b"0", b"1", b"2", b"3")], 0.2)
    streams(core, "abcx", 0.3)
    core.close()
    assert core.looks_due(0.4) == []


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
        assert opened(core, store, core.epoch, 2, FSYNC, 0.3)
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
    promised = core.epoch + 3
    core.failed("a", Fenced("orders", core.epoch, promised), 0.5)
    core.tick(4.0)
    assert core.epoch == promised + 1
    other = rebegun(answer_of(core, -1), epoch=core.epoch - 1)
    promise(core, dict.fromkeys("abcx", other), 4.1)
    asked = core.step("a")
    assert isinstance(asked, AskBegin)
    assert asked.begin.membership is not None
    assert asked.begin.membership.to_policies == (OLD.policy, POLICY)


def test_a_change_that_gets_stuck_is_a_lost_quorum_in_the_end() -> None:
    core = moving(-1)
    streams(core, "abcx", 0.3, -1)
    look(core, dict.fromkeys("abcx", answer_of(core, -1)), 0.4)
    core.tick(5.0)
    assert core.refusal() is None
    core.tick(11.0)
    assert isinstance(core.refusal(), NotRegistered)
    assert the(core, events.QuorumLost) == [events.QuorumLost((), ())]


def test_stores_that_only_the_record_names_are_found_through_it() -> None:
    elsewhere = Membership((OLD.policy,), (OLD.policy,), (("x", "x:9"),))
    core = new(previous=[Layout.plain("a=a:1,b=b:1,x=x:1")])
    assert core.stores["x"].address == "x:1"
    there = Policy.majority_of("pqr")
    record = Membership((OLD.policy,), (OLD.policy, there), (("p", "p:1"), ("q", "q:1")))
    grant = Grant(
        7, b"disk", rebegun(earlier(3), membership=record), addresses=(("r", "r:1"), ("x", "x:2"))
    )
    core.promised("a", core.epoch, grant, 0.1)
    assert core.roster.version > 1
    assert {name: store.address for name, store in core.stores.items()} == {
        name: f"{name}:1" for name in "abcpqrx"
    }
    assert elsewhere.addresses == (("x", "x:9"),)


def test_a_store_keeps_its_name() -> None:
    core = new(previous=[OLD])
    record = Membership((OLD.policy,), (OLD.policy,), (("y", "a:1"),))
    core.promised("a", 1, Grant(7, b"disk", rebegun(earlier(3), membership=record)), 0.1)
    core.tick(0.2)
    assert isinstance(core.error, InvalidArgument)
    assert "a:1 is called a here and y" in str(core.error)


def test_a_configuration_that_does_not_follow_on_the_one_in_force_changes_nothing() -> None:
    core = new()
    core.failed("a", Fenced("orders", 1, 1), 0.0)
    newer = Policy.majority_of("def")
    answer = rebegun(earlier(3), membership=Membership((newer,), (newer,), (("d", "d:1"),)))
    promise(core, {"a": answer}, 0.1)
    assert list(core.stores) == ["a", "b", "c"]
    promise(core, {"b": answer, "c": Promise()}, 0.2)
    error = core.error
    assert isinstance(error, PolicyNotInForce)
    assert (error.in_force, error.configured, error.unnamed) == (str(newer), str(POLICY), "")
    assert "host:port" not in str(error), "its stores have names"
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
    # Who looks at the stores can tell who stands in for whom.
    assert list(core.information().declared.groups[0].stores) == ["a", "b", "c"]
    send(core, b"x")
    core.acknowledged("a", 0, 3.5)
    assert core.stable_upto == -1
    core.acknowledged("d", 0, 3.5)
    assert core.stable_upto == 0
    # The member is back: it takes the stream again, but counts only once it has its place.
    promise(core, {"c": answer_of(core, -1)}, 4.0)
    begin(core, "c", 4.0)
    assert opened(core, "c", core.epoch, 0, FSYNC, 4.0)
    core.tick(4.1)
    assert core.epoch == 3
    frames(core, "c")
    core.acknowledged("c", 0, 4.2)
    core.tick(4.3)
    assert core.epoch == 4
    assert core.registration.policy == Policy((Group("g", ("a", "b", "c")),))
    assert not core.information().HasField("declared")
    assert core.complete


def test_while_a_backup_steps_in_and_back_no_living_store_is_waited_for() -> None:
    core = with_backup()
    core.failed("c", DOWN, 1.0)
    now = 1.0
    while core.epoch < 3:
        # Living stores have answered long before the next look.
        core.tick(now)
        change(core, "abd", now)
        now += 1.0
    assert the(core, events.BackupSteppedIn)
    promise(core, {"c": answer_of(core, -1)}, now)
    begin(core, "c", now)
    assert opened(core, "c", core.epoch, 0, FSYNC, now)
    while core.registration.policy.stores != set("abc"):
        core.tick(now)
        frames(core, "c")
        core.acknowledged("c", 0, now)
        change(core, "abcd", now)
        now += 1.0
    assert core.complete
    waited_for = [event.missing for event in the(core, events.WaitingForStores)]
    assert waited_for in ([], [("c",)])
