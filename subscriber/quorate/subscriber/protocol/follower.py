"""The place of a subscription, and whether the messages of a store fit behind it. Pure.

The position moves only forward, whichever store gives. So nothing is given twice, and nothing is
left out, when the subscription goes on at another store.
"""

from __future__ import annotations

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.errors import BrokenAnswer
from quorate.protocol.identity import SourceName


class Follower:
    """The places of one subscription in the streams of its sources."""

    def __init__(self, position: Position, ends: Position | None = None) -> None:
        """Begin behind this position.

        ends: the position where the subscription ends; None: it does not, or it is not known yet.
        """
        self._places = dict(position)
        self.ends = ends
        """The position where the subscription ends; None: it does not, or it is not known yet."""
        self._named = set(position)
        """The sources of which all that follows their place is due."""

    @property
    def position(self) -> Position:
        """The position behind all that was given."""
        return Position(self._places)

    @property
    def is_at_end(self) -> bool:
        """Whether all up to the end was given, of every source that the end names."""
        return self.ends is not None and all(
            self.place(source) >= end for source, end in self.ends.items()
        )

    def finish(self) -> None:
        """Name every source of the end, as the range is over.

        Messages of a source of which nothing was given are due behind the end, too.
        """
        for source, end in (self.ends or {}).items():
            self._places.setdefault(source, end)

    def place(self, source: SourceName) -> Place:
        """Return the place of a source."""
        return self._places.get(source, NO_PLACE)

    def consecutive(
        self, store: str, source: SourceName, epoch: int, first: int, last: int
    ) -> None:
        """Take messages that a store gives. Raises BrokenAnswer if they are not the next ones."""
        if first == 0:
            self._begins_anew(source, epoch, first)
        due = self.place(source).sequence + 1
        if first != due and (first < due or source in self._named):
            raise BrokenAnswer(store, f"it gives {source} from {first} on, where {due} is due")
        self.moved(store, source, Place(epoch, last))

    def moved(self, store: str, source: SourceName, place: Place) -> None:
        """Go on behind a place. Raises BrokenAnswer if that is not ahead."""
        self._begins_anew(source, place.epoch, place.sequence)
        before = self.place(source)
        if place.sequence <= before.sequence:
            raise BrokenAnswer(store, f"it goes back to {place.sequence} of {source}")
        if self.ends is not None and place > self.ends.get(source, NO_PLACE):
            raise BrokenAnswer(store, f"it gives {place.sequence} of {source}, behind the end")
        self._places[source] = place
        self._named.add(source)

    def _begins_anew(self, source: SourceName, epoch: int, first: int) -> None:
        """Forget the place of a source that gives numbers once more, in a higher epoch.

        A store takes back what is void before it gives other messages of these numbers. So it is
        another stream: the source was deregistered.
        """
        before = self.place(source)
        if first <= before.sequence and epoch > before.epoch:
            self._places[source] = NO_PLACE

    def taken_back(self, store: str, source: SourceName, first: int, epoch: int) -> Place:
        """Go back before messages that are void, and return the new place.

        Raises BrokenAnswer if they were not given.
        """
        if first > self.place(source).sequence:
            raise BrokenAnswer(store, f"it takes {first} of {source} back, which was not given")
        self._places[source] = Place(epoch, first - 1) if first else NO_PLACE
        return self._places[source]
