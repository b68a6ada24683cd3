"""Batches of messages become rows, whatever their payloads look like."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.decoding import (
    BYTES_MAX,
    ROWS_MAX,
    record_batches,
)
from quorate.protocol.answers import Piece
from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.times import TIME_NS_MAX, moment_of, times_of

ORDERS = SourceName("orders", 0x10)
TIME = 1_767_225_600_123_456_789


def piece(
    payloads: list[bytes], first: int = 0, skip: int = 0, leave: int = 0, epoch: int = 1
) -> Piece:
    """A batch of which the first and the last few were not asked for."""
    frame = encode_batch(ORDERS, epoch, first, payloads, TIME)
    return Piece(frame, read_header(frame), first + skip, first + len(payloads) - 1 - leave)


def rows(pieces: list[Piece], schema: pa.Schema = ARROW) -> list[dict[str, object]]:
    batches = list(record_batches(pieces, schema))
    assert all(batch.schema.equals(schema) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in batch.to_pylist()]


lengths = st.sampled_from([0, 1, 2, 126, 127, 128, 129, 130, 300, 16_383, 16_384])


@given(st.lists(st.tuples(lengths, st.integers(1, 5), st.booleans()), min_size=1, max_size=4))
def test_payloads_of_one_length_and_of_many(shapes: list[tuple[int, int, bool]]) -> None:
    pieces, expected, first = [], [], 0
    for length, count, mixed in shapes:
        payloads = [bytes([at]) * (length + (at if mixed else 0)) for at in range(count)]
        pieces.append(piece(payloads, first))
        expected += payloads
        first += count
    found = rows(pieces)
    assert [row["payload"] for row in found] == expected
    assert [row["sequence"] for row in found] == list(range(first))


@given(st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_only_what_was_asked_for_of_a_batch(skip: int, leave: int, mixed: bool) -> None:
    payloads = [b"%d" % (at if mixed else 5) * 3 for at in range(8, 16)]
    found = rows([piece(payloads, 100, skip, leave)])
    assert [row["payload"] for row in found] == payloads[skip : len(payloads) - leave]
    assert [row["sequence"] for row in found] == list(range(100 + skip, 108 - leave))


def test_what_looks_like_messages_of_one_length_but_is_not() -> None:
    # Each has five bytes with its head, but for the second and the third, which have four and six.
    payloads = [b"abc", b"\x0a\x03", b"\x0axyz", b"abc"]
    assert [row["payload"] for row in rows([piece(payloads)])] == payloads


def test_every_column() -> None:
    [row] = rows([piece([b"x"], 7, epoch=3)])
    moment = row.pop("timestamp")
    assert str(moment) == "2026-01-01 00:00:00.123456+00:00"
    assert row == {
        "topic": "orders",
        "source": "0x10",
        "sequence": 7,
        "epoch": 3,
        "payload": b"x",
        "key": None,
        "properties": None,
        "deleted": False,
        "expires": None,
    }


def test_columns_in_another_order_and_nullable() -> None:
    schema = pa.schema([("sequence", pa.int64()), ("topic", pa.string())])
    assert rows([piece([b"x", b"y"], 7)], schema) == [
        {"sequence": 7, "topic": "orders"},
        {"sequence": 8, "topic": "orders"},
    ]


def test_without_a_column_there_are_still_rows() -> None:
    batches = list(record_batches([piece([b"x", b"y"])], pa.schema([])))
    assert [batch.num_rows for batch in batches] == [2]


def test_payloads_that_nobody_wants_are_not_looked_at() -> None:
    good = piece([b"x", b"y"])
    broken = Piece(good.frame[: good.header.body_at] + b"\xff" * 6, good.header, 0, 1)
    schema = pa.schema([("sequence", pa.int64())])
    assert rows([broken], schema) == [{"sequence": 0}, {"sequence": 1}]


@pytest.mark.parametrize("count", [10, 1000, 4096])
def test_small_batches_are_put_together_and_large_ones_are_not(count: int) -> None:
    pieces = [piece([b"x"] * count, at * count) for at in range(40)]
    found = [batch.num_rows for batch in record_batches(pieces, ARROW)]
    assert sum(found) == 40 * count
    assert max(found) <= ROWS_MAX
    assert min(found[:-1] or found) >= min(ROWS_MAX - count, 40 * count)


def test_large_payloads_are_not_gathered() -> None:
    pieces = [piece([b"x" * 1_000_000], at) for at in range(12)]
    found = [batch.num_rows for batch in record_batches(pieces, ARROW)]
    assert max(found) <= 5
    assert sum(found) == 12


def test_a_key_that_many_messages_share_counts_for_each() -> None:
    count = 31
    own = [Attributes(b"k" * 8192)] * count
    frames = [encode_batch(ORDERS, 1, at * count, [b""] * count, 5, b"", own) for at in range(100)]
    pieces = [
        Piece(frame, header, header.first, header.last)
        for frame in frames
        for header in [read_header(frame)]
    ]
    batches = list(record_batches(pieces, ARROW))
    assert sum(batch.num_rows for batch in batches) == 100 * count
    assert max(batch.nbytes for batch in batches) < 2 * BYTES_MAX


TIMES = st.sampled_from([TIME, TIME + 1_000, TIME + 70_000, TIME + 300_000_000, TIME + (1 << 35)])
OWN = st.builds(
    Attributes,
    st.none() | st.sampled_from([b"", b"k"]),
    st.just({}),
    st.booleans(),
    st.none() | st.sampled_from([TIME, TIME + 5_000, -5_000]),
)


@given(st.lists(st.tuples(TIMES, OWN), min_size=1, max_size=6), st.data())
def test_each_row_has_the_time_the_deletion_and_the_expiry_of_its_message(
    messages: list[tuple[int, Attributes]], data: st.DataObject
) -> None:
    each, own = [time_ns for time_ns, _ in messages], [attributes for _, attributes in messages]
    least, later = times_of(each)
    frame = encode_batch(ORDERS, 1, 0, [b"x"] * len(each), least, b"", own, later)
    first = data.draw(st.integers(0, len(each) - 1))
    last = data.draw(st.integers(first, len(each) - 1))
    found = rows([Piece(frame, read_header(frame), first, last)])
    part = slice(first, last + 1)
    assert [row["timestamp"] for row in found] == list(map(moment_of, each[part]))
    assert [row["deleted"] for row in found] == [one.deleted for one in own[part]]
    assert [row["expires"] for row in found] == [
        None if one.expires_ns is None else moment_of(one.expires_ns) for one in own[part]
    ]


@pytest.mark.parametrize("timestamp_ns", [TIME_NS_MAX, 5])
def test_a_time_beyond_64_bits_is_found(timestamp_ns: int) -> None:
    frame = encode_batch(ORDERS, 1, 0, [b"x"] * 2, timestamp_ns, later=[0, TIME_NS_MAX])
    with pytest.raises(CorruptBatch, match="beyond the year 2262"):
        rows([Piece(frame, read_header(frame), 0, 1)])
