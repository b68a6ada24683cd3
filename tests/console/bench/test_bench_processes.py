"""`quorate bench` as a user calls it: small runs of real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.console.command import QUORATE, Ran, quorate

pytestmark = [pytest.mark.processes, pytest.mark.long]


async def bench(*options: str) -> Ran:
    return await quorate("bench", *options)


async def result(*options: str) -> dict[str, Any]:
    code, out, err = await bench(*options, "-o", "json")
    assert code == 0, err
    figures: dict[str, Any] = json.loads(out)
    return figures


async def test_as_many_as_go() -> None:
    figures = await result("--messages", "20000", "--receivers", "2")
    assert figures["stable_messages_per_second"] > 0
    assert figures["delivered_messages_per_second"] > 0
    assert figures["settings"]["messages"] == 20_480
    roles = {"sources", "receivers", "stores"}
    assert set(figures["cpu_seconds"]) == roles | {"all"}
    assert all(used > 0 for used in figures["cpu_seconds"].values())
    assert set(figures["peak_rss_mb"]) == roles
    assert figures["live_latency_ms"]["p50"] > 0
    assert figures["stable_latency_ms"]["p999"] >= figures["stable_latency_ms"]["p50"] > 0


async def test_a_rate_with_stable_delivery() -> None:
    figures = await result(
        *("--messages", "3000", "--rate", "3000", "--delivery", "stable", "--durability", "os")
    )
    assert 2000 < figures["stable_messages_per_second"] < 3300
    assert figures["settings"]["latency_sampled_every"] == 1


async def test_several_processes_of_several_sources() -> None:
    figures = await result(
        *("--sources", "5", "--processes", "2", "--messages-per-source-per-second", "100"),
        *("--messages", "2000", "--warm-up", "400", "--delivery", "live", "--tls"),
    )
    assert figures["settings"]["messages"] == 2000
    assert figures["settings"]["warm_up"] == 400
    assert figures["settings"]["rate"] == 1000
    assert 0 < figures["stable_messages_per_second"] < 1100
    assert figures["delivered_messages_per_second"] > 0


@pytest.mark.parametrize("kept_in", ["file", "synced"])
async def test_a_publish_store_on_disk(kept_in: str) -> None:
    figures = await result("--messages", "3000", "--publish-store", kept_in)
    assert figures["stable_messages_per_second"] > 0
    assert figures["settings"]["publish_store"] == kept_in


async def test_a_store_that_is_killed_and_one_that_is_paused() -> None:
    for fault in (("--kill-store",), ("--pause-store", "1")):
        figures = await result("--messages", "20000", "--rate", "10000", *fault)
        assert figures["longest_stall_ms"] < 30_000


async def test_a_table_for_people_and_usage_errors() -> None:
    code, out, _ = await bench("--messages", "1000", "--receivers", "0")
    assert code == 0
    assert "made stable" in out
    for wrong in (("--size", "3"), ("--rate", "9", "--messages-per-source-per-second", "3")):
        code, _, err = await bench(*wrong)
        assert code == 2
        assert wrong[-2] in err


def test_ctrl_c_leaves_nothing_behind_and_nothing_said(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*QUORATE, "bench", "--rate", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    stores_source_and_receiver = 5
    while len(children := psutil.Process(process.pid).children()) < stores_source_and_receiver:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, b"", b"")
    assert psutil.wait_procs(children, timeout=20)[1] == []
    assert list(tmp_path.iterdir()) == []
