"""A guard that is taken out, and the weather in which that is missed.

Which guards there are is in the tests; nothing in production knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.simulation.seeds import collecting_between_worlds
from tests.simulation.simulation import Failed, simulate

Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Mutation:
    """A guard taken out, and the weather in which it is missed soonest."""

    patch: Patch
    weather: Mapping[str, Any] = field(default_factory=dict)
    rules: tuple[str, ...] = ("I1", "I2", "I3", "I4", "I5", "I6", "AssertionError")
    """What is seen to be violated, one of them; production has assertions of its own."""
    seeds: int = 150
    """In so many worlds at most."""

    def __str__(self) -> str:
        return self.patch.__name__.strip("_")


def first_found(weather: Mapping[str, Any], rules: tuple[str, ...], seeds: int) -> int | None:
    """The first seed in whose world one of these rules is violated."""
    with collecting_between_worlds() as collect:
        for seed in range(seeds):
            try:
                simulate(seed, **weather)
            except Failed as failed:
                if failed.rule in rules:
                    return seed
            collect()
    return None


def missed(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the guard a world is found that with it holds."""
    with monkeypatch.context() as to:
        mutation.patch(to)
        seed = first_found(mutation.weather, mutation.rules, mutation.seeds)
    assert seed is not None
    simulate(seed, **mutation.weather)
