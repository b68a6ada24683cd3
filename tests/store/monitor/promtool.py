"""Rules of Prometheus, evaluated by its own tool over series that a test gives."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.store.monitor.alerts import rules

SCRAPE_SECONDS = 15
NO_ALERT = 0
Series = Mapping[str, str]
"""The values of each series, as the tool writes them: `1x8` is nine ones, `0+1x8` counts."""


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the tool; skip the test if this machine does not have it."""
    tool = shutil.which("promtool")
    if tool is None:
        pytest.skip("needs the command promtool, of Prometheus")
    return subprocess.run(
        [tool, *arguments], capture_output=True, text=True, check=False, timeout=60
    )


def firing(directory: Path, series: Series, *minutes: float) -> list[set[str]]:
    """Return the alerts that fire after so many minutes of these series, for each of the times."""
    (directory / "alerts.yaml").write_text(yaml.safe_dump(rules()))
    test = {
        "interval": f"{SCRAPE_SECONDS}s",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "promql_expr_test": [_question(each) for each in minutes],
    }
    file = directory / "test.yaml"
    file.write_text(
        json.dumps(
            {
                "rule_files": ["alerts.yaml"],
                "evaluation_interval": f"{SCRAPE_SECONDS}s",
                "tests": [test],
            }
        )
    )
    done = promtool("test", "rules", str(file))
    answers = re.findall(r"^ *got:(.*)$", done.stdout + done.stderr, re.M)
    assert len(answers) == len(minutes), done.stdout + done.stderr
    return [set(re.findall(r'alertname="(\w+)"', answer)) for answer in answers]


def _question(minutes: float) -> dict[str, Any]:
    """Return a test that fails: the tool names a result only if it expects another one."""
    return {
        "expr": f'count by (alertname) (ALERTS{{alertstate="firing"}}) or vector({NO_ALERT})',
        "eval_time": f"{int(minutes * 60)}s",
        "exp_samples": [],
    }
