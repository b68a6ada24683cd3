"""The place where a receiver starts in a source's stream, from the stores' answers.

Pure. How the stores are asked is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from quorate.protocol.consensus import (
    Behaviour,
    StartingPoint,
    choose_start,
    receiver_consensus,
    starting_point,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import NO_WORD, Word
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.policy import Policy
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.subscription import Subscription
from quorate.receiver.start import Start, StartKind


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """A store's knowledge of this receiver and of the source's stream."""

    reg_id: int
    known: bool
    acknowledged_upto: int
    high: int
    stable_upto: int
    lineage: Lineage
    limbo: bool = False
    """Whether the store is in limbo: it cannot vouch for what it lacks. Its position then means "at
    least this"."""
    source_reg_id: int = 0
    low: int = NOTHING
    """The lowest sequence number that the store has."""
    retained_from: int = 0
    """The sequence number below which the store released everything on purpose."""
    is_new: bool = False
    """Whether the store knows the receiver from this instance only, if at all."""
    state_only: bool = False
    """Whether the store keeps no messages of the topic."""
    told_ended: int = 0
    """The last epoch of this receiver that the store was told has ended."""
    alive_for: float = inf
    """Seconds without a sign of life after which the store may take the receiver for gone."""
    word: Word = NO_WORD
    """The store's incarnation, and those of the stores that it knows."""
    epoch: int = 0
    """The highest epoch at the store above which the receiver has to register; 0: none."""


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The start of a receiver, with what is known of the stream by then."""

    first: int
    point: StartingPoint
    high: int
    """The newest message that a store has by now; NOTHING: none."""
    lineage: Lineage
    stable_upto: int
    says_start: bool = False
    """Whether stores are told at once that everything before the start is done with."""


def vouching(answers: Mapping[str, StoreAnswer]) -> frozenset[str]:
    """Return the stores that answered and are outside limbo."""
    return frozenset(store for store, answer in answers.items() if not answer.limbo)


def newest_lineage(answers: Mapping[str, StoreAnswer]) -> Lineage:
    """Return the newest lineage of these answers."""
    return max((answer.lineage for answer in answers.values()), key=lambda one: one.epoch)


def has_position(policy: Policy, answers: Mapping[str, StoreAnswer]) -> bool:
    """Return whether a store may have a position of the receiver, so that its start is decided."""
    lineage = newest_lineage(answers)
    positions = (_agreed(one, one.acknowledged_upto, lineage) for one in answers.values())
    return not _are_all(policy, answers) or any(upto > NOTHING for upto in positions)


def decide_start(
    source: SourceName,
    policy: Policy,
    answers: Mapping[str, StoreAnswer],
    options: ReceiverOptions,
    seen: Subscription,
    start: Start = Start.EARLIEST,
    located: Mapping[str, int] = MappingProxyType({}),
) -> StartPosition:
    """Return where to start: by consensus over the answers, or at `start` without a position.

    At least one answer must be of a store outside limbo. An answer with an outdated lineage counts
    only as far as that lineage agrees with the newest. Only messages that were there when the
    receiver subscribed can be left out as old.

    located: the first number since the time of `start`, by store.
    """
    lineage = newest_lineage(answers)

    def highest(of: Callable[[StoreAnswer], int]) -> int:
        return max(_agreed(one, of(one), lineage) for one in answers.values())

    low = receiver_consensus(
        Behaviour(options.consensus),
        policy,
        {store: _agreed(one, one.acknowledged_upto, lineage) + 1 for store, one in answers.items()},
        vouching(answers),
    )
    is_new = _are_all(policy, answers) and all(one.is_new for one in answers.values())
    released = highest(lambda one: one.retained_from - 1) + 1
    if is_new and low < released:
        there = (one.low for one in answers.values() if low <= one.low <= released)
        low = min(there, default=released)
    # A position may be ahead of every store that answered. The messages that it acknowledged exist.
    high = max(highest(lambda one: one.high), low - 1)
    then = max(min(high, seen.newest(source, lineage)), low - 1)
    is_asked = start != Start.EARLIEST and not has_position(policy, answers)
    if is_asked:
        since = (
            _agreed(answers[store], at - 1, lineage) + 1
            for store, at in located.items()
            if store in answers
        )
        low = _asked(start, low, then, high, max(since, default=0))
    point = starting_point(source, low, max(then, low - 1), options.request_maximum)
    first = choose_start(point, high, options.choose_start)
    says_start = first > 0 and (is_asked or (is_new and first <= released))
    stable_upto = highest(lambda one: one.stable_upto)
    return StartPosition(first, point, high, lineage, stable_upto, says_start)


def chosen_again(start: StartPosition) -> Callable[[StartingPoint], int]:
    """Return a choice of the start that repeats what was decided from earlier answers.

    The start moves with the positions if it was left unchanged then.
    """
    if start.first == start.point.low_by_request_maximum:
        return lambda point: point.low
    return lambda _: start.first


def _asked(start: Start, low: int, then: int, high: int, since: int) -> int:
    """Return the number that `start` means.

    - low: the first message that is still there.
    - then: the newest message when the receiver subscribed; high: the newest one by now.
    - since: the first message since the time of `start`.
    """
    match start.kind:
        case StartKind.AT:
            return start.value if start.value <= high + 1 else then + 1
        case StartKind.LAST:
            return max(low, then + 1 - start.value)
        case StartKind.SINCE:
            return max(low, min(since, high + 1))


def _agreed(answer: StoreAnswer, upto: int, lineage: Lineage) -> int:
    """Return as much of the numbers up to here as the store's lineage and the newest agree on."""
    return min(upto, diverges_at(answer.lineage, lineage) - 1)


def _are_all(policy: Policy, answers: Mapping[str, StoreAnswer]) -> bool:
    """Return whether some store that knows the receiver must be among these, if any knows it.

    One of several groups may be enough to register, although it never knew the receiver. Stores of
    the others, which are away, may know it.
    """
    return policy.blocks(policy.stores & vouching(answers))
