"""The history of several sources in an archive, from a number of each on, by time.

Each source's messages come in their order. Between sources the time of a batch decides. Files are
opened in the order of their times, a bounded number of them at once, and read one row group at a
time. Compaction may replace files meanwhile: then the newest manifest names others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil

from quorate.archive.manifest import ArchivedFile
from quorate.archive.reading import Archive
from quorate.protocol.answers import Piece
from quorate.protocol.filters.bounds import NO_BOUNDS, Bounds
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range

FILES_MAX = 32
"""Most files that are open at once. Sources beyond wait until a file of another one has ended."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Archived messages of which none can pass a filter. They were not read."""

    source: SourceName
    epoch: int
    """The epoch of the last message."""
    last: int


@dataclass(frozen=True, slots=True)
class Hole:
    """Messages that the archive lacks, before others that it has."""

    source: SourceName
    epoch: int
    """The epoch of the last message."""
    first: int
    last: int


Part = Piece | Passed | Hole
"""A part of the history of one source."""

_Parts = Iterator[tuple[int, Part]]
"""Parts of one source and one file, each with its time in ns since 1970."""


class History:
    """The history of sources in an archive."""

    def __init__(self, archive: Archive, bounds: Bounds = NO_BOUNDS) -> None:
        """Begin with nothing read. bounds: messages outside are not wanted."""
        self._archive = archive
        self._bounds = bounds
        self._waiting: list[tuple[int, SourceName, int]] = []
        """A heap: the time of the next file of a source that is not open, and the next number."""
        self._reading: list[tuple[int, SourceName, Part, _Parts]] = []
        """A heap: the next part of each source with an open file."""

    def behind(self, firsts: Mapping[SourceName, int]) -> Iterator[Part]:
        """Yield what the archive has of these sources, from a number of each on.

        Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable, CorruptBatch.
        """
        for source, first in firsts.items():
            self._wait(source, first)
        while self._waiting or self._reading:
            while self._waiting and self._is_next():
                _, source, at = heappop(self._waiting)
                self._go_on(source, at, self._parts(source, at))
            _, source, part, parts = heappop(self._reading)
            yield part
            self._go_on(source, part.last + 1, parts)

    def _is_next(self) -> bool:
        """Return whether the file that waits is to be opened."""
        if not self._reading:
            return True
        return len(self._reading) < FILES_MAX and self._waiting[0][0] <= self._reading[0][0]

    def _wait(self, source: SourceName, at: int) -> None:
        file = self._archive.file_from(source, at)
        if file is not None:
            heappush(self._waiting, (file.first_time_ns, source, at))

    def _go_on(self, source: SourceName, at: int, parts: _Parts) -> None:
        """Take the next part; if there is none, the source waits for its next file."""
        following = next(parts, None)
        if following is None:
            self._wait(source, at)
        else:
            heappush(self._reading, (following[0], source, following[1], parts))

    def _parts(self, source: SourceName, at: int) -> _Parts:
        """Yield the parts of the next file, from a number on, and of the hole before it."""
        file = self._file(source, at)
        if file is None:
            return
        time_ns, epoch_at = file.first_time_ns, self._archive.sources[source].lineage.epoch_at
        if at < file.first:
            yield time_ns, Hole(source, epoch_at(file.first - 1), at, file.first - 1)
        wanted = self._wanted(file, max(at, file.first))
        if wanted is None:
            yield time_ns, Passed(source, epoch_at(file.last), file.last)
            return
        if wanted.first > max(at, file.first):
            yield time_ns, Passed(source, epoch_at(wanted.first - 1), wanted.first - 1)
        for piece in self._archive.pieces_of(file, wanted.first, wanted.last):
            yield piece.header.timestamp_ns, piece
        if wanted.last < file.last:
            yield file.last_time_ns, Passed(source, epoch_at(file.last), file.last)

    def _file(self, source: SourceName, at: int) -> ArchivedFile | None:
        file = self._archive.file_from(source, at)
        if file is not None and not self._archive.is_there(file):
            self._archive = Archive(self._archive.path)
            file = self._archive.file_from(source, at)
        return file

    def _wanted(self, file: ArchivedFile, at: int) -> Range | None:
        """Return the messages of a file, from a number on, that can be wanted; None: none."""
        bounds = self._bounds
        if not bounds.has_topic(file.source.topic):
            return None
        # A filter compares times as such floats, too.
        if not bounds.time.meets(file.first_time_ns / 1e9, file.last_time_ns / 1e9):
            return None
        sequence = bounds.sequence.within(at, file.last)
        if sequence.low > sequence.high:
            return None
        first = ceil(sequence.low)
        return Range(first, int(sequence.high)) if first <= sequence.high else None
