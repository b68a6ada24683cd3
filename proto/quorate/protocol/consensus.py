"""Consensus of positions: one sequence number out of the different ones that stores report.

Sources use it for how much above the floor they keep, receivers for where they start.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Group, Policy, quorum


class Behaviour(enum.Enum):
    """How to choose one position when stores report different ones."""

    LOWEST = "lowest"
    MAJORITY = "majority"
    HIGHEST = "highest"


def consensus(
    behaviour: Behaviour,
    policy: Policy,
    positions: Mapping[str, int],
    limbo: Set[str] = frozenset(),
) -> int:
    """Return the position that the answering stores agree on.

    positions: by store. limbo: the answering stores that are in limbo; one store at least must be
    outside it. The position of a store in limbo is a lower bound: it may have reached any higher
    one. The result is never above the highest position that a store answered.

    LOWEST: the lowest position of the stores outside limbo.
    HIGHEST: the highest position of all stores.
    MAJORITY: the highest position that a quorum of any one group has reached, or may have reached.
    A group without a quorum of answers does not count. LOWEST decides if no group counts.
    """
    match behaviour:
        case Behaviour.LOWEST:
            return min(upto for store, upto in positions.items() if store not in limbo)
        case Behaviour.HIGHEST:
            return max(positions.values())
        case Behaviour.MAJORITY:
            agreed = [
                position
                for group in policy.groups
                if (position := _agreed_in(group, positions, limbo)) is not None
            ]
            if agreed:
                return max(agreed)
            return consensus(Behaviour.LOWEST, policy, positions, limbo)


def _agreed_in(group: Group, positions: Mapping[str, int], limbo: Set[str]) -> int | None:
    answered = {store: positions[store] for store in group.stores if store in positions}
    needed = quorum(len(group.stores))
    if len(answered) < needed:
        return None
    highest = max(answered.values())
    may_be = (highest if store in limbo else upto for store, upto in answered.items())
    return sorted(may_be, reverse=True)[needed - 1]


def receiver_consensus(
    behaviour: Behaviour, policy: Policy, positions: Mapping[str, int], vouching: Set[str]
) -> int:
    """Return the first number that a receiver has not acknowledged, as its stores agree on it.

    positions: by answering store; 0 for none. vouching: the answering stores outside limbo, one at
    least. A store that did not answer counts as one in limbo with position 0. It may have heard
    any position, and must not throw the receiver back. Stores that answered and that the policy
    does not name are stores that the stream leaves. They count as a group of their own, because
    the new stores may not have heard of the receiver yet.
    """
    if leaving := tuple(sorted(positions.keys() - policy.stores)):
        # A backup that no longer stands in would else be named twice.
        groups = (replace(group, backups=()) for group in policy.groups)
        policy = Policy((*groups, Group("stores that the stream leaves", leaving)))
    unanswered = dict.fromkeys(policy.stores - positions.keys(), 0)
    known = {**unanswered, **positions}
    return consensus(behaviour, policy, known, known.keys() - vouching)


def enough_for_receivers(policy: Policy, vouching: Set[str]) -> bool:
    """Return whether the answers of these stores outside limbo settle where a receiver starts.

    They do if they are a stable set. Any two stable sets of one group have a store in common, so
    some answer has every position that a stable set was ever told. The same holds over several
    groups, unless their rule is `any`: then one group alone may serve a receiver.
    """
    return policy.stable(vouching)


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """The argument of the application's callback before a receiver starts."""

    source: SourceName
    """The source of the stream; a receiver may follow several."""
    low: int
    """The first message that is not acknowledged, by consensus; without a position, the start."""
    low_by_request_maximum: int
    """`low`, moved up to where the request maximum allows the start."""
    high: int
    """The newest message that a store had when the receiver subscribed; low - 1: all are new."""


def starting_point(
    source: SourceName, low: int, high: int, request_maximum: int | None
) -> StartingPoint:
    """Return the starting point with the request maximum applied.

    request_maximum: how many messages behind the newest the start may be; None is no limit.
    """
    by_maximum = low
    if request_maximum is not None:
        by_maximum = max(low, high - request_maximum)
    return StartingPoint(source, low, by_maximum, high)


def choose_start(
    point: StartingPoint, high: int, choose: Callable[[StartingPoint], int] | None = None
) -> int:
    """Return the number where the receiver starts; the callback may choose from 0 to high + 1.

    high: the newest message that a store has by now. It may have come after the receiver
    subscribed. A number above high + 1 is none of the stream: it means point.high + 1, only what is
    new. A callback that returns `low` as it was means "not changed", so the request maximum holds.
    Raises InvalidArgument if the callback returns no number.
    """
    chosen = point.low_by_request_maximum
    if choose is not None:
        answer: object = choose(point)
        if not isinstance(answer, int):
            detail = f"returned {answer!r} for {point}; return a number, {point.low} for no other"
            raise InvalidArgument("choose_start", detail)
        if answer != point.low:
            chosen = answer
    return max(chosen, 0) if chosen <= high + 1 else point.high + 1
