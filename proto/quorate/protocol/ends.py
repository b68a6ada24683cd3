"""What is over with a receiver that was deregistered, as several stores tell of it.

A store that was away may still have its row. Pure: source, stores and people's tools judge by the
same rule, epoch against epoch. Nothing here knows how stores come to hear of an end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.protocol.limits import NOTHING


@dataclass(frozen=True, slots=True)
class Position:
    """What a store says of a receiver."""

    acknowledged_upto: int
    epoch: int = 1
    """Of its registration."""
    confirmed_epoch: int = 1
    """In which it acknowledged last, or was new."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a store says of a source's receivers, by session ID."""

    positions: Mapping[int, Position]
    ended: Mapping[int, int] = field(default_factory=dict)
    """Up to which epoch each is over that was deregistered."""
    may_miss: bool = False
    """That it does not name a receiver says nothing."""


def counted_upto(acknowledged_upto: int, confirmed_epoch: int, ended_upto: int) -> int:
    """How far a registration has acknowledged in a life that is not over; ended_upto 0: none is."""
    return acknowledged_upto if confirmed_epoch > ended_upto or not ended_upto else NOTHING


def living(told: Mapping[str, Told]) -> dict[str, dict[int, int]]:
    """By store, what each receiver has acknowledged that is not over as far as any store says."""
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
