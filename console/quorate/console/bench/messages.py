"""The bench's messages: each says which one it is, some when they were sent, all the same pattern.

A block is what a receiver checks at a time, so that checking every byte of every message costs a
fraction of a microsecond a message.
"""

from __future__ import annotations

from array import array

BLOCK = 512
HEADER_BYTES = 16
"""Number and send time, eight bytes each, little-endian."""

LAST = 1 << 63
"""Set in the send time of the very last message."""

_UNSTAMPED = bytes(8)


def pattern(size: int) -> bytes:
    """What follows the header in every message of this size; no two bytes in a row are equal."""
    length = size - HEADER_BYTES
    return (bytes(range(1, 252)) * (length // 251 + 1))[:length]


def unstamped_tail(size: int) -> bytes:
    """What follows the number in a message without a send time."""
    return _UNSTAMPED + pattern(size)


def stamped(number: int, sent_ns: int, rest: bytes) -> bytes:
    """The message of that number; rest is the pattern."""
    return number.to_bytes(8, "little") + sent_ns.to_bytes(8, "little") + rest


class BlockCheck:
    """Compares blocks of messages with what they must be, byte by byte."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._expected = bytearray((bytes(HEADER_BYTES) + pattern(size)) * BLOCK)
        self.next_number = 0
        """The number that the next block must begin with."""
        self.problem = ""
        """What was wrong with the first block that was."""

    def take(self, payloads: list[bytes]) -> array[int] | None:
        """The send times of a block, 0 where there is none; None if anything is wrong with it."""
        got = b"".join(payloads)
        if len(got) != len(self._expected):
            self.problem = self._what_is_wrong(payloads)
            return None
        size, expected = self._size, self._expected
        numbers = array("Q", range(self.next_number, self.next_number + BLOCK)).tobytes()
        times = bytearray(8 * BLOCK)
        for at in range(8):
            times[at::8] = got[8 + at :: size]
            expected[at::size] = numbers[at::8]
            expected[8 + at :: size] = times[at::8]
        if got != expected:
            self.problem = self._what_is_wrong(payloads)
            return None
        self.next_number += BLOCK
        return array("Q", bytes(times))

    def _what_is_wrong(self, payloads: list[bytes]) -> str:
        rest = pattern(self._size)
        for number, payload in enumerate(payloads, self.next_number):
            found = int.from_bytes(payload[:8], "little")
            if found != number or len(payload) != self._size or payload[HEADER_BYTES:] != rest:
                return (
                    f"message {number} is wrong: {len(payload)} bytes, says that it is {found}, "
                    f"content {'right' if payload[HEADER_BYTES:] == rest else 'wrong'}"
                )
        raise AssertionError("a block that is wrong has no message that is")
