"""The layout of an archive: the names of its files, and the values of its partitions.

    <archive>/_delta_log/00000000000000000007.json     the log of the table; the library's

    <archive>/topic=orders/day=2026-11-21/<random>.parquet     messages, if the log names the file

    <archive>/_sources/01795862970462185885.parquet    the histories of the sources, if it does

Nothing here touches a file.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

SOURCES = "_sources"
"""The directory of the histories. Engines do not read directories that begin so."""

_NAME_MAX = 100
_DAY_NS = 86_400 * 10**9
_PLAIN = re.compile(r"[A-Za-z0-9._-]+")


def day_of(timestamp_ns: int) -> str:
    """Return the day of a time, in UTC, such as 2026-11-21."""
    # Days are split off first, because a float has too few digits for nanoseconds.
    days = timestamp_ns // _DAY_NS
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def directory_of(topic: str, day: str) -> str:
    """Return the directory of new files of a topic and a day, relative to the archive.

    The log says which topic a file has, so this name is only for people.
    """
    return f"topic={_safe(topic)}/day={day}"


def sources_file(transaction: int) -> str:
    """Return the path of the histories that a transaction committed, relative to the archive."""
    return f"{SOURCES}/{transaction:020d}.parquet"


def transaction_of(path: str) -> int | None:
    """Return the transaction whose histories a path has; None if it is another path."""
    found = re.fullmatch(rf"{SOURCES}/(\d{{20}})\.parquet", path)
    return int(found[1]) if found is not None else None


def partition_directory_bytes(topic: str) -> int:
    """Return the bytes of the name of the directory that the library makes for a topic."""
    plain = sum(len(part.encode()) for part in _PLAIN.findall(topic))
    return len("topic=") + plain + 3 * (len(topic.encode()) - plain)


def _safe(topic: str) -> str:
    """Return a part of a file's name for a topic: the topic itself if that can be one."""
    if _PLAIN.fullmatch(topic) and len(topic) <= _NAME_MAX:
        return topic
    digest = hashlib.sha256(topic.encode()).hexdigest()[:16]
    plain = "_".join(_PLAIN.findall(topic))[:_NAME_MAX]
    return f"{plain}-{digest}"
