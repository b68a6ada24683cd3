"""How the processes of `make test` share the tests: what stays together, and what may be split.

Tests that run real processes are one share, so that two of them never compete for the cores; those
of the pipeline are another, so that Spark starts once. Files of long computations are split; any
other file stays in one piece.

`xdist_group` is not for this: with pytest 9.2, pytest-xdist 3.8 silently takes no notice of it.
"""

from __future__ import annotations

_PROCESSES = (
    "tests/console/",
    "tests/end_to_end/",
    "tests/source/test_processes.py",
    "tests/store/test_processes.py",
)
_PIPELINE = "tests/pipeline/"
_SPLIT = ("tests/brute_force/", "tests/simulation/")
_WHOLE = ("tests/simulation/test_world.py",)
"""All of its tests look at the same worlds, which take long."""


def share(test: str) -> str:
    """The name of what this test stays together with; its own, if with nothing."""
    if test.startswith(_PROCESSES):
        return "tests that run processes"
    if test.startswith(_PIPELINE):
        return _PIPELINE
    if test.startswith(_SPLIT) and not test.startswith(_WHOLE):
        return test
    return test.partition("::")[0]


def ports_of(worker: str, count: int, ports: range) -> range:
    """Those that this process (gw0, gw1 …) of so many may take; no other one may."""
    return ports[int(worker.removeprefix("gw")) :: count]
