"""docs/applications.md says what is: its programs run, on real stores, and end as it says."""

from __future__ import annotations

import ast
import asyncio
import inspect
import logging
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.console.test_tutorial import Processes, blocks, interrupt, until

from quorate.client import connect

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "applications.md").read_text()

pytestmark = [pytest.mark.processes, pytest.mark.long]


def program(words: str) -> str:
    """Return the program of the page that has these words."""
    (found,) = (block.code for block in blocks(PAGE) if words in block.code)
    return found


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """A group of stores, and the programs of the page as files."""
    with ExitStack() as stack:
        made = Processes(tmp_path, stack)
        for name, words in (
            ("slow.py", "asyncio.to_thread"),
            ("threads.py", "ThreadPoolExecutor"),
            ("service.py", "add_signal_handler"),
            ("blocking_service.py", "default_int_handler"),
        ):
            (tmp_path / name).write_text(program(words))
        stores, _ = made.start_stores("quorate dev")
        yield made
        interrupt(stores)


def test_threads_send_and_a_slow_handler_receives(processes: Processes) -> None:
    receiving = processes.start("python slow.py")
    sent = processes.run("python threads.py")
    assert (sent.returncode, sent.stdout, sent.stderr) == (0, "[0, 1, 2]\n", "")
    assert receiving.wait(100) == 0


def ended_by(number: signal.Signals, process: subprocess.Popen[str]) -> int:
    """Send a signal to a program that has printed its messages, and return its exit code."""
    until(process.stdout, "1 two")
    process.send_signal(number)
    exit_code = process.wait(100)
    assert process.stderr is not None
    assert process.stderr.read() == ""
    return exit_code


def test_a_receiver_ends_by_a_signal_without_a_traceback(processes: Processes) -> None:
    processes.directory.joinpath("lines").write_text("one\ntwo\n")
    assert processes.run("quorate send orders --session-id 1 --file lines").returncode == 0
    for name, exit_code in (("service.py", 143), ("blocking_service.py", 130)):
        assert ended_by(signal.SIGTERM, processes.start(f"python {name}")) == exit_code
    processes.run("quorate deregister --source orders/1 --receiver 11 --yes")
    processes.run("quorate deregister --source orders/1 --receiver 12 --yes")
    for name in ("service.py", "blocking_service.py"):
        assert ended_by(signal.SIGINT, processes.start(f"python {name}")) == 130


def test_cells_of_a_notebook(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_STORES", processes.stores)
    names: dict[str, Any] = {}

    async def run_cells() -> None:
        for words in ("from a notebook", "await quorate.close()"):
            code = compile(program(words), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                await result

    asyncio.run(run_cells())
    assert names["receipt"].sequence == 0


def test_the_settings_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "quorate.toml").write_text(program("stores = ["))
    settings = connect(tmp_path / "quorate.toml")._settings
    assert settings.source_options("orders", None).advertise == "app.example:7400"
    assert settings.source_options("metrics.cpu", None).delays.longest == 5
    assert settings.receiver_options("orders", None).acknowledge_interval == 1
    assert settings.receiver_options("trades", None).request_timeout == 2


def test_the_level_of_the_loggers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    logger = logging.getLogger("quorate")
    before = logger.level
    try:
        exec(program("basicConfig"), {})
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)
