"""A command on a terminal of its own, as a person has it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from types import TracebackType
from typing import Any, Self

from tests.console.command import QUORATE

ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"
"""The bytes with which a program takes the whole screen, and gives it back."""


class Terminal:
    """A command that runs on a terminal of this size."""

    def __init__(self, *arguments: str, lines: int, columns: int, **environment: str) -> None:
        self._end, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(other)
        self._other = other
        self.shown = b""
        self.process = subprocess.Popen(
            [*QUORATE, *arguments],
            stdin=other, stdout=other, stderr=other, start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            preexec_fn=self._take,
        )  # fmt: skip

    def _take(self) -> None:
        """Make the terminal that of the command, in the new process."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._end)
        os.close(self._other)

    def press(self, keys: bytes) -> None:
        os.write(self._end, keys)

    def wait_for(self, text: bytes, seconds: float = 30.0) -> bytes:
        """Return what is shown up to this text, and forget it."""
        until = time.monotonic() + seconds
        while text not in self.shown:
            self._read(until)
        found, _, self.shown = self.shown.partition(text)
        return found

    def wait(self, seconds: float = 30.0) -> int:
        """Return the exit code of the command."""
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            self._read(until)
        self._read(until, 0.0)
        code: int = self.process.returncode
        return code

    @property
    def settings(self) -> list[Any]:
        """The settings of the terminal as they are now."""
        return termios.tcgetattr(self._other)

    def _read(self, until: float, pause: float = 0.1) -> None:
        assert time.monotonic() < until, self.shown.decode(errors="replace")
        ready, _, _ = select.select([self._end], [], [], pause)
        if ready:
            self.shown += os.read(self._end, 65536)
