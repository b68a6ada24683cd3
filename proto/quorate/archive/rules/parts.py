"""The parts of a source's history in an archive: messages, and what is told of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorate.protocol.answers import Piece
from quorate.protocol.framing import BatchHeader
from quorate.protocol.identity import SourceName


@dataclass(frozen=True, slots=True)
class Passed:
    """Archived messages of which none can pass a filter. They were not read."""

    source: SourceName
    epoch: int
    """The epoch of the last message."""
    last: int


@dataclass(frozen=True, slots=True)
class Picked:
    """Archived messages of one batch that can pass a filter. Those between them were not read."""

    frame: bytes
    """A batch of these messages alone, with numbers that follow on each other."""
    header: BatchHeader
    numbers: Sequence[int]
    """The number that each of them has in the stream."""

    @property
    def first(self) -> int:
        """The number of the first one."""
        return self.numbers[0]

    @property
    def last(self) -> int:
        """The number of the last one."""
        return self.numbers[-1]


@dataclass(frozen=True, slots=True)
class Hole:
    """Messages that the archive lacks."""

    source: SourceName
    epoch: int
    """The epoch of the last message."""
    first: int
    last: int


Part = Piece | Picked | Passed | Hole
"""A part of the history of one source."""
