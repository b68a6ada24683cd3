"""Each guard of a dispatcher is taken out, and some world misses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests import seams
from tests.queue.protocol.world import World
from tests.seams import Seam

SEEDS = 150
"""The most worlds until one misses the guard."""


def frees_at_once(real: Any) -> Any:
    """The next message of a key does not wait until the one before is settled for good."""

    def remove(self: Any, entry: Any) -> None:
        real(self, entry)
        if entry.key is not None:
            self._freed.remove(entry)
            self._free(entry, 0.0)

    return remove


def frees_early(_: Any) -> Any:
    """A message that was settled before it came holds up no later one."""
    return lambda *_: None


def keeps_what_left(_: Any) -> Any:
    """A consumer that goes keeps what it has, for ever."""

    def leave(self: Any, consumer: Any, *_: float) -> None:
        self._consumers.remove(consumer)
        self._to_answer.pop(consumer, None)
        for entry in consumer.held.values():
            if entry.lease is not None and entry.lease.consumer is consumer:
                entry.lease = None

    return leave


def answers_at_once(real: Any) -> Any:
    """A consumer is answered before the decisions are stable."""

    def decide(self: Any) -> Any:
        number, decisions = real(self)
        if self._decided:
            self._decided[-1].number = 0
        return number, decisions

    return decide


def knows_by_number(_: Any) -> Any:
    """A place of a former stream counts for the present one."""
    return lambda self, place: place.sequence <= self._known.sequence


def never_begins_anew(_: Any) -> Any:
    """Messages of a stream that was deleted stay."""
    return lambda *_: []


def forgets_the_early(real: Any) -> Any:
    """A settlement of a message that has not come is forgotten."""
    return lambda self, epoch, sequence: (
        (epoch, sequence) <= self._known and real(self, epoch, sequence)
    )


def forgets_the_outstanding(real: Any) -> Any:
    """A snapshot takes everything that has come for settled."""
    return lambda self: replace(real(self), outstanding={})


@pytest.mark.parametrize(
    ("seam", "without", "by_key"),
    [
        (seams.REMOVE_SETTLED, frees_at_once, True),
        (seams.ARRIVED_SETTLED, frees_early, True),
        (seams.RELEASE_OF_LEFT, keeps_what_left, False),
        (seams.DECIDE, answers_at_once, False),
        (seams.TRACK_IS_KNOWN, knows_by_number, False),
        (seams.TRACK_VOID_BEFORE, never_begins_anew, False),
        (seams.TRACK_SETTLE_ABSENT, forgets_the_early, False),
        (seams.TRACK_SNAPSHOT, forgets_the_outstanding, False),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_guard_that_is_taken_out_is_missed(
    seam: Seam, without: Callable[[Any], Any], by_key: bool
) -> None:
    with seam.replaced(without(seam.real())):
        for seed in range(SEEDS):
            world = World(seed, by_key=by_key)
            try:
                world.run(300)
                world.complete()
            except AssertionError:
                return
    raise AssertionError(f"no world of {SEEDS} misses it")
