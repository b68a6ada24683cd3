"""The bounds that a filter sets for topics, numbers and times.

Nothing outside can pass. A reader skips whole files by them. A message inside may still not pass:
the filter decides. Only comparisons with a known value count, and only those that must all be true.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from quorate.protocol.filters.parse import parse
from quorate.protocol.filters.syntax import (
    About,
    AllOf,
    Between,
    Comparison,
    Literal,
    MessageField,
    Node,
    OneOf,
)

TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operator that says the same with its two values exchanged."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from `low` to `high`, both included."""

    low: float = -inf
    high: float = inf

    def meets(self, low: float, high: float) -> bool:
        """Return whether a number of [low, high] is inside."""
        return self.low <= high and low <= self.high

    def within(self, low: float, high: float) -> Interval:
        """Return the part of the interval that is inside of [low, high]."""
        return Interval(max(self.low, low), min(self.high, high))


@dataclass(frozen=True, slots=True)
class Bounds:
    """The messages that can pass a filter."""

    topics: frozenset[str] | None = None
    """Only messages of these topics; None: of any."""
    sequence: Interval = Interval()
    time: Interval = Interval()
    """Seconds since 1970 UTC."""
    where: Node | None = field(default=None, compare=False)
    """The whole filter, for what else a reader can tell of rows; None: there is none."""

    def has_topic(self, topic: str) -> bool:
        """Return whether a message of this topic can pass."""
        return self.topics is None or topic in self.topics


NO_BOUNDS = Bounds()
"""The bounds without a filter: any message can pass."""


def bounds_of(text: str) -> Bounds:
    """Return the bounds that a filter sets. Raises InvalidFilter."""
    tree = parse(text)
    return _narrowed(replace(NO_BOUNDS, where=tree), tree)


def _narrowed(bounds: Bounds, node: Node) -> Bounds:
    match node:
        case AllOf(parts):
            for part in parts:
                bounds = _narrowed(bounds, part)
        case Comparison("=", MessageField(About.TOPIC), right):
            return _among(bounds, [right])
        case Comparison("=", left, MessageField(About.TOPIC)):
            return _among(bounds, [left])
        case OneOf(MessageField(About.TOPIC), options):
            return _among(bounds, options)
        case Comparison(operator, MessageField(about), Literal(value)):
            return _compared(bounds, about, operator, value)
        case Comparison(operator, Literal(value), MessageField(about)):
            return _compared(bounds, about, TURNED[operator], value)
        case Between(MessageField(about), Literal(low), Literal(high)):
            bounds = _compared(bounds, about, ">=", low)
            return _compared(bounds, about, "<=", high)
    return bounds


def _among(bounds: Bounds, options: Iterable[Node]) -> Bounds:
    """Return the bounds if the topic is one of these, as far as all of them are known."""
    topics: set[str] = set()
    for option in options:
        if not isinstance(option, Literal):
            return bounds
        if isinstance(option.value, str):
            topics.add(option.value)
    both = frozenset(topics) if bounds.topics is None else bounds.topics & topics
    return replace(bounds, topics=both)


def _compared(bounds: Bounds, about: About, operator: str, value: object) -> Bounds:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return bounds
    low = value if operator in ("=", ">", ">=") else -inf
    high = value if operator in ("=", "<", "<=") else inf
    if about is About.SEQUENCE:
        return replace(bounds, sequence=bounds.sequence.within(low, high))
    if about is About.TIME:
        return replace(bounds, time=bounds.time.within(low, high))
    return bounds
