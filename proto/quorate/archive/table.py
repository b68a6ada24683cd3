"""The table of an archive: a Delta table, by the library `deltalake`.

The log says which files have the messages, and which file has the histories of the sources. Both
change with one commit. A commit carries the application transaction of this program. Of two commits
that began at the same transaction, the library refuses the second. So no message is archived twice.
Nothing here reads a message.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import (
    ColumnProperties,
    CommitProperties,
    DeltaTable,
    Transaction,
    WriterProperties,
)
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from quorate.archive import histories
from quorate.archive.location import Location, make_directories, plain_text, storage
from quorate.archive.rules.data_file import DataFile
from quorate.archive.rules.layout import (
    SOURCES,
    partition_directory_bytes,
    sources_file,
    transaction_of,
)
from quorate.archive.rules.source import ArchivedSource
from quorate.protocol.errors import ArchiveChanged, ArchiveInvalid, ArchiveUnusable, InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range

APPLICATION = "quorate.archive"
"""The application whose transaction names the histories that are valid."""
_CHECKSUM = "quorate.archive.sources_crc32c"
"""The application whose transaction is the checksum of these histories."""
PARTITIONS = ["topic", "day"]
LARGE_BYTES = 128 * 1024 * 1024
"""Bytes of a file that compaction makes."""
VACUUM_SECONDS_MIN = 3600
"""Seconds for which at least files stay. A job or a reader of these files may still run."""

_LOG = "_delta_log"
_CHECKPOINT_COMMITS = 20
_GROUP_BYTES = 8 * 1024 * 1024
GROUP_ROWS = range(1024, 131_072 + 1)
"""The least and the greatest number of rows of a row group that compaction makes."""
_NAME_BYTES_MAX = 255
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATISTICS = ("source", "sequence", "epoch", "timestamp", "timestamp_ns")


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    before: int
    """Number of files that were replaced."""
    after: int
    """Number of files that replaced them."""
    left_out: tuple[str, ...]
    """Topics whose files stay as they are, because their names are too long for a directory."""


class Table:
    """The table of an archive at one version."""

    def __init__(self, location: Location, delta: DeltaTable) -> None:
        """Take the newest version that the library has read. Raises ArchiveInvalid."""
        self.location = location
        self._delta = delta
        self.version = delta.version()
        self.transaction = delta.transaction_version(APPLICATION) or 0
        """The last transaction of this program; 0: nothing was archived yet."""
        self._checksum = delta.transaction_version(_CHECKSUM) or 0

    @classmethod
    def open(cls, location: Location) -> Table | None:
        """Return the newest version; None: no table is there. Raises ArchiveUnusable."""
        if location.directory is not None and location.directory.is_file():
            raise ArchiveUnusable(location.address, os.strerror(errno.ENOTDIR))
        with _library(location):
            try:
                return cls(location, DeltaTable(location.address))
            except TableNotFoundError:
                return None

    @classmethod
    def open_or_create(cls, location: Location, schema: pa.Schema) -> Table:
        """Return the newest version, of a new table if none is there.

        schema: the columns of a new table. Raises ArchiveUnusable if no file can be written there.
        """
        if location.directory is not None:
            with storage(location.address):
                make_directories(location.directory)
        table = cls.open(location)
        if table is None:
            with _library(location), contextlib.suppress(CommitFailedError):
                DeltaTable.create(
                    location.address,
                    schema,
                    partition_by=PARTITIONS,
                    name=APPLICATION,
                    configuration={
                        "delta.dataSkippingStatsColumns": ",".join(_STATISTICS),
                        "delta.checkpointInterval": str(_CHECKPOINT_COMMITS),
                    },
                    mode="ignore",
                )
            table = cls.open(location)
            if table is None:
                raise ArchiveUnusable(location.address, "the table that was made is not there")
            table._sync_log()
        table.check_writable()
        return table

    def check_writable(self) -> None:
        """Raise ArchiveUnusable if no file can be written there."""
        trial = f"{SOURCES}/trial-{time.time_ns()}"
        with storage(self.location.address):
            self.location.write(trial, b"?")
            self.location.remove(trial)

    def newest(self) -> Table:
        """Return the newest version; this object if that is this one. Raises ArchiveUnusable."""
        with _library(self.location):
            table = Table(self.location, DeltaTable(self.location.address))
        return self if table.version == self.version else table

    # Its content.

    @cached_property
    def sources(self) -> dict[SourceName, ArchivedSource]:
        """The archived sources. Raises ArchiveInvalid, ArchiveNewer, ArchiveUnusable."""
        if not self.transaction:
            if self.files:
                raise ArchiveInvalid(
                    self.location.address, "it is a table, but no job of Quorate has written it"
                )
            return {}
        path = sources_file(self.transaction)
        where = self.location.where(path)
        try:
            with storage(where), self.location.files.open_input_file(path) as opened:
                content = opened.read()
        except ArchiveUnusable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise ArchiveInvalid(where, "it is missing") from None
            raise
        return histories.from_parquet(content, self._checksum, where)

    @cached_property
    def files(self) -> tuple[DataFile, ...]:
        """The files with messages, by topic and time. Raises ArchiveInvalid, ArchiveUnusable."""
        with _library(self.location):
            actions = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        try:
            files = [_data_file(each) for each in actions]
        except (KeyError, TypeError, ValueError, AssertionError) as error:
            raise ArchiveInvalid(self.location.address, f"its log has {error!r}") from None
        return tuple(sorted(files, key=lambda each: (each.topic, each.first_time_ns, each.path)))

    # Changes.

    def append(
        self, sources: Mapping[SourceName, ArchivedSource], files: Sequence[DataFile]
    ) -> Table:
        """Commit new files, and all sources as they are then. Return the new version.

        A commit of which the outcome is not known is looked up in the log.
        Raises ArchiveChanged if another job has committed since this version, ArchiveInvalid if
        the sources contradict themselves, and ArchiveUnusable.
        """
        if problems := [each for source in sources.values() for each in source.problems()]:
            raise ArchiveInvalid(self.location.address, "; ".join(problems[:5]))
        transaction = max(time.time_ns(), self.transaction + 1)
        content = histories.to_parquet(sources.values())
        with storage(self.location.address):
            self.location.write(sources_file(transaction), content)
        try:
            commit(self._delta, files, transaction, histories.checksum(content))
        except (DeltaError, OSError) as error:
            after = self._after_failure(transaction, error)
        else:
            with _library(self.location):
                after = Table(self.location, DeltaTable(self.location.address))
        after._sync_log()
        return after

    def _after_failure(self, transaction: int, error: Exception) -> Table:
        """Return the table if a commit is in its log after all; raise its error otherwise."""
        with _library(self.location):
            after = Table(self.location, DeltaTable(self.location.address))
        if after.transaction == transaction:
            return after
        if after.transaction != self.transaction or isinstance(error, CommitFailedError):
            raise ArchiveChanged(self.location.address, after.version) from error
        raise ArchiveUnusable(self.location.address, plain_text(error)) from error

    def compact(self, large_bytes: int = LARGE_BYTES) -> tuple[Table, Compacted]:
        """Join small files of a topic and a day. Return the new version.

        Raises ArchiveChanged if another compaction ran meanwhile, and ArchiveUnusable.
        """
        topics = {each.topic for each in self.files}
        long = {each for each in topics if partition_directory_bytes(each) > _NAME_BYTES_MAX}
        # One call is faster. A directory whose name is too long fails the whole call.
        filters = [[("topic", "=", each)] for each in sorted(topics - long)] if long else [None]
        properties = _writer_properties(self.files)
        before = after = 0
        try:
            with _library(self.location):
                for each in filters:
                    done = self._delta.optimize.compact(
                        partition_filters=each,
                        target_size=large_bytes,
                        writer_properties=properties,
                    )
                    before += done["numFilesRemoved"]
                    after += done["numFilesAdded"]
        except CommitFailedError as error:
            raise ArchiveChanged(self.location.address, self.version + 1) from error
        compacted = Table(self.location, self._delta)
        old = {each.path for each in self.files}
        compacted._sync([each.path for each in compacted.files if each.path not in old])
        return compacted, Compacted(before, after, tuple(sorted(long)))

    def vacuum(self, keep_seconds: float) -> list[str]:
        """Remove the files that no version of the last seconds has. Return their paths.

        Raises InvalidArgument if a job or a reader could still need such a file, ArchiveUnusable.
        """
        if keep_seconds < VACUUM_SECONDS_MIN:
            raise InvalidArgument(
                "keep", "a job or a reader may still need younger files; the least is an hour"
            )
        # The files that replaced these ones may be in the memory of the system only.
        self._sync([each.path for each in self.files])
        keep = timedelta(seconds=keep_seconds)
        with _library(self.location):
            removed = self._delta.vacuum(
                retention_hours=int(keep / timedelta(hours=1)),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
        with storage(self.location.address):
            oldest_ns = time.time_ns() - int(keep.total_seconds()) * 10**9
            for each in self.location.listed(SOURCES):
                transaction = transaction_of(f"{SOURCES}/{each.base_name}")
                is_old = each.mtime_ns is None or each.mtime_ns < oldest_ns
                if is_old and (transaction is None or transaction < self.transaction):
                    self.location.remove(f"{SOURCES}/{each.base_name}")
                    removed.append(f"{SOURCES}/{each.base_name}")
        return removed

    def _sync(self, paths: list[str]) -> None:
        with storage(self.location.address):
            self.location.sync(paths)
        self._sync_log()

    def _sync_log(self) -> None:
        if self.location.directory is None:
            return
        with storage(self.location.address):
            names = [each.base_name for each in self.location.listed(_LOG)]
            newest = f"{max(0, self.version - 1):020d}"
            self.location.sync([f"{_LOG}/{name}" for name in names if name >= newest])


def commit(delta: DeltaTable, files: Sequence[DataFile], transaction: int, checksum: int) -> None:
    """Commit new files with a transaction. Raises DeltaError, OSError."""
    delta.create_write_transaction(
        [_add_action(each) for each in files],
        "append",
        delta.schema(),
        partition_by=PARTITIONS,
        commit_properties=CommitProperties(
            app_transactions=[
                Transaction(APPLICATION, transaction),
                Transaction(_CHECKSUM, checksum),
            ]
        ),
    )


@contextlib.contextmanager
def _library(location: Location) -> Iterator[None]:
    """Raise ArchiveUnusable for an error of the library that nothing else says more about."""
    try:
        yield
    except (TableNotFoundError, CommitFailedError):
        raise
    except (DeltaError, OSError) as error:
        raise ArchiveUnusable(location.address, plain_text(error)) from error


def _add_action(file: DataFile) -> AddAction:
    partition = {"topic": file.topic, "day": file.day}
    return AddAction(
        file.path, file.bytes, partition, time.time_ns() // 10**6, True, _statistics(file)
    )


def _statistics(file: DataFile) -> str:
    """Return the statistics of a file by which engines tell what it cannot have."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    if file.sources is not None:
        least["source"], greatest["source"] = file.sources
    if file.numbers is not None:
        least["sequence"], greatest["sequence"] = file.numbers.first, file.numbers.last
    if file.times_ns is not None:
        least["timestamp_ns"], greatest["timestamp_ns"] = file.times_ns
        least["timestamp"], greatest["timestamp"] = map(_moment, file.times_ns)
    return json.dumps(
        {
            "numRecords": file.count,
            "minValues": least,
            "maxValues": greatest,
            "nullCount": dict.fromkeys(least, 0),
        }
    )


