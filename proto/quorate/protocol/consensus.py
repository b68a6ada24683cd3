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
    """Whose word counts when stores differ."""

    LOWEST = "lowest"
    MAJORITY = "majority"
    HIGHEST = "highest"


def consensus(
    behaviour: Behaviour,
    policy: Policy,
    positions: Mapping[str, int],
    limbo: Set[str] = frozenset(),
) -> int:
    """The position that the answering stores agree on; one at least must be outside limbo.

    limbo: those of them that can not vouch for what they lack. The position that such a store has
    counts as "at least this", so its real one may be any that is not below.

    LOWEST: of the stores outside limbo; the others can pull it neither down nor up. HIGHEST: of
    all. MAJORITY: for each group the highest position that a quorum of its stores has reached, or,
    where they are in limbo, may have reached, and of those the highest; a group of which no quorum
    answered has no say, and if that is every group, LOWEST decides. Never above what somebody
    answered: whatever is unknown makes a receiver start later only as far as it was before.
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
    """The first number that a receiver has not acknowledged, as its stores agree on it.

    positions: by those that answered, as far as they know, 0 for nothing; vouching: those of them
    that are outside limbo, one at least. Whoever did not answer is as unknown as one in limbo that
    knows nothing: it may have been told any position, and is not to throw a receiver back. Stores
    that answered and that the policy does not name are those that the stream is leaving: they count
    as a group of their own, for the new ones may not have heard of the receiver yet.
    """
    if leaving := tuple(sorted(positions.keys() - policy.stores)):
        # A backup that stood in, and stands in no more, is named once only so.
        groups = (replace(group, backups=()) for group in policy.groups)
        policy = Policy((*groups, Group("stores that the stream leaves", leaving)))
    unanswered = dict.fromkeys(policy.stores - positions.keys(), 0)
    known = {**unanswered, **positions}
    return consensus(behaviour, policy, known, known.keys() - vouching)


def enough_for_receivers(policy: Policy, vouching: Set[str]) -> bool:
    """Whether the answers of these stores, all outside limbo, settle where a receiver starts.

    A stable set is asked for. Any two stable sets of one group have a store in common, so one of
    those that answered has every position that a stable set was ever told; over several groups this
    holds unless their rule is `any`, under which a receiver may be served by one group alone.
    """
    return policy.stable(vouching)


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """What an application's callback is shown when a receiver is about to start."""

    source: SourceName
    """Of whose stream; a receiver may follow several."""
    low: int
    """By consensus: the first message not acknowledged."""
    low_by_request_maximum: int
    """The same, not further back than the request maximum allows."""
    high: int
    """The newest message that a store has; -1: none."""


def starting_point(
    source: SourceName, low: int, high: int, request_maximum: int | None
) -> StartingPoint:
    """Apply the request maximum: at most so many messages behind the newest."""
    by_maximum = low
    if request_maximum is not None:
        by_maximum = max(low, high - request_maximum)
    return StartingPoint(source, low, by_maximum, high)


def choose_start(point: StartingPoint, choose: Callable[[StartingPoint], int] | None = None) -> int:
    """Where the receiver starts: the application may go anywhere from 0 to high + 1.

    A callback that returns `low` as it was means "not changed", so the request maximum holds.
    Raises InvalidArgument if it returns no number.
    """
    chosen = point.low_by_request_maximum
    if choose is not None:
        answer: object = choose(point)
        if not isinstance(answer, int):
            detail = f"returned {answer!r} for {point}; return a number, {point.low} for no other"
            raise InvalidArgument("choose_start", detail)
        if answer != point.low:
            chosen = answer
    return min(max(chosen, 0), point.high + 1)
