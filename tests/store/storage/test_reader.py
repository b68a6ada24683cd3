"""Reading out of the journal what the index names: each number once, or why it can not be had."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.store.support import ORDERS

from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.ranges import Range
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.reader import (
    StoredBatch,
    read,
)
from quorate.store.storage.records import (
    index_key,
    pack_index,
    position_key,
)


def stored(*ranges: tuple[int, int]) -> MemoryStorage:
    """Batches with these first and last numbers, in the journal and in the index."""
    storage = MemoryStorage()
    for position, (first, last) in enumerate(ranges):
        frame = encode_batch(ORDERS, 1, first, [b"x"] * (last - first + 1), 0)
        row = pack_index(position, last, 1, read_header(frame).checksum)
        storage.write(
            [
                Write(Table.JOURNAL, position_key(position), frame),
                Write(Table.INDEX, index_key(5, first), row),
            ]
        )
    return storage


def parts(batches: list[StoredBatch]) -> list[tuple[int, int, bool]]:
    """And whether it can be had."""
    return [(each.part.first, each.part.last, not each.problem) for each in batches]


def test_what_is_held_is_read_as_far_as_it_is_wanted() -> None:
    storage = stored((0, 9), (10, 19), (20, 29))
    read_all = read(storage, 5, ORDERS, Range(3, 22), 10)
    assert parts(read_all) == [(3, 9, True), (10, 19, True), (20, 22, True)]
    assert parts(read(storage, 5, ORDERS, Range(3, 22), 2)) == [(3, 9, True), (10, 19, True)]


def test_what_the_index_lacks_is_a_problem() -> None:
    said = read(stored((0, 9), (20, 29)), 5, ORDERS, Range(0, 35), 10)
    assert parts(said) == [(0, 9, True), (10, 19, False), (20, 29, True), (30, 35, False)]


def test_what_the_index_names_twice_is_a_problem() -> None:
    storage = stored((0, 9), (10, 19), (13, 15), (20, 29))
    said = read(storage, 5, ORDERS, Range(0, 29), 10)
    assert parts(said) == [(0, 9, True), (10, 19, False), (20, 29, True)]
    assert said[1].problem == "the index names numbers from 13 on twice"
    storage = stored((0, 9), (5, 14), (12, 19), (20, 29))
    assert parts(read(storage, 5, ORDERS, Range(2, 24), 10)) == [(2, 19, False), (20, 24, True)]


@given(
    st.dictionaries(st.integers(0, 40), st.integers(0, 15), max_size=8),
    st.integers(0, 40),
    st.integers(0, 20),
    st.integers(1, 9),
)
def test_whatever_the_index_says_each_number_is_told_of_once(
    rows: dict[int, int], first: int, more: int, count: int
) -> None:
    storage = stored(*((begin, begin + length) for begin, length in sorted(rows.items())))
    said = read(storage, 5, ORDERS, Range(first, first + more), count)
    assert said[0].part.first == first
    assert said[-1].part.last <= first + more
    assert all(one.part.last + 1 == other.part.first for one, other in pairwise(said))
    # What comes in another piece is not looked at.
    for batch in read(storage, 5, ORDERS, Range(first, first + more), 100):
        begins = set(rows).intersection(range(batch.part.first + 1, batch.part.last + 1))
        assert batch.problem or not begins
