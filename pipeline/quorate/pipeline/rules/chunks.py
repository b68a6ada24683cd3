"""Rows of a topic, and their chunks: each chunk fits one batch of messages.

Nothing here knows Spark, or which rows were written before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import add

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.limits import BATCH_BYTES_TARGET, BATCH_MESSAGES_MAX


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of one topic."""

    payloads: list[bytes]
    attributes: list[Attributes] = field(default_factory=list)
    """Key and properties of each row; an empty list if no row has any."""

    def __len__(self) -> int:
        return len(self.payloads)

    def __getitem__(self, part: slice) -> Rows:
        return Rows(self.payloads[part], self.attributes[part])

    def picked(self, numbers: Sequence[int]) -> Rows:
        """Return the rows at these places, in this order."""
        attributes = [self.attributes[at] for at in numbers] if self.attributes else []
        return Rows([self.payloads[at] for at in numbers], attributes)

    def __add__(self, more: Rows) -> Rows:
        attributes = self._filled() + more._filled() if self.attributes or more.attributes else []
        return Rows(self.payloads + more.payloads, attributes)

    def _filled(self) -> list[Attributes]:
        return self.attributes or [NO_ATTRIBUTES] * len(self)

    def sizes(self) -> Iterator[int]:
        """Return the bytes that each row adds to a batch."""
        if not self.attributes:
            return map(len, self.payloads)
        return map(add, map(len, self.payloads), (own.size for own in self.attributes))


NO_ROWS = Rows([])


class Chunks:
    """Cuts a topic's rows into chunks that fit one batch."""

    def __init__(self) -> None:
        self._pending = NO_ROWS

    @property
    def bytes(self) -> int:
        """Bytes of the rows that wait until a chunk is full."""
        return sum(self._pending.sizes())

    def add(self, rows: Rows) -> Iterator[Rows]:
        """Add rows; yield each chunk that is full."""
        pending = self._pending + rows if len(self._pending) else rows
        at = 0
        while (size := _fitting(pending, at)) < len(pending) - at:
            yield pending[at : at + size]
            at += size
        self._pending = pending[at:] if at else pending

    def rest(self) -> Rows:
        """Return the waiting rows as a last chunk, and keep none."""
        rest, self._pending = self._pending, NO_ROWS
        return rest


def _fitting(rows: Rows, at: int) -> int:
    """Return how many rows from `at` on fit one batch, one at least."""
    ends = list(accumulate(rows[at : at + BATCH_MESSAGES_MAX].sizes()))
    return max(bisect_right(ends, BATCH_BYTES_TARGET), 1)
