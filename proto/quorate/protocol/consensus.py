"""Consensus of positions: one sequence number out of the different ones that stores report.

Sources use it for how much above the floor they keep, receivers for where they start.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.protocol.policy import Policy, quorum


class Behaviour(enum.Enum):
    """Whose word counts when stores differ."""

    LOWEST = "lowest"
    MAJORITY = "majority"
    HIGHEST = "highest"


def consensus(behaviour: Behaviour, policy: Policy, positions: Mapping[str, int]) -> int:
    """The position that the answering stores agree on; there must be at least one.

    MAJORITY: for each group the highest position that a quorum of its stores has reached, and of
    those the highest; a group of which no quorum answered has no say, and if that is every group,
    the lowest position is taken.
    """
    match behaviour:
        case Behaviour.LOWEST:
            return min(positions.values())
        case Behaviour.HIGHEST:
            return max(positions.values())
        case Behaviour.MAJORITY:
            agreed = []
            for group in policy.groups:
                reached = sorted(
                    (positions[s] for s in group.stores if s in positions), reverse=True
                )
                needed = quorum(len(group.stores))
                if len(reached) >= needed:
                    agreed.append(reached[needed - 1])
            return max(agreed, default=min(positions.values()))


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What an application's callback is shown when a receiver is about to start."""

    low: int
    """By consensus: the first message not acknowledged."""
    low_by_request_maximum: int
    """The same, not further back than the request maximum allows."""
    high: int
    """The newest message that a store has; -1: none."""


def starting_point(low: int, high: int, request_maximum: int | None) -> StartingPoint:
    """Apply the request maximum: at most so many messages behind the newest."""
    by_maximum = low
    if request_maximum is not None:
        by_maximum = max(low, high - request_maximum)
    return StartingPoint(low, by_maximum, high)


def choose_start(point: StartingPoint, choose: Callable[[StartingPoint], int] | None = None) -> int:
    """Where the receiver starts: the application may go anywhere from 0 to high + 1.

    A callback that returns `low` as it was means "not changed", so the request maximum holds.
    """
    chosen = point.low_by_request_maximum
    if choose is not None:
        answer = choose(point)
        if answer != point.low:
            chosen = answer
    return min(max(chosen, 0), point.high + 1)
