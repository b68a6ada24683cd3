"""Bookmarks and positions: the place of a message, and a cut through all sources of some topics.

A bookmark has one text form, such as `orders/0x1@7:3836`: topic, session ID, epoch, sequence
number. It names the message, and the place right behind it. How a store resolves one is not known
here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, NUMBER_DIGITS_MAX, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage

_EPOCH_MAX = 2**64 - 1


class Place(NamedTuple):
    """A place in a source's stream, right behind a message."""

    epoch: int
    """The epoch of the message; 0: there is no message."""
    sequence: int
    """The number of the message; -1: there is none."""

    def belongs_to(self, lineage: Lineage) -> bool:
        """Return whether the message belongs to the stream of this lineage.

        Otherwise the source began anew since, or a later epoch set the message aside.
        """
        return lineage.epoch_at(self.sequence) == self.epoch


NO_PLACE = Place(0, NOTHING)
"""The place before the first message of a stream."""


def place_at(lineage: Lineage, sequence: int) -> Place:
    """Return the place behind a number of the stream of this lineage; -1: before the first."""
    return Place(lineage.epoch_at(sequence), sequence) if sequence >= 0 else NO_PLACE


def kept_upto(place: Place, lineage: Lineage) -> int:
    """Return the last number up to this place that belongs to the stream; -1: there is none."""
    if place.belongs_to(lineage):
        return place.sequence
    if not lineage.reaches_back_to(place.epoch):
        return NOTHING
    later = (term.first for term in lineage.terms if term.epoch > place.epoch)
    # Without a later term this lineage does not have the epoch yet.
    return min(place.sequence, min(later, default=SEQUENCE_MAX) - 1)


class Bookmark(NamedTuple):
    """The place of a message, for a replay to begin right behind it."""

    source: SourceName
    """The source of the message."""
    epoch: int
    """The source's epoch under which the message belongs to the stream."""
    sequence: int
    """The number of the message."""

    def __str__(self) -> str:
        return f"{self.source}@{self.epoch}:{self.sequence}"

    @property
    def place(self) -> Place:
        """The place in the source's stream."""
        return Place(self.epoch, self.sequence)

    @staticmethod
    def parse(text: str) -> Bookmark:
        """Return the bookmark of a text such as `orders/0x1@7:3836`. Raises InvalidArgument.

        The session ID may also be decimal.
        """
        source, _, place = text.strip().rpartition("@")
        epoch, _, sequence = place.partition(":")
        if not source or not _is_number(epoch) or not _is_number(sequence):
            raise InvalidArgument(
                "bookmark", f"{text!r} is not TOPIC/SESSION@EPOCH:SEQUENCE, as orders/0x1@7:3836"
            )
        bookmark = Bookmark(SourceName.parse(source), int(epoch), int(sequence))
        if not 0 < bookmark.epoch <= _EPOCH_MAX or bookmark.sequence > SEQUENCE_MAX:
            raise InvalidArgument("bookmark", f"{text!r} has a number that no message has")
        return bookmark


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX


class Position(Mapping[SourceName, Place]):
    """A cut through all sources of some topics: for each, the place behind which it goes on.

    A source that it does not name is before the cut as a whole: a replay begins with its first
    message. So a position is complete once it names every source that has messages before it.
    """

    __slots__ = ("_places",)

    def __init__(self, places: Mapping[SourceName, Place] | None = None) -> None:
        """Make a position of these places."""
        self._places = dict(places or {})

    def __getitem__(self, source: SourceName) -> Place:
        return self._places[source]

    def __iter__(self) -> Iterator[SourceName]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def place_of(self, source: SourceName, lineage: Lineage) -> Place:
        """Return the place of a source whose stream has this lineage now.

        NO_PLACE stands for a source that the position does not name, or that began anew since.
        """
        place = self._places.get(source, NO_PLACE)
        return place if lineage.reaches_back_to(place.epoch) else NO_PLACE

    def moved(self, source: SourceName, place: Place) -> Position:
        """Return the position with another place of this source."""
        return Position({**self._places, source: place})

    def bookmarks(self) -> list[Bookmark]:
        """Return the bookmark of each source, in the order of topics and session IDs."""
        return [Bookmark(source, *self._places[source]) for source in sorted(self._places)]

    @staticmethod
    def of(bookmarks: Iterable[Bookmark]) -> Position:
        """Return the position of these bookmarks. Raises InvalidArgument if two have one source."""
        places: dict[SourceName, Place] = {}
        for bookmark in bookmarks:
            if places.setdefault(bookmark.source, bookmark.place) != bookmark.place:
                raise InvalidArgument("position", f"it names {bookmark.source} twice")
        return Position(places)

    def __str__(self) -> str:
        """Return the text that `parse` reads: a list of bookmarks in JSON."""
        return json.dumps([str(each) for each in self.bookmarks()], ensure_ascii=False)

    def __repr__(self) -> str:
        return f"Position.parse({str(self)!r})"

    @staticmethod
    def parse(text: str) -> Position:
        """Return the position of a text. Raises InvalidArgument."""
        try:
            parts = json.loads(text)
        except (ValueError, RecursionError):
            parts = None
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise InvalidArgument("position", f"{text!r} is not a list of bookmarks in JSON")
        return Position.of(map(_parse_place, parts))


def is_behind(position: Position, other: Position) -> bool:
    """Return whether a position is behind another one: of some source, and before it of none."""
    return any(place > other.get(source, NO_PLACE) for source, place in position.items()) and all(
        place <= position.get(source, NO_PLACE) for source, place in other.items()
    )


def _parse_place(text: str) -> Bookmark:
    """Return where a source is in a position: also before its first message."""
    before_first = f"@{NO_PLACE.epoch}:{NO_PLACE.sequence}"
    if text.endswith(before_first):
        return Bookmark(SourceName.parse(text.removesuffix(before_first)), *NO_PLACE)
    return Bookmark.parse(text)
