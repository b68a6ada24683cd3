"""Who answers for a source that is away, and what it may call stable: worked examples."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.begun import rebegun

from quorate.protocol.begin import BeginRecord
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules.proxy import Gathering, Party, announcers

LINEAGE = Lineage((Term(1, 0),))
POLICY = Policy.majority_of("abc")
MEMBERSHIP = Membership((POLICY,), (POLICY,))


def party(store: str, upto: int = 9, stable_upto: int = 4, asked: float = 0.0) -> Party:
    return Party(
        store,
        f"incarnation of {store}".encode(),
        BeginRecord(LINEAGE, MEMBERSHIP),
        RangeSet((Range(0, upto),)),
        stable_upto,
        asked=asked,
    )


def among(me: Party, *peers: Party) -> tuple[Party, ...]:
    made = announcers(me, peers)
    assert made
    return made


def test_every_store_with_the_state_announces_it() -> None:
    a, b, c = party("a"), party("b"), party("c")
    assert among(a, b, c) == (a, b, c)
    assert among(b, a, c) == (b, a, c)
    assert among(a) == (a,), "it needs nobody else"


@pytest.mark.parametrize(
    "lacking",
    [
        replace(party("b"), limbo=True),
        rebegun(party("b"), epoch=0),
        rebegun(party("b"), epoch=1),
    ],
)
def test_a_store_without_the_state_of_the_newest_epoch_announces_nothing(lacking: Party) -> None:
    a, c = (rebegun(party(name), epoch=2) for name in "ac")
    assert announcers(lacking, [a, c]) == ()
    assert among(a, lacking, c) == (a, c)


def test_what_no_store_has_begun_nobody_announces() -> None:
    assert announcers(rebegun(party("a"), epoch=0), []) == ()


def test_a_source_that_streams_to_anyone_is_not_away() -> None:
    a, b, c = party("a"), replace(party("b"), live=True), party("c")
    assert announcers(a, [b, c]) == ()


def test_another_store_under_its_own_name_counts_for_nothing() -> None:
    a = party("a")
    assert among(a, rebegun(replace(a, live=True), epoch=2), party("b")) == (a, party("b"))


# What is stable.


def test_what_one_of_them_was_told_is_stable() -> None:
    made = among(party("a", stable_upto=3), party("b", stable_upto=7), party("c", stable_upto=-1))
    assert Gathering().look(0.0, made) == 7


def test_what_enough_of_them_hold_is_stable_once_they_were_asked_again() -> None:
    gathering = Gathering()
    first = among(party("a", 9, asked=1), party("b", 8, asked=2), party("c", 4, asked=3))
    assert gathering.look(3.0, first) == 4
    assert gathering.look(3.5, first) == 4, "nobody was asked again"
    half = among(party("a", 9, asked=4), party("b", 8, asked=2), party("c", 4, asked=3))
    assert gathering.look(4.5, half) == 4, "only one of the two was"
    again = among(party("a", 9, asked=4), party("b", 8, asked=4), party("c", 4, asked=3))
    assert gathering.look(5.0, again) == 8


def test_a_copy_that_was_lost_before_the_other_was_made_does_not_count() -> None:
    gathering = Gathering()
    # b was wiped after it said so, and a got number 9 only then.
    assert gathering.look(1.0, among(party("a", 9, asked=0.9), party("b", 9, asked=0.5))) == 4
    wiped = replace(party("b", 4, asked=2.0), incarnation=b"another")
    made = among(party("a", 9, asked=2.0), wiped, party("c", 4, asked=2.0))
    assert gathering.look(2.5, made) == 4
    refilled = replace(party("b", 9, asked=3.0), incarnation=b"another")
    made = among(party("a", 9, asked=3.0), refilled, party("c", 4, asked=3.0))
    assert gathering.look(3.5, made) == 4, "the new one was seen to have it once only"
    later = replace(refilled, asked=4.0)
    made = among(party("a", 9, asked=4.0), later, party("c", 4, asked=4.0))
    assert gathering.look(4.5, made) == 9


def test_what_was_seen_of_another_lineage_does_not_count() -> None:
    """A source came and went in between: the numbers may be those of other messages."""
    gathering = Gathering()
    assert gathering.look(1.0, among(party("a", asked=0.5), party("b", asked=0.5))) == 4
    later = LINEAGE.extended(4, 2)
    anew = [
        rebegun(replace(party(name, asked=2.0), promised_epoch=2), lineage=later) for name in "ab"
    ]
    assert gathering.look(2.5, among(*anew)) == 4, "b may have been wiped before a had its 9"
    again = [replace(each, asked=3.0) for each in anew]
    assert gathering.look(3.5, among(*again)) == 9


def test_who_has_promised_a_later_epoch_makes_nothing_stable() -> None:
    gathering = Gathering()
    promised = replace(party("a"), promised_epoch=2)
    both = among(promised, party("b", asked=0.0))
    assert gathering.look(1.0, both) == 4
    again = among(replace(promised, asked=2.0), party("b", asked=2.0))
    assert gathering.look(3.0, again) == 4


def test_one_store_alone_makes_nothing_stable() -> None:
    gathering = Gathering()
    for now in range(5):
        made = among(party("a", 9, asked=now), party("b", 4, asked=now), party("c", 4, asked=now))
        assert gathering.look(now + 0.5, made) == 4


@pytest.mark.parametrize("membership", [None, Membership((), ())])
def test_without_policies_nothing_more_becomes_stable(membership: Membership | None) -> None:
    gathering = Gathering()
    for now in range(3):
        parties = (rebegun(party(name, asked=now), membership=membership) for name in "abc")
        assert gathering.look(now + 0.5, among(*parties)) == 4


def test_every_policy_of_the_record_must_agree() -> None:
    membership = Membership((POLICY,), (Policy.majority_of("cde"),))
    gathering = Gathering()
    for now, names, upto in ((0, "abc", 4), (1, "abc", 4), (2, "abcd", 4), (3, "abcd", 9)):
        parties = (rebegun(party(name, asked=now), membership=membership) for name in names)
        assert gathering.look(now + 0.5, among(*parties)) == upto


def test_a_hole_ends_what_counts() -> None:
    gathering = Gathering()
    for now in range(3):
        holed = replace(party("a", asked=now), held=RangeSet((Range(0, 5), Range(7, 9))))
        made = among(holed, party("b", 9, asked=now), party("c", 4, asked=now))
        upto = gathering.look(now + 0.5, made)
    assert upto == 5


def test_under_all_active_every_store_that_answers_must_hold_it() -> None:
    policy = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL_ACTIVE),))
    membership = Membership((policy,), (policy,))
    gathering = Gathering()
    for now in range(3):
        made = among(
            *(
                rebegun(party(name, upto, asked=now), membership=membership)
                for name, upto in (("a", 9), ("b", 9), ("c", 6))
            )
        )
        upto = gathering.look(now + 0.5, made)
    assert upto == 6


def test_under_all_active_a_store_that_takes_messages_again_must_hold_it_too() -> None:
    policy = Policy((Group("g", ("a", "b", "c"), IntragroupRule.ALL_ACTIVE),))
    membership = Membership((policy,), (policy,))

    def parties(asked: float, upto: int, *, takes_data: bool) -> tuple[Party, ...]:
        made = (("a", 9, True), ("b", 9, True), ("c", upto, takes_data))
        return among(
            *(
                rebegun(
                    replace(party(name, reach, asked=asked), takes_data=takes),
                    membership=membership,
                )
                for name, reach, takes in made
            )
        )

    gathering = Gathering()
    assert gathering.look(1.0, parties(0.5, 4, takes_data=False)) == 4
    assert gathering.look(2.0, parties(1.5, 6, takes_data=True)) == 4
    assert gathering.look(3.0, parties(2.5, 6, takes_data=True)) == 6


@pytest.mark.parametrize(
    ("rule", "upto"), [(IntragroupRule.QUORUM, 9), (IntragroupRule.ALL_ACTIVE, 4)]
)
def test_what_was_taken_before_a_store_kept_no_messages_counts(
    rule: IntragroupRule, upto: int
) -> None:
    assert _looked(rule, "a", "c") == upto


@pytest.mark.parametrize("rule", [IntragroupRule.QUORUM, IntragroupRule.ALL_ACTIVE])
def test_who_keeps_no_messages_holds_nothing_up(rule: IntragroupRule) -> None:
    assert _looked(rule, "a", "b") == 9


def _looked(rule: IntragroupRule, *held_by: str) -> int:
    """How far the stream is stable if these hold more than was told, and c takes no more."""
    policy = Policy((Group("g", tuple("abc"), rule),))
    membership = Membership((policy,), (policy,))
    gathering = Gathering()
    for at in (1.0, 2.0):
        parties = [
            rebegun(
                replace(party(name, 9 if name in held_by else 4, asked=at), takes_data=name != "c"),
                membership=membership,
            )
            for name in "abc"
        ]
        upto = gathering.look(at + 0.5, among(*parties))
    return upto
