"""Alerts that are caused: stores are killed and wiped, and Prometheus' own rules judge the metrics.

A scrape of the real stores stands for some minutes of the same values. So no test waits that long.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.store.monitor.processes import NAMES, Group, started
from tests.store.monitor.promtool import SCRAPE_SECONDS, firing, promtool
from tests.store.monitor.support import ask

from quorate.client import connect
from quorate.source import SourceOptions

pytestmark = [pytest.mark.long, pytest.mark.processes]

Scrape = dict[str, float]
"""The value of each series, by its name and labels."""


class Scrapes:
    """What Prometheus would have read so far."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._values: dict[str, list[str]] = {}
        self._count = 0

    async def until(self, reached: Callable[[Scrape], bool], of: str = NAMES) -> None:
        """Read the metrics of these stores again and again until they are as expected."""
        while not reached(await self._now(of)):
            pass

    async def last(self, minutes: int) -> None:
        """Read the metrics once, and let these values last for so many minutes."""
        scrape, count = await self._now(), minutes * 60 // SCRAPE_SECONDS
        for series in {*scrape, *self._values}:
            values = self._values.setdefault(series, ["_"] * self._count)
            values += [str(scrape[series])] * count if series in scrape else ["stale"] * count
        self._count += count

    async def _now(self, of: str = NAMES) -> Scrape:
        found: Scrape = {}
        for name in of:
            if not self._group.stores[name].running:
                continue
            address = self._group.pages[name]
            text = (await ask(address, "/metrics")).body
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = {"job": "g", "instance": name, **sample.labels}
                    shown = ", ".join(f'{key}="{value}"' for key, value in labels.items())
                    found[f"{sample.name}{{{shown}}}"] = sample.value
        return found

    def firing(self, directory: Path) -> set[str]:
        """Return the alerts that fire now."""
        series = {name: " ".join(values) for name, values in self._values.items()}
        (alerts,) = firing(directory, series, (self._count - 1) * SCRAPE_SECONDS / 60)
        return alerts


def at(metric: str, store: str, value: float) -> Callable[[Scrape], bool]:
    """Return whether a series of this metric has this value at a store."""

    def found(scrape: Scrape) -> bool:
        begin = f'quorate_{metric}{{job="g", instance="{store}"'
        return any(key.startswith(begin) and scrape[key] == value for key in scrape)

    return found


def without(metric: str, store: str, value: float) -> Callable[[Scrape], bool]:
    """Return whether no series of this metric has this value at a store."""
    found = at(metric, store, value)
    return lambda scrape: not found(scrape)


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
        scrapes = Scrapes(group)
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
