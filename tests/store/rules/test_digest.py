from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.support import ORDERS, World, batch

from quorate.protocol.digests import Block, digests
from quorate.protocol.ranges import Range
from quorate.store.rules.digest import blocks, differing
from quorate.store.storage.records import IndexEntry

row_lists = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 3)), max_size=12
)


def rows_of(parts: list[tuple[int, int, int]]) -> list[IndexEntry]:
    """Rows from (gap before, how many numbers, checksum)."""
    rows: list[IndexEntry] = []
    first = 0
    for at, (gap, count, checksum) in enumerate(parts):
        first += gap
        rows.append(IndexEntry(first, first + count - 1, 1, at, checksum))
        first += count
    return rows


def by_number(rows: list[IndexEntry], wanted: Range) -> dict[int, tuple[int, int]]:
    return {
        number: (row.epoch, row.checksum)
        for row in rows
        for number in range(max(row.first, wanted.first), min(row.last, wanted.last) + 1)
    }


@given(row_lists, row_lists, st.integers(0, 20), st.integers(0, 80), st.integers(1, 12))
def test_digests_differ_only_where_rows_do(
    ours: list[tuple[int, int, int]],
    theirs: list[tuple[int, int, int]],
    first: int,
    length: int,
    block: int,
) -> None:
    wanted = Range(first, first + length)
    one, two = rows_of(ours), rows_of(theirs)
    mine, yours = digests(one, wanted, block), digests(two, wanted, block)
    # Blocks cover what was asked for, begin at multiples, and count what is held.
    assert [item.first for item in mine] == sorted(
        {first, *(n for n in range(first, wanted.last + 1) if n % block == 0)}
    )
    assert mine[-1].last == wanted.last
    held = by_number(one, wanted)
    for item in mine:
        assert item.held == sum(item.first <= number <= item.last for number in held)
    different = differing(mine, yours)
    other = by_number(two, wanted)
    for item, yours_item in zip(mine, yours, strict=True):
        numbers = range(item.first, item.last + 1)
        same = all(held.get(number) == other.get(number) for number in numbers)
        if not same and item.held and yours_item.held:
            assert Range(item.first, item.last) in different
    for where in different:
        # Rows that begin and end at the same numbers with the same content do not differ.
        cut = [
            [
                (max(row.first, where.first), min(row.last, where.last), row.checksum)
                for row in rows
                if row.first <= where.last and row.last >= where.first
            ]
            for rows in (one, two)
        ]
        assert cut[0] != cut[1]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_read_from_the_index_is_what_is_there(seed: int) -> None:
    chance = random.Random(seed)
    world = World()
    stream = world.stream()
    first = 0
    while first < 500:
        last = first + chance.randrange(1, 20)
        world.append(stream, batch(first, last))
        first = last + 1
    state = world.core.sources[ORDERS]
    wanted = Range(chance.randrange(0, 40), chance.randrange(300, 600))
    found = blocks(world.storage, state.reg_id, wanted, 64)
    assert sum(item.held for item in found) == min(first - 1, wanted.last) - wanted.first + 1
    again = blocks(world.storage, state.reg_id, wanted, 64)
    assert differing(found, again) == []


def test_a_block_that_one_side_lacks_is_no_difference() -> None:
    mine = [Block(0, 63, 64, 1), Block(64, 127, 0, 0), Block(128, 191, 5, 7)]
    theirs = [Block(0, 63, 0, 0), Block(64, 127, 64, 2), Block(128, 191, 5, 8)]
    assert differing(mine, theirs) == [Range(128, 191)]
