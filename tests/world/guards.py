"""Guards that are taken out of the code that ships, and the worlds in which that is missed.

How they are taken out is said in `tests.simulation.test_mutations`, once for both kinds of worlds.
Nothing in production knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.simulation import (
    scripts_of_state_only,
    test_mutations,
    test_mutations_of_identities,
)
from tests.simulation import test_scripts as scripts
from tests.simulation import test_scripts_of_ends as scripts_of_ends
from tests.subscriber import test_moving
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


_IN_WEATHER = (*test_mutations.MUTATIONS, *test_mutations_of_identities.MUTATIONS)
_IN_SCRIPTS = (*scripts.GUARDS, *scripts_of_ends.GUARDS, *scripts_of_state_only.GUARDS)


def _replacing(guard: test_moving.Guard) -> Patch:
    return lambda to: guard.seam.replace(to, guard.instead)


_PATCHES = {
    **{str(each): each.patch for each in (*_IN_WEATHER, *_IN_SCRIPTS)},
    **{str(each): _replacing(each) for each in test_moving.GUARDS},
}


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


def _mutation(name: str, *kinds: str, seeds: int = 10, **drawn: Any) -> Mutation:
    """Return the mutation of this name, as `_with` does."""
    return replace(_with(_PATCHES[name], *kinds, seeds=seeds, **drawn), name=name)


MUTATIONS = (
    _mutation("positions_are_made_up", "crash_application"),
    _mutation("nothing_is_held_back", "strand_source"),
    _mutation("older_generations_count", *_ENDS),
    _mutation("ends_do_not_win", *_ENDS),
    _mutation("signs_of_life_do_not_count", "cut_store", "crash_application"),
    _mutation("what_a_peer_lacks_is_deleted", "wipe_store", "crash_application"),
    _mutation("what_was_let_go_is_missed", "crash_application", "succeed", kept_messages=10),
    _mutation(
        "whoever_begins_is_a_holder",
        "wipe_store",
        "pause_store",
        "crash_application",
        state_only="c",
    ),
    _mutation("a place may be void", *_ENDS, has_rows=True),
    _with(_rows_outlive_their_stream, *_ENDS, has_rows=True),
    _with(_positions_outlive_their_receiver, "end_receiver", "crash_application"),
)
