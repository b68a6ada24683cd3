"""Rows that are too large for one response: cut into parts, and joined again. Pure.

A response of the state of the world has a bounded size. Which row the parts belong to is said by
the response that has the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.limits import BATCH_BYTES_MAX, FRAGMENT_BYTES


def parts_of(row: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the parts of a row in order, each with whether it is the last one."""
    for at in range(0, len(row), FRAGMENT_BYTES):
        yield row[at : at + FRAGMENT_BYTES], at + FRAGMENT_BYTES >= len(row)


class RowJoining:
    """The parts of one row after the other, as they come."""

    __slots__ = ("_parts", "_size", "_where")

    def __init__(self, where: str) -> None:
        """Begin without a part. where: who sends them, for errors."""
        self._where = where
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, data: bytes, ends: bool) -> bytes | None:
        """Take the next part, and return the row if it is the last one. Raises CorruptBatch."""
        self._size += len(data)
        if self._size > BATCH_BYTES_MAX:
            raise CorruptBatch(self._where, f"a row in parts has more than {BATCH_BYTES_MAX} bytes")
        self._parts.append(data)
        if not ends:
            return None
        row = b"".join(self._parts)
        self._parts, self._size = [], 0
        return row
