"""Tasks that run without Spark: in processes, or in threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pipeline.group import until

from quorate.pipeline.archive.tasks import Entry, Run
from quorate.pipeline.archive.workers import in_processes, in_threads
from quorate.pipeline.errors import TaskFailed
from quorate.protocol.errors import Unreachable

pytestmark = pytest.mark.long


def says_where(part: int) -> Iterator[Entry]:
    yield {"part": part, "process": os.getpid()}
    yield {"part": part, "process": os.getpid()}


def fails(part: int) -> Iterator[Entry]:
    if part == 1:
        raise Unreachable("h:1", "it is away")
    yield {}


def dies(part: int) -> Iterator[Entry]:
    if part == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    yield {}


def never_ends(directory: Path) -> Iterator[Entry]:
    """Say that it runs. The part that is named `fails` fails once all others run."""
    (directory / f"{os.getpid()}.runs").touch()
    while True:
        time.sleep(0.05)
        if directory.name == "fails" and list(directory.parent.glob("*/*.runs"))[1:]:
            raise OSError("the disk is full")
        yield {}


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def running(directory: Path) -> list[int]:
    return [int(path.stem) for path in directory.glob("*/*.runs")]


@pytest.mark.parametrize("run", [in_processes(2), in_threads])
def test_every_part_is_run_once(run: Run) -> None:
    told = run(range(5), says_where)
    assert sorted(entry["part"] for entry in told) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert run([], says_where) == []


def test_only_several_tasks_need_processes() -> None:
    run = in_processes(2)
    assert {entry["process"] for entry in run([7], says_where)} == {os.getpid()}
    others = {entry["process"] for entry in run(range(8), says_where)}
    assert os.getpid() not in others
    assert len(others) <= 2
    assert not any(map(lives, others))


@pytest.mark.parametrize("run", [in_processes(2), in_threads])
def test_a_task_that_fails_ends_the_job_with_its_cause(run: Run) -> None:
    with pytest.raises(TaskFailed, match=r"Unreachable: .*it is away"):
        run(range(3), fails)


def test_a_process_that_dies_ends_the_job() -> None:
    with pytest.raises(TaskFailed, match="has ended; was there too little memory"):
        in_processes(2)(range(3), dies)


def test_tasks_end_with_a_job_that_failed(tmp_path: Path) -> None:
    parts = [tmp_path / "runs", tmp_path / "fails"]
    for part in parts:
        part.mkdir()
    with pytest.raises(TaskFailed, match="OSError: the disk is full"):
        in_processes(2)(parts, never_ends)
    assert len(running(tmp_path)) == 2
    assert not any(map(lives, running(tmp_path)))


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_tasks_end_with_the_program(tmp_path: Path, number: signal.Signals) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    program = (
        "from pathlib import Path\n"
        "from quorate.pipeline.archive.workers import in_processes\n"
        "from tests.pipeline.archive.test_workers import never_ends\n"
        "if __name__ == '__main__':\n"
        f"    in_processes(2)([Path({str(tmp_path)!r}, name) for name in 'ab'], never_ends)\n"
    )
    (tmp_path / "program.py").write_text(program)
    job = subprocess.Popen(
        [sys.executable, tmp_path / "program.py"],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    until("both run", lambda: len(running(tmp_path)) == 2)
    job.send_signal(number)
    job.wait(60)
    until("no task runs", lambda: not any(map(lives, running(tmp_path))))


def test_threads_are_not_waited_for_by_a_job_that_failed() -> None:
    goes_on = threading.Event()

    def waits(part: int) -> Iterator[Entry]:
        if part == 1:
            raise OSError("the disk is full")
        goes_on.wait(60)
        yield {}

    try:
        with pytest.raises(TaskFailed, match="the disk is full"):
            in_threads(range(2), waits)
        assert not goes_on.is_set()
    finally:
        goes_on.set()
