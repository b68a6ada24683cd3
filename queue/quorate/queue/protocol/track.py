"""The messages of one source: those that are settled, and those that are not.

A dispatcher reads the source's messages in order, from the floor that the last snapshot names. So
it meets messages again that are settled, and a consumer may settle one that has yet to come.

Places have the order of epoch and number: that of the stream, with an older stream of the source
before a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import RangeSet
from quorate.queue.protocol.consumers import Lease
from quorate.queue.protocol.decisions import NOT_TRIED, TrackSnapshot, Tried


class Batch(Protocol):
    """Messages of one source in one epoch, as they come from the journal."""

    @property
    def source(self) -> SourceName:
        """The source of all."""
        ...

    @property
    def epoch(self) -> int:
        """The epoch of all."""
        ...

    @property
    def numbers(self) -> Sequence[int]:
        """The sequence number of each, ascending."""
        ...

    @property
    def before(self) -> Place:
        """The place in the source's stream before them."""
        ...

    @property
    def payloads(self) -> Sequence[bytes]:
        """The content of each."""
        ...

    @property
    def keys(self) -> Sequence[bytes | None]:
        """The key of each message; None: it has none."""
        ...

    def alone(self, row: int) -> Self:
        """Return one of the messages without the others."""
        ...


class Entry:
    """A message that has come and is not settled."""

    __slots__ = (
        "batch", "before", "epoch", "is_gone", "key", "lease", "row", "sequence", "size", "track",
        "tried",
    )  # fmt: skip

    def __init__(
        self, track: Track, batch: Batch, row: int, sequence: int, tried: Tried, key: bytes | None
    ) -> None:
        """Begin with no lease."""
        self.track = track
        self.batch = batch
        self.row = row
        self.before = batch.before
        """A place before the message, with nothing between that the queue has not seen."""
        self.epoch = batch.epoch
        self.sequence = sequence
        self.size = len(batch.payloads[row])
        self.tried = tried
        self.key = key
        """The key whose order counts; None: there is none."""
        self.lease: Lease | None = None
        self.is_gone = False
        """Whether it is settled by now, or void."""

    @property
    def source(self) -> SourceName:
        """The source of the message."""
        return self.track.source

    @property
    def place(self) -> Place:
        """The place of the message in its source's stream."""
        return Place(self.epoch, self.sequence)

    def __repr__(self) -> str:
        return f"<Entry {self.source}@{self.epoch}:{self.sequence}>"


@dataclass(slots=True)
class Fresh:
    """A message that has come."""

    row: int
    sequence: int
    tried: Tried
    is_settled: bool = False
    """Whether a consumer has settled it before it came, and that is not stable yet."""


