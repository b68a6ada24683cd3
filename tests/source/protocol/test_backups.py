"""Who stands in for whom, played by hand."""

from __future__ import annotations

from quorate.protocol.policy import Group, Policy
from quorate.source.protocol.backups import Backups

DECLARED = Policy(
    (Group("g", tuple("abc"), backups=("x", "y")), Group("h", tuple("def"), backups=("z",)))
)


def stores_of(policy: Policy) -> list[str]:
    return ["".join(group.stores) for group in policy.groups]


class Play:
    def __init__(self) -> None:
        self.backups = Backups(DECLARED, 10.0)
        self.policy = DECLARED

    def at(self, now: float, taking: str, behind: str = "") -> list[str]:
        """Who is wanted in the groups when these stores take the stream."""
        caught_up = set(taking) - set(behind)
        self.policy = self.backups.wanted(self.policy, set(taking), caught_up, now)
        return stores_of(self.policy)


def test_a_member_that_is_away_long_enough_is_stood_in_for_and_gets_its_place_back() -> None:
    play = Play()
    assert play.at(0.0, "abcdef") == ["abc", "def"]
    assert play.at(1.0, "acdef") == ["abc", "def"]
    assert play.at(10.9, "acdef") == ["abc", "def"]
    assert play.at(11.0, "acdef") == ["axc", "def"]
    assert play.policy.groups[0].backups == ("y", "b")
    assert list(play.policy.stand_ins(DECLARED)) == [("g", "b", "x")]
    assert play.at(20.0, "axcdef") == ["axc", "def"]
    assert play.at(21.0, "abxcdef", behind="b") == ["axc", "def"]
    assert play.at(22.0, "abxcdef") == ["abc", "def"]
    assert play.policy.groups[0].backups == ("x", "y")
    assert list(play.policy.stand_ins(DECLARED)) == []


def test_a_member_that_comes_and_goes_quickly_keeps_its_place() -> None:
    play = Play()
    for now in range(0, 60, 2):
        taking = "abcdef" if now % 8 == 0 else "acdef"
        assert play.at(float(now), taking) == ["abc", "def"]


def test_a_backup_that_does_not_answer_either_makes_room_for_the_next_and_is_tried_again() -> None:
    play = Play()
    play.at(0.0, "acdef")
    assert play.at(10.0, "acdef") == ["axc", "def"]
    assert play.at(11.0, "acdef") == ["axc", "def"]
    assert play.at(21.0, "acdef") == ["ayc", "def"]
    play.at(22.0, "acdef")
    assert play.at(32.0, "acdef") == ["axc", "def"]


def test_every_group_has_its_own_backups_and_no_backup_stands_in_twice() -> None:
    play = Play()
    play.at(0.0, "")
    assert play.at(10.0, "") == ["xyc", "zef"]
    assert [group.backups for group in play.policy.groups] == [("a", "b"), ("d",)]
    assert play.policy.is_variant_of(DECLARED)


def test_without_backups_nothing_changes() -> None:
    plain = Policy.majority_of("abc")
    backups = Backups(plain, 1.0)
    for now in (0.0, 5.0, 50.0):
        assert backups.wanted(plain, set(), set(), now) is plain
