"""The watch over a group: it asks while somebody looks, and shows stores that do not answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests import seams

from quorate.store.monitor.group_view import Report
from quorate.store.monitor.group_watch import GroupWatch
from quorate.transport.channels import open_channel
from quorate.v1 import store_pb2 as store_v1


class Asked:
    """A store that counts how often it was asked for its report."""

    def __init__(self) -> None:
        self.times = 0
        self.hangs = False

    async def __call__(self) -> Report:
        self.times += 1
        if self.hangs:
            await asyncio.Event().wait()
        return Report(store_v1.StatusResponse(store_name="a", position=self.times))


def watch(own: Asked, *peers: str) -> GroupWatch:
    channels = {address: open_channel(address) for address in peers}
    return GroupWatch("a", "a:1", own, lambda: peers, channels.__getitem__)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.GROUP_WATCH_LOOK_SECONDS.replace(monkeypatch, 0.01)
    seams.GROUP_WATCH_ANSWER_SECONDS_MAX.replace(monkeypatch, 0.3)


async def first_of(views: AsyncIterator[str]) -> Any:
    async with asyncio.timeout(20):
        return json.loads(await anext(views))


async def test_all_lookers_share_the_questions_and_nobody_asks_without_them() -> None:
    own = Asked()
    group = watch(own)
    one, two = group.views(), group.views()
    seen = await asyncio.gather(first_of(one), first_of(two))
    assert seen[0] == seen[1]
    assert group.lookers == 2
    await one.aclose()
    await first_of(two)
    await two.aclose()
    assert group.lookers == 0
    await asyncio.sleep(0)  # the task that was cancelled ends
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_peer_that_is_not_there_is_shown_with_the_cause() -> None:
    views = watch(Asked(), "127.0.0.1:1").views()
    stores = {store["address"]: store for store in (await first_of(views))["stores"]}
    assert stores["a:1"]["problem"] == ""
    assert "127.0.0.1:1 cannot be reached" in stores["127.0.0.1:1"]["problem"]
    await views.aclose()


async def test_a_store_that_hangs_does_not_hold_up_the_view() -> None:
    own = Asked()
    own.hangs = True
    views = watch(own).views()
    (store,) = (await first_of(views))["stores"]
    assert store["problem"] == "it took longer than 0.3 s to answer"
    await views.aclose()


async def test_events_are_kept_for_those_who_come_later() -> None:
    own = Asked()
    group = watch(own)
    one = group.views()
    await first_of(one)
    own.hangs = True
    while not (seen := (await first_of(one))["events"]):
        pass
    two = group.views()
    later = (await first_of(two))["events"]
    assert seen[0]["text"].startswith("Store a does not answer")
    assert later[0] == seen[0]
    await one.aclose()
    await two.aclose()


async def test_stop_ends_every_stream() -> None:
    group = watch(Asked())
    views = group.views()
    await first_of(views)
    await group.stop()
    async with asyncio.timeout(20):
        assert [view async for view in views] == []
