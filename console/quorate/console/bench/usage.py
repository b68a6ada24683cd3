"""CPU and memory of the bench's processes, sampled from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from quorate.console.group.children import Child

SAMPLE_SECONDS = 0.05


class Usage:
    """The newest CPU seconds and the highest memory of each process, also of one that ended."""

    def __init__(self, children: Mapping[str, Child]) -> None:
        self._children = children
        self._began: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self.peak_rss: dict[str, int] = {}
        """The highest memory in bytes, by process."""

    def look(self) -> None:
        """Take a sample of all processes."""
        import psutil

        for name, child in self._children.items():
            if not child.running:
                continue
            try:
                process = psutil.Process(child.pid)
                times, rss = process.cpu_times(), process.memory_info().rss
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue  # it died in between
            self._cpu[name] = times.user + times.system
            self.peak_rss[name] = max(rss, self.peak_rss.get(name, 0))

    def begin(self) -> None:
        """Count CPU time from now on."""
        self.look()
        self._began = dict(self._cpu)

    def cpu_seconds(self) -> dict[str, float]:
        """Return the CPU seconds since `begin`, by process."""
        return {name: cpu - self._began.get(name, 0.0) for name, cpu in self._cpu.items()}

    async def watch(self) -> None:
        """Take samples until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(SAMPLE_SECONDS)
