"""The place where a receiver starts in a source's stream, from the stores' answers.

Pure. How the stores are asked is not known here.
"""

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
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.policy import Policy
from quorate.receiver.options import ReceiverOptions


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
    spent_epoch: int = 0
    """The highest epoch in which any receiver of the source has ended, as far as the store
    knows."""
    word: Word = NO_WORD
    """The store's incarnation, and those of the stores that it knows."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a receiver, with what is known of the stream by then."""

    first: int
    point: StartingPoint
    lineage: Lineage
    stable_upto: int
    is_new: bool = False
    """Whether no store knew the receiver, so that it starts at what is still there."""


def vouching(answers: Mapping[str, StoreAnswer]) -> frozenset[str]:
    """Return the stores that answered and are outside limbo."""
    return frozenset(store for store, answer in answers.items() if not answer.limbo)


def decide_start(
    source: SourceName,
    policy: Policy,
    answers: Mapping[str, StoreAnswer],
    options: ReceiverOptions,
) -> Start:
    """Return where to start, by consensus over the answers.

    At least one answer must be of a store outside limbo. An answer with an outdated lineage counts
    only as far as that lineage agrees with the newest.
    """
    lineage = max((answer.lineage for answer in answers.values()), key=lambda one: one.epoch)

    def agreed(answer: StoreAnswer, upto: int) -> int:
        return min(upto, diverges_at(answer.lineage, lineage) - 1)

    low = receiver_consensus(
        options.consensus,
        policy,
        {store: agreed(one, one.acknowledged_upto) + 1 for store, one in answers.items()},
        vouching(answers),
    )
    # One of several groups may be enough to register, although it never knew the receiver. Stores
    # of the others, which are away, may know it.
    sure = policy.blocks(policy.stores & vouching(answers))
    is_new = sure and all(one.is_new for one in answers.values())
    released = max(agreed(one, one.retained_from - 1) for one in answers.values()) + 1
    if is_new and low < released:
        there = (one.low for one in answers.values() if low <= one.low <= released)
        low = min(there, default=released)
    high = max(agreed(one, one.high) for one in answers.values())
    stable_upto = max(agreed(one, one.stable_upto) for one in answers.values())
    # A position may be ahead of every store that answered. The messages that it acknowledged exist.
    point = starting_point(source, low, max(high, low - 1), options.request_maximum)
    first = choose_start(point, options.choose_start)
    return Start(first, point, lineage, stable_upto, is_new and 0 < first <= released)
