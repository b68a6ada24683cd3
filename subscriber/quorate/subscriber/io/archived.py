"""The archive behind the stores of one subscription: read in threads, a bounded part at a time.

Which part of it belongs to the subscription is decided in quorate.subscriber.protocol.archived.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from quorate.archive.rules.parts import Hole, Part, Passed, Picked
from quorate.archive.rules.source import ArchivedSource
from quorate.protocol.answers import Piece
from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position, place_at
from quorate.protocol.columns import Body
from quorate.protocol.errors import (
    ArchiveDiffers,
    ArchiveInvalid,
    ArchiveNewer,
    ArchiveUnusable,
    CorruptBatch,
    InvalidArgument,
)
from quorate.protocol.filters.bounds import NO_BOUNDS, bounds_of
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.filters.projection import Projection
from quorate.protocol.framing import body_of
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range
from quorate.subscriber.begin import Ahead, Begin, Behind, End, Now, Time
from quorate.subscriber.items import Gap, GapCause, ReplayedBatch, picked
from quorate.subscriber.protocol import archived as rules
from quorate.subscriber.protocol.follower import Follower

if TYPE_CHECKING:
    from quorate.archive.reading import Archive

ARCHIVE_FAILURES = (ArchiveDiffers, ArchiveInvalid, ArchiveNewer, ArchiveUnusable)
"""The errors of an archive. No store mends them."""

_CHUNK_BYTES = 1024 * 1024
_CHUNK_PARTS = 256


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Messages of a piece: those that pass the filter."""

    piece: Piece | Picked
    body: Body
    rows: slice | Sequence[int]
    """Their places in the batch."""
    numbers: Sequence[int]
    payloads: Sequence[bytes]
    """The content of each, as far as it is selected."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A time in the archive, and the place of a source at a message of that time."""

    time_ns: int
    source: SourceName
    place: Place
    """The place right behind the message, or right before it."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a subscription with an archive."""

    position: Position
    """The position where it begins."""
    ends: Position | None
    """The position where it ends; None: it does not, or it is not known yet."""
    ranges: Mapping[SourceName, Range]
    """The range of each source that the archive has between the two."""


