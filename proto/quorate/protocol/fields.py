"""Length-delimited protobuf fields, written by hand: equal values are always equal bytes.

Nothing is read here: protobuf itself reads faster than any Python code.
"""

from __future__ import annotations

_SHORT = 2048


def varint(number: int) -> bytes:
    """Return a number of at least 0 as protobuf writes it: seven bits a byte."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Field:
    """One field of a message, with a table of the prefixes of short values."""

    __slots__ = ("_short", "_tag")

    def __init__(self, number: int) -> None:
        """number: the field's number, below 16."""
        self._tag = bytes((number << 3 | 2,))
        self._short = tuple(self._tag + varint(length) for length in range(_SHORT))

    def prefix(self, length: int) -> bytes:
        """Return the tag and length of a value. length: bytes."""
        return self._short[length] if length < _SHORT else self._tag + varint(length)


FIRST = Field(1)
SECOND = Field(2)
