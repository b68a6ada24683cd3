"""Guards that are taken out of the code that ships, and the worlds in which that is missed.

How they are taken out is in `patches_of_…`, by what they guard.
Nothing in production knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
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


def _replacing(guard: test_moving.Guard) -> Patch:
    return lambda to: guard.seam.replace(to, guard.instead)


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


def _positions_outlive_their_receiver(to: pytest.MonkeyPatch) -> None:
    """A store keeps the position of a receiver that ended."""
    seams.IDENTITIES_END_RECEIVER.replace(to, lambda *_: [])


def _with(patch: Patch, *kinds: str, seeds: int = 10, **drawn: Any) -> Mutation:
    """Return a mutation, in worlds with these kinds of faults, close together.

    drawn: the circumstances of these worlds that are not left to chance.
    """
    weather = Weather(kinds=kinds, pause_seconds=0.6, drawn=drawn)
    return Mutation(patch, weather, seeds, patch.__name__.strip("_"))


_STRANDED = ("strand_source", "strand_source", "crash_store", "pause_store", "wipe_store")
_PUT_BACK = ("put_back", "put_back", "copy_disk", "copy_disk", "crash_store")
_CHANGES = ("change_stores", "crash_application", "cut_store", "crash_store")

MUTATIONS = (
    # Registrations.
    _with(registrations.begun_epochs_add_up, *_STRANDED),
    _with(decisions.stores_count_before_they_begin, *_STRANDED),
    _with(registrations.promise_leaves_the_stream, "succeed"),
    _with(registrations.begin_below_the_promise, "succeed", "cut_store", "pause_store"),
    _with(registrations.same_promise_to_anyone, "succeed", "crash_application"),
    _with(registrations.promise_is_not_durable, "succeed", "crash_store", "crash_store"),
    _with(registrations.no_blocking_set, "fail_sync", "succeed", "crash_stores", "pause_store"),
    _with(registrations.no_floor, "strand_source", "pause_store", consensus="lowest"),
    _with(registrations.nothing_is_set_aside, "strand_source"),
    _with(registrations.set_aside_counts_as_held, "strand_source", "crash_application"),
    _with(
        registrations.active_stores_are_enough,
        "cut_store",
        "crash_application",
        layout="all-active",
    ),
    _with(
        decisions.a_stable_set_is_enough,
        "pause_store",
        "pause_store",
        "crash_store",
        "crash_application",
        layout="any",
    ),
    _with(
        registrations.limbo_is_a_no,
        "wipe_store",
        "cut_store",
        "pause_store",
        "crash_application",
        consensus="lowest",
    ),
    _with(
        decisions.whoever_begins_is_a_holder,
        "wipe_store",
        "pause_store",
        "crash_application",
        state_only="c",
        layout="majority",
    ),
    # Changes of the stores.
    _with(registrations.only_the_new_stores_count, *_CHANGES, changes_stores=True, lifetime=3600.0),
    _with(
        registrations.predecessors_are_not_named, *_CHANGES, changes_stores=True, lifetime=3600.0
    ),
    _with(
        decisions.new_stores_are_believed_at_once, *_CHANGES, changes_stores=True, lifetime=3600.0
    ),
    # Streams.
    _with(streams.acknowledged_before_the_sync, "crash_store", "crash_stores"),
    _with(streams.failed_syncs_are_tried_again, "fail_sync", "crash_stores"),
    _with(streams.gaps_are_taken, "crash_application"),
    _with(streams.unstable_is_forgotten, "cut_store", "crash_store"),
    _with(streams.skips_of_unstable_are_taken, "cut_store", "crash_store", "pause_store"),
    # Receivers.
    _with(receivers.positions_are_made_up, "crash_application"),
    _with(receivers.nothing_is_held_back, "strand_source"),
    _with(
        receivers.unstable_is_acknowledged,
        "strand_source",
        "crash_application",
        has_live_receivers=True,
    ),
    _with(receivers.what_is_under_way_is_acknowledged, "crash_application"),
    _with(receivers.one_no_is_a_gap, "cut_store", "crash_application"),
    _with(receivers.not_yet_is_a_no, "pause_application", "cut_store"),
    _with(
        receivers.unreadable_is_absent,
        "lose_batch",
        "end_receiver",
        "end_receiver",
        loses=True,
        lifetime=3600.0,
        has_rows=False,
    ),
    _with(
        receivers.unknown_is_a_no,
        "lose_batch",
        "end_receiver",
        "end_receiver",
        loses=True,
        lifetime=3600.0,
        has_rows=False,
    ),
    _with(receivers.fenced_receivers_are_heard, "succeed"),
    # Stores.
    _with(
        stores.limbo_ends_at_what_is_known_stable,
        "wipe_store",
        "strand_source",
        "crash_application",
    ),
    _with(stores.copies_are_not_told, *_PUT_BACK),
    _with(stores.stores_serve_before_they_ask, *_PUT_BACK),
    _with(stores.greetings_hide_what_was_known, *_PUT_BACK),
    _with(
        stores.reboots_go_unnoticed,
        "reboot_host",
        "crash_application",
        "pause_store",
        is_cached=True,
    ),
    _with(stores.the_clock_decides_alone, "jump_clock", "crash_application"),
    _with(stores.one_copy_is_enough_for_a_proxy, "strand_source"),
    _with(stores.nobody_repairs, "cut_store", "crash_application", "succeed"),
    _with(stores.repair_waits_for_a_pause, "cut_store", "crash_store"),
    _with(stores.what_was_let_go_is_missed, "crash_application", "succeed", kept_messages=10),
    _with(stores.what_is_unstable_is_let_go, "strand_source", kept_messages=10),
    _with(stores.repair_follows_the_open_tail, "strand_source", "cut_store"),
    # Ends.
    _with(decisions.older_generations_count, *_ENDS),
    _with(decisions.ends_do_not_win, *_ENDS),
    _with(stores.signs_of_life_do_not_count, "cut_store", "crash_application", lifetime=4.0),
    _with(stores.what_a_peer_lacks_is_deleted, "wipe_store", "crash_application"),
    _with(_rows_outlive_their_stream, *_ENDS, has_rows=True),
    _with(_positions_outlive_their_receiver, "end_receiver", "crash_application"),
    *(
        replace(_with(_replacing(each), *_ENDS, has_rows=True), name=str(each))
        for each in test_moving.GUARDS
        if str(each) == "a place may be void"
    ),
)
