"""What is left of batches for a subscription with a filter, or with some fields alone."""

from __future__ import annotations

import pytest
from tests.store.support import ORDERS

from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.fragments import Batch, LargeBatch, encode_large, fragments_of, split
from quorate.protocol.framing import (
    check_batch,
    checked_head,
    encode_batch,
    read_header,
    read_payloads,
    unchecked_head,
)
from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range
from quorate.store.rpc.selecting import Piece, Wanted, large_left
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.large_batches import LargeRow, fragment_key
from quorate.store.storage.memory import MemoryRows
from quorate.v1 import store_pb2 as store_v1


def wanting(where: str | None, select: str | None) -> Wanted:
    """Return the selection of a subscription with these options; payloads are JSON."""
    return Wanted(
        None if where is None else Filter(where),
        None if select is None else Projection(select),
        lambda _: PayloadFormat.JSON,
    )


BY_ID = wanting(None, "id")


def piece(first: int, *payloads: bytes) -> Piece:
    frame = encode_batch(ORDERS, 1, first, payloads, 0)
    return Piece(read_header(frame), frame, Range(first, first + len(payloads) - 1))


def without_messages(first: int, size: int) -> bytes:
    """A batch with a right checksum, and a body that nobody can read."""
    body = b"\xff" * size
    return checked_head(unchecked_head(ORDERS, 1, first, 1, 0, b"", size), (body,)) + body


def kept(batch: LargeBatch) -> tuple[MemoryRows, LargeRow]:
    """The fragments of a large batch in a store, and its row in the journal."""
    rows = MemoryRows()
    for at, data in fragments_of(batch):
        rows.write([Write(Table.FRAGMENTS, fragment_key(3, at // FRAGMENT_BYTES), data)])
    return rows, LargeRow(3, batch.size, batch.header)


def test_a_part_of_a_batch_has_its_own_messages_only() -> None:
    whole = piece(7, b'{"id":1,"x":1}', b'{"id":2,"x":2}', b'{"id":3,"x":3}')
    part = Piece(whole.header, whole.frame, Range(8, 9))
    (left,) = BY_ID.left_of(MemoryRows(), [part])
    assert isinstance(left, store_v1.Given)
    header = check_batch(left.selected.batch)
    assert (header.first, left.selected.upto) == (8, 9)
    assert read_payloads(left.selected.batch, header) == [b'{"id":2}', b'{"id":3}']


@pytest.mark.parametrize("wanted", [BY_ID, wanting("id = 1", None), wanting("id = 1", "id")])
def test_a_batch_of_which_nothing_is_left_out_is_given_as_it_is(wanted: Wanted) -> None:
    whole = piece(0, b'{"id":1}')
    assert wanted.left_of(MemoryRows(), [whole]) == [whole]


@pytest.mark.parametrize(
    ("where", "select", "numbers", "payloads"),
    [
        ("$sequence >= 9", None, [9, 10], [b'{"id":333}', b"no JSON"]),
        ("$sequence >= 9", "id", [9, 10], [b'{"id":333}', b"no JSON"]),
        ("$sequence <> 9", "name", [7, 8, 10], [b"{}", b"{}", b"no JSON"]),
        ("$size < 10", None, [7, 8, 10], [b'{"id":1}', b'{"id":22}', b"no JSON"]),
        ("id > 1", None, [8, 9], [b'{"id":22}', b'{"id":333}']),
    ],
)
def test_the_messages_that_pass_have_their_own_payloads(
    where: str, select: str | None, numbers: list[int], payloads: list[bytes]
) -> None:
    whole = piece(7, b'{"id":1}', b'{"id":22}', b'{"id":333}', b"no JSON")
    (left,) = wanting(where, select).left_of(MemoryRows(), [whole])
    assert isinstance(left, store_v1.Given)
    header = check_batch(left.selected.batch)
    assert [header.first + offset for offset in left.selected.offsets] == numbers
    assert read_payloads(left.selected.batch, header) == payloads


def test_a_batch_that_nobody_can_read_is_passed() -> None:
    frame = without_messages(7, 100)
    unreadable = Piece(read_header(frame), frame, Range(7, 7))
    readable = piece(8, b"no JSON")
    moved, left = BY_ID.left_of(MemoryRows(), [unreadable, readable])
    assert isinstance(moved, store_v1.Given)
    assert moved.moved.sequence == 7
    assert left == readable


def test_a_large_batch_that_nobody_can_read_has_no_message() -> None:
    rows, row = kept(split(without_messages(7, 2 * 1024 * 1024)))
    assert large_left(Projection("id"), PayloadFormat.JSON, rows, row) is None


@pytest.mark.parametrize(("fields", "is_large"), [("id", False), ("-id", True)])
def test_a_large_batch_stays_large_if_its_message_does(fields: str, is_large: bool) -> None:
    body = b'"' + b"x" * (2 * 1024 * 1024) + b'"'
    rows, row = kept(encode_large(ORDERS, 1, 7, b'{"id":1,"body":' + body + b"}", 5))
    left: Batch | None = large_left(Projection(fields), PayloadFormat.JSON, rows, row)
    assert isinstance(left, LargeBatch) is is_large
    frame = left.joined() if isinstance(left, LargeBatch) else left
    assert frame is not None
    header = check_batch(frame)
    assert (header.first, header.timestamp_ns) == (7, 5)
    assert read_payloads(frame, header) == [b'{"body":' + body + b"}" if is_large else b'{"id":1}']
