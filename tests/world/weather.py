"""What a simulated world is like, and its course: a storm, a calm, and the checks.

A seed decides all that a weather leaves open.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.world.cast import Cast
from tests.world.checker import check
from tests.world.faults import KINDS, Faults
from tests.world.seen import Seen, Stream
from tests.world.world import World

CALM_SECONDS = 120.0
STREAMS = (
    (("orders", 1),),
    (("orders", 1),),
    (("orders", 1), ("orders", 2)),
    (("orders", 1), ("trades", 1)),
)
"""The sources that a world may have: topics and session IDs."""


@dataclass(frozen=True)
class Weather:
    """What happens in a world."""

    kinds: tuple[str, ...] = KINDS
    """The kinds of faults."""
    stormy_seconds: float = 15.0
    pause_seconds: float = 1.0
    """The mean time between two faults."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the stores that are not as usual."""


@dataclass
class Told:
    """The figures of a world that has ended well."""

    seconds: float
    """The time that passed in the world."""
    steps: int
    messages: int
    stable: int
    faults: Counter[str]
    reached: Counter[str]
    """How often rare states were reached."""


USUAL = Weather()


def run_world(seed: int, directory: Path, weather: Weather = USUAL) -> Told:
    """Run a world, and check what its applications saw. Raises AssertionError, Stuck."""
    with World(seed, directory) as world:
        began = world.clock.now
        random = Random(world.random.random())
        seen = Seen([Stream(*who) for who in random.choice(STREAMS)])
        cast = Cast(world, seen, Random(random.random()), weather.settings)
        faults = Faults(cast, random, weather.kinds, weather.pause_seconds)
        faults.storm(weather.stormy_seconds)
        faults.stop()
        calm(cast)
        broken = world.failures()
        stable = sum(len(stream.stable) for stream in seen.streams)
        told = Told(
            world.clock.now - began,
            world.steps,
            world.network.messages,
            stable,
            faults.counts,
            cast.reached(),
        )
    check(seen, seed)
    assert not broken, f"seed {seed}: event loops complained: {broken[:3]}"
    return told


def calm(cast: Cast) -> None:
    """Wait until all is well again: what was sent is stable, taken and repaired."""
    world, streams = cast.world, cast.seen.streams
    aims = [(stream, stream.last + 3) for stream in streams]
    world.run_until(lambda: all(stream.last >= aim for stream, aim in aims), CALM_SECONDS)
    cast.over.set()
    world.run_until(cast.has_taken_all, CALM_SECONDS)
    world.run_until(lambda: all(map(cast.serves, cast.stores)), CALM_SECONDS)
    world.run_until(lambda: all(map(cast.holds_all, cast.stores)), CALM_SECONDS)
    cast.read_all(CALM_SECONDS)
