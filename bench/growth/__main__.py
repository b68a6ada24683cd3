"""`make bench-growth`: what a message costs, against what a group has.

For each dimension it starts three stores that sync to the disk, each in a process of its own. All
clients run in this process. A group grows step by step. At each step nothing is sent for a while,
and then messages come at a rate that does not change. A message costs what the processes use more
than when nothing is sent. `--write` draws a picture of each dimension into docs/. Quote the figures
only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from pathlib import Path

import psutil

from bench.growth.cost import Cost, measured
from bench.growth.dimensions import DIMENSIONS, TOPICS, Dimension, Group
from bench.growth.report import draw, table
from bench.recovery import stores
from bench.report import say
from quorate.transport import event_loop

SECONDS = 8.0
"""Seconds for which messages are sent at each step."""
QUICK_SECONDS = 2.0
MINUTES_MAX = 28.0
"""Minutes after which a step that is not over is left out."""
QUICK_MINUTES_MAX = 2.5


async def grown(
    dimension: Dimension, sizes: Sequence[float], seconds: float, until: float
) -> list[Cost]:
    """Measure a dimension at these sizes. A step that is not over at `until` is left out."""
    costs = list[Cost]()
    with tempfile.TemporaryDirectory(prefix="quorate-bench-growth-") as name:
        directory = Path(name)
        configuration = directory / "topics.toml"
        configuration.write_text(TOPICS)
        async with (
            stores(directory, "--config", str(configuration)) as children,
            AsyncExitStack() as stack,
        ):
            group = Group(directory, children, stack)
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await _measure(dimension, group, sizes, seconds, costs)
            except TimeoutError:
                say(f"{dimension.title}: {sizes[len(costs)]:,g}", "left out", "time is over")
    return costs


async def _measure(
    dimension: Dimension, group: Group, sizes: Sequence[float], seconds: float, costs: list[Cost]
) -> None:
    """Add the cost at each size as soon as it is known."""
    processes = [psutil.Process(child.pid) for child in group.stores]
    async for size, publish in dimension.steps(group, sizes):
        cost = await measured(size, publish, dimension.rate, seconds, processes)
        costs.append(cost)
        say(
            f"{dimension.title}: {size:,g}",
            f"{cost.clients_us + cost.stores_us:,.0f} µs",
            f"stores {cost.stores_us:,.0f}, p50 {cost.p50_ms:.1f} ms",
        )


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [each.name for each in DIMENSIONS]
    parser.add_argument("dimensions", nargs="*", choices=[*names, []], default=[])
    parser.add_argument("--quick", action="store_true", help="fewer steps, each of them shorter")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--write", action="store_true", help="draw the pictures into docs/")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    seconds = QUICK_SECONDS if given.quick else SECONDS
    until = time.monotonic() + 60 * (QUICK_MINUTES_MAX if given.quick else MINUTES_MAX)
    found = dict[str, list[Cost]]()
    for dimension in DIMENSIONS:
        if dimension.name in (given.dimensions or names):
            sizes = dimension.quick if given.quick else dimension.sizes
            if time.monotonic() < until:
                found[dimension.name] = event_loop.run(grown(dimension, sizes, seconds, until))
    for dimension in DIMENSIONS:
        if costs := found.get(dimension.name):
            print(f"\n{table(dimension, costs)}")
            if given.write:
                draw(dimension, costs)
    if given.json is not None:
        text = {name: [asdict(each) for each in costs] for name, costs in found.items()}
        given.json.write_text(json.dumps(text, indent=1))


if __name__ == "__main__":
    main()
