"""Stores, a source and receivers as processes that are killed, paused and cut off at random.

What applications were told is held against what is there in the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from tests.end_to_end.checker import check_receiver, check_source, check_stores, history
from tests.end_to_end.proxy import Proxy

from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.v1.store_pb2 import StatusRequest
from quorate.v1.store_pb2_grpc import StoreStub

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
FAULTS_SECONDS = 8.0
SETTLE_SECONDS = 20.0
_STATUS = StatusRequest(protocol_version=PROTOCOL_VERSION)


class Process:
    """One that is started again and again."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._arguments, *more],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def ended(self) -> int:
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, SETTLE_SECONDS)


class World:
    """Three stores, a source, two receivers, and proxies in front of the stores and the source."""

    def __init__(self, directory: Path, seed: int, publish_store: bool) -> None:
        self.choice = random.Random(seed)
        self.directory = directory
        self._publish = str(directory / "publish") if publish_store else None
        *ports, self._source_port = _free_ports(4)
        self._store_ports = ports
        self.stores = [
            Process(
                directory / f"s{at}.log",
                *("quorate.console.main", "store", "run", "--name", f"s{at}"),
                *("--listen", f"127.0.0.1:{port}", "--data-directory", str(directory / f"s{at}")),
                *(
                    part
                    for peer in ports
                    if peer != port
                    for part in ("--peer", f"127.0.0.1:{peer}")
                ),
            )
            for at, port in enumerate(ports)
        ]
        self.proxies = [Proxy(port) for port in (*ports, self._source_port)]
        self.source = self._application("source")
        self.receivers = {name: self._application("receiver") for name in ("live", "stable")}
        self.runs = {"source": 0, "live": 0, "stable": 0}

    def _application(self, kind: str) -> Process:
        return Process(self.directory / f"{kind}.log", "tests.end_to_end.applications", kind)

    def histories(self, name: str) -> list[list[list[object]]]:
        return [
            history(self.directory / f"{name}-{run}.history")
            for run in range(1, self.runs[name] + 1)
        ]

    def _next_history(self, name: str) -> str:
        self.runs[name] += 1
        return str(self.directory / f"{name}-{self.runs[name]}.history")

    @property
    def _addresses(self) -> str:
        return ",".join(f"s{at}=127.0.0.1:{self.proxies[at].port}" for at in range(3))

    def start_source(self) -> None:
        settings = {
            "history": self._next_history("source"),
            "tag": f"p{self.runs['source']}",
            "stores": self._addresses,
            "listen": f"127.0.0.1:{self._source_port}",
            "advertise": f"127.0.0.1:{self.proxies[3].port}",
            "publish": self._publish,
            "until": str(self.directory / "until"),
        }
        self.source.start(json.dumps(settings))

    def start_receiver(self, name: str) -> None:
        settings = {
            "history": self._next_history(name),
            "stores": self._addresses,
            "session": {"live": 20, "stable": 21}[name],
            "delivery": name,
        }
        self.receivers[name].start(json.dumps(settings))

    def start(self) -> None:
        for store in self.stores:
            store.start()
        self.start_source()
        for name in self.receivers:
            self.start_receiver(name)

    def kill(self) -> None:
        for process in (*self.stores, self.source, *self.receivers.values()):
            process.kill()

    # Faults: each takes its time and undoes itself.

    async def a_store_is_killed(self) -> None:
        store = self.choice.choice(self.stores)
        store.kill()
        await asyncio.sleep(self.choice.choice((0.0, 1.0)))
        store.start()

    async def all_stores_are_killed(self) -> None:
        for store in self.stores:
            store.kill()
        for store in self.stores:
            store.start()
            await asyncio.sleep(self.choice.choice((0.0, 0.5)))

    async def a_store_is_paused(self) -> None:
        await self._pause(self.choice.choice(self.stores))

    async def the_source_is_killed(self) -> None:
        self.source.kill()
        self.start_source()

    async def the_source_is_paused(self) -> None:
        await self._pause(self.source)

    async def the_source_and_a_store_are_killed(self) -> None:
        store = self.choice.choice(self.stores)
        self.source.kill()
        store.kill()
        self.start_source()
        await asyncio.sleep(2.0)
        store.start()

    async def a_receiver_is_killed(self) -> None:
        name = self.choice.choice(sorted(self.receivers))
        self.receivers[name].kill()
        self.start_receiver(name)

    async def a_receiver_is_paused(self) -> None:
        await self._pause(self.receivers[self.choice.choice(sorted(self.receivers))])

    async def a_way_is_stalled(self) -> None:
        proxy = self.choice.choice(self.proxies)
        proxy.stall(self.choice.choice(("there", "back")))
        await asyncio.sleep(self.choice.uniform(0.3, 1.5))
        if self.choice.random() < 0.5:
            proxy.cut()
        proxy.heal()

    async def everything_is_cut(self) -> None:
        for proxy in self.proxies:
            proxy.cut()

    async def _pause(self, process: Process) -> None:
        process.signal(signal.SIGSTOP)
        await asyncio.sleep(self.choice.uniform(0.2, 1.5))
        process.signal(signal.SIGCONT)

    async def misfortune(self) -> None:
        """One fault after the other, and receivers of their own."""
        await asyncio.gather(
            self._one_after_the_other(
                self.a_store_is_killed,
                self.all_stores_are_killed,
                self.a_store_is_paused,
                self.the_source_is_killed,
                self.the_source_is_paused,
                self.the_source_and_a_store_are_killed,
                self.a_way_is_stalled,
                self.everything_is_cut,
            ),
            self._one_after_the_other(self.a_receiver_is_killed, self.a_receiver_is_paused),
        )

    async def _one_after_the_other(self, *faults: Callable[[], Awaitable[None]]) -> None:
        until = time.monotonic() + FAULTS_SECONDS
        while time.monotonic() < until:
            fault = self.choice.choice(faults)
            print(fault.__name__)
            await fault()
            await asyncio.sleep(self.choice.uniform(0.1, 1.0))

    async def settled(self) -> int:
        """Once everyone has everything and all but the receivers have stopped; the last number."""
        over = self.directory / "until"
        over.touch()
        last = await asyncio.to_thread(self._wait_everywhere)
        over.unlink()
        assert await self.source.ended() == 0
        for store in self.stores:
            store.signal(signal.SIGTERM)
        for store in self.stores:
            assert await store.ended() == 0
        return last

    def _wait_everywhere(self) -> int:
        until = time.monotonic() + SETTLE_SECONDS
        while (last := self._last()) is None or not (
            all(_reached(self.histories(name)[-1]) == last for name in self.receivers)
            and all(_held(port) > last for port in self._store_ports)
        ):
            assert time.monotonic() < until
            time.sleep(0.1)
        return last

    def _last(self) -> int | None:
        for kind, *facts in self.histories("source")[-1]:
            if kind == "end":
                assert isinstance(facts[0], int)
                return facts[0]
        return None


