"""The Parquet files of an archive, read by runs: consecutive messages of one source in a file.

A file may have many sources, and compaction may put its rows in another order. So the runs of a
file are found from its columns `source` and `sequence`, one row group at a time, and kept. How a
file is written is in quorate.pipeline.archive.file_writer. Nothing here reads the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from quorate.archive.location import Location, plain_text
from quorate.archive.rules.data_file import DataFile
from quorate.protocol.errors import ArchiveInvalid

_OPEN_MAX = 32
"""Most files that are kept open for the next read."""
_KEPT_BYTES = 128 * 1024 * 1024
"""Bytes of columns that are kept for the next read. Many small sources share a row group."""
_READ_ROWS = 16_384
_PLACES = ("source", "sequence", "timestamp_ns")


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive messages of one source in consecutive rows of one row group."""

    file: DataFile
    group: int
    at: int
    """The place of its first message in the row group."""
    first: int
    last: int
    first_time_ns: int
    """The earliest time of a message."""
    last_time_ns: int
    """The latest time of a message."""


@dataclass(slots=True)
class _Group:
    """A row group, and its runs once they were needed."""

    index: int
    rows: int
    sources: tuple[str, str] | None
    """The least and the greatest session ID; None: not known."""
    numbers: tuple[int, int] | None
    """The lowest and the highest sequence number; None: not known."""
    runs: dict[str, list[Run]] | None = None
    """By session ID, ascending."""

    def may_have(self, session: str, first: int) -> bool:
        if self.sources is not None and not self.sources[0] <= session <= self.sources[1]:
            return False
        return self.numbers is None or self.numbers[1] >= first


