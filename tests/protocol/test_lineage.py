"""Lineage, number by number: the epoch in force is that of the last term that has begun by then."""

from __future__ import annotations

from itertools import combinations

import pytest

from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term, diverges_at
from quorate.protocol.ranges import HeldRange

TOP = 5


def lineages() -> list[Lineage]:
    """Every lineage with up to three of the epochs 1-4 and first numbers 0-3."""
    return [
        Lineage(tuple(map(Term, epochs, firsts)))
        for size in range(4)
        for epochs in combinations(range(1, 5), size)
        for firsts in combinations(range(4), size)
    ]


ALL = lineages()
HELD = [
    HeldRange(first, last, epoch)
    for first in range(TOP + 1)
    for last in range(first, TOP + 1)
    for epoch in range(1, 5)
]


def epoch_of(lineage: Lineage, number: int) -> int:
    """The definition."""
    return max((term.epoch for term in lineage.terms if term.first <= number), default=0)


def test_the_epoch_in_force_for_every_number() -> None:
    for lineage in ALL:
        assert lineage.epoch == max((term.epoch for term in lineage.terms), default=0)
        for number in range(TOP + 1):
            assert lineage.epoch_at(number) == epoch_of(lineage, number)


def test_split_parts_every_held_range_number_by_number() -> None:
    for lineage in ALL:
        for held in HELD:
            numbers = set(range(held.first, held.last + 1))
            belongs = {number for number in numbers if epoch_of(lineage, number) == held.epoch}
            kept, void = lineage.split([held])
            assert {n for item in kept for n in range(item.first, item.last + 1)} == belongs
            assert {n for item in void for n in range(item.first, item.last + 1)} == (
                numbers - belongs
            )
            assert sum(item.last - item.first + 1 for item in kept + void) == len(numbers)
            assert {item.epoch for item in kept + void} == {held.epoch}
            part = lineage.valid(held)
            assert (part is None) == (not belongs)
            if part:
                assert set(range(part.first, part.last + 1)) == belongs


def test_split_of_several_is_the_split_of_each() -> None:
    lineage = Lineage((Term(1, 0), Term(3, 2)))
    kept, void = lineage.split([HeldRange(0, 4, 1), HeldRange(5, 6, 2), HeldRange(1, 3, 3)])
    assert kept == [HeldRange(0, 1, 1), HeldRange(2, 3, 3)]
    assert void == [HeldRange(2, 4, 1), HeldRange(5, 6, 2), HeldRange(1, 1, 3)]


def test_how_far_back_a_stream_reaches() -> None:
    for lineage in ALL:
        for epoch in range(5):
            expected = any(term.epoch <= epoch for term in lineage.terms)
            assert lineage.reaches_back_to(epoch) == expected


def test_extended_changes_nothing_up_to_what_is_kept() -> None:
    for lineage in ALL:
        for kept_upto in range(-1, TOP + 1):
            longer = lineage.extended(kept_upto, 9)
            for number in range(TOP + 2):
                expected = epoch_of(lineage, number) if number <= kept_upto else 9
                assert longer.epoch_at(number) == expected
            assert longer.epoch == 9


def test_an_epoch_never_begins_twice() -> None:
    with pytest.raises(AssertionError):
        Lineage((Term(3, 0),)).extended(2, 3)


@pytest.mark.parametrize(
    "terms", [(Term(2, 0), Term(1, 3)), (Term(1, 3), Term(2, 3)), (Term(1, 3), Term(2, 1))]
)
def test_terms_ascend(terms: tuple[Term, ...]) -> None:
    with pytest.raises(AssertionError):
        Lineage(terms)


def test_before_any_epoch_nothing_belongs_to_the_stream() -> None:
    assert NO_LINEAGE.epoch == 0
    assert NO_LINEAGE.split([HeldRange(0, 3, 1)]) == ([], [HeldRange(0, 3, 1)])


@pytest.mark.parametrize("epoch", range(6))
def test_how_far_what_an_epoch_counted_is_the_same(epoch: int) -> None:
    for lineage in ALL:
        if epoch not in {term.epoch for term in lineage.terms}:
            assert lineage.shared_upto(epoch) is None
            continue
        expected = -1
        while expected < TOP and lineage.epoch_at(expected + 1) <= epoch:
            expected += 1
        upto = lineage.shared_upto(epoch)
        assert upto is not None
        assert min(upto, TOP) == expected


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (((1, 0),), ((1, 0), (2, 8)), 8),
        (((1, 0), (3, 51)), ((1, 0), (4, 56)), 51),
        (((1, 0), (2, 5)), ((1, 0), (2, 5)), SEQUENCE_MAX),
        ((), ((1, 0),), 0),
        (((1, 0),), ((2, 0),), 0),
    ],
)
def test_two_lineages_diverge_at_the_first_number_with_different_epochs(
    one: tuple[tuple[int, int], ...], two: tuple[tuple[int, int], ...], expected: int
) -> None:
    def lineage(terms: tuple[tuple[int, int], ...]) -> Lineage:
        return Lineage(tuple(Term(*term) for term in terms))

    assert diverges_at(lineage(one), lineage(two)) == expected
    assert diverges_at(lineage(two), lineage(one)) == expected
