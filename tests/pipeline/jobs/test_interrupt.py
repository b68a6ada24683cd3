"""Ctrl-C and its like end a job with one line and what is whole; a second one at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tests.pipeline.group import Group, numbered, until

from quorate.pipeline.archive.tasks import on_spark
from quorate.pipeline.errors import Interrupted
from quorate.pipeline.jobs.interrupt import (
    STOPPING_SIGNALS,
    done_aside,
    interruptible,
)

LONG_SECONDS = 300.0
"""Longer than any test may take."""


def never_done(_: int) -> Iterator[dict[str, Any]]:
    time.sleep(LONG_SECONDS)
    yield {}


def freed(spark: SparkSession) -> bool:
    """Have Spark do nothing more; the first call after one that was cut off may fail."""
    try:
        spark.sparkContext.cancelAllJobs()
    except Py4JError:
        return False
    return True


@pytest.fixture
def signals_are_heard() -> Iterator[None]:
    """A runner such as nohup has its programs ignore a signal. Ours leave it ignored."""
    before = {each: signal.signal(each, signal.SIG_DFL) for each in STOPPING_SIGNALS}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.usefixtures("signals_are_heard")
@pytest.mark.parametrize("number", STOPPING_SIGNALS, ids=lambda each: each.name)
def test_a_signal_ends_what_is_done_and_the_next_one_is_somebody_elses(number: int) -> None:
    before = [signal.getsignal(each) for each in STOPPING_SIGNALS]
    with pytest.raises(Interrupted) as caught, interruptible("It is whole."):
        signal.raise_signal(number)
    assert caught.value.signal == signal.Signals(number).name
    assert caught.value.remains == "It is whole."
    assert [signal.getsignal(each) for each in STOPPING_SIGNALS] == before


def test_what_shall_be_ignored_is() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible("It is whole."):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)

    def look() -> Any:
        with interruptible("It is whole."):
            return signal.getsignal(signal.SIGINT)

    assert done_aside(look) is before


def test_what_is_done_aside_says_how_it_failed() -> None:
    with pytest.raises(ZeroDivisionError):
        done_aside(lambda: 1 // 0)


def test_what_is_done_aside_is_not_waited_for_when_a_signal_comes() -> None:
    over = threading.Event()

    def begin() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        over.wait(LONG_SECONDS)

    with pytest.raises(Interrupted), interruptible("It is whole."):
        done_aside(begin)
    over.set()


def test_a_second_signal_ends_the_process_at_once() -> None:
    script = f"""
import signal, time
from quorate.pipeline.jobs.interrupt import interruptible
with interruptible("never said"):
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        print("cleaning up", flush=True)
        time.sleep({LONG_SECONDS})
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"cleaning up\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate() == (b"", b"")
    assert process.returncode == 130


def test_a_child_that_is_about_to_become_another_program_is_not_interrupted() -> None:
    """Ctrl-C in a terminal reaches it, too: a trace of it would stand beside the job's answer."""
    script = """
import os, signal
from quorate.pipeline.jobs.interrupt import interruptible
with interruptible("It is whole."):
    child = os.fork()
    if not child:
        signal.raise_signal(signal.SIGINT)
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_a_call_of_spark_is_cut_off_without_a_trace(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt_when_busy() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not tracker.getActiveJobsIds():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_busy, daemon=True)
    thread.start()
    try:
        with pytest.raises(Interrupted), interruptible("It is whole."):
            on_spark(spark)([0], never_done)
    finally:
        thread.join()
        until("Spark is free again", lambda: freed(spark))
    assert "Traceback" not in capfd.readouterr().err
    assert spark.range(3).count() == 3


def test_what_fails_because_of_the_signal_is_none_of_the_users_business() -> None:
    @interruptible("It is whole.")
    def job() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise OSError("the call was cut off")

    with pytest.raises(Interrupted):
        job()


# As users run them.


def started(group: Group, *command: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *command, "--stores", group.stores],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        # As a terminal does it: with a group of its own, whose every process gets Ctrl-C.
        start_new_session=True,
    )


def said(process: subprocess.Popen[str], text: str) -> list[str]:
    """The lines on its stderr up to one with this text."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return lines
    pytest.fail(f"it never said {text!r} but {lines}")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ctrl_c_while_spark_starts_is_answered_with_a_line(group: Group, tmp_path: Path) -> None:
    group.publish("ctrl-c.start", numbered(0, 9))
    command = ("stats", "--master", "local[2]", "--topic", "ctrl-c.start")
    process = started(group, "quorate.pipeline", *command, cwd=tmp_path)
    with contextlib.closing(process.stdout), contextlib.closing(process.stderr):  # type: ignore[type-var]
        said(process, "starting Spark")
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    # What Java says of itself when it begins may come in between.
    lines = [line for line in err.splitlines() if "incubator" not in line]
    assert (out, lines) == ("", ["Interrupted (SIGINT). Nothing was changed."])
    assert process.returncode == 130


@pytest.mark.long
@pytest.mark.timeout(300)
def test_ctrl_c_in_a_replay_ends_with_its_report(group: Group, tmp_path: Path) -> None:
    group.publish("ctrl-c.replay", numbered(0, 9))
    (tmp_path / "blocking.py").write_text(
        f"""
import sys, time
def hear(message):
    if message.position.sequence == 4:
        print("four has come", file=sys.stderr, flush=True)
        time.sleep({LONG_SECONDS})
"""
    )
    process = started(
        group,
        *("quorate.console.main", "backtest", "--topic", "ctrl-c.replay", "-o", "json"),
        *("--function", "blocking:hear", "--speed", "max"),
        cwd=tmp_path,
    )
    said(process, "four has come")
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert "Traceback" not in err
    assert process.returncode == 130
    report = json.loads(out)
    assert (report["messages"], report["interrupted"]) == (4, True)
