"""The part of an archive that a subscription is given, by places and epochs."""

from __future__ import annotations

import pytest

from quorate.archive.rules.source import ArchivedSource
from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import Range
from quorate.subscriber.protocol.archived import (
    behind,
    contradicts,
    decisive,
    fills,
    since,
    unplaced,
    upto,
)
from quorate.v1 import messages_pb2 as v1

ORDERS, TRADES = SourceName("orders", 1), SourceName("trades", 1)


def archived(*terms: tuple[int, int], first: int = 0, last: int = 99) -> ArchivedSource:
    lineage = Lineage(tuple(Term(*each) for each in terms))
    nobody = Membership((), ())
    return ArchivedSource(
        ORDERS, lineage, first, last, nobody, v1.SourceInformation(), lineage.epoch, 1
    )


SOURCE = archived((3, 0), (5, 50), first=10)


@pytest.mark.parametrize(
    ("place", "asked"),
    [
        (None, Range(10, 99)),
        (NO_PLACE, Range(0, 99)),
        (Place(3, 4), Range(5, 99)),
        (Place(3, 49), Range(50, 99)),
        (Place(5, 98), Range(99, 99)),
        (Place(5, 99), None),
        (Place(7, 200), None),
    ],
)
def test_it_is_read_behind_the_place(place: Place | None, asked: Range | None) -> None:
    assert behind(SOURCE, place) == asked


def test_a_stream_that_ended_before_is_no_place_in_this_one() -> None:
    assert behind(SOURCE, Place(2, 500)) == Range(0, 99)


@pytest.mark.parametrize("place", [Place(7, 20), Place(3, 60), Place(4, 55)])
def test_a_later_stream_and_a_void_message_are_left_to_the_stores(place: Place) -> None:
    assert behind(SOURCE, place) is None


def test_a_manifest_without_the_oldest_epochs_takes_no_place_for_that_of_another_stream() -> None:
    rebuilt = archived((5, 50), first=50)
    assert behind(rebuilt, Place(3, 20)) is None
    assert fills(rebuilt, Place(3, 20), Range(21, 120)) == Range(21, 99)


@pytest.mark.parametrize(
    ("place", "gap", "part"),
    [
        (Place(3, 19), Range(20, 30), Range(20, 30)),
        (Place(3, 19), Range(20, 150), Range(20, 99)),
        (NO_PLACE, Range(0, 150), Range(0, 99)),
        (Place(5, 99), Range(100, 150), None),
        # The source began anew.
        (Place(5, 99), Range(0, 50), None),
        (Place(7, 19), Range(20, 30), None),
        (Place(2, 19), Range(20, 30), None),
    ],
)
def test_it_fills_gaps_of_its_own_stream(place: Place, gap: Range, part: Range | None) -> None:
    assert fills(SOURCE, place, gap) == part


def test_what_is_archived_is_never_void() -> None:
    assert contradicts(SOURCE, Place(5, 99), 60)
    assert not contradicts(SOURCE, Place(5, 120), 100)
    assert not contradicts(SOURCE, Place(7, 30), 20), "of a later stream"


@pytest.mark.parametrize(
    ("at_stores", "first", "place"),
    [
        # The archive has messages of that time.
        (Place(5, 120), 60, Place(5, 59)),
        (NO_PLACE, 60, Place(5, 59)),
        (None, 0, NO_PLACE),
        # It has none.
        (Place(5, 120), None, Place(5, 120)),
        (Place(7, 20), None, Place(7, 20)),
        (Place(3, 20), None, Place(5, 99)),
        (NO_PLACE, None, Place(5, 99)),
        (None, None, Place(5, 99)),
    ],
)
def test_a_time_is_found_in_both(at_stores: Place | None, first: int | None, place: Place) -> None:
    assert since(SOURCE, at_stores, first) == place


@pytest.mark.parametrize(
    ("end", "last"),
    [
        (NO_PLACE, -1),
        (Place(5, 60), 60),
        (Place(5, 200), 99),
        # All that is archived was before the source began anew, or before a later epoch.
        (Place(7, 3), 99),
        (Place(1, 5), -1),
    ],
)
def test_nothing_behind_the_end_is_archived(end: Place, last: int) -> None:
    assert upto(SOURCE, end) == last


def test_the_bookmark_at_which_a_store_cuts() -> None:
    one, two = Bookmark(ORDERS, 3, 7), Bookmark(TRADES, 1, 9)
    position = Position({ORDERS: Place(3, 5), TRADES: two.place})
    assert decisive({one: 7, two: 9}, position) == two
    assert decisive({one: 7, two: 8}, position) is None
    assert decisive({Bookmark(ORDERS, 3, 0): -1}, Position()) == Bookmark(ORDERS, 3, 0)


def test_sources_of_which_nothing_was_before_the_bookmark_have_no_place() -> None:
    sources = {ORDERS: SOURCE, TRADES: SOURCE}
    assert unplaced(sources, Position({ORDERS: Place(3, 5)})).keys() == {TRADES}
    assert unplaced(sources, Position({ORDERS: NO_PLACE, TRADES: NO_PLACE})) == sources
