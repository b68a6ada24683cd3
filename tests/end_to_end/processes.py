"""Processes that are started, killed and paused, and what each of them said.

What is said is a line of JSON each; whoever waits for something waits for what somebody says.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")
Line = Any
ROOT = Path(__file__).parents[2]

PATIENCE_SECONDS = 90.0
"""After so long something that must happen has not; it takes a fraction of that."""


class Progress:
    """Wakes those who wait for something when anything was said."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._processes: list[Process] = []

    def add(self, process: Process) -> None:
        self._processes.append(process)

    def made(self) -> None:
        self._news.set()
        self._news.clear()

    async def until(self, what: str, happened: Callable[[], T]) -> T:
        """What `happened` returns, once that is true."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (result := happened()):
                    await self._news.wait()
                return result
        except TimeoutError:
            pass
        last = [f"  {one.name}: {str(one.said[-3:])[-600:]}" for one in self._processes if one.runs]
        raise AssertionError("\n".join([f"in vain: {what}. What was said last:", *last]))


def environment() -> dict[str, str]:
    """In which Python finds these tests."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}


class Process:
    """One that is started again and again."""

    def __init__(
        self, name: str, directory: Path, progress: Progress, command: Sequence[str]
    ) -> None:
        """command: what comes before the arguments of `python -m`, to run it somewhere else."""
        self.name = name
        self.directory = directory
        self.progress = progress
        self.runs: list[list[Line]] = []
        """What each run said."""
        self._command = tuple(command)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        progress.add(self)

    @property
    def said(self) -> list[Line]:
        """By the last run."""
        return self.runs[-1]

    @property
    def running(self) -> bool:
        """Whether it may still say something."""
        return self._reader is not None and not self._reader.done()

    @property
    def memory(self) -> int:
        """Bytes of memory that it has now."""
        assert self._process is not None
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def lines(self, kind: str) -> list[list[Any]]:
        """What follows the kind in each such line of the last run."""
        return [line[1:] for line in self.said if line[0] == kind]

    async def start_process(self, *arguments: str) -> None:
        assert not self.running, self.name
        with (self.directory / f"{self.name}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(*self._command, sys.executable, "-m", *arguments),
                env=environment(),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                limit=1 << 24,
            )
        self.runs.append([])
        self._reader = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        path = self.directory / f"{self.name}-{len(self.runs)}.history"
        with path.open("wb") as history:
            async for line in process.stdout:
                # The last line of a process that was killed may be cut short.
                if line.endswith(b"\n"):
                    history.write(line)
                    self.heard(json.loads(line))
                    self.progress.made()
        await process.wait()
        self.progress.made()

    def heard(self, line: Line) -> None:
        """It said this."""
        self.said.append(line)

    def order(self, name: str, *arguments: Any) -> None:
        """Have an application do something."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        # Not by `send_signal`, which may ask for the exit code before asyncio does.
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    async def kill(self) -> None:
        """kill -9; afterwards all that it said is known."""
        self.kill_soon()
        if self._process is not None:
            await self.ended()

    def kill_soon(self) -> None:
        """kill -9, and do not wait until it is gone."""
        if self._process is not None and self._process.returncode is None:
            self.signal(signal.SIGKILL)

    async def ended(self) -> int:
        """Its exit code, once it is gone and all that it said is known."""
        assert self._process is not None
        assert self._reader is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.shield(self._reader)
            return await self._process.wait()

    async def until_replaced(self) -> None:
        """Wait for the error that another instance replaced it.

        It is TakenOver, or Fenced if it hears so from a store that the other one did not ask.
        """

        def replaced() -> bool:
            found = any(line[0] in ("Fenced", "TakenOver") for line in self.lines("error"))
            assert found or self.running, f"{self.name} was not replaced; last: {self.said[-3:]}"
            return found

        await self.progress.until(f"{self.name} is replaced", replaced)

    async def until_said(self, kind: str, *facts: Any) -> list[Any]:
        """Wait for a line of that kind that goes on with these facts; what follows the kind."""

        what = f"{self.name} says {kind} {' '.join(map(str, facts))}"

        def matching() -> list[list[Any]]:
            found = [line for line in self.lines(kind) if line[: len(facts)] == list(facts)]
            assert found or self.running, f"in vain: {what}. It ended; last: {self.said[-3:]}"
            return found

        return (await self.progress.until(what, matching))[0]
