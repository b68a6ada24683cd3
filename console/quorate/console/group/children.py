"""Child processes: started, read, killed and stopped; stores among them.

A child is in a session of its own. So Ctrl-C in a terminal reaches only the parent, which stops its
children in the right order. A child that stops at the end of its stdin never outlives a parent that
was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from quorate.protocol.errors import QuorateError, StoreNotReady, Unreachable
from quorate.protocol.tls import Tls, environment_of

_NO_TROUBLE = re.compile(r"(\S+ )?(DEBUG|INFO) ")
"""The beginning of a line of the log that reports no problem."""
STOP_SECONDS_MAX = 15.0
"""Seconds after which a child that was asked to stop is killed."""


class Child:
    """A process that reports as lines of JSON on its stdout, and logs to a file."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        log: Path,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """arguments: those after `python -m`. variables: of its environment, above those here."""
        self._variables = dict(variables or {})
        self.name = name
        self.log = log
        self._arguments = tuple(arguments)
        self._process: Process | None = None
        self._log_begins = 0
        """The offset in the log where the text of the present or last process begins."""

    @property
    def pid(self) -> int:
        """The process ID of the present or last process; 0 before the first start."""
        return self._process.pid if self._process else 0

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs. A negative one is the signal that ended it."""
        return self._process.returncode if self._process else None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def spawn(self, *more: str) -> None:
        """Start the process. The one before must have ended."""
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
                env={**os.environ, **self._variables},
            )

    async def said(self) -> AsyncIterator[dict[str, Any]]:
        """Yield the reports of the process until it ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            # The last line of a process that was killed may be cut short.
            if line.endswith(b"\n"):
                yield json.loads(line)

    def order(self, further: Mapping[str, Any]) -> None:
        """Give the process a further order, as a line of JSON on its stdin, if it runs."""
        if self.running:
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(further).encode() + b"\n")

    async def kill(self) -> int:
        """Kill the process with SIGKILL, and return its exit code."""
        assert self._process is not None
        if self.running:
            self._process.kill()
        return await self._process.wait()

    async def stop(self) -> int:
        """Stop the process with SIGTERM, then SIGKILL. Return its exit code."""
        assert self._process is not None
        if self.running:
            self._process.send_signal(signal.SIGTERM)
        return await self.wait(STOP_SECONDS_MAX)

    async def finish(self) -> int:
        """Close the process's stdin, which asks it to finish. Return its exit code."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self.wait(STOP_SECONDS_MAX)

    async def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and kill it after the timeout. Return its exit code."""
        assert self._process is not None
        try:
            async with asyncio.timeout(timeout):
                return await self._process.wait()
        except TimeoutError:
            return await self.kill()

    def last_words(self) -> str:
        """Return the last line of its log that reports a problem; of a JSON error, the message."""
        error = self.last_error()
        if error:
            return str(error)
        troubles = [line for line in self._lines() if not _NO_TROUBLE.match(line)]
        return troubles[-1] if troubles else "its log does not say why"

    def last_error(self) -> QuorateError | None:
        """Return the error that it ended with, if its log ends with one as JSON."""
        try:
            last = json.loads(self._lines()[-1])
            return QuorateError.from_facts(last["error"], last["fields"])
        except (ValueError, TypeError, LookupError):
            return None

    def _lines(self) -> list[str]:
        """Return the lines that it logged since it was started."""
        with self.log.open("rb") as log:
            log.seek(self._log_begins)
            lines = log.read().decode(errors="replace").splitlines()
        return [line.strip() for line in lines if line.strip()]


def others(addresses: Sequence[str], address: str) -> list[str]:
    """Return the addresses without this one: the peers of the store that serves there."""
    return [each for each in addresses if each != address]


class StoreChild(Child):
    """A store in a process of its own, always at the same address."""

    def __init__(
        self,
        name: str,
        directory: Path,
        listen: str,
        peers: Sequence[str],
        *options: str,
        tls: Tls | None = None,
    ) -> None:
        """listen and peers: host:port. options: further ones of `quorate store run`."""
        self.directory = directory
        self.address = listen
        named = [f"--peer={peer}" for peer in peers] or ["--no-peers"]
        command = ("store", "run", "--name", name, "--data-directory", str(directory))
        self._command = (*command, *named, *options)
        super().__init__(
            name,
            ("quorate.console.main", *self._command, "--stop-with-parent", "-o", "json"),
            directory.with_name(f"{directory.name}.log"),
            environment_of(tls),
        )

    @property
    def command(self) -> str:
        """The command line that starts the store in a terminal."""
        line = shlex.join(("quorate", *self._command, "--listen", self.address))
        set_before = [f"{name}={value}" for name, value in self._variables.items() if value]
        return " ".join([*map(shlex.quote, set_before), line])

    async def start(self, timeout: float = 30.0) -> None:
        """Start the store, and return when it answers.

        Raises the error that it ended with, or StoreNotReady.
        """
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
        """Return the error that says why it is not ready, and names its log."""
        return StoreNotReady(self.name, detail.rstrip("."), str(self.log))


async def founded(stores: Sequence[StoreChild], timeout: float = 30.0) -> None:
    """Return when all of these started stores are out of limbo. Raises StoreNotReady."""
    # Imported here, because they bring gRPC, and the help of a command must be instant.
    from quorate.console.group.status import ask
    from quorate.protocol.delays import LOOK
    from quorate.transport.delays import delay

    for store in stores:
        try:
            status = await ask(store.address, timeout)
            ends, looks = time.monotonic() + timeout, 0
            while status.limbo:
                if time.monotonic() > ends:
                    raise store.not_ready(f"it is in limbo: {status.limbo_reason}")
                looks += 1
                await asyncio.sleep(delay(LOOK, looks))
                status = await ask(store.address, timeout)
        except Unreachable as error:
            ended = "" if store.running else f"; it has ended: {store.last_words()}"
            raise store.not_ready(f"it does not answer ({error.detail}){ended}") from error
