"""The decisions of a queue, as values: what the messages of its stream say.

How a dispatcher comes to them is in quorate.queue.protocol.dispatch, and how they are written in
quorate.queue.io.decision_wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from quorate.protocol.bookmarks import Place
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range


@dataclass(frozen=True, slots=True)
class Tried:
    """The tries of a message that is not done."""

    count: int = 0
    """How often it was handed out."""
    due_ns: int = 0
    """The time from which on it may be handed out again, in ns since 1970; 0: at once."""
    is_given_up: bool = False
    """Whether it is never handed out again."""
    reason: str = ""
    """Why it was not done, for people."""


NOT_TRIED = Tried()
"""The tries of a message that was never handed out."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Messages of one source in one epoch that are handed out no more."""

    source: SourceName
    epoch: int
    ranges: tuple[Range, ...]
    dead: bool = False
    """Whether they became dead letters."""


@dataclass(frozen=True, slots=True)
class Released:
    """Messages of one source in one epoch that were handed out, and are to be handed out again."""

    source: SourceName
    epoch: int
    ranges: tuple[Range, ...]
    tried: Tried


@dataclass(frozen=True, slots=True)
class TrackSnapshot:
    """The settled messages of one source."""

    source: SourceName
    floor: Place
    """Everything up to here is settled."""
    upto: Place
    """Everything up to here is settled but for what `outstanding` names."""
    outstanding: Mapping[Place, Tried]
    """The messages up to there that are not settled."""
    ahead: Mapping[int, tuple[Range, ...]]
    """The settled messages beyond, by epoch."""
    tried: Mapping[Place, Tried]
    """The tries of messages beyond."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that was decided before."""

    tracks: tuple[TrackSnapshot, ...]


Decision = Settled | Released | Snapshot
"""A decision."""


def ranges_of(numbers: Iterable[int]) -> Iterator[Range]:
    """Yield the ranges of numbers that are in ascending order."""
    first = last = -1
    for number in numbers:
        if number != last + 1 or last < 0:
            if last >= 0:
                yield Range(first, last)
            first = number
        last = number
    if last >= 0:
        yield Range(first, last)
