"""docs/tutorial.md and README.md say what is: their programs and commands run on real stores."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NamedTuple

import pytest

from quorate.console.main import load
from quorate.protocol.identity import parse_stores
from quorate.source import SourceOptions
from quorate.store.configuration import load as load_configuration

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
README = (ROOT / "README.md").read_text()
PROGRAMS = {"python": [sys.executable], "quorate": [sys.executable, "-m", "quorate.console.main"]}
SHOWN_STORES = "a=127.0.0.1:7301,b=127.0.0.1:7302,c=127.0.0.1:7303"
NAMES = ("a", "b", "c")
PROMPT = "order: "
OF_ITS_TIME = {"time": "", "timestamp_ns": 0}
"""The fields of a message that differ from run to run."""

pytestmark = [pytest.mark.processes, pytest.mark.long]


class Block(NamedTuple):
    """A block of code in a document."""

    file: str
    """The name under which the reader saves it; empty if the text gives it none."""
    language: str
    code: str


def blocks(document: str) -> Iterator[Block]:
    """Return the blocks in their order, each with the name that the text before it gives."""
    end = 0
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", document, re.M | re.S):
        named = re.search(r"Save (?:this|it) as `(\S+\.py)`", document[end : found.start()])
        yield Block(named[1] if named else "", found[1], found[2])
        end = found.end()


def steps(console: str) -> Iterator[tuple[str, list[str]]]:
    """Return each command with the lines that it shows; no command: a program that runs goes on."""
    for step in re.split(r"^(?=\$ )", console, flags=re.M):
        first, *shown = step.splitlines() or [""]
        if first.startswith("$ "):
            yield first[2:], shown
        elif first:
            yield "", [first, *shown]


class Processes:
    """Programs in a directory, on stores that the environment names."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.stores = SHOWN_STORES
        self._stack = stack

    def real(self, text: str) -> str:
        """Return a text with the addresses of the stores that run here."""
        here = parse_stores(self.stores)
        for shown, store in zip(parse_stores(SHOWN_STORES), here, strict=True):
            text = text.replace(shown.address, store.address)
        return text

    def start(self, command: str) -> subprocess.Popen[str]:
        """Start a command, which ends with the test at the latest."""
        process = subprocess.Popen(
            self._arguments(command),
            cwd=self.directory,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            self._arguments(command),
            cwd=self.directory,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def start_stores(self, command: str) -> tuple[subprocess.Popen[str], str]:
        """Start the stores on ports that are free; return their process and what it says."""
        stores = self.start(f"{command} --base-port 0")
        export = line_of(stores.stdout).rstrip("\n")
        assert export.startswith("export QUORATE_STORES=")
        self.stores = export.partition("=")[2]
        return stores, export + "\n" + until(stores.stderr, "Ctrl-C")

    def _arguments(self, command: str) -> list[str]:
        program, *rest = shlex.split(self.real(command))
        return [*PROGRAMS[program], *rest]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "QUORATE_STORES": self.stores, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(tmp_path, stack)


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    line = stream.readline()
    assert line, "it has ended"
    return line


def until(stream: IO[str] | None, words: str) -> str:
    """Return what a process says, as far as the line with these words."""
    said = ""
    while words not in said:
        said += line_of(stream)
    return said


def interrupt(process: subprocess.Popen[str], exit_code: int = 0) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == exit_code


class Reader:
    """A reader of the tutorial, who does what it says and compares what comes of it."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._real = processes.real
        self._stores_of: dict[str, tuple[int, str]] = {}
        """Process and name of each store, by the process that the tutorial shows."""
        self._alive: set[str] = set()
        self._remedy = ""
        """The command that starts the dead store again, as `quorate dev` says it."""
        self._dev: subprocess.Popen[str]
        self._watching: subprocess.Popen[str]
        self._typing: subprocess.Popen[str] | None = None
        self._revived: subprocess.Popen[str]

    def follow(self, command: str, shown: list[str]) -> None:
        """Do one step."""
        match command.split()[:2]:
            case ["make" | "source" | "export", _]:
                pass
            case ["quorate", "dev"]:
                self._start_stores(command, shown)
            case ["quorate", "backtest"]:
                known = {option for each in load("backtest").params for option in each.opts}
                assert {word for word in command.split() if word.startswith("-")} <= known
            case ["quorate", "store"]:
                assert self._real(command) == self._remedy
                self._revived = self._processes.start(command)
                until(self._revived.stderr, self._real(shown[-1]))
                self._alive = set(NAMES)
            case ["quorate", "status"]:
                self._stop_typing()
                self._compare_status(shown)
            case ["quorate", "receive"] if not shown:
                self._watching = self._processes.start(command)
                while '"0x3"' not in self._processes.run("quorate status -o json").stdout:
                    pass
            case ["python", "type_orders.py"]:
                self._typing = self._processes.start(command)
                self._type(shown)
            case ["kill", "-9"]:
                self._kill(command.split()[2])
            case [] if shown[0].startswith(PROMPT):
                self._type(shown)
            case []:
                assert [line_of(self._watching.stdout).rstrip("\n") for _ in shown] == shown
            case _:
                self._compare(command, shown)

    def finish(self) -> None:
        """Stop what still runs, as Ctrl-C does."""
        interrupt(self._watching)
        interrupt(self._revived)
        interrupt(self._dev)

    def _start_stores(self, command: str, shown: list[str]) -> None:
        self._dev, said = self._processes.start_stores(command)
        self._alive = set(NAMES)
        for line in shown:
            pattern = re.escape(self._real(line))
            if process := re.search(r"Store (\w) serves \S+ \(process (\d+)", line):
                pattern = pattern.replace(rf"process\ {process[2]}", r"process\ (\d+)")
                found = re.search(pattern, said)
                assert found, said
                self._stores_of[process[2]] = (int(found[1]), process[1])
            else:
                assert self._real(line) in said

    def _kill(self, shown_process: str) -> None:
        process, name = self._stores_of[shown_process]
        os.kill(process, signal.SIGKILL)
        until(self._dev.stderr, "has ended (signal 9)")
        self._remedy = line_of(self._dev.stderr).rstrip("\n").partition("there: ")[2]
        self._alive.remove(name)

    def _type(self, shown: list[str]) -> None:
        assert self._typing is not None
        assert self._typing.stdin is not None
        typed, expected = shown
        self._typing.stdin.write(typed.removeprefix(PROMPT) + "\n")
        self._typing.stdin.flush()
        self._compare_lines([line_of(self._typing.stdout).removeprefix(PROMPT)], [expected])

    def _stop_typing(self) -> None:
        if self._typing is not None:
            _, warned = self._typing.communicate("\n")
            assert self._typing.returncode == 0
            assert "store b does not take orders/0x1" in warned
            self._typing = None

    def _compare_status(self, shown: list[str]) -> None:
        status = self._processes.run("quorate status")
        while shown[-1] == "Healthy." and status.returncode != 0:
            status = self._processes.run("quorate status")
        assert status.returncode == (0 if shown[-1] == "Healthy." else 10)
        self._compare_rows(status.stdout + status.stderr, shown)

    def _compare(self, command: str, shown: list[str]) -> None:
        ended = self._processes.run(command)
        if shown[-1] == "Killed":
            shown = shown[:-1]
            assert ended.returncode == -signal.SIGKILL, ended.stderr
        else:
            assert ended.returncode == 0, ended.stderr
        if shown[0].startswith("  "):
            self._compare_rows(ended.stdout, shown)
        else:
            self._compare_lines(ended.stdout.splitlines(), shown)

    def _compare_rows(self, said: str, shown: list[str]) -> None:
        """Compare tables, of which the tutorial may leave columns and rows out."""
        rows = [row.split() for row in said.splitlines()]
        for line in shown:
            words = self._real(line).split()
            assert any(set(words) <= set(row) for row in rows), (line, said)

    def _compare_lines(self, said: Sequence[str], shown: Sequence[str]) -> None:
        assert [self._steady(line) for line in said] == [self._steady(line) for line in shown]

    def _steady(self, line: str) -> Any:
        """Return what of a line is the same in each run."""
        if line.startswith("{"):
            return json.loads(line) | OF_ITS_TIME
        said, on_disks, stores = self._real(line.rstrip("\n")).partition(" is on the disks of ")
        if on_disks:
            holders = set(stores.split(" and "))
            assert holders <= self._alive
            # Any two of three are enough, and the third may have been as fast.
            return said, len(holders) >= 2
        return said


@pytest.mark.timeout(300)
def test_the_tutorial(processes: Processes) -> None:
    reader = Reader(processes)
    for block in blocks(TUTORIAL):
        if block.file:
            (processes.directory / block.file).write_text(block.code)
        elif block.language == "console":
            for command, shown in steps(block.code):
                reader.follow(command, shown)
    reader.finish()


def test_the_function_of_the_tutorial(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(next(block.code for block in blocks(TUTORIAL) if block.file == "reports.py"), names)
    time = datetime(2026, 1, 31, 12, tzinfo=UTC)
    names["report"](SimpleNamespace(time=time, payload=b"order 5"))
    assert capsys.readouterr().out == "2026-01-31T12:00:00+00:00 order 5\n"


def test_what_the_tutorial_configures(tmp_path: Path) -> None:
    (configuration,) = (block.code for block in blocks(TUTORIAL) if block.language == "toml")
    (tmp_path / "store.toml").write_text(configuration)
    assert load_configuration(tmp_path / "store.toml", {}).name == "store-a"
    names: dict[str, Any] = {}
    exec(next(b.code for b in blocks(TUTORIAL) if b.language == "python" and not b.file), names)
    assert isinstance(names["options"], SourceOptions)


def test_the_programs_of_the_readme(processes: Processes) -> None:
    stores, _ = processes.start_stores("quorate dev")
    for block in blocks(README):
        if block.language == "python":
            program = block.code.replace(SHOWN_STORES, processes.stores)
            (processes.directory / block.file).write_text(program)
    receiving = processes.start("python receive_orders.py")
    sending = processes.start("python send_orders.py")
    received = until(receiving.stdout, "the last order").splitlines()
    assert re.sub("from a store", "live", received[8]) == "8 live b'customer 1' order 8"
    assert len(received) == 101
    assert any(" live " in line for line in received)
    said, failed = sending.communicate()
    assert failed == ""
    assert re.fullmatch(r"100 is on the disks of [abc]( [abc])+\n", said)
    interrupt(receiving, 130)
    assert receiving.stderr is not None
    # The receiver may have begun before the source.
    waiting = r"(no store has a source of orders yet; waiting for one. Known topics: \w+.\n)?"
    assert re.fullmatch(waiting, receiving.stderr.read())
    status = json.loads(processes.run("quorate status -o json").stdout)
    assert [each["acknowledged_upto"] for each in status["receivers"]] == [100]
    interrupt(stores)


def test_the_commands_of_the_readme() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^\$ (.*?)(?: +#.*)?$", README, re.M)
    assert commands == [
        "make demo",
        "make test",
        "make setup-core && source .venv/bin/activate",
        "quorate dev",
    ]
    for target in ("demo", "test", "setup-core"):
        assert f"\n{target}:" in makefile
