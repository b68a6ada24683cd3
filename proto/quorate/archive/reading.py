"""Reading from an archive: its sources, and their messages as rows or as batches.

An Archive is pickled as a path only. Compaction and vacuum may replace and remove files meanwhile.
Then the newest version of the table has the same messages in others. Nothing here writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.archive.batches import (
    COLUMNS,
    MARKED_COLUMNS,
    PICKED_COLUMNS,
    MarkedBatch,
    frames_of,
    marked_of,
    picked_of,
)
from quorate.archive.files import Files, Run
from quorate.archive.location import Location
from quorate.archive.rules.data_file import DataFile, session_text
from quorate.archive.rules.parts import Picked
from quorate.archive.rules.source import ArchivedSource
from quorate.archive.table import Table
from quorate.archive.wanted import RowTest
from quorate.protocol.answers import Piece
from quorate.protocol.errors import ArchiveInvalid, ArchiveUnusable, CorruptBatch
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import BATCH_MESSAGES_MAX
from quorate.protocol.ranges import Range, RangeSet


class Archive:
    """An archive to read from. Not for several threads at once."""

    def __init__(self, path: str) -> None:
        """Raise InvalidArgument if the text is not a path."""
        self._location = Location(path)
        self._table: Table | None = None
        self._where = _Where(())
        self._files = Files(self._location)

    @property
    def path(self) -> str:
        """The place of the archive."""
        return str(self._location)

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        Archive.__init__(self, state["path"])

    def refresh(self) -> None:
        """Read the newest version of the table from now on. Raises ArchiveUnusable."""
        if self._table is not None:
            self._use(self._table.newest())

    @property
    def table(self) -> Table:
        """The version of the table that is read. Raises ArchiveUnusable."""
        if self._table is None:
            table = Table.open(self._location)
            if table is None:
                raise ArchiveUnusable(self.path, "no archive is there")
            self._use(table)
            return table
        return self._table

    def _use(self, table: Table) -> None:
        if table is self._table:
            return
        self._table, self._where = table, _Where(table.files)

    @property
    def sources(self) -> dict[SourceName, ArchivedSource]:
        """The archived sources. Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable."""
        return self.table.sources

    def has(self, source: SourceName) -> RangeSet:
        """Return the numbers of a source that the archive has. Raises as `sources`."""
        archived = self.sources.get(source)
        return archived.has if archived is not None else RangeSet()

    def record_batches(
        self, source: SourceName, first: int, last: int, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield the messages [first, last] as rows with these columns.

        Raises ArchiveInvalid if the archive lacks one of them, and as `sources`.
        """
        self._check_has(source, first, last)
        # One column has to be read, because it tells the number of rows.
        for rows in self._rows(source, first, last, columns.names or ["sequence"]):
            yield _with_columns(rows, columns)

    def pieces(self, source: SourceName, first: int, last: int) -> Iterator[Piece]:
        """Yield the messages [first, last] as pieces of the batches that their source made.

        Each batch is checked. Raises ArchiveInvalid, CorruptBatch, and as `sources`.
        """
        self._check_has(source, first, last)
        due, stop = self._batch_first(source, first), self._run_end(source, last)
        while True:
            try:
                for frame in frames_of(self._rows(source, due, stop, COLUMNS), source, self.path):
                    header = read_header(frame, self.path)
                    if header.first != due:
                        detail = f"{source} goes on at {header.first}, not at {due}"
                        raise ArchiveInvalid(self.path, detail)
                    due = header.last + 1
                    if due > first:
                        yield Piece(frame, header, max(header.first, first), min(due - 1, last))
                    if due > last:
                        return
                raise ArchiveInvalid(self.path, f"{source} ends at {due - 1}, not at {last}")
            except CorruptBatch:
                # Compaction may have put the end of the batch into the next run.
                following = self._run_end(source, stop + 1)
                if following <= stop or stop - due >= BATCH_MESSAGES_MAX:
                    raise
                stop = following

    def marked(self, source: SourceName, first: int, last: int) -> Iterator[MarkedBatch]:
        """Yield the batches of the messages [first, last], without reading the messages.

        Raises ArchiveInvalid, and as `sources`.
        """
        self._check_has(source, first, last)
        yield from marked_of(self._rows(source, first, last, MARKED_COLUMNS), first)

    def _batch_first(self, source: SourceName, number: int) -> int:
        """Return the first number of the batch that has a number."""
        rows = next(self._rows(source, number, number, COLUMNS))
        first: int = rows.column("batch_first")[0].as_py()
        return first

    def _run_end(self, source: SourceName, number: int) -> int:
        """Return the last number of the run that has a number; the number before it if none has."""
        run = self.run_from(source, number)
        return run.last if run is not None and run.first <= number else number - 1

    def picked(
        self, source: SourceName, run: Run, asked: Range, tests: Sequence[RowTest]
    ) -> Iterator[Picked]:
        """Yield those messages of a run that meet all tests, those of each batch together.

        If no message meets the first test, only the columns are read by which it decides. The
        messages asked for must be of the run. Raises as `sources`.
        """
        first, *others = tests
        try:
            holds = first.holds(
                self._files.rows(run, sorted(first.columns), asked.first, asked.last)
            )
            if not pc.any(holds).as_py():
                return
            rows = self._files.rows(run, PICKED_COLUMNS, asked.first, asked.last).filter(holds)
        except FileNotFoundError:
            self._renew(run.file)
            yield from self._picked_anew(source, asked, tests)
            return
        for test in others:
            rows = rows.filter(test.holds(rows))
        yield from picked_of(rows.to_batches(), source)

    def _picked_anew(
        self, source: SourceName, asked: Range, tests: Sequence[RowTest]
    ) -> Iterator[Picked]:
        at = asked.first
        while at <= asked.last:
            run = self.run_from(source, at)
            if run is None or run.first > at:
                raise ArchiveInvalid(self.path, f"it lacks {source} {at}")
            last = min(asked.last, run.last)
            yield from self.picked(source, run, Range(at, last), tests)
            at = last + 1

    def file_alone(self, source: SourceName, number: int) -> DataFile | None:
        """Return the file with a number, if it has nothing but messages of the source.

        The log tells so; no file is opened. Raises as `sources`.
        """
        _ = self.table
        return self._where.alone(source, number)

    def run_from(self, source: SourceName, first: int) -> Run | None:
        """Return the first run with messages from a number on; None: there is none.

        Raises as `sources`.
        """
        session = session_text(source.session_id)
        while True:
            _ = self.table
            best: Run | None = None
            try:
                for file in self._where.candidates(source, session, first):
                    found = self._files.runs(file, session, first)
                    if found and (best is None or found[0].first < best.first):
                        best = found[0]
                        self._where.hints[source] = file
                    if best is not None and best.first <= first:
                        break
                return best
            except FileNotFoundError:
                self._renew(file)

    def first_since(self, source: SourceName, time_ns: int) -> int | None:
        """Return the first archived number from a time on; None if there is none.

        time_ns: ns since 1970 by the clock of the source. Raises as `sources`.
        """
        at = 0
        while (run := self.run_from(source, at)) is not None:
            if run.last_time_ns >= time_ns:
                begin = max(at, run.first)
                for rows in self._rows(source, begin, run.last, ["sequence", "timestamp_ns"]):
                    late = pc.greater_equal(rows.column("timestamp_ns"), time_ns)
                    place = pc.index(late, pa.scalar(True)).as_py()
                    if place >= 0:
                        found: int = rows.column("sequence")[place].as_py()
                        return found
            at = run.last + 1
        return None

    def _rows(
        self, source: SourceName, first: int, last: int, columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows [first, last] in order, from one run after the other."""
        at = first
        while at <= last:
            run = self.run_from(source, at)
            if run is None or run.first > at:
                raise ArchiveInvalid(self.path, f"no file has {source} {at}, which is archived")
            try:
                for rows in self._files.batches(run, columns, at, min(run.last, last)):
                    yield rows
                    at += len(rows)
            except FileNotFoundError:
                self._renew(run.file)

    def _renew(self, file: DataFile) -> None:
        """Use the newest version, which has the messages of a removed file in another one.

        Raises ArchiveInvalid if the newest version names the file, too.
        """
        self.refresh()
        if file.path in self._where.paths:
            raise ArchiveInvalid(self._location.where(file.path), "the file is missing")

    def _check_has(self, source: SourceName, first: int, last: int) -> None:
        hole = next(iter(RangeSet([Range(first, last)]).minus(self.has(source))), None)
        if hole is not None:
            raise ArchiveInvalid(self.path, f"it lacks {hole} of {source}")


class _Where:
    """The files of one version, by what they can have."""

    def __init__(self, files: Iterable[DataFile]) -> None:
        self.paths = {each.path for each in files}
        self.hints: dict[SourceName, DataFile] = {}
        """By source, the file that had the last run. The next one is probably there, too."""
        self._alone: dict[tuple[str, str], list[DataFile]] = {}
        """By topic and session ID, the files with that source alone, by their numbers."""
        self._shared: dict[str, list[DataFile]] = {}
        """By topic, the files of several sources, by time."""
        for each in files:
            session = each.alone
            if session is not None:
                self._alone.setdefault((each.topic, session), []).append(each)
            else:
                self._shared.setdefault(each.topic, []).append(each)
        for alone in self._alone.values():
            alone.sort(key=_first)

    def alone(self, source: SourceName, number: int) -> DataFile | None:
        """Return the file of this source alone that has a number."""
        found = next(self._alone_from(source, session_text(source.session_id), number), None)
        return found if found is not None and _first(found) <= number else None

    def candidates(self, source: SourceName, session: str, first: int) -> Iterator[DataFile]:
        """Yield the files that can have the next message from a number on, the likely ones first.

        A file of the source alone that has the number is the last one.
        """
        hint = self.hints.get(source)
        if hint is not None and hint.may_have(session, first):
            yield hint
        following = next(self._alone_from(source, session, first), None)
        if following is not None:
            yield following
            if _first(following) <= first:
                return
        for each in self._shared.get(source.topic, ()):
            if each is not hint and each.may_have(session, first):
                yield each

    def _alone_from(self, source: SourceName, session: str, first: int) -> Iterator[DataFile]:
        files = self._alone.get((source.topic, session), [])
        yield from files[bisect_left(files, first, key=_last) :]


def _first(file: DataFile) -> int:
    assert file.numbers is not None
    return file.numbers.first


def _last(file: DataFile) -> int:
    assert file.numbers is not None
    return file.numbers.last


def _with_columns(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    if not columns.names:
        return pa.RecordBatch.from_struct_array(pa.nulls(len(rows), pa.struct([])))
    made = [rows.column(field.name).cast(field.type) for field in columns]
    return pa.RecordBatch.from_arrays(made, schema=columns)
