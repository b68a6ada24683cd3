"""Where a receiver starts in a source's stream, by what the stores know of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from quorate.protocol.consensus import (
    StartingPoint,
    choose_start,
    receiver_consensus,
    starting_point,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import NO_WORD, Word
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.stream import first_difference


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """What a store knows of this receiver and of the source's stream."""

    reg_id: int
    known: bool
    acknowledged_upto: int
    high: int
    stable_upto: int
    lineage: Lineage
    limbo: bool = False
    """The store can not vouch for what it lacks: its position means "at least this"."""
    source_reg_id: int = 0
    low: int = NOTHING
    """The lowest number that the store has."""
    retained_from: int = 0
    """Everything below was let go on purpose."""
    is_new: bool = False
    """The store knows the receiver from this instance only, if at all."""
    state_only: bool = False
    """The store keeps no messages of the topic."""
    told_ended: int = 0
    """Up to which epoch it was told, when asked, that this receiver is over."""
    spent_epoch: int = 0
    """The highest in which any receiver of the source was over, as far as it knows."""
    word: Word = NO_WORD
    """Who it is, and whom it knows."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where the receiver starts, and what is known of the stream by then."""

    first: int
    point: StartingPoint
    lineage: Lineage
    stable_upto: int
    is_new: bool = False
    """No store knew the receiver: it starts at what is still there."""


def vouching(answers: Mapping[str, StoreAnswer]) -> frozenset[str]:
    """The stores that answered and are outside limbo."""
    return frozenset(store for store, answer in answers.items() if not answer.limbo)


def decide_start(
    source: SourceName,
    policy: Policy,
    answers: Mapping[str, StoreAnswer],
    options: ReceiverOptions,
) -> Start:
    """By consensus over the answers, one of which at least is of a store outside limbo. What a
    store says of an outdated lineage counts only as far as that agrees with the newest."""
    lineage = max((answer.lineage for answer in answers.values()), key=lambda one: one.epoch)

    def agreed(answer: StoreAnswer, upto: int) -> int:
        differs = first_difference(answer.lineage, lineage)
        return upto if differs is None else min(upto, differs - 1)

    low = receiver_consensus(
        options.consensus,
        policy,
        {store: agreed(one, one.acknowledged_upto) + 1 for store, one in answers.items()},
        vouching(answers),
    )
    # Of several groups one may serve it that has never heard of it: others that are away may have.
    sure = policy.blocks(policy.stores & vouching(answers))
    is_new = sure and all(one.is_new for one in answers.values())
    released = max(agreed(one, one.retained_from - 1) for one in answers.values()) + 1
    if is_new and low < released:
        there = (one.low for one in answers.values() if low <= one.low <= released)
        low = min(there, default=released)
    high = max(agreed(one, one.high) for one in answers.values())
    stable_upto = max(agreed(one, one.stable_upto) for one in answers.values())
    # A position may be ahead of every store that answered; what it acknowledged exists.
    point = starting_point(source, low, max(high, low - 1), options.request_maximum)
    first = choose_start(point, options.choose_start)
    return Start(first, point, lineage, stable_upto, is_new and 0 < first <= released)
