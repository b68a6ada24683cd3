"""A file of the table, by what the log says of it: enough to tell what it cannot have.

Nothing here touches a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorate.protocol.ranges import Range


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with messages of one topic and one day, of one source or of many."""

    path: str
    """Relative to the archive."""
    topic: str
    day: str
    """The day of the first message of each batch."""
    bytes: int
    count: int
    """Number of messages in the file."""
    sources: tuple[str, str] | None
    """The least and the greatest session ID, as text; None: not known."""
    numbers: Range | None
    """The lowest and the highest sequence number; None: not known."""
    times_ns: tuple[int, int] | None
    """The earliest and the latest time of a message; None: not known."""

    def as_object(self) -> dict[str, Any]:
        """Return the file as values for JSON, by which a task reports it."""
        return {
            "path": self.path,
            "topic": self.topic,
            "day": self.day,
            "bytes": self.bytes,
            "count": self.count,
            "sources": self.sources,
            "numbers": None if self.numbers is None else [self.numbers.first, self.numbers.last],
            "times_ns": self.times_ns,
        }

    @classmethod
    def from_object(cls, values: Mapping[str, Any]) -> DataFile:
        """Return the file of such values."""
        sources, numbers, times_ns = (
            None if values[name] is None else tuple(values[name])
            for name in ("sources", "numbers", "times_ns")
        )
        return cls(
            values["path"],
            values["topic"],
            values["day"],
            values["bytes"],
            values["count"],
            sources,
            None if numbers is None else Range(*numbers),
            times_ns,
        )

    @property
    def first_time_ns(self) -> int:
        """The earliest time of a message; 0: not known."""
        return self.times_ns[0] if self.times_ns is not None else 0

    @property
    def alone(self) -> str | None:
        """The session ID if the file has each number between the bounds, of one source only."""
        if self.sources is None or self.numbers is None or len(self.numbers) != self.count:
            return None
        return self.sources[0] if self.sources[0] == self.sources[1] else None

    def may_have(self, session: str, first: int) -> bool:
        """Return whether the file can have messages of a session from a number on."""
        if self.sources is not None and not self.sources[0] <= session <= self.sources[1]:
            return False
        return self.numbers is None or self.numbers.last >= first


def session_text(session_id: int) -> str:
    """Return a session ID as the column `source` has it."""
    return f"{session_id:#x}"
