"""The faults of a simulated world, as many at a time as the policy tolerates, and then calm."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.world.applications import Seen, publish, read_all, receive
from tests.world.checker import check
from tests.world.world import Process, World

ADDRESSES = {name: f"127.0.0.1:{100 + number}" for number, name in enumerate("abc", 1)}
STORES = ",".join(f"{name}={address}" for name, address in ADDRESSES.items())
STORMY_SECONDS = 30.0
CALM_SECONDS = 120.0


@dataclass
class Told:
    """The figures of a world that has ended well."""

    steps: int
    messages: int
    stable: int
    faults: Counter[str]


class Weather:
    """The faults of one world."""

    def __init__(self, world: World, seen: Seen) -> None:
        """Start all processes."""
        self._world = world
        self._seen = seen
        self._random = Random(world.random.random())
        self._over = asyncio.Event()
        self.faults: Counter[str] = Counter()
        for name in ADDRESSES:
            self._start(name)
        self._start("source")
        self._start("receiver")

    def _start(self, name: str) -> Process:
        if name == "source":
            return self._world.start(name, lambda: publish(STORES, self._seen, self._over))
        if name == "receiver":
            return self._world.start(name, lambda: receive(STORES, self._seen))
        return self._world.start_store(name, STORES)

    def storm(self) -> None:
        """Let faults come, one store at a time, for as long as the storm lasts."""
        world, random = self._world, self._random
        end = world.clock.now + STORMY_SECONDS
        world.run_for(2.0)
        while world.clock.now < end:
            fault = random.choice(
                (self._crash, self._power, self._wipe, self._pause, self._part, self._kill)
            )
            fault()
            self.faults[fault.__name__] += 1
            world.run_for(random.uniform(0.1, 3.0))

    def _crash(self) -> None:
        """Crash a store, and start it again."""
        name = self._random.choice("abc")
        self._world.crash(name)
        self._world.run_for(self._random.uniform(0.05, 3.0))
        self._start(name)
        self._world.run_until(lambda: self._serves(name), 60.0)

    def _power(self) -> None:
        """Crash all stores at once, and start them again."""
        for name in ADDRESSES:
            self._world.crash(name)
        self._world.run_for(self._random.uniform(0.05, 3.0))
        for name in ADDRESSES:
            self._start(name)
        self._world.run_until(lambda: all(map(self._serves, ADDRESSES)), 60.0)

    def _wipe(self) -> None:
        """Take the disk of a store away, and wait until it has what its peers have."""
        name = self._random.choice("abc")
        self._world.crash(name)
        self._world.wipe(name)
        self._world.run_for(self._random.uniform(0.05, 3.0))
        self._start(name)
        self._world.run_until(lambda: self._serves(name), 60.0)

    def _pause(self) -> None:
        """Pause a process."""
        name = self._random.choice(("a", "b", "c", "source", "receiver"))
        seconds = self._random.choice((0.3, 2.0, 8.0))
        self._world.pause(name, seconds)
        self._world.run_for(seconds)

    def _part(self) -> None:
        """Cut a store off from some of the others, in one direction or both."""
        name = self._random.choice("abc")
        others = [other for other in ("a", "b", "c", "source", "receiver") if other != name]
        for other in self._random.sample(others, self._random.randint(1, len(others))):
            ways = self._random.choice(
                (((name, other),), ((other, name),), ((name, other), (other, name)))
            )
            for way in ways:
                self._world.network.part(*way)
        self._world.run_for(self._random.uniform(0.1, 10.0))
        self._world.network.heal()

    def _kill(self) -> None:
        """Kill an application, and start it again."""
        name = self._random.choice(("source", "receiver"))
        self._world.crash(name)
        self._world.run_for(self._random.uniform(0.0, 2.0))
        self._start(name)

    def _serves(self, name: str) -> bool:
        node = self._world.nodes.get(name)
        return node is not None and node.peers is not None and not node.in_limbo

    def calm(self) -> None:
        """Wait until all is well again: what was sent is stable, and the receiver has it."""
        world, seen = self._world, self._seen
        world.network.heal()
        reached = max(seen.stable, default=-1) + 5
        world.run_until(lambda: max(seen.stable, default=-1) >= reached, CALM_SECONDS)
        self._over.set()
        last = max(seen.stable)
        world.run_until(
            lambda: any(number >= last for taken in seen.taken for number, _ in taken), CALM_SECONDS
        )
        reading = world.start("reader", lambda: read_all(STORES, last))
        seen.read = world.finish(reading, CALM_SECONDS)


def run_world(seed: int, directory: Path) -> Told:
    """Run a world, and check what its applications saw. Raises AssertionError, Stuck."""
    seen = Seen()
    with World(seed, directory) as world:
        weather = Weather(world, seen)
        weather.storm()
        weather.calm()
        broken = world.failures()
        told = Told(world.steps, world.network.messages, len(seen.stable), weather.faults)
    assert not broken, f"seed {seed}: event loops complained: {broken[:3]}"
    check(seen, seed)
    return told
