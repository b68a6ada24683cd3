from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from tests.begun import rebegun

from quorate.protocol.begin import BeginRecord
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.policy import Group, Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.repair_plan import (
    OwnView,
    PeerView,
    begin_to_adopt,
    comparable_upto,
    errands,
    lacking,
    stable_upto,
)
from quorate.v1.messages_pb2 import SourceInformation, StoreEntry

ABC = Policy.majority_of("abc")
RECORD = Membership((ABC,), (ABC,))
FIRST = Lineage((Term(1, 0),))
SECOND = Lineage((Term(1, 0), Term(2, 50)))
THIRD = Lineage((Term(1, 0), Term(3, 40)))


def numbers(found: RangeSet) -> set[int]:
    return {number for item in found for number in range(item.first, item.last + 1)}


def subsets(count: int) -> list[RangeSet]:
    """Every set of the numbers 0 … count - 1."""
    return [
        RangeSet(Range(number, number) for number in range(count) if bits >> number & 1)
        for bits in range(1 << count)
    ]


@pytest.mark.parametrize("live", [False, True])
def test_what_is_lacking_in_every_small_world(live: bool) -> None:
    for held, bad, lost in itertools.product(subsets(4), subsets(4), subsets(4)):
        unreadable = held.both(bad)
        losses = lost.minus(held)
        for stable in range(-1, 6):
            own = OwnView(
                "a",
                1,
                BeginRecord(FIRST),
                held,
                held.high + 1,
                min(stable, 2),
                unreadable,
                losses,
                live,
            )
            found = numbers(lacking(own, stable))
            for number in range(8):
                is_hole = number not in held and number <= stable and number not in losses
                if live and number > held.high:
                    is_hole = False  # never an open tail
                wanted = is_hole or number in unreadable
                assert (number in found) == wanted, (number, own, stable)


def test_nothing_below_where_the_stream_begins_is_lacking() -> None:
    own = OwnView("a", 2, BeginRecord(Lineage((Term(2, 10),))), RangeSet([Range(12, 20)]), 21, 30)
    assert list(lacking(own, 30)) == [Range(10, 11), Range(21, 30)]
    assert not lacking(OwnView("a"), NOTHING)


@pytest.mark.parametrize(
    ("promised", "begun", "theirs", "adopted"),
    [
        (0, 0, 1, True),  # never heard of it
        (1, 1, 2, True),
        (2, 1, 2, True),  # promised it, missed the begin
        (3, 1, 2, False),  # has promised something higher
        (2, 2, 2, False),
        (2, 2, 1, False),
        (0, 0, 0, False),
    ],
)
def test_a_begin_that_was_missed_is_taken_over(
    promised: int, begun: int, theirs: int, adopted: bool
) -> None:
    own = OwnView("c", promised, BeginRecord(Lineage((Term(begun, 0),)) if begun else NO_LINEAGE))
    lineage = Lineage((Term(theirs, 0),)) if theirs else NO_LINEAGE
    peer = PeerView("there", "a", BeginRecord(lineage, RECORD if theirs else None), answered=True)
    assert begin_to_adopt(own, [peer]) == (peer if adopted else None)


def test_only_a_begin_that_names_this_store_and_only_the_newest() -> None:
    own = OwnView("c", 1, BeginRecord(FIRST))
    other = Policy.majority_of("abd")
    stranger = PeerView("1", "a", BeginRecord(THIRD, Membership((other,), (other,))), answered=True)
    older = PeerView("2", "b", BeginRecord(SECOND, RECORD), answered=True)
    newer = PeerView("3", "a", BeginRecord(THIRD, RECORD), answered=True)
    moving = PeerView("4", "a", BeginRecord(THIRD, Membership((ABC,), (other,))), answered=True)
    assert begin_to_adopt(own, [stranger]) is None
    assert begin_to_adopt(own, [older, newer, stranger]) == newer
    assert begin_to_adopt(own, [older, moving, newer]) == moving, "it came from this store"
    assert begin_to_adopt(own, [PeerView("5", "a", BeginRecord(THIRD))]) is None, (
        "no record, no names"
    )


