"""How long identities live: fake clocks, plain rules."""

from __future__ import annotations

import pytest
from tests.store.support import ORDERS

from quorate.protocol.errors import InvalidArgument
from quorate.store.rules.identity_records import (
    pack_life,
    unpack_life,
)
from quorate.store.rules.lifetimes import (
    CONFIRM_SECONDS,
    GLANCE_SECONDS_MAX,
    STAMP_SECONDS,
    Life,
    Lifetimes,
    Lives,
    Observed,
    Owner,
    Who,
    asked_lifetimes,
)
from quorate.store.storage.records import Malformed

SOURCE = Who(ORDERS)
RECEIVER = Who(ORDERS, 0x20)
FOR_EVER = Lifetimes()
NOON = 1_700_000_000.0


class Clocked:
    """Lives of a store that is up since noon, by clocks that only tests move."""

    def __init__(self, configured: Lifetimes = FOR_EVER, wall: float = NOON) -> None:
        self.steady = 1000.0
        self.observed = Observed(self.steady, wall)
        self.lives = Lives(self.observed, lambda _: configured)

    def pass_by(self, seconds: float) -> None:
        """Time passes while the store looks around."""
        while seconds > 0:
            step = min(seconds, GLANCE_SECONDS_MAX)
            self.steady += step
            self.observed.look(self.steady)
            seconds -= step

    def pause(self, seconds: float) -> None:
        """The process does not run, then looks around again."""
        self.steady += seconds
        self.observed.look(self.steady)

    def restarted(self, configured: Lifetimes, down: float) -> Clocked:
        """The store after a stop, with what was on the disk."""
        again = Clocked(configured, self.observed.wall + down)
        for who in (SOURCE, RECEIVER):
            again.lives.restore(who, unpack_life(pack_life(self.lives.of(who))))
        return again


@pytest.mark.parametrize(
    ("configured", "asked", "expected"),
    [
        ((0, 0), (0, 0), (0, 0)),
        ((5, 100), (0, 0), (5, 100)),
        ((5, 100), (9, 0), (9, 100)),
        ((9, 100), (5, 0), (5, 100)),
        ((5, 100), (0, 50), (5, 50)),
        ((5, 50), (0, 100), (5, 50)),
        ((5, 0), (0, 100), (5, 100)),
    ],
)
def test_a_client_overrides_the_timeout_and_the_shorter_lifetime_counts(
    configured: tuple[float, float], asked: tuple[float, float], expected: tuple[float, float]
) -> None:
    assert Lifetimes(*configured).merged(Lifetimes(*asked)) == Lifetimes(*expected)


def test_by_default_nobody_is_protected_and_nothing_is_ever_deleted() -> None:
    clocked = Clocked()
    clocked.lives.came(SOURCE, Lifetimes())
    clocked.lives.left(SOURCE, willingly=False)
    assert not clocked.lives.protected_for(SOURCE)
    clocked.pass_by(1e5)
    assert not clocked.lives.overdue(SOURCE)


def test_a_later_registration_asks_for_something_else() -> None:
    clocked = Clocked()
    clocked.lives.came(RECEIVER, Lifetimes(5, 100))
    clocked.lives.came(RECEIVER, Lifetimes(7, 50))
    assert clocked.lives.lifetimes(RECEIVER) == Lifetimes(7, 50)
    clocked.lives.came(RECEIVER, Lifetimes())
    assert clocked.lives.lifetimes(RECEIVER) == Lifetimes()


def test_another_instance_is_refused_for_the_activity_timeout() -> None:
    clocked = Clocked(Lifetimes(10, 0))
    clocked.lives.heard(SOURCE)
    clocked.pass_by(9.9)
    assert clocked.lives.protected_for(SOURCE)
    clocked.pass_by(0.2)
    assert not clocked.lives.protected_for(SOURCE)


