"""The bench's receiver process: `async for message in receiver`, every message checked."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.console.bench import latency
from quorate.console.bench.messages import BLOCK, LAST, BlockCheck
from quorate.console.bench.settings import TOPIC, Settings
from quorate.console.demo.part import main, say, until_stdin_ends
from quorate.receiver import Message, Receiver

_clock = time.monotonic_ns


class Handed:
    """Checks blocks and collects latencies, of what comes behind the warm-up."""

    def __init__(self, settings: Settings) -> None:
        self._check = BlockCheck(settings.size)
        self._warm_up = settings.warm_up
        self.latencies = latency.empty()
        self.retransmitted_blocks = 0
        self.problem = ""

    def take(self, payloads: list[bytes], arrivals: array[int], newest: Message) -> bool:
        """Take a block; whether it was the last one, or there is a problem."""
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
        """Measured ones that were right."""
        return self._check.next_number - self._warm_up


async def _receive(receiver: Receiver, handed: Handed, time_each: bool) -> int:
    """Until the last message; when that came."""
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
    """Receive and check everything, then say how it went."""
    settings = Settings(**orders["settings"])
    ending = asyncio.create_task(_end_with_the_bench())
    handed = Handed(settings)
    async with await Receiver.open(
        TOPIC, stores=orders["stores"], delivery=settings.delivery, acknowledge="automatic"
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
