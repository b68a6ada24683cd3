"""The form of a system that is measured: how it starts, how a program sends to it, and receives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import psutil

from bench.peers.load import Checker, Load

Warm = Callable[[], Awaitable[None]]
"""Tells that the messages before the measured ones are acknowledged, and waits for the start."""


class System(Protocol):
    """A system with what a fair comparison says of it."""

    name: str
    settings: str
    """The settings that matter: copies, when it acknowledges, which client."""
    share: float
    """The part of a load at full rate that it gets, so that a run takes seconds."""

    def missing(self) -> str:
        """Return what is to be installed before it can run; empty: nothing."""

    async def start(self, directory: Path) -> str:
        """Start its servers with their data in a directory. Return what its clients connect to."""

    def processes(self) -> list[psutil.Process]:
        """Return its servers."""

    async def stop(self) -> None:
        """Stop its servers."""

    async def send(self, address: str, load: Load, warm: Warm) -> None:
        """Send a load. Return once all is acknowledged."""

    async def receive(self, address: str, checker: Checker) -> None:
        """Take messages as they come, until the checker has all."""
