"""The benchmark of backtests runs, with the stores and the messages of the benchmark of Spark."""

from __future__ import annotations

import pytest
from bench.backtest import run

pytestmark = [pytest.mark.long, pytest.mark.processes]


def test_it_measures_replays_to_a_function_and_to_a_topic(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(messages=16_000, rate=500_000, runs=1)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["source"] + ["backtest"] * 4