class Track:
    """The messages of one source."""

    def __init__(self, source: SourceName) -> None:
        """Begin with nothing settled."""
        self.source = source
        self.upto = NO_PLACE
        """Everything up to here has come."""
        self.entries: dict[int, Entry] = {}
        """The messages that have come and are not settled, in the order of numbers."""
        self.early: dict[Place, Entry | None] = {}
        """Messages that were settled before they came, while that is not stable. None: not come."""
        self._known = NO_PLACE
        """Everything up to here is settled, but for the outstanding, and for entries."""
        self._outstanding: dict[Place, Tried] = {}
        self._ahead: dict[int, RangeSet] = {}
        """The settled messages beyond, by epoch."""
        self._tried: dict[Place, Tried] = {}

    @staticmethod
    def of(snapshot: TrackSnapshot) -> Track:
        """Return a track as a snapshot says. Nothing has come behind its floor."""
        track = Track(snapshot.source)
        track.upto = snapshot.floor
        track._known = snapshot.upto
        track._outstanding = dict(snapshot.outstanding)
        track._ahead = {epoch: RangeSet(ranges) for epoch, ranges in snapshot.ahead.items()}
        track._tried = dict(snapshot.tried)
        return track

    def snapshot(self) -> TrackSnapshot:
        """Return what is settled now."""
        outstanding = {entry.place: entry.tried for entry in self.entries.values()}
        return TrackSnapshot(
            self.source,
            self._floor,
            self._known,
            outstanding | self._outstanding,
            {epoch: tuple(ranges) for epoch, ranges in self._ahead.items() if ranges},
            dict(self._tried),
        )

    @property
    def _floor(self) -> Place:
        first = next(iter(self.entries.values()), None)
        return self.upto if first is None else first.before

    # -- messages that come -----------------------------------------------------------------

    def void_before(self, batch: Batch) -> list[Entry]:
        """Return the messages that are void because the source has begun another stream."""
        if batch.numbers[0] > self.upto.sequence:
            return []
        # All else names the epoch, and so it is known to be of another stream.
        void = list(self.entries.values())
        self.entries.clear()
        self.upto = NO_PLACE
        return void

    def arrived(self, batch: Batch) -> Iterator[Fresh]:
        """Take the next messages, and yield those that are not settled for good."""
        epoch, numbers = batch.epoch, batch.numbers
        if self._is_known(Place(epoch, numbers[0])) or self._ahead or self._tried or self.early:
            yield from self._unsettled(epoch, numbers)
        else:
            for row, sequence in enumerate(numbers):
                yield Fresh(row, sequence, NOT_TRIED)
        self._moved(Place(epoch, numbers[-1]))

    def _unsettled(self, epoch: int, numbers: Iterable[int]) -> Iterator[Fresh]:
        ahead = self._ahead.get(epoch, ())
        for row, sequence in enumerate(numbers):
            place = Place(epoch, sequence)
            if place in self.early:
                yield Fresh(row, sequence, NOT_TRIED, is_settled=True)
            elif self._is_known(place):
                tried = self._outstanding.pop(place, None)
                if tried is not None:
                    yield Fresh(row, sequence, tried)
            elif sequence not in ahead:
                yield Fresh(row, sequence, self._tried.pop(place, NOT_TRIED))

    def passed(self, place: Place) -> None:
        """Note that nothing more comes up to this place: the rest does not pass the filter."""
        if place > self.upto:
            self._moved(place)

    def _moved(self, upto: Place) -> None:
        self.upto = upto
        if upto >= self._known:
            self._known = upto
            self._outstanding.clear()
        for epoch in [each for each in self._ahead if each < upto.epoch]:
            del self._ahead[epoch]
        if (ahead := self._ahead.get(upto.epoch)) is not None:
            ahead.remove_upto(upto.sequence)
            if not ahead:
                del self._ahead[upto.epoch]
        for each in [each for each in self._tried if each <= upto]:
            del self._tried[each]

    # -- decisions --------------------------------------------------------------------------

    def _is_known(self, place: Place) -> bool:
        return place <= self._known

    def entry(self, epoch: int, sequence: int) -> Entry | None:
        """Return the message if it has come and is not settled."""
        entry = self.entries.get(sequence)
        return entry if entry is not None and entry.epoch == epoch else None

    def settle_absent(self, epoch: int, sequence: int) -> bool:
        """Settle a message that is no entry. Return whether it was not settled yet."""
        place = Place(epoch, sequence)
        if self._is_known(place):
            return self._outstanding.pop(place, None) is not None
        ahead = self._ahead.setdefault(epoch, RangeSet())
        if sequence in ahead:
            return False
        ahead.add(sequence, sequence)
        self._tried.pop(place, None)
        return True

    def note_tried(self, epoch: int, sequence: int, tried: Tried) -> None:
        """Note what was tried with a message that is yet to come."""
        place = Place(epoch, sequence)
        if not self._is_known(place):
            earlier = self._tried.get(place, NOT_TRIED)
            self._tried[place] = max(earlier, tried, key=_count)
        elif (earlier_known := self._outstanding.get(place)) is not None:
            self._outstanding[place] = max(earlier_known, tried, key=_count)


def _count(tried: Tried) -> int:
    return tried.count
