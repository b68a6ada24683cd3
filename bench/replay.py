"""`make bench-replay`: how fast a subscriber replays, how late it is, and how soon it moves on.

It starts three stores that sync to the disk, each in a process of its own. The source and the
subscriber run in this process. The figures are medians of several runs. Quote them only with what
else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.recovery import named, stores
from bench.report import say
from quorate.client import Client, connect
from quorate.console.group.children import StoreChild
from quorate.source import Outgoing, SourceOptions
from quorate.subscriber import (
    NOW,
    Completed,
    ReplayedBatch,
    ReplayedMessage,
    Subscriber,
    in_order,
)

CHUNK = 1000
RATE = 5000
"""Messages a second that are sent while latency is measured."""
LATENCY_SECONDS = 5.0


async def fill(client: Client, topic: str, messages: Iterator[bytes | Outgoing]) -> None:
    async with client.source(topic, session_id=1, options=SourceOptions()) as source:
        chunk: list[bytes | Outgoing] = []
        for message in messages:
            chunk.append(message)
            if len(chunk) == CHUNK:
                await source.send_many(chunk)
                chunk = []
        await source.send_many(chunk)
        await source.flush()


async def by_message(subscriber: Subscriber) -> int:
    count = 0
    async for item in subscriber:
        if isinstance(item, ReplayedMessage):
            count += 1
        elif isinstance(item, Completed):
            break
    return count


async def by_batch(subscriber: Subscriber) -> int:
    count = 0
    async for item in subscriber.batches():
        if isinstance(item, ReplayedBatch):
            count += len(item.payloads)
        elif isinstance(item, Completed):
            break
    return count


async def replay(
    what: str,
    client: Client,
    messages: int,
    runs: int,
    take: Callable[[Subscriber], Awaitable[int]],
    expected: int,
    **opening: Any,
) -> None:
    """Measure how many messages a second a store goes through."""
    rates = []
    for _ in range(runs):
        async with client.subscriber(**opening) as subscriber:
            began = time.perf_counter()
            count = await take(subscriber)
            rates.append(messages / (time.perf_counter() - began))
        assert count == expected, (count, expected)
    least, most = min(rates), max(rates)
    say(what, f"{statistics.median(rates):,.0f}", f"{least:,.0f} to {most:,.0f}")


async def latency(client: Client, delivered: str) -> None:
    """Measure the time from a send to the subscriber that iterates."""
    topic = f"latency.{delivered}"
    seconds: list[float] = []
    count = int(RATE * LATENCY_SECONDS)
    async with (
        client.source(topic, session_id=1) as source,
        client.subscriber(topic, begin=NOW, delivered=delivered) as subscriber,
    ):

        async def send() -> None:
            loop = asyncio.get_running_loop()
            began = loop.time()
            sent = 0
            while sent < count:
                due = min(count, int((loop.time() - began) * RATE))
                while sent < due:
                    await source.send(time.perf_counter_ns().to_bytes(8, "little").ljust(100))
                    sent += 1
                await asyncio.sleep(0.001)
            await source.flush()

        sending = asyncio.create_task(send())
        async for item in subscriber:
            if isinstance(item, ReplayedMessage):
                at = int.from_bytes(item.payload[:8], "little")
                seconds.append((time.perf_counter_ns() - at) / 1e9)
                if len(seconds) == count:
                    break
        await sending
    seconds.sort()
    p99 = 1000 * seconds[int(0.99 * len(seconds))]
    what = f"{delivered}: p50 ms from send to subscriber, {RATE:,} messages/s"
    say(what, f"{1000 * statistics.median(seconds):.2f}", f"p99 {p99:.1f}")


async def moving(children: Sequence[StoreChild], runs: int) -> None:
    """Measure the time from the kill of a store to the next message, which another one gives."""
    seconds: list[float] = []
    for run_number in range(runs):
        await _move(children, f"moving.{run_number}", seconds)
    spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
    say(
        "moving to another store: seconds after a kill", f"{statistics.median(seconds):.2f}", spread
    )


async def _move(children: Sequence[StoreChild], topic: str, seconds: list[float]) -> None:
    going = asyncio.Event()
    async with (
        connect(named([*children])) as client,
        client.source(topic, session_id=1) as source,
        client.subscriber(topic, chooser=in_order) as subscriber,
    ):

        async def send() -> None:
            while not going.is_set():
                await source.send(b"x", wait_quorum=True)
                await asyncio.sleep(1 / RATE)

        sending = asyncio.create_task(send())
        while not isinstance(await anext(subscriber), ReplayedMessage):
            pass
        await children[0].kill()
        killed_ns = time.time_ns()
        # The subscriber still reads messages of the killed store. One that was sent later ends it.
        async for item in subscriber:
            if isinstance(item, ReplayedMessage) and item.timestamp_ns > killed_ns:
                seconds.append((time.time_ns() - killed_ns) / 1e9)
                break
        going.set()
        await sending
    await children[0].start()


async def archived(stores: str, directory: Path, filtered: dict[str, Any]) -> None:
    """Measure filters over an archive. It needs what writes archives, without Spark."""
    try:
        from quorate.pipeline.archive.archiving import archive
        from quorate.pipeline.stores.client import Stores
    except ModuleNotFoundError as error:
        say("where over an archive: messages/s", "not measured", f"{error.name} is missing")
        return

    def here(parts: Sequence[Any], task: Callable[[Any], Iterator[Any]]) -> list[Any]:
        return [entry for part in parts for entry in task(part)]

    path = str(directory / "archive")
    addresses = [each.partition("=")[2] for each in stores.split(",")]
    report = await asyncio.to_thread(
        archive, here, Stores(addresses), path, selects="orders".__eq__
    )
    assert not report.failures, report.failures
    for what, where in (("JSON", "price >= 1000"), ("keys", "$key = 'large'")):
        await replay(f"where over {what} of an archive, 1 % pass: messages/s",
                     where=where, archive=path, **filtered)  # fmt: skip


def orders(count: int) -> Iterator[Outgoing]:
    """Orders of about 200 bytes of JSON, of which one in a hundred is large."""
    for number in range(count):
        price = 1000 if number % 100 == 0 else number % 500
        fields = {
            "id": number, "symbol": "IBM", "side": "buy", "price": price, "quantity": 100,
            "account": "A-123456", "venue": "XNYS", "comment": "x" * 70,
        }  # fmt: skip
        key = b"large" if price == 1000 else b"small"
        yield Outgoing(json.dumps(fields).encode(), key, {"size": key})


async def run(messages: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with stores(Path(directory)) as children, connect(named(children)) as client:
            await fill(client, "plain", (bytes(100) for _ in range(messages)))
            both: dict[str, Any] = {"client": client, "messages": messages, "runs": runs}
            plain: dict[str, Any] = {**both, "topic": "plain", "expected": messages}
            await replay("replay, 100 bytes: messages/s, iterated", take=by_message, **plain)
            await replay("replay, 100 bytes: messages/s, batches", take=by_batch, **plain)
            await fill(client, "orders", orders(messages))
            filtered: dict[str, Any] = {
                **both,
                "topic": "orders",
                "expected": messages // 100,
                "take": by_message,
            }
            where = "price >= 1000"
            await replay("where over JSON, 1 % pass: messages/s", where=where, **filtered)
            where = "$key = 'large'"
            await replay("where over keys, 1 % pass: messages/s", where=where, **filtered)
            where = "$properties.size = 'large'"
            await replay("where over properties, 1 % pass: messages/s", where=where, **filtered)
            await archived(named(children), Path(directory), filtered)
            for delivered in ("durable", "stable"):
                await latency(client, delivered)
            await moving(children, runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    asyncio.run(run(given.messages, given.runs))


if __name__ == "__main__":
    main()
