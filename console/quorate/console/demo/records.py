"""The records of a receiver process: one line for each message that it is handed.

A line is whole and flushed before its message is acknowledged: the page cache outlives kill -9.
Each run of a receiver has a file of its own. So only the last line can be cut short by kill -9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FIELDS = 7


def digest(payload: bytes) -> str:
    """Return the digest by which payloads are compared. It is none of Quorate's own checksums."""
    return hashlib.blake2b(payload, digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Record:
    """One message as it was handed to a receiver."""

    topic: str
    session_id: int
    sequence: int
    epoch: int
    retransmitted: bool
    time_ns: int
    """When it was handed over, by this machine's clock."""
    digest: str


def record_line(
    topic: str,
    session_id: int,
    sequence: int,
    epoch: int,
    retransmitted: bool,
    time_ns: int,
    digest: str,
) -> str:
    """Return a record's line without making the record, because receivers write many."""
    return f"{session_id:x} {sequence} {epoch} {retransmitted:d} {time_ns} {digest} {topic}\n"


def run_files(directory: Path, receiver: str) -> list[Path]:
    """Return the files of a receiver, one a run, in the order of the runs."""
    return sorted(directory.glob(f"{receiver}.run-*.records"), key=_run)


def run_file(directory: Path, receiver: str, run: int) -> Path:
    """Return the file of one run. Runs count from 1."""
    return directory / f"{receiver}.run-{run}.records"


def _run(path: Path) -> int:
    return int(path.name.rpartition(".run-")[2].removesuffix(".records"))


def read_records(path: Path) -> tuple[list[Record], str]:
    """Return the records of a run, and the text behind the last whole line."""
    *lines, rest = path.read_text().split("\n")
    return list(_parse(lines)), rest


def _parse(lines: list[str]) -> Iterator[Record]:
    for line in lines:
        session_id, sequence, epoch, again, time_ns, content, topic = line.split(" ", _FIELDS - 1)
        yield Record(
            topic,
            int(session_id, 16),
            int(sequence),
            int(epoch),
            again == "1",
            int(time_ns),
            content,
        )
