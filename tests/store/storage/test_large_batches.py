"""The rows of large batches, and what a store that was killed leaves of one."""

from __future__ import annotations

import pytest
from tests.store.large import COUNT, fragments_in, large
from tests.store.support import ORDERS, World, batch, stored

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.fragments import fragments_of
from quorate.protocol.ranges import Range
from quorate.store import startup
from quorate.store.rules.source_state import AppendStream
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.large_batches import (
    LargeRow,
    fragment_key,
    large_row,
    load_large,
    pack_large,
    removal,
)
from quorate.store.storage.reader import read, read_rows


def append_large(world: World, stream: AppendStream, sequence: int, upto: int = COUNT) -> None:
    """Send the first fragments of a large batch; take it once all of them have come."""
    sent = large(sequence)
    streams = world.core.streams
    for at, data in list(fragments_of(sent))[:upto]:
        world.write(streams.fragment(stream, at, sent.size, data, -1))
    if upto == COUNT:
        assert stream.arrival is not None
        world.write(streams.append_large(stream, stream.arrival, None))


def row_of(world: World) -> LargeRow:
    """The row of the first large batch in the journal."""
    for _, value in world.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 100):
        if (row := large_row(value)) is not None:
            return row
    raise AssertionError


def test_a_row_says_where_the_fragments_are() -> None:
    sent = large(7)
    row = large_row(pack_large(3, sent.size, sent.parts[0]))
    assert row == LargeRow(3, sent.size, sent.header)
    assert row.count == COUNT
    assert large_row(batch(0, 9)) is None


@pytest.mark.parametrize("cut", [5, 17, 40])
def test_a_row_that_is_cut_off_is_corrupt(cut: int) -> None:
    sent = large(7)
    with pytest.raises(CorruptBatch):
        large_row(pack_large(3, sent.size, sent.parts[0])[:cut])


def test_reading_gives_whole_batches_and_one_large_one_at_a_time() -> None:
    world = World()
    stream = world.stream()
    world.append(stream, batch(0, 9))
    append_large(world, stream, 10)
    append_large(world, stream, 11)
    world.append(stream, batch(12, 19))
    assert stored(world, 5, 19) == [(5, 9, batch(0, 9)), (10, 10, large(10).joined())]
    assert stored(world, 11, 19) == [(11, 11, large(11).joined())]
    assert stored(world, 12, 19) == [(12, 19, batch(12, 19))]
    reg_id = world.core.sources[ORDERS].reg_id
    rows = read_rows(world.storage, reg_id, ORDERS, Range(0, 19), 100)
    assert [each.large is not None for each in rows] == [False, True, True, False]
    assert [each.size for each in rows] == [
        len(batch(0, 9)), large(10).size, large(11).size, len(batch(12, 19)),
    ]  # fmt: skip


def test_a_bad_fragment_is_found() -> None:
    world = World()
    stream = world.stream()
    append_large(world, stream, 0)
    row = row_of(world)
    assert load_large(world.storage, row).joined() == large(0).joined()
    key = fragment_key(row.group, 2)
    (value,) = world.storage.get(Table.FRAGMENTS, [key])
    assert value is not None
    for bad in (value[:-1] + bytes([value[-1] ^ 1]), value[:-1], b"", None):
        world.write([Write(Table.FRAGMENTS, key, bad)])
        with pytest.raises(CorruptBatch):
            load_large(world.storage, row)
        (found,) = read(world.storage, world.core.sources[ORDERS].reg_id, ORDERS, Range(0, 0), 9)
        assert found.frame == b""
        assert "batch in the journal is corrupt" in found.problem


def test_fragments_of_another_batch_are_not_taken_for_it() -> None:
    world = World()
    stream = world.stream()
    append_large(world, stream, 0)
    append_large(world, stream, 1)
    one = row_of(world)
    other = LargeRow(one.group, large(1).size, large(1).header)
    with pytest.raises(CorruptBatch):
        load_large(world.storage, other)


def test_a_store_that_was_killed_removes_what_had_not_all_come() -> None:
    world = World()
    stream = world.stream()
    append_large(world, stream, 0)
    append_large(world, stream, 1, upto=3)
    assert fragments_in(world.storage) == COUNT + 3
    startup.remove_unfinished(world.storage)
    assert fragments_in(world.storage) == COUNT
    load_large(world.storage, row_of(world))
    startup.remove_unfinished(world.storage)
    assert fragments_in(world.storage) == COUNT


def test_a_group_without_a_fragment_is_forgotten() -> None:
    world = World()
    stream = world.stream()
    append_large(world, stream, 0, upto=1)
    arrival = stream.arrival
    assert arrival is not None
    world.write(removal(0, 1))
    startup.remove_unfinished(world.storage)
    assert world.storage.scan(Table.META, b"arriving", b"arrivinh", 9) == []
