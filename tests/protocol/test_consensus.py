"""Consensus of positions and a receiver's start: tables, and the definition of majority."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from quorate.protocol.consensus import (
    Behaviour,
    StartingPoint,
    choose_start,
    consensus,
    starting_point,
)
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Group, Policy

THREE = Policy.majority_of("abc")
SOURCE = SourceName("orders", 7)
TWO_GROUPS = Policy((Group("g", ("a", "b", "c")), Group("h", ("d", "e", "f"))))


@pytest.mark.parametrize(
    ("positions", "lowest", "majority", "highest"),
    [
        ({"a": 5, "b": 7, "c": 9}, 5, 7, 9),
        ({"a": 9, "b": 5, "c": 7}, 5, 7, 9),
        ({"a": 4, "b": 4, "c": 4}, 4, 4, 4),
        ({"a": 4, "b": 4, "c": -1}, -1, 4, 4),
        ({"a": -1, "b": -1, "c": 9}, -1, -1, 9),
        # A quorum of the configured stores, not of those that answered.
        ({"a": 5, "b": 7}, 5, 5, 7),
        # No quorum answered: the careful choice.
        ({"b": 7}, 7, 7, 7),
        ({"a": -1, "b": -1}, -1, -1, -1),
    ],
)
def test_one_group(positions: dict[str, int], lowest: int, majority: int, highest: int) -> None:
    assert consensus(Behaviour.LOWEST, THREE, positions) == lowest
    assert consensus(Behaviour.MAJORITY, THREE, positions) == majority
    assert consensus(Behaviour.HIGHEST, THREE, positions) == highest


@pytest.mark.parametrize(
    ("positions", "majority"),
    [
        (dict(zip("abcdef", (1, 2, 3, 5, 7, 9), strict=True)), 7),
        # A group of which no quorum answered has no say, however far ahead.
        (dict(zip("abcf", (1, 2, 3, 9), strict=True)), 2),
        # No group has a quorum.
        ({"a": 4, "d": 6}, 4),
    ],
)
def test_over_groups_the_highest_of_the_group_results(
    positions: dict[str, int], majority: int
) -> None:
    assert consensus(Behaviour.MAJORITY, TWO_GROUPS, positions) == majority


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_majority_is_the_highest_position_that_a_quorum_reached(size: int) -> None:
    names = "abcde"[:size]
    policy = Policy.majority_of(names)
    for values in product(range(-1, 3), repeat=size):
        reached = [n for n in range(-1, 3) if 2 * sum(value >= n for value in values) > size]
        positions = dict(zip(names, values, strict=True))
        assert consensus(Behaviour.MAJORITY, policy, positions) == max(reached)


def test_the_seven_message_example() -> None:
    """0-6 stored, 0 acknowledged, request maximum 2: without a callback message 4 is next."""
    point = starting_point(SOURCE, low=1, high=6, request_maximum=2)
    assert point == StartingPoint(SOURCE, low=1, low_by_request_maximum=4, high=6)
    assert choose_start(point, point.high) == 4


@pytest.mark.parametrize(
    ("answer", "start"),
    [
        (1, 4),  # unchanged means not changed: the request maximum holds
        (0, 0),  # even older
        (2, 2),
        (4, 4),
        (5, 5),
        (6, 6),
        (7, 7),  # high + 1: no recovery, only what comes
        (8, 7),  # larger is clamped
        (10**18, 7),
        (-5, 0),
    ],
)
def test_what_a_callback_may_answer(answer: int, start: int) -> None:
    seen: list[StartingPoint] = []

    def choose(point: StartingPoint) -> int:
        seen.append(point)
        return answer

    assert choose_start(starting_point(SOURCE, 1, 6, 2), 6, choose) == start
    assert seen == [StartingPoint(SOURCE, 1, 4, 6)]


@pytest.mark.parametrize(
    ("low", "high", "maximum", "by_maximum"),
    [
        (0, -1, None, 0),  # nothing stored yet
        (0, -1, 2, 0),
        (0, 1, 2, 0),  # fewer than the maximum
        (0, 2, 2, 0),
        (0, 3, 2, 1),
        (7, 6, 2, 7),  # all acknowledged
        (3, 6, None, 3),
        (0, 6, 0, 6),
    ],
)
def test_request_maximum(low: int, high: int, maximum: int | None, by_maximum: int) -> None:
    point = starting_point(SOURCE, low, high, maximum)
    assert point.low_by_request_maximum == by_maximum
    assert choose_start(point, point.high) == by_maximum


def test_a_position_beyond_everything_stored_is_clamped() -> None:
    assert choose_start(starting_point(SOURCE, low=50, high=6, request_maximum=None), 6) == 7


@pytest.mark.parametrize("answer", [None, "3", 2.5])
def test_an_application_that_names_no_number_is_told_so(answer: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"choose_start.*returned"):
        choose_start(starting_point(SOURCE, 1, 6, 2), 6, lambda _: answer)
