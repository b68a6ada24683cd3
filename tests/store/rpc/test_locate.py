"""Where in a stream a time is."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.support import ORDERS, TRADES, Client, running

from quorate.protocol.errors import CorruptBatch, UnknownTopic
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.times import times_of
from quorate.protocol.wire import source_to_wire
from quorate.store.rpc.locate import first_since
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.records import (
    index_key,
    pack_index,
    position_key,
)
from quorate.v1 import store_pb2 as store_v1


def put(storage: MemoryStorage, position: int, first: int, count: int, time_ns: int) -> None:
    """A batch as a store keeps it, of the source with RegID 5."""
    keep(storage, position, encode_batch(ORDERS, 1, first, [b"x"] * count, time_ns))


def keep(storage: MemoryStorage, position: int, frame: bytes) -> None:
    header = read_header(frame)
    storage.write(
        [
            Write(Table.JOURNAL, position_key(position), frame),
            Write(
                Table.INDEX,
                index_key(5, header.first),
                pack_index(position, header.last, 1, header.checksum),
            ),
        ]
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 2)), min_size=0, max_size=12
    ),
    st.integers(0, 30),
)
def test_all_below_was_sent_before_and_nothing_held_above(
    shapes: list[tuple[int, int, int]], time_ns: int
) -> None:
    storage = MemoryStorage()
    put(storage, 1000, 0, 3, 0)
    storage.write([Write(Table.INDEX, index_key(4, 90), pack_index(1000, 99, 1, 0))])
    storage.write([Write(Table.INDEX, index_key(6, 0), pack_index(1000, 2, 1, 0))])
    first, now, expected = 3, 0, 3 if time_ns > 0 else 0
    for position, (lacking, count, passed) in enumerate(shapes):
        first, now = first + lacking, now + passed
        put(storage, position, first, count, now)
        first += count
        if now < time_ns:
            expected = first
    assert first_since(storage, 5, first, time_ns) == expected


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), max_size=8), st.integers(0, 30)
)
def test_a_batch_that_spans_a_time_is_cut(shapes: list[list[int]], time_ns: int) -> None:
    storage, every, now = MemoryStorage(), list[int](), 0
    for position, passed in enumerate(shapes):
        each = [now := now + more for more in passed]
        times = times_of(each)
        frame = encode_batch(
            ORDERS, 1, len(every), [b"x"] * len(each), times.least_ns, later=times.later
        )
        keep(storage, position, frame)
        every += each
    expected = next((number for number, at in enumerate(every) if at >= time_ns), len(every))
    assert first_since(storage, 5, len(every), time_ns) == expected


def test_what_can_not_be_read_is_not_taken_for_old() -> None:
    storage = MemoryStorage()
    put(storage, 0, 0, 3, 0)
    storage.write([Write(Table.JOURNAL, position_key(0), None)])
    with pytest.raises(CorruptBatch):
        first_since(storage, 5, 3, 1)


async def test_a_store_that_is_asked(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        for at in range(3):
            frame = encode_batch(ORDERS, 1, 10 * at, [b"x"] * 10, 1000 + at)
            await stream.batch(frame)
        await stream.durable(29)

        async def locate(time_ns: int, source: SourceName = ORDERS) -> int:
            request = store_v1.LocateRequest(
                source=source_to_wire(source), time_ns=time_ns, protocol_version=PROTOCOL_VERSION
            )
            response: store_v1.LocateResponse = await client.call("Locate", request)
            return response.sequence

        found = [await locate(time_ns) for time_ns in (-5, 1000, 1001, 1002, 1003)]
        assert found == [0, 0, 10, 20, 30]
        with pytest.raises(UnknownTopic):
            await locate(0, TRADES)