def _held(port: int) -> int:
    """How many messages a store holds."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        messages: int = StoreStub(channel).Status(_STATUS, timeout=5).messages
        return messages


def _reached(run: list[list[object]]) -> int:
    for kind, *facts in reversed(run):
        if kind == "delivered":
            first, names, _ = facts
            assert isinstance(first, int)
            assert isinstance(names, list)
            return first + len(names) - 1
        if kind == "starts":
            assert isinstance(facts[0], int)
            return facts[0] - 1
    return -1


def _free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in with_ports]
    for one in with_ports:
        one.close()
    return ports


@pytest.mark.parametrize(("seed", "publish_store"), [(1, True), (2, False)])
async def test_what_applications_were_told_is_so(
    tmp_path: Path, seed: int, publish_store: bool
) -> None:
    world = World(tmp_path, seed, publish_store)
    async with AsyncExitStack() as stack:
        for proxy in world.proxies:
            await stack.enter_async_context(proxy.running())
        stack.callback(world.kill)
        world.start()
        await asyncio.sleep(1.5)
        await world.misfortune()
        last = await world.settled()
    final = check_stores([tmp_path / f"s{at}" for at in range(3)], last)
    assert sum(check_source(seen, final) for seen in world.histories("source"))
    for name in world.receivers:
        check_receiver(world.histories(name), final, stable=name == "stable")
