"""Several processes share the tests as tests.sharing says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.sharing import share

ROOT = Path(__file__).parents[1]
FILES = (
    "tests/console/ui/test_exits.py",
    "tests/console/ui/test_tables.py",
    "tests/protocol/test_limits.py",
    "tests/test_layout.py",
)


@pytest.mark.long
def test_every_share_is_run_whole_by_one_of_several_processes() -> None:
    pytest.importorskip("xdist", reason="one process runs all tests: pytest-xdist is missing")
    command = [sys.executable, "-m", "pytest", "--numprocesses", "2", "-v", *FILES]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=outside,
        check=False,
    )
    passed = re.findall(r"^\[(gw\d)\] .*PASSED (\S+)", run.stdout, re.MULTILINE)
    assert run.returncode == 0, run.stdout
    processes = defaultdict(set)
    for process, test in passed:
        processes[share(test)].add(process)
    assert len(processes) == 3, "all of the console's are one"
    assert all(len(each) == 1 for each in processes.values()), processes
    assert set.union(*processes.values()) == {"gw0", "gw1"}


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("tests/console/test_demo.py::test_a", "tests/end_to_end/test_b.py::test_c", False),
        ("tests/end_to_end/test_a.py::test_a", "tests/end_to_end/test_b.py::test_c", True),
        ("tests/pipeline/test_jobs.py::test_a", "tests/pipeline/audit/test_b.py::test_c", True),
        ("tests/pipeline/test_jobs.py::test_a", "tests/end_to_end/test_b.py::test_c", False),
        ("tests/store/test_core.py::test_a[x::y]", "tests/store/test_core.py::test_b", True),
        ("tests/store/test_core.py::test_a", "tests/store/test_pace.py::test_a", False),
        ("tests/world/test_x.py::test_a[1]", "tests/world/test_x.py::test_a[2]", False),
    ],
)
def test_what_is_together(one: str, other: str, together: bool) -> None:
    assert (share(one) == share(other)) == together
