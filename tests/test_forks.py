"""Processes that begin as forks are as those that begin as an interpreter of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests import forks

QUORATE = [sys.executable, "-m", "quorate.console.main"]
pytestmark = pytest.mark.processes


def ran(*arguments: str, **options: object) -> tuple[int, str, str]:
    done = subprocess.run([*QUORATE, *arguments], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments", [("send", "--help"), ("store", "run"), ("send",), ("token", "add", "none/t", "a")]
)
def test_a_fork_says_what_an_interpreter_says(arguments: tuple[str, ...], tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)} | {
        name: value for name, value in os.environ.items() if name.startswith(forks.AS_THE_SERVER)
    }
    forked = ran(*arguments, env=environment, cwd=tmp_path)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    with forks.none():
        assert ran(*arguments, env=environment, cwd=tmp_path) == forked


def test_a_fork_is_a_child_whom_signals_reach(tmp_path: Path) -> None:
    store = ("store", "run", "--name", "a", "--no-peers", "--listen", "127.0.0.1:0", "-o", "json")
    with subprocess.Popen(
        [*QUORATE, *store, "--data-directory", "data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert b'"address"' in process.stdout.readline()
        started = psutil.Process(process.pid)
        assert started.ppid() == os.getpid()
        assert "tests.fork_server" in started.cmdline()
        assert os.getsid(process.pid) == process.pid
        assert (tmp_path / "data").is_dir()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 0


def test_a_fork_that_is_killed_has_ended_so() -> None:
    waiting = [*QUORATE, "send", "x", "--stores", "127.0.0.1:1"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE) as process:
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_another_python_is_no_fork() -> None:
    python = ran("--help", env={**os.environ, "PYTHONVERBOSE": "1"})
    assert "import 'typer'" in python[2]
