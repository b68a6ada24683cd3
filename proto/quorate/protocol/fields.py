"""Length-delimited protobuf fields, written by hand: the same bytes for the same values, always.

Nothing is read here: no Python reads protobuf faster than protobuf does.
"""

from __future__ import annotations

from collections.abc import Sequence

_SHORT = 2048


def varint(number: int) -> bytes:
    """A number that is not negative, as protobuf writes it: seven bits a byte."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Field:
    """One field of a message; what goes in front of short values is looked up."""

    __slots__ = ("_short", "tag")

    tag: bytes
    """What each of its values begins with on the wire: one byte."""

    def __init__(self, number: int) -> None:
        """number: of the field, below 16."""
        self.tag = bytes((number << 3 | 2,))
        self._short = tuple(self.tag + varint(length) for length in range(_SHORT))

    def prefix(self, length: int) -> bytes:
        """What goes in front of a value of so many bytes."""
        return self._short[length] if length < _SHORT else self.tag + varint(length)

    def repeated(self, values: Sequence[bytes]) -> bytes:
        """The values one after the other, each as an element of the field."""
        parts: list[bytes] = [b""] * (2 * len(values))
        try:
            parts[0::2] = map(self._short.__getitem__, map(len, values))
        except IndexError:
            parts[0::2] = map(self.prefix, map(len, values))
        parts[1::2] = values
        return b"".join(parts)


FIRST = Field(1)
SECOND = Field(2)
