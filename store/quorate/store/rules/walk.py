"""The walk of a subscription through the journal: which numbers it is given, and when. Pure.

A walk follows the journal's order. It is given each source's messages in the source's order, each
once. It keeps a place in each source's stream, and a place in the journal. A batch may not be
stable yet when the walk passes it, or earlier numbers may be missing here. Then it is given later.
Batches are not read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from quorate.protocol.bookmarks import NO_PLACE, Place, Position, kept_upto, place_at
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.ending import Ending
from quorate.store.rules.source_state import SourceState


@dataclass(frozen=True, slots=True)
class Stream:
    """The facts of a source's stream at this store that a walk has to know."""

    lineage: Lineage
    upto: int
    """The last number that may be given: of what is stable, or of all that is held."""
    retained_from: int = 0
    """Every number below was let go by this store or by another one."""
    held: RangeSet = field(default_factory=RangeSet)
    """The numbers that are held here."""
    losses: RangeSet = field(default_factory=RangeSet)
    """The numbers that an operator accepted as lost."""
    poisoned: RangeSet = field(default_factory=RangeSet)
    """The numbers that an operator marked as poison; they are not given."""


def stream_of(state: SourceState, upto: int) -> Stream:
    """Return the facts of a source's stream. upto: the last number that may be given."""
    held = state.held
    return Stream(state.lineage, upto, held.retained_from, held.ranges, state.losses)


def stable_upto(state: SourceState) -> int:
    """Return the last number that this store holds of what is stable."""
    return min(state.held.ranges.high, state.held.stable_upto)


@dataclass(frozen=True, slots=True)
class Missing:
    """Numbers that the store does not have and that no peer will give it, or that are poison."""

    part: Range
    lost: bool
    """Whether an operator accepted their loss. Otherwise they were let go, or are poison."""
    poisoned: bool = False


