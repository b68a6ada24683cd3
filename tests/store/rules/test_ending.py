"""The end of a subscription: what is behind it, and when it has been reached."""

from __future__ import annotations

import pytest

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.ending import Ending
from quorate.store.rules.walk import Missing, Stream, Walk

ORDERS, OTHER, TRADES = SourceName("orders", 1), SourceName("orders", 2), SourceName("trades", 1)
FIRST = Lineage((Term(1, 0),))
CUT_SHORT = Lineage((Term(1, 0), Term(3, 5)))
ANEW = Lineage((Term(7, 0),))


def walk(ending: Ending, position: Position | None = None) -> Walk:
    return Walk(position or Position(), 0, lambda topic: topic == "orders", ending)


def earlier(ending: Ending, first: int, *times: int) -> Range | None:
    """Ask what of these messages of ORDERS is before the end."""
    part = Range(first, first + len(times) - 1)
    return ending.earlier(ORDERS, part, lambda number: Place(1, number), lambda: times)


def held(*ranges: tuple[int, int]) -> RangeSet:
    return RangeSet(Range(*each) for each in ranges)


@pytest.mark.parametrize(
    ("end", "lineage", "upto"),
    [
        (Place(1, 9), FIRST, 9),
        (NO_PLACE, FIRST, -1),
        # A later epoch did not keep all.
        (Place(1, 9), CUT_SHORT, 4),
        (Place(2, 9), CUT_SHORT, 4),
        (Place(3, 9), CUT_SHORT, 9),
        # The source began anew behind the end.
        (Place(1, 9), ANEW, -1),
        # The store has not heard of the epoch.
        (Place(7, 3), FIRST, 3),
    ],
)
def test_the_last_number(end: Place, lineage: Lineage, upto: int) -> None:
    assert Ending(Position({ORDERS: end})).upto(ORDERS, lineage) == upto


def test_nothing_of_a_source_that_is_new_since() -> None:
    assert Ending(Position()).upto(ORDERS, FIRST) == -1


def test_without_a_position_the_time_alone_counts() -> None:
    ending = Ending(None, 100)
    assert earlier(ending, 0, 99) == Range(0, 0)
    assert ending.upto(ORDERS, FIRST) == SEQUENCE_MAX
    assert earlier(ending, 5, 100) is None
    assert ending.upto(ORDERS, FIRST) == 4
    assert ending.upto(OTHER, FIRST) == SEQUENCE_MAX
    assert not ending.is_over(lambda _: True)


def test_the_time_counts_beside_the_position() -> None:
    ending = Ending(None, 100)
    assert earlier(ending, 5, 100) is None
    ending.fix(Position({ORDERS: Place(1, 9), OTHER: Place(1, 9)}))
    assert ending.upto(ORDERS, FIRST) == 4
    assert ending.upto(OTHER, FIRST) == 9
    assert ending.is_reached(ORDERS, FIRST, Place(1, 4))


def test_a_late_message_that_is_void_ends_nothing() -> None:
    ending = Ending(None, 100)
    assert earlier(ending, 7, 100) is None
    assert ending.upto(ORDERS, CUT_SHORT) == SEQUENCE_MAX
    assert ending.upto(ORDERS, ANEW) == SEQUENCE_MAX


def test_without_a_time_no_message_is_too_late() -> None:
    assert earlier(Ending(Position({ORDERS: Place(1, 9)})), 0, 2**62) == Range(0, 0)


def test_the_time_may_come_inside_a_batch() -> None:
    ending = Ending(None, 100)
    # A clock that was set back makes a message behind the end no earlier one.
    assert earlier(ending, 5, 98, 99, 100, 99) == Range(5, 6)
    assert ending.upto(ORDERS, FIRST) == 6