def _moment(time_ns: int) -> str:
    moment = _EPOCH + timedelta(microseconds=time_ns // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _data_file(action: Mapping[str, Any]) -> DataFile:
    numbers = _bounds(action, "sequence")
    return DataFile(
        # The library gives the paths as the log has them, encoded.
        unquote(action["path"]),
        action["partition.topic"],
        str(action["partition.day"]),
        action["size_bytes"],
        action["num_records"],
        _bounds(action, "source"),
        None if numbers is None else Range(*numbers),
        _bounds(action, "timestamp_ns"),
    )


def _bounds(action: Mapping[str, Any], column: str) -> Any:
    both = action.get(f"min.{column}"), action.get(f"max.{column}")
    return None if None in both else both


def _writer_properties(files: Iterable[DataFile]) -> WriterProperties:
    files = list(files)
    rows = sum(each.count for each in files)
    per_row = sum(each.bytes for each in files) / rows if rows else 1.0
    fitting = int(_GROUP_BYTES / max(per_row, 1e-3))
    packed = ColumnProperties(encoding="DELTA_BINARY_PACKED", dictionary_enabled=False)
    plain = ColumnProperties(dictionary_enabled=False)
    return WriterProperties(
        compression="ZSTD",
        compression_level=1,
        max_row_group_size=min(max(fitting, GROUP_ROWS[0]), GROUP_ROWS[-1]),
        column_properties={
            "sequence": packed,
            "timestamp": packed,
            "timestamp_ns": packed,
            "payload": plain,
        },
    )
