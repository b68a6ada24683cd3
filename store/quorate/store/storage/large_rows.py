"""Rows of large messages: a row has all of its message but the payload, which is beside it.

The parts of a payload are rows of the same table, so a frozen view has both. No row of the disk is
large, because it is written and read under Python's lock. A note says of which row there are parts:
a part without its row is of no use, and is removed. When that is done is decided elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

from quorate.protocol.limits import FRAGMENT_BYTES
from quorate.store.storage.interface import Reads, Table, Write
from quorate.store.storage.records import Malformed
from quorate.store.storage.state_records import (
    LARGE,
    Candidate,
    pack_candidate,
    row_key,
    rows_of_topic,
    unpack_candidate,
)

_PARTS, _NOTES = b"l", b"n"
_PREFIX = slice(1, 17)
_PLACE = struct.Struct(">QQ")
_NUMBER = struct.Struct(">I")
_TAIL = struct.Struct(">II")
_SESSION_BYTES = 8
_NOTES_AT_ONCE = 256


class LacksPayload(Malformed):
    """The payload of a row is not there as a whole."""


@dataclass(frozen=True, slots=True)
class LargeRow:
    """A row to write, and the parts of its payload."""

    row: Write
    note: Write
    """It is written first."""
    parts: list[Write]


@dataclass(frozen=True, slots=True)
class Note:
    """A note that there are parts of a row."""

    key: bytes
    row_key: bytes
    epoch: int
    sequence: int
    count: int

    def removal(self) -> list[Write]:
        """Return the rows that remove the parts, and the note."""
        parts = _parts_key(self.row_key, self.epoch, self.sequence)
        removed = [Write(Table.STATE, _part_key(parts, each), None) for each in range(self.count)]
        return [*removed, Write(Table.STATE, self.key, None)]


def is_large(candidate: Candidate) -> bool:
    """Return whether the payload of a candidate is beside its row."""
    return candidate.payload_at >= LARGE


def payload_bytes(candidate: Candidate) -> int:
    """Return the bytes of the payload of a candidate, wherever it is."""
    if is_large(candidate):
        return _tail(candidate)[0]
    return len(candidate.body) - candidate.payload_at


def large_row(prefix: bytes, key: bytes, candidate: Candidate) -> LargeRow:
    """Return what to write of a candidate that is whole. key: of the message."""
    own = row_key(prefix, key, candidate.session_id)
    payload = candidate.payload
    before = candidate.body[: candidate.payload_at]
    tail = _TAIL.pack(len(payload), google_crc32c.value(payload))
    stored = candidate._replace(
        payload_at=candidate.payload_at | LARGE, body=b"".join((before, tail))
    )
    parts_key = _parts_key(own, candidate.epoch, candidate.sequence)
    parts = [
        Write(
            Table.STATE,
            _part_key(parts_key, number),
            payload[number * FRAGMENT_BYTES : (number + 1) * FRAGMENT_BYTES],
        )
        for number in range(_count(len(payload)))
    ]
    note = _note_key(own) + _PLACE.pack(candidate.epoch, candidate.sequence)
    return LargeRow(
        Write(Table.STATE, own, pack_candidate(stored)),
        Write(Table.STATE, note, _NUMBER.pack(len(parts))),
        parts,
    )


def whole(reads: Reads, prefix: bytes, candidate: Candidate) -> Candidate:
    """Return a candidate with its payload. It is read if it is beside the row.

    Raises LacksPayload, StorageFailed.
    """
    if not is_large(candidate):
        return candidate
    size, checksum = _tail(candidate)
    begin = prefix + candidate.session_id.to_bytes(_SESSION_BYTES)
    parts_key = _PARTS + begin + _PLACE.pack(candidate.epoch, candidate.sequence)
    parts = []
    for number in range(_count(size)):
        (part,) = reads.get(Table.STATE, [_part_key(parts_key, number)])
        if part is None:
            raise LacksPayload(f"part {number} of the payload of a row is not there")
        parts.append(part)
    payload = b"".join(parts)
    if (len(payload), google_crc32c.value(payload)) != (size, checksum):
        raise LacksPayload("the payload of a row has another checksum")
    at = candidate.payload_at - LARGE
    return candidate._replace(payload_at=at, body=b"".join((candidate.body[:at], payload)))


def notes_of_row(reads: Reads, own: bytes) -> Iterator[Note]:
    """Yield the notes of a row. own: its key. Raises Malformed, StorageFailed."""
    first = _note_key(own)
    yield from _notes(reads, first, first + b"\xff" * (_PLACE.size + 1))


def notes_of_topic(reads: Reads, prefix: bytes) -> Iterator[Note]:
    """Yield the notes of all rows of a topic. Raises Malformed, StorageFailed."""
    first, last = rows_of_topic(prefix)
    yield from _notes(reads, _note_key(first), _note_key(last))


def is_of_no_use(reads: Reads, note: Note) -> bool:
    """Return whether the parts that a note names have no row. Raises Malformed, StorageFailed."""
    (value,) = reads.get(Table.STATE, [note.row_key])
    if value is None:
        return True
    row = unpack_candidate(note.row_key, value)
    return not is_large(row) or (row.epoch, row.sequence) != (note.epoch, note.sequence)


def _notes(reads: Reads, first: bytes, last: bytes) -> Iterator[Note]:
    while rows := reads.scan(Table.STATE, first, last, _NOTES_AT_ONCE):
        for key, value in rows:
            try:
                epoch, sequence = _PLACE.unpack(key[-_PLACE.size :])
                (count,) = _NUMBER.unpack(value)
            except struct.error as error:
                raise Malformed(f"a note of a large row cannot be read: {error}") from None
            yield Note(key, b"r" + key[1 : -_PLACE.size], epoch, sequence, count)
        first = rows[-1][0] + b"\0"


def _count(size: int) -> int:
    return -(-size // FRAGMENT_BYTES)


def _tail(candidate: Candidate) -> tuple[int, int]:
    try:
        size, checksum = _TAIL.unpack_from(candidate.body, candidate.payload_at - LARGE)
    except struct.error as error:
        raise Malformed(f"a large row cannot be read: {error}") from None
    return size, checksum


def _note_key(own: bytes) -> bytes:
    return _NOTES + own[1:]


def _parts_key(own: bytes, epoch: int, sequence: int) -> bytes:
    """Return what the keys of the parts begin with. A message is the row of one key alone."""
    return _PARTS + own[_PREFIX] + own[-_SESSION_BYTES:] + _PLACE.pack(epoch, sequence)


def _part_key(parts_key: bytes, number: int) -> bytes:
    return parts_key + _NUMBER.pack(number)
