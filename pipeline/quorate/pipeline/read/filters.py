"""The filters of a query: which sources, sequence numbers and times they leave to read.

Spark does not evaluate a filter again that holds exactly here. A filter by time only narrows the
range, because a source's clock may have been put back. Nothing here reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from quorate.pipeline.options import nanoseconds_of
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX

CLOCK_STEP_SECONDS_MAX = 600
"""Most seconds by which a source's clock is assumed to be put back at once."""

_NEVER_NULL = frozenset({"topic", "source", "sequence", "epoch", "timestamp", "payload", "deleted"})
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Restriction:
    """The messages that can pass the filters; None means no restriction."""

    topics: frozenset[str] | None = None
    sessions: frozenset[str] | None = None
    """Session IDs, as the column `source` has them."""
    first: int = 0
    until: int = SEQUENCE_MAX
    """One past the last sequence number."""
    since_ns: int | None = None
    before_ns: int | None = None
    """Both times include the allowance for clocks that were put back."""

    def selects(self, source: SourceName) -> bool:
        topics, sessions = self.topics, self.sessions
        return (topics is None or source.topic in topics) and (
            sessions is None or f"{source.session_id:#x}" in sessions
        )


def restrict(filters: Iterable[Filter]) -> tuple[Restriction, list[Filter]]:
    """Return what all filters together leave, and the filters that Spark has to evaluate itself."""
    restriction, rest = Restriction(), []
    for each in filters:
        narrowed, exact = _narrowed(restriction, each)
        restriction = narrowed
        if not exact:
            rest.append(each)
    return restriction, rest


def _narrowed(now: Restriction, each: Filter) -> tuple[Restriction, bool]:
    """Return the restriction with one more filter, and whether it expresses the filter exactly."""
    path: tuple[str, ...] = getattr(each, "attribute", ())
    column = path[0] if len(path) == 1 else ""
    match each:
        case IsNotNull():
            return now, column in _NEVER_NULL
        case EqualTo(value=value) | EqualNullSafe(value=value):
            return _among(now, column, (value,))
        case In(value=values):
            return _among(now, column, tuple(values))
        case GreaterThan(value=value):
            return _from(now, column, value, 1)
        case GreaterThanOrEqual(value=value):
            return _from(now, column, value, 0)
        case LessThan(value=value):
            return _upto(now, column, value, 0)
        case LessThanOrEqual(value=value):
            return _upto(now, column, value, 1)
    return now, False


def _among(now: Restriction, column: str, values: tuple[object, ...]) -> tuple[Restriction, bool]:
    if not values:
        return now, False
    if column in ("topic", "source") and all(isinstance(value, str) for value in values):
        wanted = frozenset(map(str, values))
        if column == "topic":
            return replace(now, topics=wanted if now.topics is None else wanted & now.topics), True
        known = now.sessions
        return replace(now, sessions=wanted if known is None else wanted & known), True
    if column == "sequence" and all(type(value) is int for value in values):
        numbers = [value for value in values if isinstance(value, int)]
        narrowed, _ = _from(now, column, min(numbers), 0)
        narrowed, _ = _upto(narrowed, column, max(numbers), 1)
        return narrowed, len(set(numbers)) == 1
    if column == "timestamp" and all(isinstance(value, datetime) for value in values):
        times = [value for value in values if isinstance(value, datetime)]
        narrowed, _ = _from(now, column, min(times), 0)
        return _upto(narrowed, column, max(times), 1)
    return now, False


def _from(now: Restriction, column: str, value: object, more: int) -> tuple[Restriction, bool]:
    """Restrict to the value and above, or, if `more` is 1, to above the value."""
    if column == "sequence" and type(value) is int:
        return replace(now, first=max(now.first, value + more)), True
    if column == "timestamp" and isinstance(value, datetime):
        since = nanoseconds_of(value) - CLOCK_STEP_SECONDS_MAX * _NANOSECONDS
        if now.since_ns is not None:
            since = max(since, now.since_ns)
        return replace(now, since_ns=since), False
    return now, False


def _upto(now: Restriction, column: str, value: object, more: int) -> tuple[Restriction, bool]:
    """Restrict to below the value, or, if `more` is 1, to the value and below."""
    if column == "sequence" and type(value) is int:
        return replace(now, until=min(now.until, max(0, value + more))), True
    if column == "timestamp" and isinstance(value, datetime):
        # An included microsecond has a thousand nanoseconds.
        before = nanoseconds_of(value) + more * 1000 + CLOCK_STEP_SECONDS_MAX * _NANOSECONDS
        if now.before_ns is not None:
            before = min(before, now.before_ns)
        return replace(now, before_ns=before), False
    return now, False
