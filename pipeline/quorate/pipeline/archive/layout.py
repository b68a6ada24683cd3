"""Where things are in an archive: names of directories and files.

Pure. Files are named by what is in them, so that the same content always gets the same name, and
two archivers at the same time can not overwrite each other's with something else.

    <archive>/manifest/00000000000000000007.json      the newest says what the archive has
    <archive>/data/topic=orders/day=2026-11-21/0x10-00000000000000000000-…0099-1a2b3c4d.parquet
    <archive>/data/…/.writing-<random>                 not there yet, or never will be
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
"""What a file is called until it is whole."""

_NAME_MAX = 200
_DAY_NS = 86_400 * 10**9
_FILE = re.compile(
    rf"{DATA}/(topic=[^/]+)/day=[^/]+/(0x[0-9a-f]+)-(\d+)-(\d+)-([0-9a-f]{{8}})\.parquet"
)


def manifest_name(version: int) -> str:
    return f"{version:020d}.json"


def manifest_version(name: str) -> int | None:
    """The version that a file's name stands for; None: it is no manifest."""
    stem, dot, kind = name.partition(".")
    return int(stem) if dot and kind == "json" and stem.isdecimal() else None


def day_of(timestamp_ns: int) -> str:
    """The day in UTC, as 2026-11-21."""
    # Whole days first: a float has not enough digits for nanoseconds.
    days = timestamp_ns // _DAY_NS
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def directory_of(topic: str, day: str) -> str:
    """Of the files of a topic and a day, from the archive on."""
    return f"{DATA}/topic={_safe(topic)}/day={day}"


def file_of(source: SourceName, day: str, first: int, last: int, checksum: int) -> str:
    """The path of a file, from the archive on."""
    directory = directory_of(source.topic, day)
    return f"{directory}/{source.session_id:#x}-{first:020d}-{last:020d}-{checksum:08x}.parquet"


def key_of(source: SourceName) -> str:
    """What the paths of a source's files have in common, as content_of has it."""
    return f"topic={_safe(source.topic)}/{source.session_id:#x}"


def content_of(path: str) -> tuple[str, Range] | None:
    """Of which source a file is, and which of its messages it has; None: it is none."""
    found = _FILE.fullmatch(path)
    if found is None:
        return None
    topic, session, first, last, _ = found.groups()
    return f"{topic}/{session}", Range(int(first), int(last))


def checksum_of(path: str) -> int:
    """The crc32c of a file's bytes, as its name, which must be that of one, has it."""
    found = _FILE.fullmatch(path)
    assert found is not None, path
    return int(found[5], 16)


def is_data(path: str) -> bool:
    """Whether a path, from the archive on, can be that of a file with messages."""
    parts = path.split("/")
    return parts[0] == DATA and len(parts) > 1 and not {"", ".", ".."} & set(parts)


def _safe(topic: str) -> str:
    """A topic as the name of a directory; what Spark makes of it again is the topic."""
    name = quote(topic, safe=" !#$&'()+,-.;@[]^_`{}~")
    if len(name) <= _NAME_MAX:
        return name
    # File systems allow 255 bytes; a topic may need three times as many as it has.
    digest = hashlib.sha256(topic.encode()).hexdigest()[:16]
    return f"{name[: _NAME_MAX - 20].rpartition('%')[0]}~{digest}"
