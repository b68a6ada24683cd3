"""`make bench-backtest`: replaying messages of four sources to a function and to a topic.

It starts three stores that sync to the disk, each in a process of its own. The replay runs in this
process, as `quorate backtest` runs it. The sources send as fast as they can. So a replay at a rate
is one at a speed. Quote the figures only with what else the machine did.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report import say
from bench.spark import stores, until_stable
from quorate.pipeline.jobs.backtest import BacktestReport, backtest, backtest_to
from quorate.pipeline.jobs.merging import StoredTable
from quorate.pipeline.jobs.replay import FLAT_OUT, Replayed
from quorate.pipeline.options import read_options
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.source.blocking import Source

SOURCES = 4
CHUNK = 2_000
PAYLOAD = bytes(100)


def published(addresses: str, messages: int) -> float:
    """Send messages from all sources in turns; return how many a second became stable."""
    sources = [Source.open("bench", stores=addresses, session_id=1 + at) for at in range(SOURCES)]
    begun = time.perf_counter()
    for _ in range(messages // (SOURCES * CHUNK)):
        for source in sources:
            source.send_many([PAYLOAD] * CHUNK)
    for source in sources:
        source.flush()
    rate = messages / (time.perf_counter() - begun)
    for at, source in enumerate(sources):
        source.close()
        until_stable(addresses, SourceName("bench", 1 + at), messages // SOURCES)
    return rate


def measured(what: str, messages: int, replay: Callable[[], BacktestReport]) -> None:
    begun = time.perf_counter()
    progress = replay().progress
    first = time.perf_counter() - begun - progress.seconds
    assert progress.messages == messages, progress
    say(
        f"backtest: messages/s {what}",
        f"{messages / progress.seconds:,.0f}",
        f"begins after {first:.2f} s, at most {progress.behind_max:.2f} s late",
    )


def run(messages: int, rate: int, runs: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="quorate-bench-backtest-") as name,
        stores(Path(name)) as addresses,
    ):
        sent = published(addresses, messages)
        say("source: messages/s until stable", f"{sent:,.0f}", "")
        options = read_options({"stores": addresses, "topics": "bench"})

        def called(_: Replayed) -> None: ...

        for number in range(runs):
            for what, speed in (("at full speed", FLAT_OUT), (f"at {rate:,}/s", rate / sent)):
                measured(
                    f"to a function {what}",
                    messages,
                    lambda speed=speed: backtest(StoredTable(options), called, speed=speed),  # type: ignore[misc]
                )
                measured(
                    f"to a topic {what}",
                    messages,
                    lambda speed=speed, to=f"to-{number}-{speed == FLAT_OUT}": backtest_to(  # type: ignore[misc]
                        StoredTable(options),
                        to,
                        Layout.plain(addresses),
                        name="bench",
                        speed=speed,
                    ),
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=2_000_000)
    parser.add_argument("--rate", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    whole = SOURCES * CHUNK
    run(arguments.messages // whole * whole, arguments.rate, arguments.runs)


if __name__ == "__main__":
    main()
