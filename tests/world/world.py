"""A simulated world: processes of stores and applications that run the code that ships.

Each process has an event loop of its own; all share one clock, a network and disks that the world
makes. A seed decides everything that chance decides, so a world can be run again.
"""

from __future__ import annotations

import asyncio
import random as chance
import shutil
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Self

import pytest
from tests import seams
from tests.world.channel import Channel
from tests.world.disk import Copy, Disks, writers_of
from tests.world.loop import Clock, ProcessLoop
from tests.world.network import Network
from tests.world.server import Server

from quorate.protocol.errors import StorageFailed
from quorate.store.configuration import StoreConfiguration
from quorate.store.node import StoreNode

CLEAN_UP_STEPS = 200
SWEEP_SECONDS = 1.0
"""Stores look so often for rows of no more use: a world is over before they usually would."""


class Stuck(Exception):
    """Nothing is due, or too much was done, and what was waited for has not come."""


class Process:
    """A process: its loop, and the task that it was started for."""

    def __init__(self, loop: ProcessLoop, main: Coroutine[Any, Any, Any]) -> None:
        """Begin."""
        self.loop = loop
        self.task = loop.create_task(main)

    @property
    def name(self) -> str:
        """The name of the process."""
        return self.loop.name


class World:
    """Everything that happens, from one seed."""

    def __init__(
        self, seed: int, directory: Path, chance_of_times: Callable[[float], Random] = Random
    ) -> None:
        """Begin without processes.

        directory: where the stores' files go. chance_of_times: what decides how long everything
        takes, made from a seed.
        """
        self.seed = seed
        self.random = Random(seed)
        self.clock = Clock()
        self._directory = directory
        self._turn: ProcessLoop | None = None
        self._chance_of_times = chance_of_times
        self.network = Network(self.clock, self._next_chance())
        self.disks = Disks(self._next_chance())
        self.processes: dict[str, Process] = {}
        self.nodes: dict[str, StoreNode] = {}
        self._loops: list[ProcessLoop] = []
        """All loops there ever were. Those of crashed processes stay: nothing may clean them up."""
        self._mains: list[asyncio.Task[Any]] = []
        """The main tasks of all processes there ever were. One that a crash interrupted must not be
        collected: its application would hear of that."""
        self.boots: Counter[str] = Counter()
        """How often the host of each store went down."""
        self._patches = ExitStack()

    def _next_chance(self) -> Random:
        return self._chance_of_times(self.random.random())

    def __enter__(self) -> Self:
        to = self._patches.enter_context(pytest.MonkeyPatch.context())
        clock, own = self.clock, Random(self.random.random())
        _patch_clocks(to, clock)
        to.setattr("os.urandom", own.randbytes)
        to.setattr("uuid.uuid4", lambda: uuid.UUID(bytes=own.randbytes(16), version=4))
        to.setattr("secrets.randbelow", own.randrange)
        to.setattr("grpc.aio.insecure_channel", self._channel)
        to.setattr("grpc.aio.server", lambda **_: Server(self.network, self._current()))
        seams.SOURCE_TIME_NS.replace(to, lambda: int(clock.time() * 1e9))
        seams.CHANCE_OF_DELAYS.replace(to, self._next_chance())
        seams.STORAGE_IN_NODE.replace(to, self.disks.open)
        seams.WRITER_IN_NODE.replace(to, writers_of(self._next_chance()))
        seams.STATE_MAKING_SWEEP_SECONDS.replace(to, SWEEP_SECONDS)
        seams.CLEAN_SHUTDOWN_BOOT_ID.replace(to, self._boot_id)
        seams.CHECK_PORT_OF_NODE.replace(to, lambda _: None)
        chance.seed(self.seed)
        return self

    def __exit__(self, *_: object) -> None:
        self.network.is_over = True
        try:
            for loop in self._loops:
                self._clean_up(loop)
            for node in self.nodes.values():
                _let_go(node)
        finally:
            self._patches.close()

    def _clean_up(self, loop: ProcessLoop) -> None:
        """Cancel all that a process still does. It reaches nobody, and its disk does not matter."""
        loop.crashed, loop.paused_until, loop.rounds_left = False, 0.0, None
        for _ in range(CLEAN_UP_STEPS):
            tasks = asyncio.all_tasks(loop)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            for _ in range(CLEAN_UP_STEPS):
                if (due := loop.due()) is None or due > self.clock.now + 5.0:
                    break
                self.clock.now = max(self.clock.now, due)
                self._turn = loop
                loop.turn()

    def _channel(self, address: str, **_: Any) -> Channel:
        return Channel(self.network, self._current(), address)

    def _boot_id(self) -> str:
        return f"boot {self.boots[self._current().name]}"

    def _current(self) -> ProcessLoop:
        assert self._turn is not None
        return self._turn

    # Processes.

    def start(self, name: str, main: Callable[[], Coroutine[Any, Any, Any]]) -> Process:
        """Start a process."""
        loop = ProcessLoop(name, self.clock, self._next_chance())
        self._loops.append(loop)
        process = self.processes[name] = Process(loop, main())
        self._mains.append(process.task)
        return process

    def start_store(self, name: str, stores: str, **settings: Any) -> Process:
        """Start a store. stores: all stores as name=address, with commas."""
        addresses = dict(each.split("=") for each in stores.split(","))
        configuration = StoreConfiguration(
            name=name,
            data_directory=self.path_of(name),
            listen=addresses[name],
            peers=tuple(address for other, address in addresses.items() if other != name),
            **settings,
        )

        async def run() -> None:
            node = self.nodes[name] = StoreNode(configuration)
            with suppress(StorageFailed):  # A disk that fails ends its store.
                await node.start()
                await node.wait()

        return self.start(name, run)

    def path_of(self, store: str) -> Path:
        """Return the data directory of a store."""
        return self._directory / store

    def crash(self, name: str) -> None:
        """End a process at once. A store loses what it did not sync."""
        process = self.processes.pop(name)
        process.loop.crashed = True
        self.network.crashed(process.loop)
        node = self.nodes.pop(name, None)
        if node is not None:
            _let_go(node)
            self.disks.crash(self.path_of(name) / "rocksdb")

    def wipe(self, store: str) -> None:
        """Lose the data directory of a store that does not run."""
        self.disks.wipe(self.path_of(store) / "rocksdb")
        shutil.rmtree(self.path_of(store), ignore_errors=True)

    def reboot(self, store: str) -> None:
        """Let the host of a store that does not run go down and come up again."""
        self.boots[store] += 1
        self.disks.reboot(self.path_of(store) / "rocksdb")

    def copy(self, store: str) -> Copy:
        """Return a copy of the data directory of a store that runs."""
        disk = self.disks.at(self.path_of(store) / "rocksdb")
        node = self.nodes[store]
        assert disk is not None
        assert node._engine is not None
        files = {
            each.name: each.read_bytes()
            for each in self.path_of(store).iterdir()
            if each.is_file() and each.name != "lock"
        }
        record = node._engine.core.standing.record
        return Copy(disk.copy(), files, record.incarnation, record.starts)

    def put_back(self, store: str, copy: Copy) -> None:
        """Put a copy in the place of the directory of a store that does not run."""
        self.wipe(store)
        self.path_of(store).mkdir()
        for name, content in copy.files.items():
            (self.path_of(store) / name).write_bytes(content)
        self.disks.put_back(self.path_of(store) / "rocksdb", copy.disk)

    def rename(self, name: str, to: str) -> None:
        """Give a process another name."""
        process = self.processes[to] = self.processes.pop(name)
        process.loop.name = to

    def pause(self, name: str, seconds: float) -> None:
        """Let a process do nothing for a time."""
        self.processes[name].loop.paused_until = self.clock.now + seconds

    @property
    def steps(self) -> int:
        """The callbacks that were run."""
        return sum(loop.steps for loop in self._loops)

    def failures(self) -> list[dict[str, Any]]:
        """Return what the loops of all processes complained of, those that crashed included."""
        return [failure for loop in self._loops for failure in loop.failures]

    # Time.

    def run_until(self, reached: Callable[[], bool], seconds: float = 60.0) -> None:
        """Let time pass until something is so. Raises Stuck once so many seconds have passed."""
        end = self.clock.now + seconds
        while not reached():
            if not self._step(end):
                raise Stuck(f"seed {self.seed}: not reached in {seconds:g} s of the world")

    def run_for(self, seconds: float) -> None:
        """Let some time pass."""
        end = self.clock.now + seconds
        while self._step(end):
            pass
        self.clock.now = end

    def finish(self, process: Process, seconds: float = 60.0) -> Any:
        """Let time pass until a process has done what it was started for. Return its result."""
        self.run_until(process.task.done, seconds)
        return process.task.result()

    def _step(self, end: float) -> bool:
        """Give the next process its turn. Return False if none is due before the end."""
        best: ProcessLoop | None = None
        at = end
        for process in self.processes.values():
            due = process.loop.due()
            if due is not None and due < at:
                best, at = process.loop, due
        if best is None:
            return False
        self.clock.now = max(self.clock.now, at)
        self._turn = best
        self.clock.here = best.name
        best.turn()
        self._turn = None
        if best.crashed:
            self.crash(best.name)
        return True