class Archived:
    """The archive of one subscription."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        selects: Callable[[str], bool],
        where: Filter | None,
        select: Projection | None,
        form: PayloadFormat = PayloadFormat.JSON,
    ) -> None:
        """Read nothing yet.

        - selects: returns whether the subscription has a topic.
        - where: only messages that pass are given; None: all.
        - select: only these fields of payloads are given; None: payloads as they are.
        - form: the format of the payloads.

        Raises InvalidArgument if the path is none, or if pyarrow is missing.
        """
        if not isinstance(path, str | os.PathLike):
            raise InvalidArgument("archive", f"{path!r} is not the path of a directory")
        try:
            from quorate.archive.reading import Archive
        except ModuleNotFoundError as error:
            raise InvalidArgument(
                "archive",
                f"reading one needs {error.name}, which is not installed. Run this in the "
                "directory of Quorate: pip install '.[archive]'",
            ) from None
        self._archive: Archive = Archive(os.fspath(path))
        self._selects = selects
        self._where = where
        self._select = select
        self._form = form
        self._bounds = NO_BOUNDS if where is None else bounds_of(where.text)
        self.cut: Cut | None = None
        """Where the earliest bookmark is of those that the archive has and the stores have not."""
        self.end_cut: Cut | None = None
        """Where the bookmark of the end is, if the archive has it and the stores have not."""

    @property
    def path(self) -> str:
        """The directory of the archive."""
        return self._archive.path

    # -- where it begins ----------------------------------------------------------------------

    async def begins_at(self, begin: Behind | Ahead, unknown: str) -> Behind | Ahead | Time | None:
        """Return where to begin at the stores, which lack a bookmark that the archive has.

        The stores have to know the others, and then all sources begin at one time. None: the
        archive does not have it, or it is not of the beginning.
        """
        bookmark = next((each for each in begin.bookmarks if str(each) == unknown), None)
        cut = await self._cut_of(begin, bookmark)
        if cut is None:
            return None
        if self.cut is None or cut.time_ns < self.cut.time_ns:
            self.cut = cut
        left = tuple(each for each in begin.bookmarks if each != bookmark)
        return replace(begin, bookmarks=left) if left else Time(self.cut.time_ns)

    async def ends_at(self, end: Behind | Ahead, unknown: str) -> Behind | Ahead | Time | None:
        """Return where to end at the stores, which lack a bookmark that the archive has.

        It is earlier than those that the stores know. If they know none of them, the latest time
        decides. None: the archive does not have it, or it is not of the end.
        """
        bookmark = next((each for each in end.bookmarks if str(each) == unknown), None)
        cut = await self._cut_of(end, bookmark)
        if cut is None:
            return None
        if self.end_cut is None or cut.time_ns > self.end_cut.time_ns:
            self.end_cut = cut
        left = tuple(each for each in end.bookmarks if each != bookmark)
        return replace(end, bookmarks=left) if left else Time(self.end_cut.time_ns)

    async def _cut_of(self, marks: Behind | Ahead, bookmark: Bookmark | None) -> Cut | None:
        time_ns = None if bookmark is None else await asyncio.to_thread(self._time_of, bookmark)
        if bookmark is None or time_ns is None:
            return None
        place = bookmark.place
        if isinstance(marks, Ahead):
            lineage = self._archive.sources[bookmark.source].lineage
            place = place_at(lineage, bookmark.sequence - 1)
        return Cut(time_ns, bookmark.source, place)

    async def begins(self, begin: Begin, end: End | None, at_store: Follower) -> Beginning:
        """Return where a subscription begins and ends, and what the archive has between.

        at_store: begins and ends where a store would. Raises one of ARCHIVE_FAILURES.
        """
        return await asyncio.to_thread(self._begins, begin, end, at_store)

    def _begins(self, begin: Begin, end: End | None, at_store: Follower) -> Beginning:
        ends = self._ends(end, at_store.ends)
        position: dict[SourceName, Place] = dict(at_store.position)
        if isinstance(begin, Now):
            return Beginning(at_store.position, ends, {})
        position |= self._places(begin, at_store.position, self.cut)
        ranges: dict[SourceName, Range] = {}
        for name, source in self._sources().items():
            asked = rules.behind(source, position.get(name))
            if asked is not None and ends is not None:
                upto = rules.upto(source, ends.get(name, NO_PLACE))
                asked = Range(asked.first, upto) if asked.first <= upto else None
            if asked is not None:
                ranges[name] = asked
                # A store that is asked before all is read then says what it has let go.
                position.setdefault(name, place_at(source.lineage, asked.first - 1))
        return Beginning(Position(position), ends, ranges)

    def _ends(self, end: End | None, at_store: Position | None) -> Position | None:
        if at_store is None:
            return None
        if isinstance(end, Now):
            sources = self._sources().items()
            places = {name: rules.since(each, at_store.get(name), None) for name, each in sources}
        else:
            places = self._places(end, at_store, self.end_cut)
        return Position({**at_store, **places})

    def _places(
        self, at: Begin | None, at_store: Position, cut: Cut | None
    ) -> dict[SourceName, Place]:
        """Return the places of sources that the archive knows better than a store."""
        match at:
            case Time(time_ns):
                places = self._since(self._sources(), at_store, time_ns)
                if cut is not None:
                    places[cut.source] = cut.place
                return places
            case Behind() | Ahead():
                return self._at_bookmarks(at, at_store)
            case _:
                return {}

    def _sources(self) -> dict[SourceName, ArchivedSource]:
        sources = self._archive.sources
        return {name: sources[name] for name in sources if self._selects(name.topic)}

    def _since(
        self, sources: Mapping[SourceName, ArchivedSource], at_store: Position, time_ns: int
    ) -> dict[SourceName, Place]:
        return {
            name: rules.since(source, at_store.get(name), self._archive.first_since(name, time_ns))
            for name, source in sources.items()
        }

    def _at_bookmarks(self, marks: Behind | Ahead, at_store: Position) -> dict[SourceName, Place]:
        """Place the sources of which the store does not say what was before its bookmark."""
        unplaced = rules.unplaced(self._sources(), at_store)
        skipped = 1 if isinstance(marks, Ahead) else 0
        numbers = {each: each.sequence - skipped for each in marks.bookmarks}
        decisive = rules.decisive(numbers, at_store)
        time_ns = self._time_of(decisive) if decisive is not None else None
        if time_ns is not None:
            return self._since(unplaced, at_store, time_ns)
        # The message came after all that is archived.
        return {
            name: rules.since(each, at_store.get(name), None) for name, each in unplaced.items()
        }

    def _time_of(self, bookmark: Bookmark) -> int | None:
        source, number = self._sources().get(bookmark.source), bookmark.sequence
        if source is None or not bookmark.place.belongs_to(source.lineage):
            return None
        if number not in self._archive.has(bookmark.source):
            return None
        with self._checked():
            piece = next(self._archive.pieces(bookmark.source, number, number))
            header = piece.header
            times = body_of(piece.frame, header).read_times(header.timestamp_ns)
        return times[number - header.first]

    # -- what it gives ------------------------------------------------------------------------

    async def given(
        self, follower: Follower, ranges: Mapping[SourceName, Range]
    ) -> AsyncIterator[ReplayedBatch | Gap]:
        """Yield what the archive has of these ranges. Raises one of ARCHIVE_FAILURES."""
        async for given in self._given(follower, ranges, GapCause.NOT_ARCHIVED):
            yield given

    async def filling(
        self, follower: Follower, gap: Gap, epoch: int, store: str
    ) -> AsyncIterator[ReplayedBatch | Gap]:
        """Yield what the archive has of a gap of a store, and what is left of the gap.

        epoch: that of the last message of the gap. Raises one of ARCHIVE_FAILURES.
        """
        last = gap.last
        source = await asyncio.to_thread(self._newest, gap.source)
        place = follower.place(gap.source)
        filled = rules.fills(source, place, Range(gap.first, last)) if source is not None else None
        if filled is not None:
            async for given in self._given(follower, {gap.source: filled}, gap.cause):
                yield given
            gap = replace(gap, first=filled.last + 1)
        if gap.first <= last:
            follower.consecutive(store, gap.source, epoch, gap.first, last)
            yield gap

    def check_agrees(self, source: SourceName, place: Place, void_first: int) -> None:
        """Raise ArchiveDiffers if a store takes back what the archive has."""
        archived = self._archive.sources.get(source)
        if archived is not None and rules.contradicts(archived, place, void_first):
            raise ArchiveDiffers(str(source), void_first, self.path, "a store has set that aside")

    async def _given(
        self, follower: Follower, ranges: Mapping[SourceName, Range], cause: GapCause
    ) -> AsyncIterator[ReplayedBatch | Gap]:
        from quorate.archive.history import History

        parts = History(self._archive, self._bounds, self._form).parts(ranges)
        while taken := await asyncio.to_thread(self._taken, parts):
            for part in taken:
                given = self._item(follower, part, cause)
                if given is not None:
                    yield given

    def _item(
        self, follower: Follower, part: Passed | Hole | _Chosen, cause: GapCause
    ) -> ReplayedBatch | Gap | None:
        """Move the follower behind a part, and return what is given of it."""
        match part:
            case Passed(source, epoch, last):
                follower.moved(self.path, source, Place(epoch, last))
                return None
            case Hole(source, epoch, first, last):
                follower.consecutive(self.path, source, epoch, first, last)
                return Gap(source, first, last, cause)
            case _Chosen(piece, body, rows, numbers, payloads):
                header = piece.header
                before = follower.place(header.source) if piece.first else NO_PLACE
                follower.consecutive(
                    self.path, header.source, header.epoch, piece.first, piece.last
                )
                return ReplayedBatch(header, body, rows, numbers, before, payloads)

    # In a thread.

    def _newest(self, source: SourceName) -> ArchivedSource | None:
        """Read the newest version, as messages may have been archived since."""
        self._archive.refresh()
        return self._archive.sources.get(source)

    @contextlib.contextmanager
    def _checked(self) -> Iterator[None]:
        """Raise one of ARCHIVE_FAILURES if a file is damaged."""
        try:
            yield
        except CorruptBatch as error:
            raise ArchiveInvalid(self.path, str(error)) from error

    def _taken(self, parts: Iterator[Part]) -> list[Passed | Hole | _Chosen]:
        """Take the next parts, as far as their messages pass the filter."""
        taken: list[Passed | Hole | _Chosen] = []
        size = 0
        with self._checked():
            for part in parts:
                if isinstance(part, Piece | Picked):
                    taken.append(self._passing(part))
                    size += len(part.frame)
                else:
                    taken.append(part)
                if size >= _CHUNK_BYTES or len(taken) >= _CHUNK_PARTS:
                    break
        return taken

    def _passing(self, piece: Piece | Picked) -> Passed | _Chosen:
        header = piece.header
        body = body_of(piece.frame, header)
        payloads: Sequence[bytes] = body.read_payloads()
        if isinstance(piece, Picked):
            every, first, last = piece.numbers, header.first, header.last
        else:
            every, first, last = range(header.first, header.last + 1), piece.first, piece.last
        rows: slice | list[int] = slice(first - header.first, last - header.first + 1)
        if self._where is not None:
            rows = passing(self._where, header, payloads, body, first, last, self._form, every)
        numbers = picked(every, rows)
        if not numbers:
            return Passed(header.source, header.epoch, piece.last)
        payloads = picked(payloads, rows)
        if self._select is not None:
            payloads = [self._select.of(payload, self._form) for payload in payloads]
        return _Chosen(piece, body, rows, numbers, payloads)
