"""Stores that are restarted one after the other, as Kubernetes does it, while a source publishes.

Each store is ended by SIGTERM, by SIGKILL after its grace, and comes back at another address behind
its name. The next one follows once this one is ready.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.end_to_end.namespaces import NamedPlaces, why_not
from tests.end_to_end.processes import PATIENCE_SECONDS
from tests.end_to_end.setups import Setup
from tests.end_to_end.world import SourceProcess, Store, World

pytestmark = [
    pytest.mark.processes,
    pytest.mark.long,
    pytest.mark.skipif(bool(reason := why_not()), reason=f"needs network namespaces: {reason}"),
]

GRACE_SECONDS = 60.0
"""terminationGracePeriodSeconds, without the time of preStop."""
SHORT_GRACE_SECONDS = 5.0
"""The seconds that a store which hangs is given to end."""
EVERY_SECONDS = 0.02
"""Seconds from one message to the next."""
UNDISTURBED_RECEIPTS = 150
"""The receipts of the source before the first restart. Their longest wait is the machine's."""

_MONITOR = "127.0.0.1:7381"
_PROBE = """
import sys, time, urllib.request
while True:
    try:
        urllib.request.urlopen(sys.argv[1], timeout=5)
        break
    except OSError:
        time.sleep(0.1)
"""

THREE = Setup((("s1", "s2", "s3"),))
NINE = Setup((("a1", "a2", "a3"), ("b1", "b2", "b3"), ("c1", "c2", "c3")), rule="majority")


@pytest.fixture
def network(tmp_path: Path) -> NamedPlaces:
    return NamedPlaces(tmp_path / "hosts")


@pytest.fixture
async def world(tmp_path: Path, network: NamedPlaces) -> AsyncIterator[World]:
    async with World(tmp_path, network) as world:
        yield world


async def _end(store: Store, grace: float = GRACE_SECONDS) -> bool:
    """End a pod by SIGTERM, and by SIGKILL after its grace. Return whether it ended by itself."""
    store.signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(grace):
            await store.ended()
    except TimeoutError:
        await store.kill()
        return False
    return True


async def _restart(world: World, network: NamedPlaces, store: Store) -> None:
    """Replace a pod by one elsewhere that has its disk, and wait until it is ready."""
    await world.quorate("status", "--wait", "60", "--without", store.name, "-o", "json")
    assert await _end(store)
    network.forget(store.name)
    network.move(store.name)
    await _start(store)


async def _start(store: Store) -> None:
    """Start a pod, and probe its readiness from its own network, as a kubelet does."""
    await store.start("--monitor", _MONITOR)
    probing = await asyncio.create_subprocess_exec(
        *(*store.place.command, sys.executable, "-c", _PROBE, f"http://{_MONITOR}/readyz")
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await probing.wait() == 0


async def _longest_undisturbed(world: World, source: SourceProcess) -> float:
    """Return the longest wait for a receipt, in seconds, while no store restarts."""

    def received() -> bool:
        return len(source.lines("receipt")) >= UNDISTURBED_RECEIPTS

    await world.progress.until(f"{UNDISTURBED_RECEIPTS} receipts", received)
    return await _longest(source)


async def _longest(source: SourceProcess) -> float:
    asked_before = len(source.lines("longest"))
    source.order("measured")
    answers = await source.progress.until(
        "the longest wait", lambda: source.lines("longest")[asked_before:]
    )
    return float(answers[0][0])


def _goodbyes(source: SourceProcess) -> set[str]:
    """Return the stores whose stop the source was told before their stream broke."""
    lost = [facts for kind, facts in source.lines("event") if kind == "StoreUnresponsive"]
    return {facts["store"] for facts in lost if "is stopping" in facts["reason"]}


@pytest.mark.parametrize("setup", [THREE, NINE], ids=["three", "nine"])
@pytest.mark.timeout(600)
async def test_a_rolling_restart_loses_nothing(
    world: World, network: NamedPlaces, setup: Setup
) -> None:
    await world.founded(*sorted(setup.stores))
    source, receiver, last = await world.streaming(100, stores=setup.written(world))
    source.order("load", EVERY_SECONDS)
    undisturbed = await _longest_undisturbed(world, source)
    # The update of one zone does not wait for that of another.
    for together in zip(*setup.groups, strict=True):
        await asyncio.gather(*(_restart(world, network, world.stores[name]) for name in together))
    source.order("quiet")
    longest = await _longest(source)
    summary = await world.end(source)
    print(
        f"{summary.messages} messages; the longest wait for a receipt "
        f"{undisturbed * 1000:.0f} ms before the restarts, {longest * 1000:.0f} ms during them"
    )
    assert _goodbyes(source) == setup.stores
    assert summary.messages > last + 100
    assert source.lines("error") == []
    assert receiver.lines("gap") == []


@pytest.mark.timeout(300)
async def test_a_store_that_does_not_end_within_its_grace_is_killed_and_nothing_is_lost(
    world: World, network: NamedPlaces
) -> None:
    _, hung, _ = await world.founded("s1", "s2", "s3")
    source, _, _ = await world.streaming(100)
    source.order("load", EVERY_SECONDS)
    hung.pause()
    await source.until_said("event", "StoreUnresponsive")
    assert not await _end(hung, SHORT_GRACE_SECONDS)
    network.move(hung.name)
    await _start(hung)
    source.order("quiet")
    summary = await world.end(source)
    assert summary.messages > 100
