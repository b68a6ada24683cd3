"""A load: numbered messages that a program sends to a system, and what checks them on arrival.

Both are the same for every system. Nothing here knows a system.
"""

from __future__ import annotations

import os
import struct
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

_HEAD = struct.Struct("<qq")  # the number of the message, and when it was sent: monotonic, in ns
SLICE = 1000
"""The most messages that are handed to a client at once."""
LOOK_SECONDS = 0.001
"""A paced program looks this often for messages that are due."""


class WrongMessage(Exception):
    """A message is missing, came twice, or came out of order."""


@dataclass(frozen=True)
class Load:
    """The messages that are sent, and how fast."""

    messages: int
    """The number of messages that are measured."""
    size: int
    """Bytes of each message: 16 or more."""
    rate: float
    """Messages a second; 0: as many as possible."""
    warm_up: int
    """Messages before those that are measured."""

    def part(self, share: float) -> Load:
        """Return this load with fewer messages, unless they come at a rate."""
        if self.rate:
            return self
        messages, warm_up = int(self.messages * share), int(self.warm_up * share)
        return replace(self, messages=max(1, messages), warm_up=max(1, warm_up))

    def payload(self, number: int, sent_ns: int) -> bytes:
        """Return a message that was due at this time."""
        return _HEAD.pack(number, sent_ns) + _filling(self.size - _HEAD.size)

    def payloads(self, first: int, count: int) -> list[bytes]:
        """Return so many messages from this number on, which are sent now."""
        filling = _filling(self.size - _HEAD.size)
        pack, now = _HEAD.pack, time.monotonic_ns
        return [pack(number, now()) + filling for number in range(first, first + count)]

    def warm_up_slices(self) -> Iterator[list[bytes]]:
        """Yield the messages that are not measured."""
        for first in range(0, self.warm_up, SLICE):
            yield self.payloads(first, min(SLICE, self.warm_up - first))

    def slices(self) -> Iterator[tuple[float, list[bytes]]]:
        """Yield the messages that are measured. Before each part: the seconds to wait.

        A paced message carries the time at which it was due. So it counts as late if the program
        itself is late. Messages that are due together are handed over together.
        """
        first, end = self.warm_up, self.warm_up + self.messages
        began = time.monotonic_ns()
        while first < end:
            if not self.rate:
                count = min(SLICE, end - first)
                yield 0.0, self.payloads(first, count)
                first += count
                continue
            passed = time.monotonic_ns() - began
            due = min(end, self.warm_up + int(passed * self.rate / 1e9))
            if due <= first:
                yield LOOK_SECONDS, []
                continue
            due = min(due, first + SLICE)
            at = (began + int((one - self.warm_up) * 1e9 / self.rate) for one in range(first, due))
            yield 0.0, [self.payload(first + late, sent_ns) for late, sent_ns in enumerate(at)]
            first = due


_fillings: dict[int, bytes] = {}


def _filling(size: int) -> bytes:
    """Return bytes that do not compress, the same for every message."""
    if size not in _fillings:
        _fillings[size] = os.urandom(size)
    return _fillings[size]


class Checker:
    """Takes messages as they are delivered, and raises WrongMessage for a wrong one."""

    def __init__(self, load: Load, warm: Callable[[], None]) -> None:
        """Begin with the first message of a load. warm: told before the first measured message."""
        self._load = load
        self._warm = warm
        self._next = 0
        self._end = load.warm_up + load.messages
        self._latencies = array("q")

    def take_all(self, payloads: Sequence[bytes]) -> None:
        """Take messages that were delivered together."""
        now, number, unpack = time.monotonic_ns(), self._next, _HEAD.unpack_from
        keep = self.is_paced
        for payload in payloads:
            sent_number, sent = unpack(payload)
            if sent_number != number or len(payload) != self._load.size:
                raise WrongMessage(f"message {number} was expected, and {sent_number} came")
            number += 1
            if keep and number > self._load.warm_up:
                self._latencies.append(now - sent)
        if self._next < self._load.warm_up <= number:
            self._warm()
        self._next = number

    @property
    def is_paced(self) -> bool:
        """Whether the messages come at a rate, so that latency is measured."""
        return self._load.rate > 0

    @property
    def done(self) -> bool:
        """Whether all messages have come."""
        return self._next == self._end

    def latency_ms(self, share: float) -> float | None:
        """Return the latency that this share of messages did not exceed; None: not measured."""
        if not self._latencies:
            return None
        ordered = sorted(self._latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1e6
