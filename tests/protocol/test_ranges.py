"""RangeSet against Python's own set, exhaustively and at random."""

from __future__ import annotations

from itertools import groupby, pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.held import merge_held

from quorate.protocol.ranges import HeldRange, Range, RangeSet

TOP = 5


def ranges_of(numbers: set[int]) -> list[Range]:
    """The fewest ascending ranges of a set of numbers."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0])
    ]
    return [Range(run[0], run[-1]) for run in runs]


def range_set(numbers: set[int]) -> RangeSet:
    return RangeSet(Range(number, number) for number in numbers)


def check(actual: RangeSet, model: set[int], top: int) -> None:
    """Everything that can be asked of the set."""
    assert list(actual) == ranges_of(model)
    assert len(actual) == len(ranges_of(model))
    assert actual == range_set(model)
    assert actual.low == min(model, default=-1)
    assert actual.high == max(model, default=-1)
    for number in range(top + 2):
        assert (number in actual) == (number in model)
        run = number
        while run in model:
            run += 1
        assert actual.contiguous_upto(number) == run - 1


SUBSETS = [
    {number for number in range(TOP + 1) if mask >> number & 1} for mask in range(2 ** (TOP + 1))
]
SPANS = [(first, last) for first in range(TOP + 1) for last in range(first, TOP + 1)]


def test_every_small_set_answers_as_a_set_does() -> None:
    for model in SUBSETS:
        check(range_set(model), model, TOP)


def test_what_one_empty_set_is_given_no_other_gets() -> None:
    empty, copied, emptied = RangeSet(), RangeSet(RangeSet()), RangeSet((Range(1, 2),))
    emptied.remove_upto(2)
    for each in (RangeSet(), copied, emptied):
        each.remove_upto(9)
        each.add(3, 4)
        each.add(6, 7)
        assert list(each) == [Range(3, 4), Range(6, 7)]
    assert not empty
    assert not RangeSet()
    assert empty == RangeSet()


def test_add_and_remove_every_span_in_every_small_set() -> None:
    for model, (first, last) in product(SUBSETS, SPANS):
        span = set(range(first, last + 1))
        actual = range_set(model)
        actual.add(first, last)
        check(actual, model | span, TOP)
        actual = range_set(model)
        actual.remove(first, last)
        check(actual, model - span, TOP)


def test_holes_of_every_span_in_every_small_set() -> None:
    for model, (first, last) in product(SUBSETS, SPANS):
        missing = set(range(first, last + 1)) - model
        assert range_set(model).holes(first, last) == ranges_of(missing)


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 60), st.integers(0, 20)), min_size=1, max_size=40
    )
)
def test_long_lives(steps: list[tuple[bool, int, int]]) -> None:
    actual, model = RangeSet(), set[int]()
    for adding, first, more in steps:
        span = set(range(first, first + more + 1))
        (actual.add if adding else actual.remove)(first, first + more)
        model = model | span if adding else model - span
        check(actual, model, 85)


@given(st.sets(st.tuples(st.integers(0, 40), st.integers(1, 3))), st.randoms())
def test_merge_held_says_the_same_in_the_fewest_ranges(
    numbers: set[tuple[int, int]], order: object
) -> None:
    epochs = dict(sorted(numbers))
    singles = [HeldRange(number, number, epoch) for number, epoch in epochs.items()]
    order.shuffle(singles)  # type: ignore[attr-defined]
    merged = merge_held(singles)
    assert {n: item.epoch for item in merged for n in range(item.first, item.last + 1)} == epochs
    for before, after in pairwise(merged):
        assert before.last < after.first
        assert before.last + 1 < after.first or before.epoch != after.epoch


def test_merge_held_takes_overlaps_of_one_epoch() -> None:
    assert merge_held([HeldRange(0, 5, 1), HeldRange(2, 3, 1), HeldRange(5, 9, 1)]) == (
        HeldRange(0, 9, 1),
    )


@pytest.mark.parametrize(("first", "last"), [(1, 0), (-1, 3)])
def test_there_is_no_empty_or_negative_range(first: int, last: int) -> None:
    with pytest.raises(AssertionError):
        Range(first, last)


def test_text_and_equality() -> None:
    ranges = RangeSet([Range(0, 2), Range(5, 5)])
    assert repr(ranges) == "RangeSet([0, 2], [5, 5])"
    assert len(Range(2, 4)) == 3
    assert ranges != [Range(0, 2), Range(5, 5)]


@pytest.mark.parametrize(
    ("last", "left"),
    [
        (1, [Range(2, 4), Range(8, 9)]),
        (3, [Range(4, 4), Range(8, 9)]),
        (4, [Range(8, 9)]),
        (7, [Range(8, 9)]),
        (9, []),
    ],
)
def test_removing_all_up_to_a_number(last: int, left: list[Range]) -> None:
    ranges = RangeSet([Range(2, 4), Range(8, 9)])
    ranges.remove_upto(last)
    assert list(ranges) == left
