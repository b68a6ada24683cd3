"""The parts of a source's history in an archive: messages, and what is told of others."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.answers import Piece
from quorate.protocol.identity import SourceName


@dataclass(frozen=True, slots=True)
class Passed:
    """Archived messages of which none can pass a filter. They were not read."""

    source: SourceName
    epoch: int
    """The epoch of the last message."""
    last: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Messages that the archive lacks."""

    source: SourceName
    epoch: int
    """The epoch of the last message."""
    first: int
    last: int


Part = Piece | Passed | Hole
"""A part of the history of one source."""
