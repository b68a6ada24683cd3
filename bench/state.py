"""`make bench-state`: how fast rows follow, what they cost a sender, and how fast queries are.

It starts three stores that sync to the disk, each in a process of its own. Sources and queries run
in this process. Quote the figures only with what else the machine did.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import psutil

from bench.recovery import named, stores
from bench.replay import CHUNK
from bench.report import say
from quorate.client import Client, Rows, connect
from quorate.client.replay import Bookmark, Position
from quorate.console.group.children import StoreChild, founded
from quorate.source import Outgoing, Source

KEYED, PLAIN = "orders", "plain"
TOPICS = f'[[topic]]\npattern = "{KEYED}"\nkeys = "$key"\n'
ANEW = TOPICS + 'missing = "null"\n'
"""Other keys of the same topic: a store makes its rows anew."""
WRITTEN = 50_000
"""Messages a second that are sent while `get` is measured."""
FIRST = 10
"""The rows of one part of a query."""
ROWS_SECONDS_MAX = 3600.0
TEMPLATE = (
    b'{"id": %d, "symbol": "S%d", "side": "buy", "price": %d, "quantity": %d, '
    b'"account": "A-123456", "comment": "' + b"x" * 80 + b'"}'
)


def updates(count: int, keys: int) -> Iterator[Outgoing]:
    """Yield messages of 200 bytes, over so many keys in turn.

    They are made from a template. JSON from fields would cost more than sending it.
    """
    for number in range(count):
        price = 1000 if number % 100 == 0 else number % 500
        payload = TEMPLATE % (number, number % 500, price, number % 100)
        yield Outgoing(payload, b"k%d" % (number % keys))


class Spent:
    """The processor seconds that this process and the stores have used since some moment."""

    def __init__(self, children: Sequence[StoreChild]) -> None:
        self._processes = [psutil.Process(), *(psutil.Process(each.pid) for each in children)]
        self._before = self._used()

    def _used(self) -> float:
        return sum(sum(each.cpu_times()[:2]) for each in self._processes)

    def say(self, what: str, messages: int) -> None:
        """Print what was used for so many messages."""
        used = self._used() - self._before
        each = f"{used * 1e6 / messages:.2f}"
        say(f"{what}: CPU s for a million", each, f"of {len(self._processes)} processes")


async def filled(
    client: Client, topic: str, messages: Iterator[Outgoing]
) -> tuple[Bookmark, float]:
    """Send messages, and return the bookmark of the last, and the seconds until it was stable."""
    async with client.source(topic, session_id=1) as source:
        began = time.perf_counter()
        chunk: list[bytes | Outgoing] = []
        for message in messages:
            chunk.append(message)
            if len(chunk) == CHUNK:
                await source.send_many(chunk)
                chunk = []
        await source.send_many(chunk)
        await source.flush()
        return last_of(source), time.perf_counter() - began


def last_of(source: Source) -> Bookmark:
    return Bookmark(source.name, source.epoch, source.stable_upto)


async def follows(
    client: Client, children: Sequence[StoreChild], keys: int, messages: int
) -> Bookmark:
    """Measure how fast rows follow, and what that costs a sender."""
    spent = Spent(children)
    _, plain = await filled(client, PLAIN, updates(messages, keys))
    spent.say("without keys", messages)
    spent = Spent(children)
    began = time.perf_counter()
    last, keyed = await filled(client, KEYED, updates(messages, keys))
    # Each state begins at another store than the one before.
    states = [client.state(KEYED) for _ in children]
    await asyncio.gather(*(each.get("k0", at_least=last) for each in states))
    rows = time.perf_counter() - began
    spent.say("with keys, until all stores have the rows", messages)
    say("stable without keys: messages/s", f"{messages / plain:,.0f}", f"{messages:,} of them")
    cost = 100 * (keyed - plain) / plain
    say("stable with keys: messages/s", f"{messages / keyed:,.0f}", f"{cost:+.1f} % of the time")
    say("rows follow: updates/s", f"{messages / rows:,.0f}", f"over {keys:,} keys")
    return last


async def gets(client: Client, group: str, keys: int, seconds: float) -> Bookmark:
    """Measure `get` while another process writes messages; return the bookmark of the last."""
    orders, taken = client.state(KEYED), list[float]()
    choose = random.Random(1)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        writing = asyncio.wrap_future(executor.submit(write, group, keys, seconds))
        while not writing.done():
            began = time.perf_counter()
            row = await orders.get(b"k%d" % choose.randrange(keys))
            taken.append(time.perf_counter() - began)
            assert row is not None
            await asyncio.sleep(0.002)
        rate, last = await writing
    taken.sort()
    middle, late = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    more = f"{late * 1e3:.2f} p99; {len(taken):,} of them, {rate:,.0f} messages/s written"
    say("get while messages are written: ms", f"{middle * 1e3:.2f}", more)
    return Bookmark.parse(last)


def write(group: str, keys: int, seconds: float) -> tuple[float, str]:
    """Send messages at a rate for so long.

    Return the rate that came about, and the bookmark of the last message.
    """
    return asyncio.run(_write(group, keys, seconds))


async def _write(group: str, keys: int, seconds: float) -> tuple[float, str]:
    messages = updates(int(WRITTEN * seconds * 2), keys)
    async with connect(group) as client, client.source(KEYED, session_id=2) as source:
        began, sent = time.perf_counter(), 0
        while (passed := time.perf_counter() - began) < seconds:
            due = min(CHUNK, int(passed * WRITTEN) - sent)
            if due > 0:
                await source.send_many([next(messages) for _ in range(due)])
                sent += due
            await asyncio.sleep(0)
        await source.flush()
        return sent / (time.perf_counter() - began), str(last_of(source))


async def filters(client: Client, keys: int) -> None:
    """Measure a filter over all rows: until the first part, and until the end."""
    began = time.perf_counter()
    first, count = 0.0, 0
    async for part in client.state(KEYED).batches("price >= 1000", batch=FIRST):
        first = first or time.perf_counter() - began
        count += len(part)
    whole = time.perf_counter() - began
    say("filter over JSON, 1 % pass: s", f"{whole:.2f}", f"{keys:,} rows, {count:,} pass")
    say("filter over JSON: s until the first part", f"{first:.3f}", f"of {FIRST} rows")


async def rebuilds(child: StoreChild, configuration: Path, last: Position) -> None:
    """Measure how long a store takes that makes its rows anew. last: of all messages."""
    messages = sum(place.sequence + 1 for place in last.values())
    await child.stop()
    await asyncio.to_thread(configuration.write_text, ANEW)
    began = time.perf_counter()
    await child.start()
    await founded([child])
    async with connect(f"{child.name}={child.address}", timeout=ROWS_SECONDS_MAX) as alone:
        rows: Rows = await alone.state(KEYED).query(limit=1, at_least=last)
        assert len(rows) == 1
    # The processor seconds of a process that has just started are all for this.
    used = sum(psutil.Process(child.pid).cpu_times()[:2])
    seconds = time.perf_counter() - began
    say(
        "rows made anew: s", f"{seconds:.1f}", f"{messages:,} messages, {messages / seconds:,.0f}/s"
    )
    say("rows made anew: CPU s for a million", f"{used * 1e6 / messages:.2f}", "of the store")


async def run(keys: int, messages: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as directory:
        configuration = Path(directory) / "topics.toml"
        configuration.write_text(TOPICS)
        options = ("--config", str(configuration))
        async with stores(Path(directory), *options) as children:
            given: dict[str, Any] = {"timeout": ROWS_SECONDS_MAX}
            async with connect(named(children), **given) as client:
                last = await follows(client, children, keys, messages)
                await filters(client, keys)
                of_gets = await gets(client, named(children), keys, seconds)
            await rebuilds(children[0], configuration, Position.of([last, of_gets]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=10.0, help="how long `get` is measured")
    given = parser.parse_args()
    asyncio.run(run(given.keys, given.messages, given.seconds))


if __name__ == "__main__":
    main()
