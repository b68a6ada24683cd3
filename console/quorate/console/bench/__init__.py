"""`quorate bench`: throughput and latency of real processes, every message checked."""

from quorate.console.bench.command import bench

__all__ = ["bench"]
