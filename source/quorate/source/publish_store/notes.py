"""Notes of batches: how kept messages became a batch, and the checksum of that batch. Pure.

A note lets a batch be made again, byte for byte, from its messages. Which messages are kept is not
known here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

import google_crc32c

from quorate.protocol.framing import BatchHeader

# The fields in their order: checksum of the rest; first and last number; epoch, checksum of the
# batch.
_NOTE = struct.Struct("<IQQQI")
_CHECKED_FROM = 4


class Note(NamedTuple):
    """The facts of a batch that its messages do not tell."""

    first: int
    last: int
    epoch: int
    checksum: int

    @staticmethod
    def of(header: BatchHeader) -> Note:
        """Return the note of this batch, which has no marker."""
        return Note(header.first, header.last, header.epoch, header.checksum)

    def encode(self) -> bytes:
        """Return the bytes of the note."""
        rest = _NOTE.pack(0, *self)[_CHECKED_FROM:]
        checksum: int = google_crc32c.value(rest)
        return checksum.to_bytes(4, "little") + rest


def read_notes(raw: bytes) -> Iterator[Note]:
    """Yield the valid notes of a file, in order. A note that is not whole is left out."""
    for at in range(0, len(raw) - _NOTE.size + 1, _NOTE.size):
        checksum, *fields = _NOTE.unpack_from(raw, at)
        if google_crc32c.value(raw[at + _CHECKED_FROM : at + _NOTE.size]) == checksum:
            yield Note(*fields)