@pytest.mark.parametrize(
    ("end", "lineage", "place", "is_reached"),
    [
        (Place(1, 9), FIRST, Place(1, 8), False),
        (Place(1, 9), FIRST, Place(1, 9), True),
        (Place(1, 9), FIRST, Place(1, 12), True),
        (NO_PLACE, FIRST, NO_PLACE, True),
        # What was withdrawn at the end.
        (Place(1, 9), CUT_SHORT, Place(1, 4), True),
        (Place(1, 9), CUT_SHORT, Place(1, 3), False),
        # The source began anew behind the end, or before it.
        (Place(1, 9), ANEW, Place(1, 5), True),
        (Place(7, 3), ANEW, Place(1, 9), False),
        (Place(7, 3), ANEW, Place(7, 3), True),
        # The store lags, or does not know the source.
        (Place(7, 3), FIRST, Place(1, 9), False),
        (Place(7, 3), FIRST, Place(7, 3), True),
        (Place(1, 9), NO_LINEAGE, Place(1, 8), False),
        (Place(1, 9), NO_LINEAGE, Place(1, 9), True),
        # What is void for this store has still to be taken back.
        (Place(3, 7), CUT_SHORT, Place(1, 9), False),
    ],
)
def test_when_it_is_reached(end: Place, lineage: Lineage, place: Place, is_reached: bool) -> None:
    ending = Ending(Position({ORDERS: end}))
    assert ending.is_reached(ORDERS, lineage, place) is is_reached


def test_a_batch_is_given_up_to_the_end() -> None:
    going = walk(Ending(Position({ORDERS: Place(1, 6)})))
    stream = Stream(FIRST, 9, held=held((0, 9)))
    assert going.passes(ORDERS, stream, HeldRange(0, 9, 1)) == Range(0, 6)
    going.given(ORDERS, stream, Range(0, 6))
    assert going.owes(ORDERS, stream) is None
    assert going.passes(ORDERS, stream, HeldRange(7, 9, 1)) is None
    assert going.is_over(lambda _: FIRST)


def test_what_is_owed_is_given_up_to_the_end() -> None:
    going = walk(Ending(Position({ORDERS: Place(1, 6)})))
    assert going.owes(ORDERS, Stream(FIRST, 9, held=held((0, 9)))) == Range(0, 6)
    assert not going.is_over(lambda _: FIRST)


@pytest.mark.parametrize("losses", [held((2, 9)), RangeSet()])
def test_a_gap_is_said_up_to_the_end(losses: RangeSet) -> None:
    going = walk(Ending(Position({ORDERS: Place(1, 6)})), Position({ORDERS: Place(1, 1)}))
    stream = Stream(FIRST, 12, retained_from=10, held=held((10, 12)), losses=losses)
    assert going.missing(ORDERS, stream) == Missing(Range(2, 6), lost=bool(losses))
    assert going.missing(ORDERS, stream) is None
    assert going.is_over(lambda _: FIRST)


def test_it_is_over_when_each_source_that_is_wanted_has_reached_its_end() -> None:
    end = Position({ORDERS: Place(1, 6), OTHER: Place(1, 1), TRADES: Place(1, 9)})
    going = walk(Ending(end), Position({OTHER: Place(1, 1)}))
    stream = Stream(FIRST, 9, held=held((0, 9)))
    assert not going.is_over(lambda _: FIRST)
    going.given(ORDERS, stream, Range(0, 6))
    assert going.is_over(lambda _: FIRST)


def test_a_walk_without_an_end_is_never_over() -> None:
    going = Walk(Position(), 0, lambda _: True)
    assert not going.is_over(lambda _: FIRST)
    stream = Stream(FIRST, 9)
    assert going.earlier(ORDERS, stream, Range(0, 0), lambda: [2**62]) == Range(0, 0)


def test_a_source_that_is_over_counts_as_read() -> None:
    """So that retention waits no longer for the subscription."""
    going = walk(Ending(Position({ORDERS: Place(1, 6)})))
    stream = Stream(FIRST, 9, held=held((0, 9)))
    going.given(ORDERS, stream, Range(0, 5))
    assert going.read_upto(ORDERS, FIRST) == 5
    going.given(ORDERS, stream, Range(6, 6))
    assert going.read_upto(ORDERS, FIRST) == SEQUENCE_MAX
    going.reading = {ORDERS: 4}
    assert going.read_upto(ORDERS, FIRST) == 3, "a large batch is read when it is packed"
