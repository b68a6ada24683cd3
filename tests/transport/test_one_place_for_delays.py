"""Nothing waits by a number or by chance of its own: quorate.protocol.delays has the policies.

A wait of 0 seconds only lets others run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (
    "client",
    "console",
    "pipeline",
    "proto",
    "queue",
    "receiver",
    "source",
    "store",
    "subscriber",
)

PACES = {
    "console/quorate/console/bench/usage.py: SAMPLE_SECONDS",
    "console/quorate/console/demo/run.py: _POLL_SECONDS",
    "console/quorate/console/demo/run.py: _REFRESH_SECONDS",
    "queue/quorate/queue/io/rivals.py: _ROUND_SECONDS",
    "receiver/quorate/receiver/io/source_session.py: RECHECK_SECONDS",
    "store/quorate/store/node.py: _LOOK_SECONDS",
    "store/quorate/store/rpc/append.py: RECEIVERS_SECONDS",
    "store/quorate/store/rpc/health.py: LOOK_SECONDS",
    "store/quorate/store/tasks/disk_space.py: LOOK_SECONDS",
    "store/quorate/store/tasks/loop_lag.py: SLEEP_SECONDS",
    "store/quorate/store/tasks/readmission.py: FOUND_OUT_SECONDS",
    "store/quorate/store/tasks/repair.py: ROUND_SECONDS",
    "store/quorate/store/tasks/retention.py: ROUND_SECONDS",
}
"""Loops that go round at a pace of their own, whether something failed or not. No new one is added:
a wait for another attempt has a policy."""


def name_of(function: ast.expr) -> str:
    """The last part of a dotted name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def waits(source: str) -> Iterator[str]:
    """Each wait of a module that has a number, or chance, of its own."""
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        name = name_of(call.func)
        if name == "uniform":
            yield "uniform"
        if name == "sleep" and call.args:
            match call.args[0]:
                case ast.Constant(value=seconds) if seconds:
                    yield f"{seconds!r}"
                case ast.Name(id=constant) if constant.isupper():
                    yield constant


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("await asyncio.sleep(0.1)", ["0.1"]),
        ("time.sleep(2)", ["2"]),
        ("from asyncio import sleep\nasync def f(): await sleep(_POLL_SECONDS)", ["_POLL_SECONDS"]),
        ("await asyncio.sleep(random.uniform(0, at_most))", ["uniform"]),
        ("await asyncio.sleep(0)", []),
        ("await asyncio.sleep(delay(REPEAT, failures))", []),
    ],
)
def test_a_wait_is_found(source: str, found: list[str]) -> None:
    assert list(waits(source)) == found


def test_no_other_module_has_a_wait_of_its_own() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {wait}"
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        if re.search("sleep|uniform", text := path.read_text())
        for wait in waits(text)
    }
    assert found == PACES
