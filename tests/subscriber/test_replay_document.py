"""docs/replay.md says what is: each program runs against stores."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.documents import Document
from tests.source.real_stores import RealStores

from quorate.client import connect
from quorate.source import SourceOptions
from quorate.subscriber import Delivered
from quorate.subscriber.begin import read_begin, read_end

PAGE = Document("replay")
TEXT, CODE, defined = PAGE.text, PAGE.blocks("python"), PAGE.defined
QUICK = SourceOptions(registration_interval=0.3)
PAYLOADS = [
    json.dumps({"symbol": symbol, "price": price, "cancelled": price == 300}).encode()
    for symbol in ("IBM", "MSFT", "AAPL")
    for price in (50, 200, 300)
]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    made = RealStores(tmp_path)
    made.settings = {name: {"topic": [{"pattern": "bookmarks", "keys": "$key"}]} for name in "abc"}
    await made.start("abc")
    named = made.named("abc")
    async with (
        connect(named) as client,
        client.source("orders", session_id=1, options=QUICK) as source,
    ):
        for payload in PAYLOADS:
            await source.send(payload, key=b"key")
        await source.flush()
    yield named
    await made.stop_all()


async def test_the_programs(stores: str, tmp_path: Path) -> None:
    assert await defined("everything")(stores) == PAYLOADS
    first, position = await defined("a_part")(stores, "epoch", 4)
    rest, _ = await defined("a_part")(stores, position, 5)
    assert first + rest == PAYLOADS
    assert await defined("last_hour")(stores) == PAYLOADS
    assert await defined("with_a_break")(stores) == PAYLOADS
    assert await defined("soonest")(stores) == dict(enumerate(PAYLOADS))
    page = PAGE.run("tested")
    assert await page["tested"](stores, page["Strategy"](), "-24h", "+0.5s") == 3 * 250
    begin, end = "at orders/0x1@1:1", "before orders/0x1@1:4"
    assert await defined("a_range")(stores, begin, end) == PAYLOADS[1:4]
    assert await defined("big_orders")(stores) == [1, 4]
    assert await defined("newest_prices")(stores) == {b"key": (PAYLOADS[-1], len(PAYLOADS))}
    of_both = await defined("orders_and_trades")(stores)
    assert of_both == [("orders", number) for number in (1, 2, 4, 5, 7, 8)]
    file = str(tmp_path / "risk.db")
    some = await defined("some_more")(stores, file, 4)
    assert some + await defined("some_more")(stores, file, 5) == PAYLOADS
    some = await defined("some_more_without_files")(stores, 4)
    assert some + await defined("some_more_without_files")(stores, 5) == PAYLOADS
    assert await defined("from_this_site")(stores) == len(PAYLOADS)
    assert await asyncio.to_thread(defined("all_keys"), stores) == {b"key"}


async def test_the_program_that_begins_now(stores: str) -> None:
    begun = asyncio.Event()
    coming = asyncio.create_task(PAGE.defined("next_ones")(stores, 2, begun))
    await begun.wait()
    async with (
        connect(stores) as client,
        client.source("orders", session_id=2, options=QUICK) as source,
    ):
        for payload in (b"next", b"and the one after"):
            await source.publish(payload)
        assert await coming == [b"next", b"and the one after"]


def test_each_program_is_run() -> None:
    names = {name for code in CODE for name in re.findall(r"^(?:async )?def (\w+)", code, re.M)}
    assert names == {
        "everything", "a_part", "a_range", "big_orders", "some_more", "all_keys", "newest_prices",
        "near", "from_this_site", "orders_and_trades", "some_more_without_files",
        "last_hour", "next_ones", "with_a_break", "tested", "soonest",
    }  # fmt: skip


def test_the_texts_of_begin_are_read() -> None:
    section = TEXT[TEXT.index("| `begin` |") :].split("\n\n")[0]
    texts = re.findall(r'`"([^"]+)"`', section)
    assert len(texts) == 5
    for text in texts:
        read_begin(text, 0)


def test_the_texts_of_end_are_read() -> None:
    section = TEXT[TEXT.index("| `end` |") :].split("\n\n")[0]
    texts = re.findall(r'`"([^"]+)"`', section)
    assert len(texts) == 5
    for text in texts:
        read_end(text, 0)


def test_the_words_are_read() -> None:
    section = TEXT[TEXT.index("| text |") :].split("\n\n")[0]
    for argument, read in (("begin", read_begin), ("end", read_end)):
        texts = re.findall(rf'`{argument}="([^"]+)"`', section)
        assert len(texts) == 2
        for text in texts:
            read(text, 0)


def test_what_is_delivered() -> None:
    section = TEXT[TEXT.index("| `delivered` |") :].split("\n\n")[0]
    assert re.findall(r'^\| `"(\w+)"`', section, re.M) == [each.value for each in Delivered]
