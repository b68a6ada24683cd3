"""A source process of the bench: it sends with `await source.send(…)`, as an application does.

With a rate every message carries its send time, else the last of each block. One task for each
source follows `wait_stable`, and notes how long these messages take to become stable.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from quorate.client import Client, connect
from quorate.console.bench import latency
from quorate.console.bench.messages import LAST, pattern, stamped, unstamped_tail
from quorate.console.bench.settings import TOPIC, BenchSettings, KeptIn
from quorate.console.demo.part import further_orders, main, say
from quorate.protocol.tls import tls_of_environment
from quorate.source import Source
from quorate.source.events import ReceiverAttached
from quorate.source.publish_store import FilePublishStore, PublishStore

CHUNK = 64
"""Sends that are timed together without a rate, because a clock costs as much as a send."""
TIMER_NS = 2_000_000
"""Nanoseconds that a message may be late because timers are coarse."""
SLEEP_NS = 1_000_000
"""The least nanoseconds of a sleep. Some event loops do not sleep for less than half of it."""

_clock = time.monotonic_ns


class BenchSender:
    """A sender of numbered messages, which measures stalls and the time to stability."""

    def __init__(self, source: Source, settings: BenchSettings, late: float = 0.0) -> None:
        """Send with this source. late: the part of the interval that its first message waits."""
        self._source = source
        self._settings = settings
        self._late = late
        self._pattern = pattern(settings.size)
        self._tail = unstamped_tail(settings.size)
        self._unstable: deque[tuple[int, int]] = deque()
        self._watching: asyncio.Task[None] | None = None
        self.next_number = 0
        self.longest_stall_ns = 0
        self.stable_latencies = latency.empty()

    async def send(self, count: int, more: Callable[[int], bool], last: bool) -> None:
        """Send blocks until there are `count` messages and `more` returns False.

        more: called with the number of messages sent. last: whether to mark the last message.
        """
        self.longest_stall_ns = 0
        self.stable_latencies = latency.empty()
        blocks = _blocks(count, self._settings.block, more, LAST if last else 0)
        interval = self._settings.interval_ns
        if interval is None:
            await self._send_blocks(blocks)
        else:
            await self._send_paced(blocks, interval)
        await self._source.flush()
        if self._watching is not None:
            await self._watching

    async def _send_blocks(self, blocks: Iterator[int]) -> None:
        for flags in blocks:
            await self._send_block(flags)

    async def _send_block(self, flags: int) -> None:
        send, tail = self._source.send, self._tail
        first = self.next_number
        self.next_number = end = first + self._settings.block
        for start in range(first, end, CHUNK):
            began = _clock()
            last = min(start + CHUNK, end) - 1
            for number in range(start, last):
                await send(number.to_bytes(8, "little") + tail)
            if last < end - 1:
                await send(last.to_bytes(8, "little") + tail)
            else:
                sent_at = _clock()
                await send(stamped(last, sent_at | flags, self._pattern))
                self._watch_for(last, sent_at)
            self.longest_stall_ns = max(self.longest_stall_ns, _clock() - began)

    async def _send_paced(self, blocks: Iterator[int], interval: float) -> None:
        due, block = _clock() + self._late * interval, self._settings.block
        for flags in blocks:
            for place in range(block):
                wait = due - _clock()
                if wait > 0:
                    await asyncio.sleep(max(wait, SLEEP_NS) / 1e9)
                await self._send_timed(int(due), flags if place == block - 1 else 0)
                due += interval

    async def _send_timed(self, due: int, flags: int) -> None:
        number = self.next_number
        self.next_number += 1
        began = _clock()
        # The clock of a message that waited for others began when it was due.
        sent_at = due if began - due > TIMER_NS else began
        await self._source.send(stamped(number, sent_at | flags, self._pattern))
        self.longest_stall_ns = max(self.longest_stall_ns, _clock() - began)
        self._watch_for(number, sent_at)

    def _watch_for(self, number: int, sent_at: int) -> None:
        self._unstable.append((number, sent_at))
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        unstable = self._unstable
        while unstable:
            await self._source.wait_stable(unstable[0][0])
            now, upto = _clock(), self._source.stable_upto
            while unstable and unstable[0][0] <= upto:
                self.stable_latencies.append(now - unstable.popleft()[1])


def _blocks(count: int, block: int, more: Callable[[int], bool], last: int) -> Iterator[int]:
    """Yield for each block to send the flags in the send time of its last message."""
    sent, ended = 0, False
    while not ended:
        ended = not more(sent) and sent + block >= count
        yield last if ended else 0
        sent += block


async def run(orders: Mapping[str, Any]) -> None:
    """Open the sources, warm up, measure when told to, and stay until stdin ends."""
    settings = BenchSettings(**orders["settings"])
    begin = asyncio.Event()
    ending = asyncio.create_task(_obey(begin))
    directory = Path(orders["directory"])
    async with (
        connect(orders["stores"], timeout=None, tls=tls_of_environment(os.environ)) as client,
        AsyncExitStack() as stack,
    ):
        numbers = range(orders["first"], orders["first"] + settings.sources)
        opened = await asyncio.gather(*(_opened(client, settings, directory, n) for n in numbers))
        for source in opened:
            stack.push_async_callback(source.close)
        say("open")
        await asyncio.gather(*(_attached(source, settings.receivers) for source in opened))
        senders = [
            BenchSender(source, settings, number / settings.all_sources)
            for number, source in zip(numbers, opened, strict=True)
        ]
        await send_all(senders, settings.each_warm_up, lambda _: False, last=False)
        say("warm")
        await begin.wait()
        began = _clock()
        await send_all(senders, settings.each_measured, _milestones(settings), last=True)
        ended = _clock()
        stable_latencies = latency.empty()
        for sender in senders:
            stable_latencies += sender.stable_latencies
        latency.save(stable_latencies, directory / f"{orders['name']}.latencies")
        say(
            "done",
            began_ns=began,
            ended_ns=ended,
            messages=sum(sender.next_number - settings.each_warm_up for sender in senders),
            longest_stall_ms=max(sender.longest_stall_ns for sender in senders) / 1e6,
        )
        await ending


async def send_all(
    senders: Sequence[BenchSender], count: int, more: Callable[[int], bool], last: bool
) -> None:
    """Send so many messages with each source, all at the same time."""
    async with asyncio.TaskGroup() as group:
        for sender in senders:
            group.create_task(sender.send(count, more, last))


async def _opened(client: Client, settings: BenchSettings, directory: Path, number: int) -> Source:
    """Return the source of this number among all."""
    return await client.source(
        TOPIC,
        session_id=number + 1,
        publish_store=publish_store(settings, directory / f"publish-{number}"),
    )


def publish_store(settings: BenchSettings, path: Path) -> PublishStore | None:
    """Return the publish store that the settings name; None: memory, the default."""
    if settings.publish_store == KeptIn.MEMORY:
        return None
    return FilePublishStore(path, sync=settings.publish_store == KeptIn.SYNCED)


def _milestones(settings: BenchSettings) -> Callable[[int], bool]:
    """Return the function that reports half way once, and asks for more until a fault is over."""
    fault_at = settings.each_measured // 2 // settings.block * settings.block
    until_ns: int | None = None

    def more(sent: int) -> bool:
        nonlocal until_ns
        if sent == fault_at and until_ns is None:
            say("half")
            until_ns = _clock()
            if settings.pause_store is not None:
                until_ns += int((settings.pause_store + 1) * 1e9)
        return until_ns is not None and _clock() < until_ns

    return more


async def _attached(source: Source, receivers: int) -> None:
    attached = 0
    async for event in source.events():
        attached += isinstance(event, ReceiverAttached)
        if attached == receivers:
            return


async def _obey(begin: asyncio.Event) -> None:
    """Begin to measure when the bench says so. End this process when the bench does."""
    async for _ in further_orders():
        begin.set()
    raise SystemExit(1)


if __name__ == "__main__":
    main(run)