class Files:
    """The files of an archive, as far as they were read. Not for several threads at once."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._groups: dict[str, list[_Group]] = {}
        """By path, the row groups of each file that was ever opened."""
        self._open: OrderedDict[str, pq.ParquetFile] = OrderedDict()
        self._columns: OrderedDict[tuple[str, int, str], pa.ChunkedArray] = OrderedDict()
        """By the path of the file, the row group and the name, the columns that were read last."""
        self._columns_bytes = 0

    def runs(self, file: DataFile, session: str, first: int) -> list[Run]:
        """Return the runs of a source in a file that have numbers from one on, ascending.

        Raises FileNotFoundError if the file is gone, and ArchiveInvalid.
        """
        with self._readable(file):
            found = []
            for group in self._groups_of(file):
                if group.may_have(session, first):
                    if group.runs is None:
                        group.runs = self._runs_of(file, group)
                    found += [each for each in group.runs.get(session, ()) if each.last >= first]
        return sorted(found, key=lambda each: each.first)

    def rows(self, run: Run, columns: Sequence[str], first: int, last: int) -> pa.Table:
        """Return these columns of the messages [first, last] of a run, which has them.

        Raises FileNotFoundError if the file is gone, and ArchiveInvalid.
        """
        with self._readable(run.file):
            rows = self._read(run.file, run.group, tuple(columns))
        return rows.slice(run.at + first - run.first, last - first + 1)

    def batches(
        self, run: Run, columns: Sequence[str], first: int, last: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield what `rows` returns, in parts."""
        yield from self.rows(run, columns, first, last).to_batches(_READ_ROWS)

    @contextmanager
    def _readable(self, file: DataFile) -> Iterator[None]:
        """Raise ArchiveInvalid if a file cannot be read, but is there."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, LookupError, ValueError, pa.ArrowException) as error:
            where = self._location.where(file.path)
            raise ArchiveInvalid(where, f"it cannot be read: {plain_text(error)}") from error

    def _groups_of(self, file: DataFile) -> list[_Group]:
        groups = self._groups.get(file.path)
        if groups is None:
            parquet = self._opened(file)
            groups = [_group(parquet.metadata, index) for index in range(parquet.num_row_groups)]
            self._groups[file.path] = groups
        return groups

    def _opened(self, file: DataFile) -> pq.ParquetFile:
        parquet = self._open.get(file.path)
        if parquet is not None:
            self._open.move_to_end(file.path)
            return parquet
        opened = self._location.files.open_input_file(file.path)
        if opened.size() != file.bytes:
            where = self._location.where(file.path)
            raise ArchiveInvalid(where, f"it has {opened.size():,} bytes, not {file.bytes:,}")
        # Files of an archive job have checksums of their pages. The library's compaction has none.
        parquet = pq.ParquetFile(opened, page_checksum_verification=True)
        if parquet.metadata.num_rows != file.count:
            where, count = self._location.where(file.path), parquet.metadata.num_rows
            raise ArchiveInvalid(where, f"it has {count} messages, not {file.count}")
        self._open[file.path] = parquet
        while len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)
        return parquet

    def _read(self, file: DataFile, group: int, columns: Sequence[str]) -> pa.Table:
        """Return columns of a row group. Those that were read before are not read again."""
        found: dict[str, pa.ChunkedArray] = {}
        for name in columns:
            kept = self._columns.get((file.path, group, name))
            if kept is not None:
                self._columns.move_to_end((file.path, group, name))
                found[name] = kept
        if "topic" in columns:
            # A column by which files are apart is not in them.
            count = self._groups_of(file)[group].rows
            found["topic"] = pa.chunked_array([pa.repeat(file.topic, count)])
        lacking = [name for name in columns if name not in found]
        if lacking:
            rows = self._read_anew(file, group, lacking)
            for name in lacking:
                found[name] = rows.column(name)
                self._keep((file.path, group, name), found[name])
        return pa.table([found[name] for name in columns], names=list(columns))

    def _read_anew(self, file: DataFile, group: int, columns: Sequence[str]) -> pa.Table:
        rows = self._opened(file).read_row_group(group, columns=columns)
        count = self._groups_of(file)[group].rows
        if len(rows) != count:
            # The header of a page has no checksum.
            raise pa.ArrowInvalid(f"a row group has {len(rows)} rows, not {count}")
        return rows

    def _keep(self, key: tuple[str, int, str], column: pa.ChunkedArray) -> None:
        self._columns[key] = column
        self._columns_bytes += column.nbytes
        while self._columns_bytes > _KEPT_BYTES and len(self._columns) > 1:
            _, dropped = self._columns.popitem(last=False)
            self._columns_bytes -= dropped.nbytes

    def _runs_of(self, file: DataFile, group: _Group) -> dict[str, list[Run]]:
        rows = self._read(file, group.index, _PLACES)
        sessions, numbers, times = (rows.column(name).combine_chunks() for name in _PLACES)
        runs: dict[str, list[Run]] = {}
        begin = 0
        for end in _ends(sessions, numbers):
            earliest, latest = pc.min_max(times[begin:end]).values()
            run = Run(
                file,
                group.index,
                begin,
                numbers[begin].as_py(),
                numbers[end - 1].as_py(),
                earliest.as_py(),
                latest.as_py(),
            )
            runs.setdefault(sessions[begin].as_py(), []).append(run)
            begin = end
        for each in runs.values():
            each.sort(key=lambda run: run.first)
        return runs


def _ends(sessions: pa.Array, numbers: pa.Array) -> list[int]:
    """Return one past the last row of each run."""
    ends: set[int] = set(pc.run_end_encode(sessions).run_ends.to_pylist())
    steps = pc.fill_null(pc.not_equal(pc.pairwise_diff(numbers), 1), False)
    ends.update(pc.indices_nonzero(steps).to_pylist())
    return sorted(ends)


def _group(metadata: pq.FileMetaData, index: int) -> _Group:
    group = metadata.row_group(index)
    bounds = {}
    for at in range(group.num_columns):
        column = group.column(at)
        if column.path_in_schema in ("source", "sequence"):
            known = column.statistics
            if known is not None and known.has_min_max:
                bounds[column.path_in_schema] = (known.min, known.max)
    return _Group(index, group.num_rows, bounds.get("source"), bounds.get("sequence"))
