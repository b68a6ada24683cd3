"""A run of the bench: start all processes, inject the fault, collect the reports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from quorate.console.bench import latency
from quorate.console.bench.settings import BenchSettings
from quorate.console.bench.usage import Usage
from quorate.console.group.children import Child, StoreChild, founded, others
from quorate.console.group.ports import free_addresses
from quorate.protocol.identity import StoreAddress
from quorate.protocol.tls import Tls, environment_of

_RECEIVERS_LATER_SECONDS = 120.0
"""Seconds that a receiver may take longer than the source."""


class BenchFailed(Exception):
    """The bench has no result. The text says why."""


@dataclass(slots=True)
class BenchOutcome:
    """The reports of the processes, and the measurements of them."""

    source: dict[str, Any]
    receivers: dict[str, dict[str, Any]]
    stable_latencies: latency.Latencies
    live_latencies: latency.Latencies
    cpu_seconds: dict[str, float]
    peak_rss: dict[str, int]
    problems: list[str] = field(default_factory=list)


def _certificates(directory: Path, stores: Iterable[str]) -> dict[str, Tls]:
    # Imported here, because it needs an extra.
    from quorate.console.group.certificate_files import for_local_group

    return for_local_group(directory, stores)


class Bench:
    """One run in a directory of its own."""

    def __init__(self, settings: BenchSettings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        addresses = free_addresses(settings.stores)
        names = [f"store-{number}" for number, _ in enumerate(addresses, 1)]
        os.environ.update(environment_of(None))
        made = _certificates(directory / "tls", names) if settings.tls else {}
        self._stores = [
            StoreChild(
                name,
                directory / name,
                address,
                others(addresses, address),
                "--durability",
                settings.durability,
                tls=made.get(name),
            )
            for name, address in zip(names, addresses, strict=True)
        ]
        self._source = self._part("source", "source_process")
        self._receivers = [
            self._part(f"receiver-{number}", "receiver_process")
            for number in range(1, settings.receivers + 1)
        ]
        self._children: list[Child] = [self._source, *self._receivers, *self._stores]
        self._usage = Usage({child.name: child for child in self._children})
        self._faults: set[asyncio.Task[None]] = set()
        self._receiving: list[asyncio.Task[dict[str, Any]]] = []

    def _part(self, name: str, module: str) -> Child:
        log = self._directory / f"{name}.log"
        return Child(name, (f"quorate.console.bench.{module}",), log)

    async def run(self) -> BenchOutcome:
        """Run the bench and return its result.

        Raises BenchFailed without one, StoreNotReady if a store does not start.
        """
        watching = asyncio.create_task(self._usage.watch())
        try:
            await asyncio.gather(*(store.start() for store in self._stores))
            await founded(self._stores)
            try:
                async with asyncio.timeout(self._settings.seconds_max):
                    return await self._measure()
            except TimeoutError:
                raise BenchFailed(f"no result after {self._settings.seconds_max:,.0f} s") from None
        finally:
            tasks = (watching, *self._receiving, *self._faults)
            for task in tasks:
                task.cancel()
            # One of them may be starting a process: it must be over before the event loop is.
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(child.kill() for child in self._children if child.running))

    async def _measure(self) -> BenchOutcome:
        source: dict[str, Any] = {}
        await self._spawn(self._source)
        async for said in self._source.said():
            match said["kind"]:
                case "open":
                    self._receiving = [
                        asyncio.create_task(self._receive(each)) for each in self._receivers
                    ]
                case "started":
                    self._usage.begin()
                case "half":
                    self._faults.add(asyncio.create_task(self._fault()))
                case "stable":
                    source = said
                case "done":
                    break
        else:
            raise BenchFailed(f"the source ended: {self._source.last_words()}")
        async with asyncio.timeout(_RECEIVERS_LATER_SECONDS):
            received = await asyncio.gather(*self._receiving)
        await asyncio.gather(*self._faults)
        self._usage.look()
        return self._outcome(source, received)

    async def _spawn(self, child: Child) -> None:
        stores = ",".join(
            f"{store.name}={StoreAddress.parse(store.address).address}" for store in self._stores
        )
        orders = {
            "name": child.name,
            "directory": str(self._directory),
            "stores": stores,
            "settings": asdict(self._settings),
        }
        await child.spawn(json.dumps(orders))

    async def _receive(self, receiver: Child) -> dict[str, Any]:
        await self._spawn(receiver)
        async for said in receiver.said():
            if said["kind"] == "done":
                return said
        raise BenchFailed(f"{receiver.name} ended: {receiver.last_words()}")

    async def _fault(self) -> None:
        store = self._stores[-1]
        if self._settings.kill_store:
            await store.kill()
        elif self._settings.pause_store is not None:
            os.kill(store.pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(self._settings.pause_store)
            finally:
                os.kill(store.pid, signal.SIGCONT)

    def _outcome(self, source: dict[str, Any], received: list[dict[str, Any]]) -> BenchOutcome:
        outcome = BenchOutcome(
            source=source,
            receivers={
                child.name: said for child, said in zip(self._receivers, received, strict=True)
            },
            stable_latencies=latency.load(self._directory / "stable.latencies"),
            live_latencies=latency.empty(),
            cpu_seconds=self._usage.cpu_seconds(),
            peak_rss=self._usage.peak_rss,
        )
        for name, said in outcome.receivers.items():
            outcome.live_latencies += latency.load(self._directory / f"{name}.latencies")
            if said["problem"]:
                outcome.problems.append(f"{name}: {said['problem']}")
            elif said["messages"] != source["messages"]:
                outcome.problems.append(
                    f"{name} was handed {said['messages']:,} of {source['messages']:,} messages"
                )
        return outcome
