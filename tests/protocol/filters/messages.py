"""Messages as filters see them, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from quorate.protocol.filters.evaluate import Filter, Rows
from quorate.protocol.filters.syntax import About
from quorate.protocol.filters.values import Truth


@dataclass
class Seen:
    """A message with a document; the rest is the same for all tests."""

    document: Any = None
    topic: str = "orders"
    session: int = 16
    sequence: int = 7
    epoch: int = 2
    time: float = 1_700_000_000.5
    size: int = 200
    key: str | None = "IBM"
    deleted: bool = False
    expires: float | None = 1_700_000_060.5
    named: Mapping[str, str] = field(default_factory=lambda: {"desk": "london"})

    def facts(self, about: About, rows: Rows) -> list[Any]:
        return [getattr(self, about.value)] * len(rows)

    def documents(self, rows: Rows) -> list[Any]:
        return [self.document] * len(rows)

    def properties(self, name: str, rows: Rows) -> list[str | None]:
        return [self.named.get(name)] * len(rows)


def truth_of(where: Filter, message: Seen) -> Truth:
    """Return whether a filter is true of a message, also among others."""
    (alone,) = where.truths(message, [0])
    assert where.truths(message, range(3)) == [alone] * 3
    return alone


def passes(where: Filter, message: Seen) -> bool:
    """Return whether a message passes a filter."""
    return where.passing(message, [7]) == [7]
