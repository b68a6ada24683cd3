"""The free space of the disk: a warning in the log long before the store must stop.

The writer stops the store when the disk is almost full; that is not decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

_log = logging.getLogger("quorate.store.tasks.disk_space")

LOOK_SECONDS = 10.0
"""Seconds from one look at the disk to the next."""
_MIB = 1024 * 1024


class DiskSpace:
    """The watch over the free space of one store's disk."""

    def __init__(
        self, store: str, free_bytes: Callable[[], int], warning_bytes: int, min_bytes: int
    ) -> None:
        """free_bytes: returns the free bytes. warning_bytes, min_bytes: of the configuration."""
        self._store = store
        self._free_bytes = free_bytes
        self._warning_bytes = warning_bytes
        self._min_bytes = min_bytes
        self._is_low = False

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Log that the disk has become low, or that it no longer is. Each is logged once."""
        free = self._free_bytes()
        # Space that comes and goes around the bound must not fill the log.
        is_low = free < self._warning_bytes * (1.1 if self._is_low else 1.0)
        if is_low and not self._is_low:
            _log.warning(
                "the disk of store %s has %.0f MiB left. The store stops at %.0f MiB: free space, "
                "or let retention release messages",
                self._store,
                free / _MIB,
                self._min_bytes / _MIB,
            )
        elif self._is_low and not is_low:
            _log.info("the disk of store %s has %.0f MiB left again", self._store, free / _MIB)
        self._is_low = is_low
