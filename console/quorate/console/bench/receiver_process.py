"""A receiver process of the bench: `async for message in receiver`, every message checked."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import AsyncIterable, Mapping
from pathlib import Path
from typing import Any

from quorate.console.bench import latency
from quorate.console.bench.messages import LAST, BlockCheck
from quorate.console.bench.settings import TOPIC, BenchSettings
from quorate.console.demo.part import main, say, until_stdin_ends
from quorate.protocol.identity import SourceName
from quorate.protocol.tls import tls_of_environment
from quorate.receiver import DeliveredBatch, Message, Receiver

_clock = time.monotonic_ns


class BlockReceiver:
    """A check of all blocks of a source, and the latencies of those behind the warm-up."""

    def __init__(self, settings: BenchSettings) -> None:
        self._check = BlockCheck(settings.size, settings.block)
        self._warm_up = settings.each_warm_up
        self.latencies = latency.empty()
        self.retransmitted_blocks = 0
        self.problem = ""
        self.payloads: list[bytes] = []
        """The messages of the block that is not complete yet."""
        self.arrivals: array[int] = array("q")
        """The times at which they came, or the last of them alone."""

    def take(self, newest: Message) -> bool:
        """Take a block that is complete. Return whether it was the last one, or a wrong one."""
        times = self._check.take(self.payloads)
        if times is None or newest.sequence != self._check.next_number - 1:
            self.problem = self._check.problem or (
                f"message {self._check.next_number - 1} came as sequence number {newest.sequence}"
            )
            return True
        self.payloads.clear()
        if self._check.next_number <= self._warm_up:
            self.arrivals = array("q")
            return False
        self.retransmitted_blocks += newest.retransmitted
        last = times[-1] >= LAST
        times[-1] &= LAST - 1
        # Arrivals were noted for all messages of the block, or for its last one alone.
        for arrived, sent in zip(reversed(self.arrivals), reversed(times), strict=False):
            self.latencies.append(arrived - sent)
        self.arrivals = array("q")
        return last

    @property
    def messages(self) -> int:
        """The number of measured messages that were right."""
        return self._check.next_number - self._warm_up


class Handed:
    """The messages of all sources that a receiver was handed."""

    def __init__(self, settings: BenchSettings) -> None:
        self._settings = settings
        self._sources: dict[SourceName, BlockReceiver] = {}
        self._going_on = settings.all_sources
        self.problem = ""

    def of(self, source: SourceName) -> BlockReceiver:
        """Return the check of this source's messages."""
        if source not in self._sources:
            self._sources[source] = BlockReceiver(self._settings)
        return self._sources[source]

    async def receive(self, receiver: AsyncIterable[Message]) -> int:
        """Receive until the last message of every source; return the time when it came."""
        block, time_each = self._settings.block, self._settings.rate is not None
        batch: DeliveredBatch | None = None
        async for message in receiver:
            if message.batch is not batch:
                batch = message.batch
                taking = self.of(batch.source)
            taking.payloads.append(message.payload)
            if time_each:
                taking.arrivals.append(_clock())
            if len(taking.payloads) == block:
                now = _clock()
                if not time_each:
                    taking.arrivals.append(now)
                if taking.take(message) and self._is_over(taking):
                    return now
        self.problem = "the stream ended before the last message"
        return _clock()

    def _is_over(self, ended: BlockReceiver) -> bool:
        self._going_on -= 1
        self.problem = ended.problem
        return not self._going_on or bool(ended.problem)

    @property
    def latencies(self) -> latency.Latencies:
        """The latencies of the messages of all sources."""
        found = latency.empty()
        for each in self._sources.values():
            found += each.latencies
        return found

    @property
    def messages(self) -> int:
        """The number of measured messages that were right."""
        return sum(each.messages for each in self._sources.values())

    @property
    def retransmitted_blocks(self) -> int:
        """The number of measured blocks that came from stores."""
        return sum(each.retransmitted_blocks for each in self._sources.values())


async def run(orders: Mapping[str, Any]) -> None:
    """Receive and check all messages, then report the result."""
    settings = BenchSettings(**orders["settings"])
    ending = asyncio.create_task(_end_with_the_bench())
    handed = Handed(settings)
    async with await Receiver.open(
        TOPIC,
        stores=orders["stores"],
        delivery=settings.delivery,
        acknowledge="automatic",
        tls=tls_of_environment(os.environ),
    ) as receiver:
        say("open")
        delivered_ns = await handed.receive(receiver)
        latency.save(handed.latencies, Path(orders["directory"]) / f"{orders['name']}.latencies")
        say(
            "done",
            delivered_ns=delivered_ns,
            messages=handed.messages,
            retransmitted_blocks=handed.retransmitted_blocks,
            problem=handed.problem,
        )
    ending.cancel()


async def _end_with_the_bench() -> None:
    await until_stdin_ends()
    raise SystemExit(1)


if __name__ == "__main__":
    main(run)
