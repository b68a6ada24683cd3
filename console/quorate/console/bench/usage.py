"""CPU and memory of the bench's processes, sampled from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from quorate.console.group.children import Child

SAMPLE_SECONDS = 0.05


class Usage:
    """The newest CPU seconds and the highest memory of each process, also of one that ended."""

    def __init__(self, children: Mapping[str, Sequence[Child]]) -> None:
        """Measure these processes, given by their role."""
        self._children = children
        self._began: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._peak_rss: dict[str, int] = {}

    def look(self) -> None:
        """Take a sample of all processes."""
        import psutil

        for child in (child for children in self._children.values() for child in children):
            if not child.running:
                continue
            try:
                process = psutil.Process(child.pid)
                times, rss = process.cpu_times(), process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # it died in between
            self._cpu[child.name] = times.user + times.system
            self._peak_rss[child.name] = max(rss, self._peak_rss.get(child.name, 0))

    def begin(self) -> None:
        """Count CPU time from now on."""
        self.look()
        self._began = dict(self._cpu)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds since `begin` of all processes of a role, by role."""
        return {
            role: sum(
                self._cpu.get(child.name, 0.0) - self._began.get(child.name, 0.0)
                for child in children
            )
            for role, children in self._children.items()
        }

    def peak_rss(self) -> dict[str, int]:
        """Return the highest memory in bytes of any process of a role, by role."""
        return {
            role: max((self._peak_rss.get(child.name, 0) for child in children), default=0)
            for role, children in self._children.items()
        }

    async def watch(self) -> None:
        """Take samples until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(SAMPLE_SECONDS)
