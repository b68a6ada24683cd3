"""The layout of an archive: names of its directories and files.

A file is named by its content, so the same content always has the same name. Two jobs that archive
at the same time cannot overwrite each other's files with other content. Nothing here touches a
file.

    <archive>/manifest/00000000000000000007.json      the newest one lists what the archive has

    <archive>/data/topic=orders/day=2026-11-21/0x10-00000000000000000000-…0099-1a2b3c4d.parquet

    <archive>/data/…/.writing-<random>                 not complete, and no part of the archive
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from urllib.parse import quote

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range

MANIFESTS = "manifest"
DATA = "data"
WRITING = ".writing-"
"""The beginning of a file's name until the file is complete."""

_NAME_MAX = 200
_DAY_NS = 86_400 * 10**9
_FILE = re.compile(
    rf"{DATA}/(topic=[^/]+)/day=[^/]+/(0x[0-9a-f]+)-(\d+)-(\d+)-([0-9a-f]{{8}})\.parquet"
)


def manifest_name(version: int) -> str:
    return f"{version:020d}.json"


def manifest_version(name: str) -> int | None:
    """Return the version in the name of a manifest; None if the name is not that of a manifest."""
    stem, dot, kind = name.partition(".")
    return int(stem) if dot and kind == "json" and stem.isdecimal() else None


def day_of(timestamp_ns: int) -> str:
    """Return the day of a time, in UTC, such as 2026-11-21."""
    # Days are split off first, because a float has too few digits for nanoseconds.
    days = timestamp_ns // _DAY_NS
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def directory_of(topic: str, day: str) -> str:
    """Return the directory of the files of a topic and a day, relative to the archive."""
    return f"{DATA}/topic={_safe(topic)}/day={day}"


def file_of(source: SourceName, day: str, first: int, last: int, checksum: int) -> str:
    """Return the path of a file, relative to the archive."""
    directory = directory_of(source.topic, day)
    return f"{directory}/{source.session_id:#x}-{first:020d}-{last:020d}-{checksum:08x}.parquet"


def key_of(source: SourceName) -> str:
    """Return the key that content_of returns for every file of this source."""
    return f"topic={_safe(source.topic)}/{source.session_id:#x}"


def content_of(path: str) -> tuple[str, Range] | None:
    """Return the key of the source of a file, and the range of its messages.

    Returns None if the path is not that of a file with messages.
    """
    found = _FILE.fullmatch(path)
    if found is None:
        return None
    topic, session, first, last, _ = found.groups()
    return f"{topic}/{session}", Range(int(first), int(last))


def checksum_of(path: str) -> int:
    """Return the crc32c in the path of a file with messages."""
    found = _FILE.fullmatch(path)
    assert found is not None, path
    return int(found[5], 16)


def is_data(path: str) -> bool:
    """Return whether a path, relative to the archive, can be that of a file with messages."""
    parts = path.split("/")
    return parts[0] == DATA and len(parts) > 1 and not {"", ".", ".."} & set(parts)


def _safe(topic: str) -> str:
    """Return a directory name for a topic. Spark unquotes it to the topic."""
    name = quote(topic, safe=" !#$&'()+,-.;@[]^_`{}~")
    if len(name) <= _NAME_MAX:
        return name
    # File systems allow 255 bytes. Quoting can triple the bytes of a topic.
    digest = hashlib.sha256(topic.encode()).hexdigest()[:16]
    return f"{name[: _NAME_MAX - 20].rpartition('%')[0]}~{digest}"
