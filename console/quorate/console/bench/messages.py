"""The bench's messages: each has its number, some a send time, and all the same pattern.

A receiver checks a block of messages at a time. So a check of every byte costs a fraction of a
microsecond a message.
"""

from __future__ import annotations

from array import array

BLOCK_MAX = 512
"""The most messages of a block."""
HEADER_BYTES = 16
"""Bytes of the header: number and send time, eight bytes each, little-endian."""

LAST = 1 << 63
"""The bit that marks the last message, in its send time."""

_UNSTAMPED = bytes(8)


def pattern(size: int) -> bytes:
    """Return the bytes behind the header of every message; no two neighbours are equal."""
    length = size - HEADER_BYTES
    return (bytes(range(1, 252)) * (length // 251 + 1))[:length]


def unstamped_tail(size: int) -> bytes:
    """Return the bytes behind the number of a message without a send time."""
    return _UNSTAMPED + pattern(size)


def stamped(number: int, sent_ns: int, rest: bytes) -> bytes:
    """Return the message of this number. rest: the pattern."""
    return number.to_bytes(8, "little") + sent_ns.to_bytes(8, "little") + rest


class BlockCheck:
    """A check of blocks of messages, byte by byte."""

    def __init__(self, size: int, block: int) -> None:
        """Check messages of so many bytes, and blocks of so many messages."""
        self._size = size
        self._block = block
        self._expected = bytearray((bytes(HEADER_BYTES) + pattern(size)) * block)
        self.next_number = 0
        """The number that the next block must begin with."""
        self.problem = ""
        """The problem of the first wrong block; empty if there is none."""

    def take(self, payloads: list[bytes]) -> array[int] | None:
        """Return the send times of a block, 0 for messages without one; None for a wrong block."""
        got = b"".join(payloads)
        if len(got) != len(self._expected):
            self.problem = self._what_is_wrong(payloads)
            return None
        size, block, expected = self._size, self._block, self._expected
        numbers = array("Q", range(self.next_number, self.next_number + block)).tobytes()
        times = bytearray(8 * block)
        for at in range(8):
            times[at::8] = got[8 + at :: size]
            expected[at::size] = numbers[at::8]
            expected[8 + at :: size] = times[at::8]
        if got != expected:
            self.problem = self._what_is_wrong(payloads)
            return None
        self.next_number += block
        return array("Q", bytes(times))

    def _what_is_wrong(self, payloads: list[bytes]) -> str:
        rest = pattern(self._size)
        for number, payload in enumerate(payloads, self.next_number):
            found = int.from_bytes(payload[:8], "little")
            if found != number or len(payload) != self._size or payload[HEADER_BYTES:] != rest:
                return (
                    f"message {number} is wrong: {len(payload)} bytes, its number is {found}, "
                    f"content {'right' if payload[HEADER_BYTES:] == rest else 'wrong'}"
                )
        raise AssertionError("a wrong block has no wrong message")