def test_a_stream_protects_and_keeps_for_as_long_as_it_is_open() -> None:
    clocked = Clocked(Lifetimes(10, 20))
    clocked.lives.stays(SOURCE)
    clocked.pass_by(1000)
    assert clocked.lives.protected_for(SOURCE)
    assert not clocked.lives.overdue(SOURCE)
    clocked.lives.left(SOURCE, willingly=False)
    clocked.pass_by(9)
    assert clocked.lives.protected_for(SOURCE)
    clocked.pass_by(11)
    assert clocked.lives.overdue(SOURCE)


def test_who_leaves_willingly_keeps_nobody_out() -> None:
    clocked = Clocked(Lifetimes(10, 0))
    clocked.lives.stays(SOURCE)
    clocked.lives.left(SOURCE, willingly=True)
    assert not clocked.lives.protected_for(SOURCE)
    clocked.lives.heard(SOURCE)
    assert clocked.lives.protected_for(SOURCE)


def test_what_a_peer_heard_keeps_it_alive_but_revokes_no_goodbye() -> None:
    clocked = Clocked(Lifetimes(10, 20))
    clocked.lives.stays(SOURCE)
    clocked.lives.left(SOURCE, willingly=True)
    clocked.pass_by(15)
    clocked.lives.heard_elsewhere(SOURCE)
    assert not clocked.lives.protected_for(SOURCE)
    clocked.pass_by(15)
    assert not clocked.lives.overdue(SOURCE)


def test_a_store_tells_what_it_has_heard_of_an_owner() -> None:
    """A start protects the source, and says nothing of its owner."""
    clocked = Clocked(Lifetimes(0, 20))
    lives = clocked.lives
    assert lives.owner(SOURCE) == Owner.UNKNOWN
    clocked.pass_by(5)
    lives.heard(SOURCE)
    clocked.pass_by(19)
    assert lives.owner(SOURCE) == Owner.HEARD
    clocked.pass_by(2)
    assert lives.owner(SOURCE) == Owner.SILENT
    lives.stays(SOURCE)
    assert lives.owner(SOURCE) == Owner.HEARD
    for_ever = Clocked().lives
    for_ever.heard(SOURCE)
    assert for_ever.owner(SOURCE) == Owner.UNKNOWN == Owner(9), "of a later version"


def test_a_start_of_the_store_protects_those_that_may_not_have_come_back_yet() -> None:
    before = Clocked(Lifetimes(10, 0))
    before.lives.heard(SOURCE)
    after = before.restarted(Lifetimes(10, 0), down=1000)
    assert after.lives.protected_for(SOURCE)
    after.pass_by(10.1)
    assert not after.lives.protected_for(SOURCE)


def test_state_is_deleted_when_the_store_was_up_and_heard_nothing_for_the_lifetime() -> None:
    clocked = Clocked(Lifetimes(0, 100))
    clocked.lives.heard(SOURCE)
    clocked.pass_by(99)
    assert not clocked.lives.overdue(SOURCE)
    clocked.pass_by(1.1)
    assert clocked.lives.overdue(SOURCE)


@pytest.mark.parametrize("who", [SOURCE, RECEIVER])
def test_the_lifetime_begins_anew_with_each_sign_of_life(who: Who) -> None:
    clocked = Clocked(Lifetimes(0, 100))
    for _ in range(3):
        clocked.lives.heard(who)
        clocked.pass_by(99)
        assert not clocked.lives.overdue(who)


def test_both_times_begin_with_the_last_sign_of_life_and_the_longer_one_counts() -> None:
    clocked = Clocked(Lifetimes(200, 100))
    clocked.lives.heard(SOURCE)
    clocked.pass_by(150)
    assert not clocked.lives.overdue(SOURCE), "nobody is deleted while the identity is protected"
    clocked.pass_by(51)
    assert clocked.lives.overdue(SOURCE)


def test_while_the_process_is_paused_no_time_passes() -> None:
    clocked = Clocked(Lifetimes(0, 100))
    clocked.lives.heard(RECEIVER)
    clocked.pause(10_000)
    assert not clocked.lives.overdue(RECEIVER)
    clocked.pass_by(100)
    assert clocked.lives.overdue(RECEIVER)


def stamped(clocked: Clocked) -> set[Who]:
    return set(clocked.lives.stamps([SOURCE, RECEIVER]))


