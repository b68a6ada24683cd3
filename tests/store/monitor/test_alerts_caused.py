"""Alerts that are caused: stores are killed and wiped, and Prometheus' own rules judge the metrics.

Those that one store causes alone are in test_alerts_of_a_store.
"""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.store.monitor.processes import started
from tests.store.monitor.promtool import promtool
from tests.store.monitor.scrapes import Scrapes, at, without

from quorate.client import connect
from quorate.source import SourceOptions

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
        scrapes = Scrapes(
            lambda: {name: page for name, page in group.pages.items() if group.stores[name].running}
        )
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
