"""Decisions travel through the queue's stream unchanged."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as some

from quorate.errors import CorruptBatch, InvalidArgument
from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range
from quorate.queue.io.decision_wire import bounds_of, decode, encode, ranges_from
from quorate.queue.protocol.decisions import (
    Released,
    Settled,
    Snapshot,
    TrackSnapshot,
    Tried,
    ranges_of,
)

NUMBERS = some.sets(some.integers(0, 2**40), min_size=1, max_size=5)
RANGES = NUMBERS.map(lambda numbers: tuple(ranges_of(sorted(numbers))))
SOURCES = some.builds(SourceName, some.sampled_from(["orders", "bills"]), some.integers(1, 2**63))
EPOCHS = some.integers(1, 2**60)
TRIED = some.builds(
    Tried, some.integers(0, 99), some.integers(0, 2**62), some.booleans(), some.text(max_size=9)
)
PLACES = some.builds(Place, EPOCHS, some.integers(0, 2**40))
TRACKS = some.builds(
    TrackSnapshot,
    SOURCES,
    PLACES | some.just(NO_PLACE),
    PLACES,
    some.dictionaries(PLACES, TRIED, max_size=3),
    some.dictionaries(EPOCHS, RANGES, max_size=3),
    some.dictionaries(PLACES, TRIED, max_size=3),
)
DECISIONS = (
    some.builds(Settled, SOURCES, EPOCHS, RANGES, some.booleans())
    | some.builds(Released, SOURCES, EPOCHS, RANGES, TRIED)
    | some.builds(Snapshot, some.lists(TRACKS, max_size=3).map(tuple))
)


@given(some.lists(DECISIONS, max_size=4))
def test_decisions_come_back_as_they_were(decisions: list[Settled | Released | Snapshot]) -> None:
    assert list(decode(encode(decisions), "here")) == decisions


@given(NUMBERS)
def test_ranges_have_the_numbers_and_touch_none_of_another(numbers: set[int]) -> None:
    ranges = tuple(ranges_of(sorted(numbers)))
    assert {n for each in ranges for n in range(each.first, each.last + 1)} == numbers
    assert all(one.last + 1 < two.first for one, two in pairwise(ranges))
    assert ranges_from(bounds_of(ranges)) == ranges


@pytest.mark.parametrize("bounds", [[1], [2, 1], [1, 2, 3]])
def test_bounds_that_are_no_ranges_are_an_error(bounds: list[int]) -> None:
    with pytest.raises(InvalidArgument):
        ranges_from(bounds)


def test_a_message_that_has_no_decisions_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="no decisions"):
        list(decode(b"nonsense", "here"))
    assert Range(1, 2) == ranges_from([1, 2])[0]
