"""The pipeline over Spark Connect."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.pipeline.group import Group

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(300)]


def test_tables_and_streams_work_over_spark_connect(group: Group) -> None:
    program = [sys.executable, "-m", "tests.pipeline.connect_client", group.stores]
    done = subprocess.run(program, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said == {"rows": 1000, "sum": sum(range(1000)), "streamed": 1000}
