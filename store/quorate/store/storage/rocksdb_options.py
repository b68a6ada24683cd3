"""The options of RocksDB, for the database and for each table."""

from __future__ import annotations

import mmap
import os
import shutil
from pathlib import Path

from rocksdict import DBCompressionType, Options

from quorate.store.storage.interface import Table

_MIB = 1024 * 1024
_JOURNAL_BUFFER = 64 * _MIB
_TABLE_BUFFER = 8 * _MIB
_BUFFERS = {Table.JOURNAL: _JOURNAL_BUFFER, Table.FRAGMENTS: _JOURNAL_BUFFER}
"""The bytes of a table in memory above which they are written to a file, if not _TABLE_BUFFER."""
STATE_BUFFER = 64 * _MIB
"""The bytes of Table.STATE in memory above which the storage has them written to a file.

Its rows are written again and again. The more of them are in memory, the fewer go to files.
"""
_STATE_BUFFER_MAX = 4 * STATE_BUFFER
"""The bytes of Table.STATE in memory above which RocksDB itself would write them to a file."""
_STATE_LEVEL = 512 * _MIB
"""The bytes of the first level of Table.STATE. A second one has each row written once more."""
_LOG_BYTES_MAX = 256 * _MIB
"""The bytes of log above which RocksDB flushes tables. It bounds the time of a restart."""
OPTIONS_DIRECTORY = "options"
"""The directory in the data directory that is there while a database is opened."""
_FROM_FILE = """\
[Version]
  rocksdb_version=1.0.0
  options_file_version=1.1
[DBOptions]
  {option}=true
[CFOptions "default"]
[TableOptions/BlockBasedTable "default"]
"""
"""A file of an option that rocksdict sets only from a file."""
_LOG_LATER = "manual_wal_flush"
"""A write leaves the log in memory. Another call takes it to the file without Python's lock.

If the write did it, all of the store would wait for the disk, also its event loop.
A write still takes the log to the file once RocksDB's buffer of 1 MiB is full. A larger buffer is
one of the tables' files too: each piece of such a file then holds up the next sync of the log.
"""
_CLOSES_AT_ONCE = "avoid_flush_during_shutdown"
"""Rows that are only in memory are lost when the database is closed."""
_RAW = '{"raw_mode": true, "prefix_extractors": {}}'


def database_options(path: Path, direct_io: bool, create: bool) -> Options:
    """Return the options of a database that is written to.

    - path: of the database. A directory beside it has a file of options for a moment.
    - direct_io: whether tables are written past the page cache.
    - create: whether to make a database if there is none.
    """
    options = _with(_from_file(path, _LOG_LATER), direct_io, _TABLE_BUFFER)
    # The sync of a reused log file leaves out its metadata, so it is faster. Recovery may then
    # lose the log's end silently; the acknowledged mark of data_directory detects that.
    options.set_recycle_log_file_num(4)
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    return options


def state_options(path: Path, direct_io: bool, create: bool) -> Options:
    """Return the options of the database of Table.STATE, which has no log.

    Its arguments are those of `database_options`. The rows go to a file only if the storage says
    so: never sooner than the messages of which they were made.
    """
    options = _with(_from_file(path, _CLOSES_AT_ONCE), direct_io, _STATE_BUFFER_MAX)
    options.set_max_bytes_for_level_base(_STATE_LEVEL)
    options.create_if_missing(create)
    return options


def read_only_options() -> Options:
    """Return the options of a database that is only read."""
    return _with(Options(raw_mode=True), direct_io=False, buffer_bytes=_TABLE_BUFFER)


def table_options(table: Table, direct_io: bool) -> Options:
    """Return the options of a table."""
    return _with(Options(raw_mode=True), direct_io, _BUFFERS.get(table, _TABLE_BUFFER))


def _from_file(path: Path, option: str) -> Options:
    directory = path.with_name(OPTIONS_DIRECTORY)
    directory.mkdir(exist_ok=True)
    try:
        (directory / "OPTIONS-000001").write_text(_FROM_FILE.format(option=option))
        (directory / "rocksdict-config.json").write_text(_RAW)
        options, _ = Options.load_latest(str(directory))
    finally:
        shutil.rmtree(directory)
    return options


def _with(options: Options, direct_io: bool, buffer_bytes: int) -> Options:
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(buffer_bytes)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_max_total_wal_size(_LOG_BYTES_MAX)
    options.set_use_direct_io_for_flush_and_compaction(direct_io)
    options.set_keep_log_file_num(4)
    return options


def has_direct_io(directory: Path) -> bool:
    """Return whether files in this directory can be written past the page cache."""
    probe = directory / "direct-io-probe"
    try:
        descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY | getattr(os, "O_DIRECT", 0))
    except OSError:
        return False
    try:
        with mmap.mmap(-1, 4096) as page:  # aligned, as direct I/O demands
            os.write(descriptor, page)
        return hasattr(os, "O_DIRECT")
    except OSError:
        return False
    finally:
        os.close(descriptor)
        probe.unlink(missing_ok=True)
