"""The end of a receiver: which registrations of it are over, by the word of several stores.

A store that was away may still have the row of a receiver that was deregistered. Pure: source,
stores and the command judge by one rule, epoch against epoch. Nothing here knows how a store hears
of an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.protocol.limits import NOTHING


@dataclass(frozen=True, slots=True)
class Position:
    """A receiver's registration and acknowledgement at one store."""

    acknowledged_upto: int
    epoch: int = 1
    """The epoch of its registration."""
    confirmed_epoch: int = 1
    """The epoch of its last acknowledgement, or of its first registration before any."""


@dataclass(frozen=True, slots=True)
class Told:
    """The answer of one store about a source's receivers, by session ID."""

    positions: Mapping[int, Position]
    ended: Mapping[int, int] = field(default_factory=dict)
    """The highest ended epoch of each receiver that was deregistered."""
    may_miss: bool = False
    """True: the store may lack receivers that exist."""


def counted_upto(acknowledged_upto: int, confirmed_epoch: int, ended_upto: int) -> int:
    """Return the last acknowledged number, or NOTHING if that acknowledgement's epoch has ended.

    ended_upto: the highest ended epoch; 0 if none has ended.
    """
    return acknowledged_upto if confirmed_epoch > ended_upto or not ended_upto else NOTHING


def living(told: Mapping[str, Told]) -> dict[str, dict[int, int]]:
    """Return by store the last acknowledged number of each receiver that is alive.

    A receiver's registration at a store is over if any store names its epoch, or a higher one, as
    ended.
    """
    ended: dict[int, int] = {}
    for each in told.values():
        for receiver, epoch in each.ended.items():
            ended[receiver] = max(epoch, ended.get(receiver, 0))
    return {
        store: {
            receiver: counted_upto(
                position.acknowledged_upto, position.confirmed_epoch, ended.get(receiver, 0)
            )
            for receiver, position in each.positions.items()
            if position.epoch > ended.get(receiver, 0)
        }
        for store, each in told.items()
    }