def test_a_replica_adopts_the_begin_of_a_source_that_sends_to_it() -> None:
    told = SourceInformation(epoch=3, stores=[StoreEntry(name="dr", address="h:9")])
    peer = PeerView("1", "a", BeginRecord(THIRD, RECORD), answered=True, information=told)
    own = OwnView("d", 1, BeginRecord(FIRST), address="h:9")
    assert begin_to_adopt(own, [peer]) == peer
    assert begin_to_adopt(replace(own, address="h:8"), [peer]) is None
    older = SourceInformation(epoch=2, stores=told.stores)
    assert begin_to_adopt(own, [replace(peer, information=older)]) is None, "of another epoch"
    spare = Policy((Group("g", ("a", "b", "c"), backups=("dr",)),))
    record = Membership((spare,), (spare,))
    assert begin_to_adopt(own, [rebegun(peer, membership=record)]) is None, "a backup"


def test_one_that_a_backup_stands_in_for_adopts_a_begin_while_it_can_not_read_something() -> None:
    stands_in = Policy((Group("g", ("a", "b", "d"), backups=("c",)),))
    peer = PeerView(
        "1", "a", BeginRecord(THIRD, Membership((stands_in,), (stands_in,))), answered=True
    )
    own = OwnView("c", 1, BeginRecord(FIRST), unreadable=RangeSet([Range(7, 7)]))
    assert begin_to_adopt(own, [peer]) == peer
    assert begin_to_adopt(replace(own, unreadable=RangeSet()), [peer]) is None
    assert begin_to_adopt(replace(own, store="e"), [peer]) is None


@pytest.mark.parametrize(
    ("lineage", "told", "expected"),
    [(FIRST, 70, 70), (SECOND, 70, 49), (SECOND, 30, 30), (THIRD, 45, 39), (FIRST, 5, 20)],
)
def test_stable_is_as_far_as_anyone_was_told_in_the_same_lineage(
    lineage: Lineage, told: int, expected: int
) -> None:
    own = OwnView("a", 1, BeginRecord(FIRST), stable_upto=20)
    peer = PeerView("there", "b", BeginRecord(lineage, RECORD), (), told, True)
    assert stable_upto(own, [peer]) == expected
    assert comparable_upto(own, peer) == min(
        20, told, 49 if lineage is SECOND else 39 if lineage is THIRD else 10**9
    )
    assert stable_upto(own, [PeerView("silent")]) == 20
    assert comparable_upto(own, PeerView("silent")) == NOTHING


def test_who_has_most_is_asked_first_and_who_says_nothing_last() -> None:
    own = OwnView("a", 1, BeginRecord(SECOND), RangeSet([Range(0, 9)]), 10, 79)
    wanted = lacking(own, 79)
    little = PeerView("1", "b", BeginRecord(SECOND, RECORD), (HeldRange(0, 19, 1),), 79, True)
    much = PeerView(
        "2", "c", BeginRecord(SECOND, RECORD), (HeldRange(0, 59, 1), HeldRange(60, 79, 2)), 79, True
    )
    silent = PeerView("3")
    void = PeerView("4", "d", BeginRecord(FIRST, RECORD), (HeldRange(50, 79, 1),), 79, True)
    found = errands(wanted, own, [silent, void, little, much])
    assert [(errand.peer.address, errand.wanted) for errand in found] == [
        ("2", Range(10, 49)),
        ("2", Range(60, 79)),
        ("1", Range(10, 19)),
        ("3", Range(10, 79)),
    ]


def test_what_was_lost_turned_up_and_rotted_is_fetched_again() -> None:
    """Nobody needs it, but a store that can not read what it has is doubted until it can."""
    lost = RangeSet([Range(3, 6)])
    own = OwnView("a", 1, BeginRecord(FIRST), RangeSet([Range(0, 4)]), 10, 9, losses=lost)
    assert list(lacking(own, 9)) == [Range(7, 9)]
    own = replace(own, unreadable=RangeSet([Range(4, 4)]))
    assert list(lacking(own, 9)) == [Range(4, 4), Range(7, 9)]
