"""Figures of stores, as people are shown them: counts, means and rates. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from quorate.protocol.limits import NOTHING


class Ends(Protocol):
    """The ends of a range of sequence numbers, whatever the range is made of."""

    @property
    def first(self) -> int:
        """The first number."""
        ...

    @property
    def last(self) -> int:
        """The last number."""
        ...


def numbers_in(ranges: Iterable[Ends]) -> int:
    """Return how many sequence numbers the ranges have together."""
    return sum(each.last - each.first + 1 for each in ranges)


def newest_in(ranges: Iterable[Ends]) -> int:
    """Return the highest sequence number in the ranges; -1: there is none."""
    return max((each.last for each in ranges), default=NOTHING)


def counted(number: int, noun: str) -> str:
    """Return a number of things as people say it: 1 message, 2,000 messages."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def mean(total: float, count: int) -> float:
    """Return the mean of so many values; 0: there are none."""
    return total / max(count, 1)


def rate(now: float, before: float, seconds: float) -> float:
    """Return how much came each second, between two figures. A store may have started anew."""
    return max(0.0, (now - before) / seconds)
