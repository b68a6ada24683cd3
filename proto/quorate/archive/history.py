"""The history of several sources in an archive, a range of each, by time.

Each source's messages come in their order. Between sources the time of a batch decides. Runs are
opened in the order of their times, a bounded number of them at once. Compaction may replace files
meanwhile: then the newest version of the table has others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from math import ceil

from quorate.archive.files import Run
from quorate.archive.reading import Archive
from quorate.archive.rules.parts import Hole, Part, Passed, Picked
from quorate.archive.wanted import tests_of
from quorate.protocol.answers import Piece
from quorate.protocol.filters.bounds import NO_BOUNDS, Bounds
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range

RUNS_MAX = 32
"""Most runs that are read at once. Sources beyond wait until a run of another one has ended."""


_Parts = Iterator[tuple[int, Part]]
"""Parts of one source and one run, each with its time in ns since 1970."""


class History:
    """The history of sources in an archive."""

    def __init__(
        self,
        archive: Archive,
        bounds: Bounds = NO_BOUNDS,
        form: PayloadFormat = PayloadFormat.JSON,
    ) -> None:
        """Begin with nothing read.

        - bounds: messages outside are not wanted.
        - form: the format of the payloads.
        """
        self._archive = archive
        self._bounds = bounds
        self._tests = tests_of(bounds.where, form)
        """The conditions that a row has to meet to be read; without one, all are read."""
        self._lasts: dict[SourceName, int] = {}
        """The last number that is asked for of each source."""
        self._waiting: list[tuple[int, SourceName, int]] = []
        """A heap: the time of the next run of a source that is not open, and the next number."""
        self._reading: list[tuple[int, SourceName, Part, _Parts]] = []
        """A heap: the next part of each source with an open run."""

    def parts(self, ranges: Mapping[SourceName, Range]) -> Iterator[Part]:
        """Yield what the archive has of these ranges, and what it lacks. The object is used once.

        Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable, CorruptBatch.
        """
        for source, asked in ranges.items():
            self._lasts[source] = asked.last
            self._wait(source, asked.first)
        while self._waiting or self._reading:
            while self._waiting and self._is_next():
                _, source, at = heappop(self._waiting)
                self._go_on(source, at, self._parts(source, at))
            _, source, part, parts = heappop(self._reading)
            yield part
            self._go_on(source, part.last + 1, parts)

    def _is_next(self) -> bool:
        """Return whether the run that waits is to be opened."""
        if not self._reading:
            return True
        return len(self._reading) < RUNS_MAX and self._waiting[0][0] <= self._reading[0][0]

    def _wait(self, source: SourceName, at: int) -> None:
        if at <= self._lasts[source]:
            next_one = self._archive.file_alone(source, at) or self._archive.run_from(source, at)
            time_ns = next_one.first_time_ns if next_one is not None else 0
            heappush(self._waiting, (time_ns, source, at))

    def _go_on(self, source: SourceName, at: int, parts: _Parts) -> None:
        """Take the next part; if there is none, the source waits for its next run."""
        following = next(parts, None)
        if following is None:
            self._wait(source, at)
        else:
            heappush(self._reading, (following[0], source, following[1], parts))

    def _parts(self, source: SourceName, at: int) -> _Parts:
        """Yield the parts of the next run, from a number on, and of the hole before it."""
        last = self._lasts[source]
        epoch_at = self._archive.sources[source].lineage.epoch_at
        file = self._archive.file_alone(source, at)
        if file is not None and file.numbers is not None:
            upto = min(file.numbers.last, last)
            if self._wanted(source.topic, file.times_ns, Range(at, upto)) is None:
                # The log says enough about the file.
                yield file.first_time_ns, Passed(source, epoch_at(upto), upto)
                return
        run = self._archive.run_from(source, at)
        if run is None or last < run.first:
            yield 0, Hole(source, epoch_at(last), at, last)
            return
        time_ns, last = run.first_time_ns, min(run.last, last)
        if at < run.first:
            yield time_ns, Hole(source, epoch_at(run.first - 1), at, run.first - 1)
        asked = Range(max(at, run.first), last)
        wanted = self._wanted(source.topic, (run.first_time_ns, run.last_time_ns), asked)
        if wanted is None:
            yield time_ns, Passed(source, epoch_at(last), last)
            return
        at = asked.first
        for piece in self._read(source, run, wanted):
            time_ns = piece.header.timestamp_ns
            if piece.first > at:
                yield time_ns, Passed(source, epoch_at(piece.first - 1), piece.first - 1)
            yield time_ns, piece
            at = piece.last + 1
        if at <= last:
            yield run.last_time_ns, Passed(source, epoch_at(last), last)

    def _read(self, source: SourceName, run: Run, wanted: Range) -> Iterator[Piece | Picked]:
        if not self._tests:
            return self._archive.pieces(source, wanted.first, wanted.last)
        return self._archive.picked(source, run, wanted, self._tests)

    def _wanted(self, topic: str, times_ns: tuple[int, int] | None, asked: Range) -> Range | None:
        """Return the part of a range that can be wanted; None: none of it.

        times_ns: the earliest and the latest time of its messages; None: not known.
        """
        bounds = self._bounds
        if not bounds.has_topic(topic):
            return None
        # A filter compares times as such floats, too.
        if times_ns is not None and not bounds.time.meets(times_ns[0] / 1e9, times_ns[1] / 1e9):
            return None
        sequence = bounds.sequence.within(asked.first, asked.last)
        if sequence.low > sequence.high:
            return None
        first = ceil(sequence.low)
        return Range(first, int(sequence.high)) if first <= sequence.high else None
