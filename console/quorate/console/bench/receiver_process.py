"""The bench's receiver process: `async for message in receiver`, every message checked."""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.console.bench import latency
from quorate.console.bench.messages import BLOCK, LAST, BlockCheck
from quorate.console.bench.settings import TOPIC, BenchSettings
from quorate.console.demo.part import main, say, until_stdin_ends
from quorate.protocol.tls import tls_of_environment
from quorate.receiver import Message, Receiver

_clock = time.monotonic_ns


class BlockReceiver:
    """A check of all blocks, and the latencies of those behind the warm-up."""

    def __init__(self, settings: BenchSettings) -> None:
        self._check = BlockCheck(settings.size)
        self._warm_up = settings.warm_up
        self.latencies = latency.empty()
        self.retransmitted_blocks = 0
        self.problem = ""

    def take(self, payloads: list[bytes], arrivals: array[int], newest: Message) -> bool:
        """Take a block. Return whether it was the last one, or a wrong one."""
        times = self._check.take(payloads)
        if times is None or newest.sequence != self._check.next_number - 1:
            self.problem = self._check.problem or (
                f"message {self._check.next_number - 1} came as sequence number {newest.sequence}"
            )
            return True
        if self._check.next_number <= self._warm_up:
            return False
        self.retransmitted_blocks += newest.retransmitted
        last = times[-1] >= LAST
        times[-1] &= LAST - 1
        # Arrivals were noted for all messages of the block, or for its last one alone.
        for arrived, sent in zip(reversed(arrivals), reversed(times), strict=False):
            self.latencies.append(arrived - sent)
        return last

    @property
    def messages(self) -> int:
        """The number of measured messages that were right."""
        return self._check.next_number - self._warm_up


async def _receive(receiver: Receiver, handed: BlockReceiver, time_each: bool) -> int:
    """Receive until the last message; return the time when it came."""
    payloads: list[bytes] = []
    arrivals = array("q")
    async for message in receiver:
        payloads.append(message.payload)
        if time_each:
            arrivals.append(_clock())
        if len(payloads) == BLOCK:
            now = _clock()
            if not time_each:
                arrivals.append(now)
            if handed.take(payloads, arrivals, message):
                return now
            payloads = []
            arrivals = array("q")
    handed.problem = "the stream ended before the last message"
    return _clock()


async def run(orders: Mapping[str, Any]) -> None:
    """Receive and check all messages, then report the result."""
    settings = BenchSettings(**orders["settings"])
    ending = asyncio.create_task(_end_with_the_bench())
    handed = BlockReceiver(settings)
    async with await Receiver.open(
        TOPIC,
        stores=orders["stores"],
        delivery=settings.delivery,
        acknowledge="automatic",
        tls=tls_of_environment(os.environ),
    ) as receiver:
        say("open")
        delivered_ns = await _receive(receiver, handed, settings.rate is not None)
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
