"""Figures of stores: counts, means and rates."""

from __future__ import annotations

from quorate.protocol.figures import counted, mean, newest_in, numbers_in, rate
from quorate.protocol.ranges import Range
from quorate.v1.messages_pb2 import HeldRange


def test_ranges_of_either_kind_are_counted() -> None:
    for kind in (Range, HeldRange):
        ranges = [kind(first=0, last=9), kind(first=20, last=20)]
        assert (numbers_in(ranges), newest_in(ranges)) == (11, 20)
    assert (numbers_in([]), newest_in([])) == (0, -1)


def test_a_mean_of_nothing_is_zero() -> None:
    assert mean(3.0, 2) == 1.5
    assert mean(0.0, 0) == 0.0


def test_a_rate_is_never_below_zero() -> None:
    assert rate(30, 10, 4.0) == 5.0
    assert rate(0, 10, 4.0) == 0.0


def test_one_thing_is_not_several() -> None:
    told = [counted(number, "message") for number in (0, 1, 2, 20_000)]
    assert told == ["0 messages", "1 message", "2 messages", "20,000 messages"]
