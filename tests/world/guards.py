"""Guards that are taken out of the code that ships, and the worlds in which that is missed.

How they are taken out is said in `tests.simulation.test_mutations`, once for both kinds of worlds.
Nothing in production knows of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.simulation import test_mutations
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

    def __str__(self) -> str:
        return self.patch.__name__.strip("_")


def first_found(mutation: Mutation, directory: Path) -> tuple[int, str] | None:
    """Return the first seed in whose world something is violated, and what; None: none is."""
    for seed in range(mutation.seeds):
        try:
            run_world(seed, directory / str(seed), mutation.weather)
        except (Violated, Stuck) as violated:
            return seed, str(violated)
    return None


_PATCHES = {str(each): each.patch for each in test_mutations.MUTATIONS}


def _mutation(name: str, *kinds: str) -> Mutation:
    """Return the mutation of this name, in worlds with these kinds of faults, close together."""
    return Mutation(_PATCHES[name], Weather(kinds=kinds, pause_seconds=0.6))


MUTATIONS = (
    _mutation("positions_are_made_up", "crash_application"),
    _mutation("nothing_is_held_back", "strand_source"),
)
