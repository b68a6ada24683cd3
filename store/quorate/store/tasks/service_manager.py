"""The service manager that started the store, such as systemd, is told here how the store is.

The manager is told over a socket of which it gave the address (`man sd_notify`). Without such an
address nothing is told. Whether the store is well is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping

_log = logging.getLogger("quorate.store.tasks.service_manager")

_TELL_SECONDS = 10.0
"""Seconds from one status to the next."""


class ServiceManager:
    """The way to the service manager of this process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """environment: the variables of the process; the manager set some of them."""
        address = environment.get("NOTIFY_SOCKET", "")
        # "@" stands for a name in Linux's abstract namespace, which begins with a zero byte.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._interval = _TELL_SECONDS
        if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
            patience = int(environment.get("WATCHDOG_USEC", "0")) / 1_000_000
            # Three signs of life must be late before the manager ends the store.
            self._interval = min(_TELL_SECONDS, patience / 3) if patience else _TELL_SECONDS

    def ready(self) -> None:
        """Tell that the store serves."""
        self._tell("READY=1")

    def stopping(self) -> None:
        """Tell that the store is about to end."""
        self._tell("STOPPING=1", "STATUS=stops")

    async def run(self, status: Callable[[], str]) -> None:
        """Tell the status again and again, until cancelled.

        Each status is a sign of life of the event loop, too: the manager may restart a process that
        gives none (`WatchdogSec`).
        """
        while self._address:
            self._tell("WATCHDOG=1", f"STATUS={status()}")
            await asyncio.sleep(self._interval)

    def _tell(self, *assignments: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
                way.setblocking(False)
                way.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            _log.warning("the service manager cannot be told %s: %s", assignments[0], error)
