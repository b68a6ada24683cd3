"""Alerts that are caused: stores are killed, wiped and filled, and Prometheus' rules judge them.

Those that one store causes alone are in test_alerts_of_a_store.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from tests.small_disks import mount_memory
from tests.store.monitor.processes import Group, started
from tests.store.monitor.promtool import promtool
from tests.store.monitor.scrapes import Scrapes, at, without

from quorate.client import StoreAddress, connect
from quorate.console.group.check import check
from quorate.console.group.rules.findings import Bounds, Kind
from quorate.source import SourceOptions

_MIB = 1 << 20

pytestmark = [pytest.mark.long, pytest.mark.processes]


@pytest.mark.expects_log("does not take|came back without its data|lost its quorum|is in limbo")
@pytest.mark.timeout(240)
async def test_a_day_of_failures_fires_the_alerts(tmp_path: Path) -> None:
    promtool("--version")
    quick = SourceOptions(registration_interval=0.3)
    async with (
        started(tmp_path) as group,
        connect(group.named) as client,
        client.source("orders", session_id=7, options=quick) as orders,
    ):
        scrapes = Scrapes(group.running)
        async with client.receiver("orders", session_id=9, acknowledge="explicit") as receiver:
            await orders.publish(b"first")
            (await anext(aiter(receiver))).acknowledge()
        await scrapes.last(5)
        for number in range(100_100):
            await orders.send(b"%d" % number)
        await orders.flush()
        await scrapes.until(at("receiver_lag_messages", "a", 100_100))
        await scrapes.until(at("unstable_live_messages", "a", 0))
        await scrapes.last(15)
        assert scrapes.firing(tmp_path) == {"QuorateReceiverBehind"}

        await group.stores["c"].kill()
        await scrapes.until(at("peer_reachable", "a", 0))
        await scrapes.until(at("peer_reachable", "b", 0))
        await orders.publish(b"more")
        for store in "ab":
            await scrapes.until(at("unstable_live_messages", store, 0))
        await scrapes.last(5)
        assert scrapes.firing(tmp_path) == {"QuorateReceiverBehind", "QuorateStoreAway"}

        os.kill(group.stores["b"].pid, signal.SIGSTOP)
        await orders.send(b"waits")
        await scrapes.until(at("unstable_live_messages", "a", 1), of="a")
        await group.stores["b"].kill()
        await scrapes.until(without("peer_reachable", "a", 1))
        await scrapes.last(5)
        assert scrapes.firing(tmp_path) == {
            "QuorateReceiverBehind",
            "QuorateStoreAway",
            "QuorateQuorumAway",
            "QuorateNothingBecomesStable",
        }

        shutil.rmtree(tmp_path / "c")
        await group.stores["c"].start()
        await scrapes.until(at("limbo", "c", 1))
        await scrapes.last(15)
        assert "QuorateStoreInLimbo" in scrapes.firing(tmp_path)

        await group.stores["b"].start()
        await orders.flush()
        await scrapes.until(at("limbo", "c", 0))
        for store in group.stores:
            await scrapes.until(at("unstable_live_messages", store, 0))
            await scrapes.until(without("peer_reachable", store, 0))
        await scrapes.last(5)
        assert scrapes.firing(tmp_path) == {"QuorateReceiverBehind"}


async def _fill(group: Group, scrapes: Scrapes, minutes: int, mebibytes: int) -> None:
    """Send so much in these minutes, in steps of five."""
    chance, steps = random.Random(minutes), minutes // 5
    async with connect(group.named) as client, client.source("orders", session_id=7) as orders:
        for _ in range(steps):
            for _ in range(mebibytes // steps):
                await orders.publish(chance.randbytes(_MIB))
            await scrapes.until(at("unstable_live_messages", "a", 0))
            await scrapes.last(5)


@pytest.mark.timeout(240)
async def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """The store has up to 130 MiB more on the disk than it was sent: it writes before it frees."""
    promtool("--version")
    bounds = tmp_path / "bounds.toml"
    bounds.write_text(f"disk_free_min_bytes = 0\ndisk_free_warning_bytes = {80 * _MIB}\n")
    with contextlib.ExitStack() as mounts:
        mount_memory(mounts, tmp_path / "a", 400)
        async with started(tmp_path, f"--config={bounds}", names="a") as group:
            scrapes = Scrapes(group.running)
            await scrapes.last(60)
            assert scrapes.firing(tmp_path) == set()
            # A fifth of a MiB a minute: it is full in more than a day.
            await _fill(group, scrapes, 60, mebibytes=12)
            assert scrapes.firing(tmp_path) == set()
            # Two MiB a minute: the alert warns before the disk is almost full.
            await _fill(group, scrapes, 75, mebibytes=150)
            assert scrapes.firing(tmp_path) == {"QuorateDiskFillsUp"}
            while shutil.disk_usage(tmp_path / "a").free > 80 * _MIB:
                await _fill(group, scrapes, 5, mebibytes=10)
            assert scrapes.firing(tmp_path) == {"QuorateDiskFillsUp", "QuorateDiskAlmostFull"}
            await scrapes.last(90)
            assert scrapes.firing(tmp_path) == {"QuorateDiskAlmostFull"}, "it fills no further"


@pytest.mark.expects_log("does not take|in limbo|lost its quorum|came back without its data")
@pytest.mark.timeout(240)
async def test_a_store_that_is_in_limbo_for_its_sources(tmp_path: Path) -> None:
    promtool("--version")
    async with started(tmp_path, "--durability=memory") as group:
        scrapes = Scrapes(group.running)
        async with connect(group.named) as client, client.source("orders", session_id=7) as orders:
            await orders.publish(b"one")
        await scrapes.last(5)
        assert scrapes.firing(tmp_path) == set()

        # What b had in memory alone may be lost, and a cannot vouch for all of it without c.
        await group.stores["c"].stop()
        await group.stores["b"].kill()
        await group.stores["b"].start()
        await scrapes.until(at("limbo_sources", "b", 1), of="b")
        for store in "ab":
            await scrapes.until(at("peer_reachable", store, 0), of=store)
            await scrapes.until(at("peer_reachable", store, 1), of=store)
        await scrapes.last(15)
        assert scrapes.firing(tmp_path) == {"QuorateStoreAway", "QuorateSourcesInLimbo"}
        stores = [StoreAddress(name, child.address) for name, child in group.stores.items()]
        found = await check(stores, 5.0, "", Bounds(), 0.0)
        assert [each.kind for each in found] == [Kind.UNREACHABLE, Kind.LIMBO]
        assert "these have not answered, or are in limbo themselves: c" in found[1].what

        await group.stores["c"].start()
        await scrapes.until(at("limbo_sources", "b", 0))
        for store in group.stores:
            await scrapes.until(without("peer_reachable", store, 0), of=store)
        await scrapes.last(5)
        assert scrapes.firing(tmp_path) == set()
