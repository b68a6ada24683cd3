"""What a query's filters leave of what there is to read.

Pure. Filters that are kept to the letter here are not evaluated by Spark again; time is only
narrowed down, because a source's clock may once have been put back.
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
"""A source's clock is taken never to be put back by more than this."""

_NEVER_NULL = frozenset({"topic", "source", "sequence", "epoch", "timestamp", "payload"})
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Restriction:
    """Only messages of these can pass; None: whatever it is."""

    topics: frozenset[str] | None = None
    sessions: frozenset[str] | None = None
    """As the column `source` has them."""
    first: int = 0
    until: int = SEQUENCE_MAX
    """One past the last sequence number."""
    since_ns: int | None = None
    before_ns: int | None = None
    """Times are with the allowance for clocks that were put back."""

    def selects(self, source: SourceName) -> bool:
        topics, sessions = self.topics, self.sessions
        return (topics is None or source.topic in topics) and (
            sessions is None or f"{source.session_id:#x}" in sessions
        )


def restrict(filters: Iterable[Filter]) -> tuple[Restriction, list[Filter]]:
    """What all of these together leave, and those that Spark has to evaluate itself."""
    restriction, rest = Restriction(), []
    for each in filters:
        narrowed, exact = _narrowed(restriction, each)
        restriction = narrowed
        if not exact:
            rest.append(each)
    return restriction, rest


def _narrowed(now: Restriction, each: Filter) -> tuple[Restriction, bool]:
    """The restriction with one filter more, and whether that says all that the filter does."""
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
    """At the value or above it; above it only, if `more` is 1."""
    if column == "sequence" and type(value) is int:
        return replace(now, first=max(now.first, value + more)), True
    if column == "timestamp" and isinstance(value, datetime):
        since = nanoseconds_of(value) - CLOCK_STEP_SECONDS_MAX * _NANOSECONDS
        if now.since_ns is not None:
            since = max(since, now.since_ns)
        return replace(now, since_ns=since), False
    return now, False


def _upto(now: Restriction, column: str, value: object, more: int) -> tuple[Restriction, bool]:
    """Below the value; up to it, if `more` is 1."""
    if column == "sequence" and type(value) is int:
        return replace(now, until=min(now.until, max(0, value + more))), True
    if column == "timestamp" and isinstance(value, datetime):
        # A microsecond that is included has a thousand nanoseconds.
        before = nanoseconds_of(value) + more * 1000 + CLOCK_STEP_SECONDS_MAX * _NANOSECONDS
        if now.before_ns is not None:
            before = min(before, now.before_ns)
        return replace(now, before_ns=before), False
    return now, False
