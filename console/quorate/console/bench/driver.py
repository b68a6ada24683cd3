"""A run of the bench: start all processes, inject the fault, collect the reports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterable, Sequence
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
    """The reports of the processes, by their names, and the measurements of them."""

    sources: dict[str, dict[str, Any]]
    receivers: dict[str, dict[str, Any]]
    stable_latencies: latency.Latencies
    live_latencies: latency.Latencies
    cpu_seconds: dict[str, float]
    """CPU seconds of all processes of a role, by role."""
    peak_rss: dict[str, int]
    """The highest memory in bytes of any process of a role, by role."""
    problems: list[str] = field(default_factory=list)

    @property
    def messages(self) -> int:
        """The measured messages that became stable."""
        found: int = sum(said["messages"] for said in self.sources.values())
        return found

    @property
    def began_ns(self) -> int:
        """The time of the first measured send."""
        began: int = min(said["began_ns"] for said in self.sources.values())
        return began

    @property
    def seconds(self) -> float:
        """Seconds from the first measured send until the last message became stable."""
        ended_ns: int = max(said["ended_ns"] for said in self.sources.values())
        return (ended_ns - self.began_ns) / 1e9


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
        self._sources = [
            self._part(f"source-{number}", "source_process")
            for number in range(1, settings.processes + 1)
        ]
        self._receivers = [
            self._part(f"receiver-{number}", "receiver_process")
            for number in range(1, settings.receivers + 1)
        ]
        self._children: list[Child] = [*self._sources, *self._receivers, *self._stores]
        self._usage = Usage(
            {"sources": self._sources, "receivers": self._receivers, "stores": self._stores}
        )
        self._fault: asyncio.Task[None] | None = None
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
            tasks = [watching, *self._receiving, *([self._fault] if self._fault else [])]
            for task in tasks:
                task.cancel()
            # One of them may be starting a process: it must be over before the event loop is.
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(child.kill() for child in self._children if child.running))

    async def _measure(self) -> BenchOutcome:
        for number, child in enumerate(self._sources):
            await self._spawn(child, first=number * self._settings.sources)
        await self._all_say("open")
        self._receiving = [asyncio.create_task(self._receive(each)) for each in self._receivers]
        await self._all_say("warm")
        self._usage.begin()
        for child in self._sources:
            child.order({"begin": True})
        sent = await self._all_say("done")
        async with asyncio.timeout(_RECEIVERS_LATER_SECONDS):
            received = await asyncio.gather(*self._receiving)
        if self._fault is not None:
            await self._fault
        self._usage.look()
        return self._outcome(sent, received)

    async def _spawn(self, child: Child, **more: Any) -> None:
        stores = ",".join(
            f"{store.name}={StoreAddress.parse(store.address).address}" for store in self._stores
        )
        orders = {
            "name": child.name,
            "directory": str(self._directory),
            "stores": stores,
            "settings": asdict(self._settings),
        }
        await child.spawn(json.dumps(orders | more))

    async def _all_say(self, kind: str) -> list[dict[str, Any]]:
        """Return the reports of this kind of all source processes."""
        return await asyncio.gather(*(self._heard(child, kind) for child in self._sources))

    async def _receive(self, receiver: Child) -> dict[str, Any]:
        await self._spawn(receiver)
        return await self._heard(receiver, "done")

    async def _heard(self, child: Child, kind: str) -> dict[str, Any]:
        """Return the next report of this kind. Raises BenchFailed if the process ends before."""
        async for said in child.said():
            if said["kind"] == "half" and self._fault is None:
                self._fault = asyncio.create_task(self._inject_fault())
            if said["kind"] == kind:
                return said
        raise BenchFailed(f"{child.name} ended: {child.last_words()}")

    async def _inject_fault(self) -> None:
        store = self._stores[-1]
        if self._settings.kill_store:
            await store.kill()
        elif self._settings.pause_store is not None:
            os.kill(store.pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(self._settings.pause_store)
            finally:
                os.kill(store.pid, signal.SIGCONT)

    def _outcome(self, sent: list[dict[str, Any]], received: list[dict[str, Any]]) -> BenchOutcome:
        outcome = BenchOutcome(
            sources=_by_name(self._sources, sent),
            receivers=_by_name(self._receivers, received),
            stable_latencies=self._latencies(self._sources),
            live_latencies=self._latencies(self._receivers),
            cpu_seconds=self._usage.cpu_seconds(),
            peak_rss=self._usage.peak_rss(),
        )
        for name, said in outcome.receivers.items():
            if said["problem"]:
                outcome.problems.append(f"{name}: {said['problem']}")
            elif said["messages"] != outcome.messages:
                outcome.problems.append(
                    f"{name} was handed {said['messages']:,} of {outcome.messages:,} messages"
                )
        return outcome

    def _latencies(self, children: Sequence[Child]) -> latency.Latencies:
        found = latency.empty()
        for child in children:
            found += latency.load(self._directory / f"{child.name}.latencies")
        return found


def _by_name(children: Sequence[Child], said: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {child.name: each for child, each in zip(children, said, strict=True)}
