"""Guards that are taken out of the code that ships, and the worlds in which that is missed.

How they are taken out is in `patches_of_…`, by what they guard.
Nothing in production knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.subscriber import test_moving
from tests.world import patches_of_decisions as decisions
from tests.world import patches_of_receivers as receivers
from tests.world import patches_of_registrations as registrations
from tests.world import patches_of_stores as stores
from tests.world import patches_of_streams as streams
from tests.world.checker import Violated
from tests.world.weather import USUAL, Weather, run_world
from tests.world.world import Stuck

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A guard taken out, and the weather in which it is missed soonest."""

    patch: Patch
    weather: Weather = USUAL
    seeds: int = 10
    """In so many worlds at most."""

    name: str = ""

    def __str__(self) -> str:
        return self.name


def first_found(mutation: Mutation, directory: Path) -> tuple[int, str] | None:
    """Return the first seed in whose world something is violated, and what; None: none is."""
    for seed in range(mutation.seeds):
        try:
            run_world(seed, directory / str(seed), mutation.weather)
        except (Violated, Stuck) as violated:
            return seed, str(violated)
    return None


_ENDS = (
    "end_by_operator",
    "end_by_owner",
    "crash_store",
    "cut_store",
    "pause_application",
    "crash_application",
)


def _rows_outlive_their_stream(to: pytest.MonkeyPatch) -> None:
    """A store has rows of streams that have ended."""
    seams.STATE_PROGRESS_GENERATION_OF.replace(to, lambda _: 0)


def _void_places_count(to: pytest.MonkeyPatch) -> None:
    """A subscriber goes on at a place of a stream that was set aside."""
    (guard,) = (each for each in test_moving.GUARDS if str(each) == "a place may be void")
    guard.seam.replace(to, guard.instead)


def _positions_outlive_their_receiver(to: pytest.MonkeyPatch) -> None:
    """A store keeps the position of a receiver that ended."""
    seams.IDENTITIES_END_RECEIVER.replace(to, lambda *_: [])


def _with(patch: Patch, *kinds: str, seeds: int = 10, **drawn: Any) -> Mutation:
    """Return a mutation, in worlds with these kinds of faults, close together.

    drawn: the circumstances of these worlds that are not left to chance.
    """
    weather = Weather(kinds=kinds, pause_seconds=0.6, drawn=drawn)
    return Mutation(patch, weather, seeds, patch.__name__.strip("_"))


_PUT_BACK = ("put_back", "put_back", "copy_disk", "copy_disk", "crash_store")
_MAJORITY: dict[str, Any] = {"layout": "majority", "changes_stores": False, "loses": False}
_LOSSES: dict[str, Any] = {"loses": True, "lifetime": 3600.0, "has_rows": False}

MUTATIONS = (
    # Registrations.
    _with(registrations.promise_leaves_the_stream, "succeed"),
    _with(registrations.same_promise_to_anyone, "succeed", "crash_application"),
    _with(registrations.nothing_is_set_aside, "strand_source"),
    _with(
        registrations.active_stores_are_enough,
        "cut_store",
        "crash_application",
        seeds=25,
        layout="all-active",
    ),
    _with(
        decisions.whoever_begins_is_a_holder,
        "wipe_store",
        "pause_store",
        "crash_application",
        seeds=15,
        state_only="c",
        layout="majority",
    ),
    # Streams.
    _with(streams.acknowledged_before_the_sync, "crash_store", "crash_stores"),
    _with(
        streams.failed_syncs_are_tried_again,
        "fail_sync",
        "crash_stores",
        is_cached=False,
        **_MAJORITY,
    ),
    # Receivers.
    _with(receivers.positions_are_made_up, "crash_application"),
    _with(receivers.nothing_is_held_back, "strand_source"),
    _with(receivers.one_no_is_a_gap, "cut_store", "crash_application"),
    _with(receivers.unreadable_is_absent, "lose_batch", *["end_receiver"] * 2, **_LOSSES),
    _with(receivers.unknown_is_a_no, "lose_batch", *["end_receiver"] * 2, **_LOSSES),
    # Stores.
    _with(stores.copies_are_not_told, *_PUT_BACK),
    _with(stores.stores_serve_before_they_ask, *_PUT_BACK),
    _with(stores.the_clock_decides_alone, "jump_clock", "crash_application"),
    _with(stores.what_was_let_go_is_missed, "crash_application", "succeed", kept_messages=10),
    _with(stores.repair_follows_the_open_tail, "strand_source", "cut_store"),
    # Ends.
    _with(decisions.older_generations_count, *_ENDS, **_MAJORITY),
    _with(decisions.ends_do_not_win, *_ENDS, **_MAJORITY),
    _with(stores.signs_of_life_do_not_count, "cut_store", "crash_application", lifetime=4.0),
    _with(stores.what_a_peer_lacks_is_deleted, "wipe_store", "crash_application"),
    _with(_rows_outlive_their_stream, *_ENDS, seeds=25, has_rows=True),
    _with(_positions_outlive_their_receiver, "end_receiver", "crash_application"),
    _with(_void_places_count, *_ENDS, has_rows=True),
)
