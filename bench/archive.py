"""`make bench-archive`: archiving many sources, with nothing new, and reading them again.

It starts three stores that sync to the disk, each in a process of its own. The job runs in this
process, as `quorate archive` runs it, and its processor seconds are those of this process. Quote
the figures only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.recovery import named, stores
from bench.report import say
from quorate.client import Client, connect
from quorate.pipeline.archive.archiving import ArchiveReport
from quorate.pipeline.jobs.command import run_archive
from quorate.subscriber import Completed, ReplayedMessage

AT_ONCE = 20
PAYLOAD = bytes(100)


async def fill(client: Client, sources: int, each: int) -> None:
    """Send messages from many sources of one topic, some sources at a time."""
    waiting = iter(range(1, sources + 1))

    async def send() -> None:
        for session_id in waiting:
            async with client.source("many", session_id=session_id) as source:
                await source.send_many([PAYLOAD] * each)
                await source.flush()

    await asyncio.gather(*(send() for _ in range(AT_ONCE)))


async def timed(what: str, work: Callable[[], Awaitable[str]]) -> None:
    begun, used = time.perf_counter(), time.process_time()
    more = await work()
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    say(what, f"{seconds:.2f}", f"{processor:.2f} of the processor, {more}")


async def run(sources: int, each: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "archive")
        async with stores(Path(directory)) as children, connect(named(children)) as client:
            addresses = [store.partition("=")[2] for store in named(children).split(",")]

            def archived() -> ArchiveReport:
                report = run_archive(addresses, path, told=lambda _: None)
                assert not report.failures, report.failures
                return report

            def files() -> int:
                return sum(1 for _ in Path(path).rglob("*.parquet"))

            async def job() -> str:
                report = await asyncio.to_thread(archived)
                return f"{report.messages:,} messages, {files():,} files"

            async def read() -> str:
                count = 0
                async with client.subscriber("many", archive=path) as subscriber:
                    async for item in subscriber:
                        count += isinstance(item, ReplayedMessage)
                        if isinstance(item, Completed):
                            break
                return f"{count:,} messages"

            await fill(client, sources, each)
            await timed(f"archive: seconds for {sources:,} sources", job)
            await timed("archive: seconds with nothing new", job)
            await fill(client, sources, each)
            await timed(f"archive: seconds for more of {sources:,} sources", job)
            await timed("subscriber: seconds to read the archive", read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=2001)
    parser.add_argument("--messages", type=int, default=20, help="of each source, twice")
    given = parser.parse_args()
    asyncio.run(run(given.sources, given.messages))


if __name__ == "__main__":
    main()