def _let_go(node: StoreNode) -> None:
    """Close the files of a store that crashed, unless it has done so itself.

    Nor may it do so later, when its tasks are cleaned up: its descriptors are those of others then.
    """
    directory, node._directory = node._directory, None
    if directory is not None and not directory._mark.closed:
        directory.close()


def _patch_clocks(to: pytest.MonkeyPatch, clock: Clock) -> None:
    """Let all take the time from the world: callers of `time`, and defaults of parameters."""
    instead: dict[Any, Callable[[], Any]] = {
        time.time: clock.time,
        time.time_ns: lambda: int(clock.time() * 1e9),
        time.monotonic: lambda: clock.now,
        time.perf_counter: lambda: clock.now,
    }
    for real, ours in instead.items():
        to.setattr(time, real.__name__, ours)
    for name in [name for name in sys.modules if name.startswith("quorate.")]:
        for made in vars(sys.modules[name]).values():
            begin = vars(made).get("__init__") if isinstance(made, type) else None
            given = getattr(begin, "__defaults__", None)
            if given and any(isinstance(each, Hashable) and each in instead for each in given):
                patched = tuple(
                    instead.get(each, each) if isinstance(each, Hashable) else each
                    for each in given
                )
                to.setattr(begin, "__defaults__", patched)
