"""The bench's source process: it sends with `await source.send(…)`, as an application does.

With a rate every message carries its send time, else the last of each block. One task follows
`wait_stable`, and notes how long these messages take to become stable.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from quorate.console.bench import latency
from quorate.console.bench.messages import BLOCK, LAST, pattern, stamped, unstamped_tail
from quorate.console.bench.settings import TOPIC, BenchSettings, KeptIn
from quorate.console.demo.part import main, say, until_stdin_ends
from quorate.protocol.tls import tls_of_environment
from quorate.source import Source
from quorate.source.events import ReceiverAttached
from quorate.source.publish_store import FilePublishStore, PublishStore

CHUNK = 64
"""Sends that are timed together without a rate, because a clock costs as much as a send."""
TIMER_NS = 2_000_000
"""Nanoseconds that a message may be late because timers are coarse."""

_clock = time.monotonic_ns


class BenchSender:
    """A sender of numbered messages, which measures stalls and the time to stability."""

    def __init__(self, source: Source, settings: BenchSettings) -> None:
        self._source = source
        self._settings = settings
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
        blocks = _blocks(count, more, LAST if last else 0)
        if self._settings.rate is None:
            await self._send_blocks(blocks)
        else:
            await self._send_paced(blocks, 1e9 / self._settings.rate)
        await self._source.flush()
        if self._watching is not None:
            await self._watching

    async def _send_blocks(self, blocks: Iterator[int]) -> None:
        for flags in blocks:
            await self._send_block(flags)

    async def _send_block(self, flags: int) -> None:
        send, tail = self._source.send, self._tail
        first = self.next_number
        self.next_number = end = first + BLOCK
        for start in range(first, end, CHUNK):
            began = _clock()
            last = start + CHUNK - 1
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
        due = float(_clock())
        for flags in blocks:
            for place in range(BLOCK):
                wait = due - _clock()
                if wait > 0:
                    await asyncio.sleep(wait / 1e9)
                await self._send_timed(int(due), flags if place == BLOCK - 1 else 0)
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


def _blocks(count: int, more: Callable[[int], bool], last: int) -> Iterator[int]:
    """Yield for each block to send the flags in the send time of its last message."""
    sent, ended = 0, False
    while not ended:
        ended = not more(sent) and sent + BLOCK >= count
        yield last if ended else 0
        sent += BLOCK


async def run(orders: Mapping[str, Any]) -> None:
    """Wait for the receivers, warm up, measure, and stay until stdin ends."""
    settings = BenchSettings(**orders["settings"])
    ending = asyncio.create_task(_end_with_the_bench())
    kept_in = publish_store(settings, Path(orders["directory"]) / "publish")
    async with await Source.open(
        TOPIC,
        stores=orders["stores"],
        publish_store=kept_in,
        tls=tls_of_environment(os.environ),
    ) as source:
        say("open")
        await _attached(source, settings.receivers)
        sender = BenchSender(source, settings)
        await sender.send(settings.warm_up, lambda _: False, last=False)
        began = _clock()
        say("started")
        await sender.send(settings.measured, _milestones(settings), last=True)
        say(
            "stable",
            seconds=(_clock() - began) / 1e9,
            began_ns=began,
            messages=sender.next_number - settings.warm_up,
            longest_stall_ms=sender.longest_stall_ns / 1e6,
        )
        latency.save(sender.stable_latencies, Path(orders["directory"]) / "stable.latencies")
        say("done")
        await ending


def publish_store(settings: BenchSettings, path: Path) -> PublishStore | None:
    """Return the publish store that the settings name; None: memory, the default."""
    if settings.publish_store == KeptIn.MEMORY:
        return None
    return FilePublishStore(path, sync=settings.publish_store == KeptIn.SYNCED)


def _milestones(settings: BenchSettings) -> Callable[[int], bool]:
    """Return the function that reports half way, and that asks for more until a fault is over."""
    fault_at = settings.measured // 2 // BLOCK * BLOCK
    until_ns = 0

    def more(sent: int) -> bool:
        nonlocal until_ns
        if sent == fault_at:
            say("half")
            if settings.pause_store is not None:
                until_ns = _clock() + int((settings.pause_store + 1) * 1e9)
        return until_ns > 0 and _clock() < until_ns

    return more


async def _attached(source: Source, receivers: int) -> None:
    attached = 0
    async for event in source.events():
        attached += isinstance(event, ReceiverAttached)
        if attached == receivers:
            return


async def _end_with_the_bench() -> None:
    await until_stdin_ends()
    raise SystemExit(1)


if __name__ == "__main__":
    main(run)
