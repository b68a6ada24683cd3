"""Ranges become partitions that cover them exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quorate.pipeline.rules.planning import (
    Part,
    SourceRange,
    parts_for,
    plan,
)
from quorate.protocol.identity import SourceName

A, B = SourceName("a", 1), SourceName("b", 2)


def sizes(parts: list[Part]) -> list[int]:
    return [len(part) for part in parts]


def test_one_long_range_is_split_evenly() -> None:
    parts = plan([SourceRange(A, 10, 110)], parts=4, part_messages_max=1000, part_messages_min=1)
    assert sizes(parts) == [25, 25, 25, 25]
    assert parts[1].ranges == (SourceRange(A, 35, 60),)
    assert [part.number for part in parts] == [0, 1, 2, 3]


def test_many_short_ranges_share_a_partition() -> None:
    ranges = [SourceRange(SourceName("a", at + 1), 0, 10) for at in range(1000)]
    parts = plan(ranges, parts=2, part_messages_max=10_000_000, part_messages_min=10_000)
    assert sizes(parts) == [10_000]
    assert sizes(plan(ranges, parts=2, part_messages_max=10_000_000)) == [5_000, 5_000]


def test_messages_count_by_their_bytes() -> None:
    ranges = [SourceRange(A, 0, 10, message_bytes=1_000_000.0), SourceRange(B, 0, 50_000)]
    assert sizes(plan(ranges, parts=2, part_messages_max=100_000)) == [10, 50_000]
    assert parts_for(ranges, 0) == 1
    assert parts_for(ranges, 5) == 5
    assert parts_for([SourceRange(B, 0, 700_000)], 0) == 7
    assert parts_for([SourceRange(B, 0, 4_000_000)], 0) == 8
    assert parts_for([SourceRange(B, 0, 10_000_000)], 0) == 20
    assert parts_for([SourceRange(A, 0, 60, message_bytes=1_000_000.0)], 0) == 3


def test_no_partition_is_without_messages() -> None:
    assert sizes(plan([SourceRange(A, 0, 3)], parts=10, part_messages_max=100)) == [1, 1, 1]


def test_a_partition_has_no_more_than_its_maximum() -> None:
    assert sizes(plan([SourceRange(A, 0, 25)], parts=1, part_messages_max=10)) == [10, 10, 5]


def test_nothing_to_read_is_no_partition() -> None:
    assert plan([], parts=4, part_messages_max=10) == []


@given(
    st.lists(st.tuples(st.integers(0, 500), st.integers(1, 300), st.floats(0, 1e7)), max_size=6),
    st.integers(1, 9),
    st.integers(1, 400),
    st.integers(1, 100),
)
def test_every_message_is_in_one_partition_and_in_order(
    given_ranges: list[tuple[int, int, float]], parts: int, most: int, least: int
) -> None:
    ranges = [
        SourceRange(SourceName("t", at + 1), first, first + count, message_bytes=size)
        for at, (first, count, size) in enumerate(given_ranges)
    ]
    made = plan(ranges, parts=parts, part_messages_max=most, part_messages_min=least)
    covered = [
        (each.source, number)
        for part in made
        for each in part.ranges
        for number in range(each.first, each.until)
    ]
    assert covered == [
        (each.source, number) for each in ranges for number in range(each.first, each.until)
    ]
    assert all(0 < size <= most for size in sizes(made))
