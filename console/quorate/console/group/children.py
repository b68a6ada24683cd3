"""Child processes: started, heard, killed and stopped; stores among them.

A child is in a session of its own, so that Ctrl-C in a terminal reaches only the parent, which
stops its children in the right order. Children that are told to notice the end of their stdin, so
that they never outlive a parent that was killed.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shlex
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from quorate.protocol.errors import QuorateError, StoreNotReady, Unreachable

_POLL_SECONDS = 0.05
_NO_TROUBLE = re.compile(r"(\S+ )?(DEBUG|INFO) ")
"""How a line of a log begins that tells of nothing wrong."""
_PORTS = range(20_000, 32_000)
"""Below what systems give to connections that go out."""
STOP_SECONDS_MAX = 15.0
"""A child that was asked to stop and has not after so long is killed."""


class Child:
    """A process that says what it does as lines of JSON on its stdout, and logs to a file."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        """arguments follow `python -m`."""
        self.name = name
        self.log = log
        self._arguments = tuple(arguments)
        self._process: Process | None = None
        self._log_begins = 0
        """Where in its log that begins which the process of now, or the last one, says."""

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last; 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._process.returncode if self._process else None

    @property
    def running(self) -> bool:
        """It was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def spawn(self, *more: str) -> None:
        """Start the process; the one before must have ended."""
        assert not self.running, self.name
        with self.log.open("ab") as log:
            self._log_begins = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *self._arguments,
                *more,
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                start_new_session=True,
                limit=1 << 20,
            )

    async def said(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            # The last line of a process that was killed may be cut short.
            if line.endswith(b"\n"):
                yield json.loads(line)

    async def kill(self) -> int:
        """kill -9, and wait until it is gone; its exit code."""
        assert self._process is not None
        if self.running:
            self._process.kill()
        return await self._process.wait()

    async def stop(self) -> int:
        """SIGTERM, and kill -9 if that does not help; its exit code."""
        assert self._process is not None
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        return await self.wait(STOP_SECONDS_MAX)

    async def finish(self) -> int:
        """Close its stdin, which it takes for a request to finish; its exit code."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self.wait(STOP_SECONDS_MAX)

    async def wait(self, timeout: float | None = None) -> int:
        """Until it has ended; after the timeout it is killed. Its exit code."""
        assert self._process is not None
        try:
            async with asyncio.timeout(timeout):
                return await self._process.wait()
        except TimeoutError:
            return await self.kill()

    def last_words(self) -> str:
        """What its log says last of what went wrong; of an error as JSON, its message."""
        error = self.last_error()
        if error:
            return str(error)
        troubles = [line for line in self._lines() if not _NO_TROUBLE.match(line)]
        return troubles[-1] if troubles else "its log does not say why"

    def last_error(self) -> QuorateError | None:
        """The error that it ended with, if its log says so as JSON."""
        try:
            last = json.loads(self._lines()[-1])
            return QuorateError.from_facts(last["error"], last["fields"])
        except (ValueError, TypeError, LookupError):
            return None

    def _lines(self) -> list[str]:
        """What it logged since it was started."""
        with self.log.open("rb") as log:
            log.seek(self._log_begins)
            lines = log.read().decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()]


def free_addresses(count: int) -> list[str]:
    """So many addresses on this machine on which nobody listens now.

    While a store is down, its port stays free: none of these is given to connections that go out,
    not even to one that looks for the store.
    """
    with ExitStack() as stack:
        found: list[str] = []
        for port in random.sample(_PORTS, len(_PORTS)):
            if len(found) == count:
                return found
            with suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(f"127.0.0.1:{port}")
    raise OSError(f"{count} ports from {_PORTS.start} to {_PORTS.stop - 1} are not free")


def others(addresses: Sequence[str], address: str) -> list[str]:
    """The addresses without this one: the peers of the store that serves there."""
    return [each for each in addresses if each != address]


class StoreChild(Child):
    """A store in a process of its own, always at the same address."""

    def __init__(
        self, name: str, directory: Path, listen: str, peers: Sequence[str], *options: str
    ) -> None:
        """listen and peers are host:port; options are further ones of `quorate store run`."""
        self.directory = directory
        self.address = listen
        named = [f"--peer={peer}" for peer in peers] or ["--no-peers"]
        command = ("store", "run", "--name", name, "--data-directory", str(directory))
        self._command = (*command, *named, *options)
        super().__init__(
            name,
            ("quorate.console.main", *self._command, "--stop-with-parent", "-o", "json"),
            directory.with_name(f"{directory.name}.log"),
        )

    @property
    def command(self) -> str:
        """What starts it in a terminal."""
        return shlex.join(("quorate", *self._command, "--listen", self.address))

    async def start(self, timeout: float = 30.0) -> None:
        """Until it answers; else raises the error that it ended with, or StoreNotReady."""
        await self.spawn("--listen", self.address)
        try:
            async with asyncio.timeout(timeout):
                async for ready in self.said():
                    self.address = ready["address"]
                    return
            await self.wait()
        except TimeoutError:
            await self.kill()
        raise self.last_error() or self.not_ready(self.last_words())

    def not_ready(self, detail: str) -> StoreNotReady:
        """The error that says so, and where to look."""
        return StoreNotReady(self.name, detail.rstrip("."), str(self.log))


async def founded(stores: Sequence[StoreChild], timeout: float = 30.0) -> None:
    """Return when all of these, which are started, vouch for what they lack; else StoreNotReady."""
    # Not above: that brings gRPC, and the help of a command must be instant.
    from quorate.console.group.status import ask

    for store in stores:
        try:
            status = await ask(store.address, timeout)
            ends = time.monotonic() + timeout
            while status.limbo:
                if time.monotonic() > ends:
                    raise store.not_ready(f"it is in limbo: {status.limbo_reason}")
                await asyncio.sleep(_POLL_SECONDS)
                status = await ask(store.address, timeout)
        except Unreachable as error:
            ended = "" if store.running else f"; it has ended: {store.last_words()}"
            raise store.not_ready(f"it does not answer ({error.detail}){ended}") from error
