"""What a source still has of its stream: frames in order, found by sequence number or by ordinal.

Pure. When a frame may go is decided here from two numbers, stable_upto and what the slowest store
still needs; who the stores are is not known here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from quorate.protocol.ranges import Range

_FRAME_OVERHEAD = 200
"""What a frame costs in memory besides its bytes, so that many small ones are counted honestly."""


class RetainedFrame(NamedTuple):
    first: int
    last: int
    frame: bytes
    """Serialized once; the same bytes go to every store and receiver."""
    payload_bytes_upto: int
    """Payload bytes of the stream up to its end."""
    packed_at: float


class Retention:
    """Frames, with gaps only where messages are lost.

    A frame's ordinal never changes; the oldest kept has `base`.
    """

    __slots__ = (
        "_forced_first",
        "_forced_last",
        "_frames",
        "_settled",
        "_settled_memory",
        "base",
        "next_sequence",
        "payload_bytes",
    )

    def __init__(self, next_sequence: int, payload_bytes: int = 0) -> None:
        self._frames: deque[RetainedFrame] = deque()
        self._settled = 0
        self._settled_memory = 0
        self._forced_first: int | None = None
        self._forced_last = 0
        self.base = 0
        self.next_sequence = next_sequence
        """The first number after the newest frame."""
        self.payload_bytes = payload_bytes
        """Payload bytes of the stream up to there."""

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def first(self) -> int:
        """The lowest number that is still here; next_sequence if none is."""
        return self._frames[0].first if self._frames else self.next_sequence

    @property
    def settled_memory(self) -> int:
        """Bytes of memory held by frames that are stable."""
        return self._settled_memory

    def append(
        self, first: int, last: int, frame: bytes, payload_bytes_upto: int, now: float
    ) -> None:
        assert first >= self.next_sequence or not self._frames, (first, self.next_sequence)
        self._frames.append(RetainedFrame(first, last, frame, payload_bytes_upto, now))
        self.next_sequence = last + 1
        self.payload_bytes = payload_bytes_upto

    def ends_before(self, next_sequence: int) -> None:
        """Nothing that is still missing below this number will ever be here: it is lost."""
        self.next_sequence = max(self.next_sequence, next_sequence)

    def at(self, ordinal: int) -> RetainedFrame | None:
        """The frame with this ordinal, which must not be below base; None past the newest."""
        at = ordinal - self.base
        return self._frames[at] if at < len(self._frames) else None

    def ordinal_of(self, sequence: int) -> int:
        """The ordinal of the oldest frame that ends at or after this number."""
        return self.base + bisect_left(self._frames, sequence, key=lambda frame: frame.last)

    def settle(self, stable_upto: int) -> int:
        """Everything up to here is stable. Returns the payload bytes up to the last whole frame."""
        at = self._settled - self.base
        while at < len(self._frames) and self._frames[at].last <= stable_upto:
            self._settled_memory += len(self._frames[at].frame) + _FRAME_OVERHEAD
            at += 1
        self._settled = self.base + at
        if at:
            return self._frames[at - 1].payload_bytes_upto
        return -1

    def bytes_upto(self, sequence: int) -> int:
        """The payload bytes up to the last whole frame that ends here or before; -1: not known."""
        ordinal = self.ordinal_of(sequence + 1)
        return (
            self._frames[ordinal - self.base - 1].payload_bytes_upto if ordinal > self.base else -1
        )

    def trim(self, needed_from: int, bytes_max: int) -> None:
        """Let stable frames go that no store needs, and the oldest ones beyond bytes_max."""
        while self.base < self._settled:
            oldest = self._frames[0]
            if oldest.last >= needed_from:
                if self._settled_memory <= bytes_max:
                    return
                if self._forced_first is None:
                    self._forced_first = oldest.first
                self._forced_last = oldest.last
            self._frames.popleft()
            self.base += 1
            self._settled_memory -= len(oldest.frame) + _FRAME_OVERHEAD

    def take_forced(self) -> Range | None:
        """What was let go since the last call although a store needed it, as one range."""
        first, self._forced_first = self._forced_first, None
        return Range(first, self._forced_last) if first is not None else None

    def oldest_unsettled(self) -> RetainedFrame | None:
        """The first frame that is not wholly stable."""
        return self.at(self._settled)

    def frames(self) -> Iterator[RetainedFrame]:
        """All that is here, in order."""
        return iter(self._frames)

    def unsettled(self) -> list[RetainedFrame]:
        """All frames that are not wholly stable."""
        at = self._settled - self.base
        return [self._frames[index] for index in range(at, len(self._frames))]
