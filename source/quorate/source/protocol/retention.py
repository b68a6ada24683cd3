"""The frames that a source still has of its stream, in order, by sequence number or by ordinal.

Pure. Two numbers decide when a frame may go: stable_upto, and what the slowest store still needs.
Which stores there are is not known here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from quorate.protocol.ranges import Range
from quorate.source.protocol.frames import Framed

_FRAME_OVERHEAD = 200
"""The memory, in bytes, that a frame costs besides its own bytes. It makes small frames count."""


class RetainedFrame(NamedTuple):
    first: int
    last: int
    frame: Framed
    """The frame, serialized once; every store and receiver gets these bytes."""
    payload_bytes_upto: int
    """The payload bytes of the stream up to the end of this frame."""
    packed_at: float


class Retention:
    """The retained frames, with gaps only where messages are lost.

    A frame's ordinal never changes; the oldest frame kept has the ordinal `base`.
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

    def __init__(self, next_sequence: int) -> None:
        self._frames: deque[RetainedFrame] = deque()
        self._settled = 0
        self._settled_memory = 0
        self._forced_first: int | None = None
        self._forced_last = 0
        self.base = 0
        self.next_sequence = next_sequence
        """The first sequence number after the newest frame."""
        self.payload_bytes = 0
        """The payload bytes of the stream up to next_sequence."""

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def first(self) -> int:
        """The lowest sequence number that is still here; next_sequence: none is."""
        return self._frames[0].first if self._frames else self.next_sequence

    def append(
        self, first: int, last: int, frame: Framed, payload_bytes_upto: int, now: float
    ) -> None:
        """Add the next frame. payload_bytes_upto: payload bytes of the stream up to its end."""
        assert first >= self.next_sequence or not self._frames, (first, self.next_sequence)
        self._frames.append(RetainedFrame(first, last, frame, payload_bytes_upto, now))
        self.next_sequence = last + 1
        self.payload_bytes = payload_bytes_upto

    def ends_before(self, next_sequence: int) -> None:
        """Raise next_sequence to this number at least. The skipped numbers are lost."""
        self.next_sequence = max(self.next_sequence, next_sequence)

    def at(self, ordinal: int) -> RetainedFrame | None:
        """Return the frame with this ordinal, which must not be below base; None: past the
        newest."""
        at = ordinal - self.base
        return self._frames[at] if at < len(self._frames) else None

    def ordinal_of(self, sequence: int) -> int:
        """Return the ordinal of the oldest frame that ends at or after this sequence number."""
        return self.base + bisect_left(self._frames, sequence, key=lambda frame: frame.last)

    def settle(self, stable_upto: int) -> int:
        """Note that all up to here is stable. Return the payload bytes up to the last whole frame.

        -1: no whole frame that is still here is stable.
        """
        at = self._settled - self.base
        while at < len(self._frames) and self._frames[at].last <= stable_upto:
            self._settled_memory += len(self._frames[at].frame) + _FRAME_OVERHEAD
            at += 1
        self._settled = self.base + at
        if at:
            return self._frames[at - 1].payload_bytes_upto
        return -1

    def bytes_upto(self, sequence: int) -> int:
        """Return the payload bytes up to the last whole frame that ends here or before; -1:
        unknown."""
        ordinal = self.ordinal_of(sequence + 1)
        return (
            self._frames[ordinal - self.base - 1].payload_bytes_upto if ordinal > self.base else -1
        )

    def trim(self, needed_from: int, bytes_max: int) -> None:
        """Release stable frames that no store needs, and the oldest stable ones beyond
        bytes_max."""
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
        """Return, as one range, what was released since the last call although a store needed
        it."""
        first, self._forced_first = self._forced_first, None
        return Range(first, self._forced_last) if first is not None else None

    def oldest_unsettled(self) -> RetainedFrame | None:
        """Return the first frame that is not wholly stable; None: every frame is."""
        return self.at(self._settled)

    def frames(self) -> Iterator[RetainedFrame]:
        """Iterate over all frames, in order."""
        return iter(self._frames)

    def unsettled(self) -> list[RetainedFrame]:
        """Return all frames that are not wholly stable."""
        at = self._settled - self.base
        return [self._frames[index] for index in range(at, len(self._frames))]
