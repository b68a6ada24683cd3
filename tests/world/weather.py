"""What a simulated world is like, and its course: a storm, a calm, and the checks.

A seed decides all that a weather leaves open.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from tests.world.cast import Cast
from tests.world.checker import check
from tests.world.faults import KINDS, Faults
from tests.world.group import LAYOUTS
from tests.world.seen import Circumstances, Seen, Stream
from tests.world.world import Stuck, World

CALM_SECONDS = 120.0
STREAMS = (
    (("orders", 1),),
    (("orders", 1),),
    (("orders", 1), ("orders", 2)),
    (("orders", 1), ("trades", 1)),
)
"""The sources that a world may have: topics and session IDs."""

LIFETIMES = (3600.0, 3600.0, 4.0)
"""Seconds of silence after which stores may end the sources of a world."""
KEPT_MESSAGES = (0, 0, 10)
"""The messages of each source that retention keeps; 0: all."""
STATE_ONLY = ("", "", "", "c")
"""The store that keeps no messages, if a majority is asked for; empty: all keep them."""
ENDS = {"end_by_owner", "end_by_operator", "rest_source"}
"""The kinds of faults by which sources end."""
CONSENSUS = ("highest", "highest", "majority", "lowest")
"""How much sources keep of what may not have been stable."""


@dataclass(frozen=True)
class Weather:
    """What happens in a world."""

    kinds: tuple[str, ...] = KINDS
    """The kinds of faults."""
    stormy_seconds: float = 11.0
    pause_seconds: float = 0.7
    """The mean time between two faults."""
    drawn: dict[str, Any] = field(default_factory=dict)
    """The circumstances that are not left to chance, by name."""


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
        seen = Seen([Stream(*who) for who in random.choice(STREAMS)], _drawn(random, weather))
        cast = Cast(world, seen, Random(random.random()))
        kinds = kinds_of(seen.circumstances, weather)
        faults = Faults(cast, random, kinds, weather.pause_seconds)
        faults.storm(weather.stormy_seconds)
        faults.stop()
        calm(cast)
        broken = world.failures()
        stable = sum(stream.receipts for stream in seen.streams)
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


def kinds_of(circumstances: Circumstances, weather: Weather) -> list[str]:
    """Return the kinds of faults that belong to these circumstances."""
    never = set[str]()
    if circumstances.changes_stores or circumstances.loses:
        never |= ENDS
    if not circumstances.changes_stores:
        never.add("change_stores")
    if not circumstances.loses:
        never.add("lose_batch")
    if not circumstances.is_cached:
        never.add("reboot_host")
    if circumstances.layout != "majority":
        never.add("end_by_operator")  # The end of an unknown source names a majority.
    if circumstances.has_rows:
        never.add("jump_clock")  # Rows expire by it.
    return [kind for kind in weather.kinds if kind not in never]


def _drawn(random: Random, weather: Weather) -> Circumstances:
    layout, is_still = random.choice(LAYOUTS), random.random() < 0.4
    # A source that ended names the stores that it had. Some of them may be gone for good.
    changes, loses = (random.random() < 0.7, random.random() < 0.4) if is_still else (False, False)
    lifetime = random.choice(LIFETIMES)
    chosen = Circumstances(
        lifetime=LIFETIMES[0] if is_still else lifetime,
        changes_stores=changes,
        loses=loses,
        is_cached=random.random() < 0.2,
        kept_messages=random.choice(KEPT_MESSAGES),
        state_only=random.choice(STATE_ONLY) if layout == "majority" else "",
        layout=layout,
        consensus=random.choice(CONSENSUS),
        has_live_receivers=random.random() < 0.5,
        has_rows=random.random() < 0.5 and not loses,
    )
    return replace(chosen, **weather.drawn)


def calm(cast: Cast) -> None:
    """Wait until all is well again: what was sent is stable, taken and repaired."""
    streams = cast.seen.streams
    _wait(cast, "operators are done", lambda: not cast.operator_works())
    cast.accept_losses(CALM_SECONDS)
    _wait(cast, "the stores are changed", lambda: not cast.changes())
    aims = [(stream, stream.receipts + 3) for stream in streams]
    _wait(cast, "sources send", lambda: all(each.receipts >= aim for each, aim in aims))
    cast.over.set()
    _wait(cast, "sources are done", lambda: not any(each.is_publishing for each in streams))
    _wait(cast, "all is taken", cast.has_taken_all)
    _wait(cast, "stores serve", lambda: all(map(cast.serves, cast.stores)))
    _wait(cast, "all is repaired", lambda: all(map(cast.holds_all, cast.holders)))
    cast.read_all(CALM_SECONDS)
    cast.query_all(CALM_SECONDS)


def _wait(cast: Cast, what: str, reached: Callable[[], bool]) -> None:
    try:
        cast.world.run_until(reached, CALM_SECONDS)
    except Stuck as stuck:
        raise Stuck(f"{stuck}: {what}") from None