class Walk:
    """The places of one subscription."""

    def __init__(
        self,
        position: Position,
        journal_at: int,
        selects: Callable[[str], bool],
        ending: Ending | None = None,
    ) -> None:
        """Begin behind this position.

        - journal_at: a place in the journal. Everything behind the position is at or behind it.
        - selects: whether the subscription wants a topic.
        - ending: the end; None: the subscription does not end.
        """
        self.ending = ending
        """The end; None: the subscription does not end."""
        self._places: dict[SourceName, Place] = dict(position)
        self.journal_at = journal_at
        """The walk has passed every batch before this place in the journal."""
        self._selects = selects
        self.owed: set[SourceName] = set()
        """The sources of which the walk passed batches that were not given as a whole."""
        self._passed_upto: dict[SourceName, int] = {}
        """The last number that the walk passed and that was not given; of each such source."""
        self.reading: dict[SourceName, int] = {}
        """The first number of each source that was given, and is still to be read."""
        self.count = 0
        """The numbers that were given, of all sources together."""

    @property
    def position(self) -> Position:
        """The position behind everything that was given."""
        return Position(self._places)

    def place(self, source: SourceName) -> Place | None:
        """Return the place in a source's stream; None: the walk has not met the source."""
        return self._places.get(source)

    def forget(self, source: SourceName) -> None:
        """Forget a source that has ended."""
        for each in (self._places, self._passed_upto, self.reading):
            each.pop(source, None)
        self.owed.discard(source)

    def wants(self, source: SourceName) -> bool:
        """Return whether the subscription wants this source."""
        return self._selects(source.topic)

    def taken_back(self, source: SourceName, stream: Stream) -> Range | None:
        """Return numbers that were given and are void by now; None: there are none.

        The place moves before them. If the source began anew it moves before the first message.
        Nothing is void then: what was given belongs to the stream that ended.
        """
        place = self._places.get(source, NO_PLACE)
        lineage = stream.lineage
        last = kept_upto(place, lineage)
        if place == NO_PLACE or last == place.sequence:
            return None
        if not lineage.reaches_back_to(place.epoch):
            self._places[source] = NO_PLACE
            return None
        self._places[source] = place_at(lineage, last)
        return Range(last + 1, place.sequence)

    def is_short_of(self, source: SourceName, lineage: Lineage, place: Place) -> bool:
        """Return whether messages up to a place are still to be given. lineage: of the source."""
        own = self._places.get(source, NO_PLACE)
        return own < place and not self.has_ended(source, lineage)

    def has_ended(self, source: SourceName, lineage: Lineage) -> bool:
        """Return whether nothing of a source is left before the end. lineage: of the source."""
        place = self._places.get(source, NO_PLACE)
        return self.ending is not None and self.ending.is_reached(source, lineage, place)

    def read_upto(self, source: SourceName, lineage: Lineage) -> int:
        """Return the number up to which the subscription has read this stream; -1: nothing.

        Once it has reached the end of the source it will read no more: all counts as read.
        """
        place = self._places.get(source, NO_PLACE)
        upto = SEQUENCE_MAX if self.has_ended(source, lineage) else kept_upto(place, lineage)
        return min(upto, self.reading.get(source, upto + 1) - 1)

    def meets(self, source: SourceName, stream: Stream) -> None:
        """Begin with a source that the position does not name: with its first message that is left.

        What is let go from then on is missing.
        """
        if source not in self._places:
            first = stream.held.missing_upto(0, stream.retained_from - 1) + 1
            self._places[source] = place_at(stream.lineage, first - 1)

    def begins(self, source: SourceName) -> None:
        """Begin with a source that the position does not name: before its very first message."""
        self._places.setdefault(source, NO_PLACE)

    def missing(self, source: SourceName, stream: Stream) -> Missing | None:
        """Return the next numbers if nobody has them; the walk goes on behind them."""
        self.meets(source, stream)
        missing = self.lacks(source, stream)
        if missing is not None:
            self.given(source, stream, missing.part)
        return missing

    def lacks(self, source: SourceName, stream: Stream) -> Missing | None:
        """Return the next numbers if nobody has them. The walk does not move."""
        first = self._next(source)
        end = self._end(source, stream)
        if first > end or self._is_ahead(source, stream):
            return None
        if (upto := stream.poisoned.contiguous_upto(first)) >= first:
            return Missing(Range(first, min(upto, end)), lost=False, poisoned=True)
        if stream.held.contiguous_upto(first) >= first:
            return None
        if (upto := stream.losses.contiguous_upto(first)) >= first:
            return Missing(Range(first, min(upto, end)), lost=True)
        if first < stream.retained_from:
            upto = stream.held.missing_upto(first, stream.retained_from - 1)
            return Missing(Range(first, min(upto, end)), lost=False)
        return None

    def passes(self, source: SourceName, stream: Stream, batch: HeldRange) -> Range | None:
        """Return the numbers of a batch in the journal to give now; None: none of them."""
        valid = stream.lineage.valid(batch)
        first = self._next(source)
        if valid is None or valid.last < first or self._is_ahead(source, stream):
            return None
        last = min(valid.last, stream.upto, self._end(source, stream))
        last = stream.poisoned.missing_upto(first, last)
        if valid.first > first or last < valid.last:
            self.owed.add(source)
            self._passed_upto[source] = max(self._passed_upto.get(source, NOTHING), valid.last)
        if valid.first > first or last < first:
            return None
        return Range(first, last)

    def owes(self, source: SourceName, stream: Stream) -> Range | None:
        """Return the numbers that may be given of an owed source, as far as batches were passed."""
        first, last = self._next(source), min(stream.upto, self._end(source, stream))
        if first > last or self._is_ahead(source, stream):
            return None
        last = stream.poisoned.missing_upto(first, last)
        return Range(first, last) if first <= last else None

    def earlier(
        self,
        source: SourceName,
        stream: Stream,
        part: Range,
        times: Callable[[], Sequence[int]],
    ) -> Range | None:
        """Return these numbers, which are the next, as far as the end does not come first by time.

        times: returns the time of each. None: the end comes before all of them.
        """
        if self.ending is None:
            return part
        return self.ending.earlier(source, part, partial(place_at, stream.lineage), times)

    def is_over(self, lineage_of: Callable[[SourceName], Lineage]) -> bool:
        """Return whether all up to the end was given. lineage_of: of a source at this store."""
        ending = self.ending
        return ending is not None and ending.is_over(partial(self._is_at_end, ending, lineage_of))

    def closes_one(self, lineage_of: Callable[[SourceName], Lineage]) -> bool:
        """Return whether one more source has been found to be at its end, as Ending.closes_one."""
        ending = self.ending
        return ending is not None and ending.closes_one(
            partial(self._is_at_end, ending, lineage_of)
        )

    def _is_at_end(
        self, ending: Ending, lineage_of: Callable[[SourceName], Lineage], source: SourceName
    ) -> bool:
        if not self.wants(source):
            return True
        return ending.is_reached(source, lineage_of(source), self._places.get(source, NO_PLACE))

    def given(self, source: SourceName, stream: Stream, part: Range) -> None:
        """Note that these numbers were given. Batches that the walk passed may be next."""
        self._places[source] = place_at(stream.lineage, part.last)
        self.count += len(part)
        if source in self._passed_upto:
            self.owed.add(source)
            if part.last >= self._passed_upto[source]:
                del self._passed_upto[source]

    def _is_ahead(self, source: SourceName, stream: Stream) -> bool:
        """Return whether the place is in an epoch that this store has not heard of.

        All that the store has behind the place is void then, or belongs to a stream that ended.
        """
        return self._places.get(source, NO_PLACE).epoch > stream.lineage.epoch

    def _end(self, source: SourceName, stream: Stream) -> int:
        if self.ending is None:
            return SEQUENCE_MAX
        return self.ending.upto(source, stream.lineage)

    def _next(self, source: SourceName) -> int:
        return self._places.get(source, NO_PLACE).sequence + 1
