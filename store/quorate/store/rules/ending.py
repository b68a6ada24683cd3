"""The end of a subscription: the last number of each source that it is given. Pure.

A subscription ends at a position, before a time, or at both, whichever comes first. The position is
made once, so the end is the same at each store. Nothing is read here, and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quorate.protocol.bookmarks import NO_PLACE, Place, Position, kept_upto
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range


class Ending:
    """The end of one subscription."""

    def __init__(self, position: Position | None, before_ns: int | None = None) -> None:
        """End at a position, and before a time.

        - position: None: it is made later, by `fix`.
        - before_ns: in nanoseconds since 1970 UTC; None: messages of any time are given.
        """
        self.position: Position | None = None
        """The position; None: it is still to be made."""
        self.before_ns = before_ns
        self._late: dict[SourceName, Place] = {}
        """The first message of each source that is not earlier than the time."""
        self._open: set[SourceName] = set()
        """The sources of which the end may not have been reached."""
        if position is not None:
            self.fix(position)

    def fix(self, position: Position) -> None:
        """End at this position."""
        self.position = position
        self._open = set(position)

    def upto(self, source: SourceName, lineage: Lineage) -> int:
        """Return the last number of a stream that is not behind the end; -1: there is none."""
        upto = SEQUENCE_MAX
        if self.position is not None:
            upto = kept_upto(self.position.get(source, NO_PLACE), lineage)
        late = self._late.get(source)
        if late is not None and late.belongs_to(lineage):
            upto = min(upto, late.sequence - 1)
        return upto

    def earlier(
        self,
        source: SourceName,
        part: Range,
        place_of: Callable[[int], Place],
        times: Callable[[], Sequence[int]],
    ) -> Range | None:
        """Return the next numbers of a source as far as they are earlier than the time; None: none.

        The first message that is not is behind the end, and so is every later one of its stream.

        times: returns the time of each message of the part.
        """
        if self.before_ns is None:
            return part
        for number, time_ns in zip(range(part.first, part.last + 1), times(), strict=True):
            if time_ns >= self.before_ns:
                self._late[source] = place_of(number)
                return Range(part.first, number - 1) if number > part.first else None
        return part

    def is_reached(self, source: SourceName, lineage: Lineage, place: Place) -> bool:
        """Return whether nothing of a source is left between its place and the end.

        lineage: that of the store. It may lack the end's epoch. Then the store cannot tell.
        """
        if self.position is None:
            return False
        end = self.position.get(source, NO_PLACE)
        if place >= end:
            return True
        return end.epoch <= lineage.epoch and kept_upto(place, lineage) >= self.upto(
            source, lineage
        )

    def is_over(self, is_reached: Callable[[SourceName], bool]) -> bool:
        """Return whether the end of every source that the position names has been reached."""
        while self.closes_one(is_reached):
            pass
        return self.position is not None and not self._open

    def closes_one(self, is_reached: Callable[[SourceName], bool]) -> bool:
        """Return whether the end of one more source has been found to be reached.

        So a caller can look at many sources in several turns.
        """
        if not self._open:
            return False
        source = self._open.pop()
        if not is_reached(source):
            self._open.add(source)
            return False
        return True
