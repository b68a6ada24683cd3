"""Length-delimited protobuf fields, written by hand: equal values are always equal bytes.

Nothing is read here: protobuf itself reads faster than any Python code.
"""

from __future__ import annotations

from collections.abc import Sequence

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

    __slots__ = ("_short", "tag")

    tag: bytes
    """The first byte of each of its values on the wire."""

    def __init__(self, number: int) -> None:
        """number: the field's number, below 16."""
        self.tag = bytes((number << 3 | 2,))
        self._short = tuple(self.tag + varint(length) for length in range(_SHORT))

    def prefix(self, length: int) -> bytes:
        """Return the tag and length of a value. length: bytes."""
        return self._short[length] if length < _SHORT else self.tag + varint(length)

    def repeated(self, values: Sequence[bytes]) -> bytes:
        """Return the values one after the other, each as an element of the field."""
        parts: list[bytes] = [b""] * (2 * len(values))
        try:
            parts[0::2] = map(self._short.__getitem__, map(len, values))
        except IndexError:
            parts[0::2] = map(self.prefix, map(len, values))
        parts[1::2] = values
        return b"".join(parts)


FIRST = Field(1)
SECOND = Field(2)
