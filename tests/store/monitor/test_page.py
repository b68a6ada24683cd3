"""The page in a browser, through real failures: a store killed, a slow receiver, a wiped store.

These tests need Chromium: CHROMIUM names it, or it is /usr/bin/chromium. Without it they are
skipped. `make test-page` runs them alone, and fails where there is none.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.store.monitor.browser import needs_browser, opened
from tests.store.monitor.processes import NAMES, Group, started

from quorate.client import connect
from quorate.source import SourceOptions

pytestmark = [pytest.mark.long, needs_browser]


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    async with started(tmp_path) as made:
        yield made


@pytest.mark.expects_log("does not take|came back without its data")
@pytest.mark.expects_log("cannot be heard|does not register the receiver")
async def test_the_page_through_a_day_of_failures(group: Group, tmp_path: Path) -> None:
    quick = SourceOptions(registration_interval=0.3)
    async with (
        connect(group.named) as client,
        client.source("orders", session_id=7, options=quick) as orders,
        opened(f"http://{group.pages['b']}/") as page,
    ):
        for number in range(20_000):
            await orders.send(b"%d" % number)
        await orders.flush()
        await page.sees("#sources tr[data-source='orders/0x7']", "19,999")
        await page.sees("#sources tr[data-source='orders/0x7']", "live")
        for name in NAMES:
            await page.sees(f"#stores li[data-store={name}]", "well")

        await group.stores["a"].kill()
        await page.sees("#stores li[data-store=a]", "away")
        await page.sees("#events", "Store a does not answer")

        async with client.receiver("orders", session_id=9, acknowledge="explicit") as receiver:
            message = await anext(aiter(receiver))
            message.acknowledge()
            await page.sees("#sources tr[data-source='orders/0x7']", "0x9 −19,999")
            await page.sees("#events", "Receiver 0x9 of orders/0x7 is 19,999 behind")

        shutil.rmtree(tmp_path / "a")
        await group.stores["a"].start()
        await page.sees("#stores li[data-store=a]", "well")
        await page.sees("#events", "Store a answers again")
        await page.sees("#sources tr[data-source='orders/0x7']", "a")
        assert page.problems == []


async def test_the_page_says_that_it_is_old_and_finds_its_store_again(group: Group) -> None:
    async with opened(f"http://{group.pages['c']}/") as page:
        await page.sees("#state", "as store c sees it")
        await group.stores["c"].stop()
        await page.sees("#state.stale", "Trying again")
        await group.stores["c"].start()
        await page.sees("#state", "as store c sees it")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_fits_a_phone_and_works_by_keyboard(group: Group, scheme: Any) -> None:
    quick = SourceOptions(registration_interval=0.3)
    async with (
        connect(group.named) as client,
        client.source("orders", session_id=7, options=quick) as orders,
        client.source("trades", session_id=8, options=quick) as trades,
        opened(f"http://{group.pages['a']}/", width=360, scheme=scheme) as page,
    ):
        await orders.publish(b"one")
        await trades.publish(b"one")
        await page.sees("#sources", "trades/0x8")
        assert await page.width() <= 360, "it scrolls to the side"
        await page.press("Tab")
        await page.type("orders")
        await page.sees("#source-count", "1 of 2")
        await page.lacks("#sources", "trades/0x8")
        assert page.problems == []


async def test_the_last_messages_of_a_topic_are_read_by_a_click(group: Group) -> None:
    quick = SourceOptions(registration_interval=0.3)
    async with (
        connect(group.named, name="pricing") as client,
        client.source("orders", session_id=7, options=quick) as orders,
        opened(f"http://{group.pages['a']}/") as page,
    ):
        await orders.publish(b"<img src=x onerror=alert(1)>", key=b"\xff\x00")
        await page.sees("#sources tr[data-source='orders/0x7']", "pricing")
        async with client.subscriber("orders"):
            await page.sees("#subscribers tr", "pricing")
            await page.sees("#subscribers tr", "orders")
        await page.click("#sources tr[data-source='orders/0x7'] button")
        # The store may hear a moment later that the message is stable.
        await page.sees("#last", "Last messages")
        while not await page.has("#last-messages", "<img src=x onerror=alert(1)>"):
            await page.click("#last-again")
            await asyncio.sleep(0.1)
        await page.sees("#last-messages .hex", "ff 00")
        await page.sees("#stores li[data-store=a]", "1 message ·")
        await page.click("#last-close")
        await page.lacks("#last:not([hidden])", "Last messages")
        assert page.problems == []
