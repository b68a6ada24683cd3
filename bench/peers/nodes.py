"""The processes of a system's servers: how they are started, awaited and stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

START_SECONDS = 90.0


class NotStarted(Exception):
    """A server ended, or did not listen in time. Its log says why."""


class Nodes:
    """Servers on this machine, each with a log in the directory."""

    def __init__(self, directory: Path) -> None:
        """Begin without servers. directory: where their logs go."""
        self.directory = directory
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a server. environment: variables beside those of this process."""
        with self._log(name).open("wb") as log:
            self._started.append(
                subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    cwd=self.directory,
                    start_new_session=True,
                )
            )

    def _log(self, name: str) -> Path:
        return self.directory / f"{name}.log"

    async def listening(self, addresses: Sequence[str]) -> None:
        """Wait until all of these addresses take connections. Raises NotStarted."""
        async with asyncio.timeout(START_SECONDS):
            for address in addresses:
                while not await _takes_connections(address):
                    self._alive()
                    await asyncio.sleep(0.1)

    def _alive(self) -> None:
        for process in self._started:
            if process.poll() is not None:
                raise NotStarted(f"{process.args!r} ended; see the logs in {self.directory}")

    def processes(self) -> list[psutil.Process]:
        """Return the processes whose CPU counts."""
        started = [psutil.Process(process.pid) for process in self._started]
        return started + [child for each in started for child in each.children(recursive=True)]

    def stop(self) -> None:
        """Kill the servers with their children: their data are not needed again."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self._started:
            process.wait()


class OnNodes:
    """The part of a system that all have whose servers are processes on this machine."""

    def __init__(self) -> None:
        """Begin without servers."""
        self._nodes: Nodes | None = None

    def processes(self) -> list[psutil.Process]:
        """Return the servers."""
        return self._nodes.processes() if self._nodes else []

    async def stop(self) -> None:
        """Kill the servers."""
        if self._nodes:
            self._nodes.stop()


async def _takes_connections(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True
