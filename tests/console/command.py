"""The command in a process of its own, as a user runs it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any, NamedTuple

QUORATE = [sys.executable, "-m", "quorate.console.main"]


class Ran(NamedTuple):
    """The outcome of a command."""

    code: int
    out: str
    err: str

    def rows(self) -> list[dict[str, Any]]:
        """Return its lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


async def quorate(*arguments: str, **variables: str) -> Ran:
    """Run the command until it ends. variables: of the environment, beside those of this one."""
    process = await asyncio.create_subprocess_exec(
        *QUORATE,
        *arguments,
        env={**os.environ, **variables},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())