def test_what_the_wall_clock_says_is_confirmed_by_a_second_look() -> None:
    before = Clocked(Lifetimes(0, 1000))
    before.lives.heard(SOURCE)
    assert stamped(before) == {SOURCE}
    after = before.restarted(Lifetimes(0, 1000), down=5000)
    assert after.lives.marked(SOURCE)
    assert not after.lives.overdue(SOURCE)
    after.pass_by(CONFIRM_SECONDS - 1)
    assert not after.lives.overdue(SOURCE)
    after.pass_by(1.1)
    assert after.lives.overdue(SOURCE)


def test_the_second_look_comes_after_the_activity_timeout_at_the_earliest() -> None:
    before = Clocked(Lifetimes(300, 1000))
    before.lives.heard(SOURCE)
    assert stamped(before) == {SOURCE}
    after = before.restarted(Lifetimes(300, 1000), down=5000)
    after.pass_by(299)
    assert not after.lives.overdue(SOURCE)
    after.pass_by(2)
    assert after.lives.overdue(SOURCE)


def test_who_is_heard_between_the_two_looks_lives() -> None:
    before = Clocked(Lifetimes(0, 1000))
    before.lives.heard(SOURCE)
    assert stamped(before) == {SOURCE}
    after = before.restarted(Lifetimes(0, 1000), down=5000)
    after.pass_by(CONFIRM_SECONDS / 2)
    after.lives.heard(SOURCE)
    after.pass_by(900)
    assert not after.lives.overdue(SOURCE)


def test_a_wall_clock_that_was_put_back_makes_nothing_older() -> None:
    before = Clocked(Lifetimes(0, 100))
    before.lives.heard(SOURCE)
    assert stamped(before) == {SOURCE}
    after = before.restarted(Lifetimes(0, 100), down=-1e6)
    after.pass_by(99)
    assert not after.lives.overdue(SOURCE)
    after.pass_by(2)
    assert after.lives.overdue(SOURCE)


def test_without_a_stamp_the_start_is_the_last_sign_of_life() -> None:
    after = Clocked(Lifetimes(0, 100))
    after.pass_by(99)
    assert not after.lives.overdue(SOURCE)
    after.pass_by(2)
    assert after.lives.overdue(SOURCE)


def test_signs_of_life_are_stamped_now_and_then_and_only_if_they_matter() -> None:
    clocked = Clocked(Lifetimes(5, 0))
    clocked.lives.heard(SOURCE)
    assert stamped(clocked) == set()
    clocked = Clocked(Lifetimes(0, 1000))
    clocked.lives.heard(SOURCE)
    clocked.lives.stays(RECEIVER)
    assert stamped(clocked) == {SOURCE, RECEIVER}
    clocked.pass_by(STAMP_SECONDS / 2)
    clocked.lives.heard(SOURCE)
    assert stamped(clocked) == set()
    assert set(clocked.lives.stamps([SOURCE], all_of_them=True)) == {SOURCE}
    clocked.pass_by(STAMP_SECONDS)
    assert stamped(clocked) == {RECEIVER}, "nothing was heard of the other one since"


def test_a_stamp_may_be_behind_by_its_interval() -> None:
    lifetimes = Lifetimes(0, 100)
    before = Clocked(lifetimes)
    before.lives.heard(SOURCE)
    assert stamped(before) == {SOURCE}
    after = before.restarted(lifetimes, down=120)
    after.pass_by(1)
    assert not after.lives.marked(SOURCE), "it may have lived 25 s longer than is known"
    after.pass_by(5)
    assert after.lives.marked(SOURCE)


def test_lives_survive_as_they_were() -> None:
    life = Life(Lifetimes(1.5, 2.5), NOON, released=True)
    assert unpack_life(pack_life(life)) == life
    for broken in (b"", pack_life(life)[:-1], b"\x07" + pack_life(life)[1:]):
        with pytest.raises(Malformed):
            unpack_life(broken)


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_impossible_lifetimes_are_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgument):
        asked_lifetimes(seconds, 0.0)
    with pytest.raises(InvalidArgument):
        asked_lifetimes(0.0, seconds)
