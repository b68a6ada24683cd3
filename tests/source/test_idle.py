"""An idle source: it costs nothing until something comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests import seams
from tests.source.fake_store import FakeStore
from tests.source.support import event_of, open_source

from quorate.source import QuorumLost, Source

Stores = list[FakeStore]

pytestmark = pytest.mark.usefixtures("news_at_once")


@pytest.fixture
def news_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores hear at once how far the stream is stable."""
    seams.SOURCE_ENGINE_STABLE_NEWS_SECONDS.replace(monkeypatch, 0.01)
    seams.SOURCE_ENGINE_TICK_SECONDS.replace(monkeypatch, 0.01)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def rests(source: Source) -> bool:
    """Whether nothing wakes the source but an input."""
    return source._engine._next_tick is None


async def test_a_source_rests_until_something_comes_and_again_after_it(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await until(lambda: rests(source))
        for number in range(3):
            await source.publish(b"%d" % number)
            await until(lambda: rests(source))
            cursors = source._core.streams.cursors.values()
            assert {cursor.told_stable_upto for cursor in cursors} == {number}


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_source_that_rests_notices_a_lost_quorum(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await until(lambda: rests(source))
        for store in stores[:2]:
            await store.stop()
        await event_of(source, QuorumLost)
        assert not rests(source), "it registers"


async def test_a_source_that_is_closed_rests(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SOURCE_ENGINE_STABLE_NEWS_SECONDS.replace(monkeypatch, 3600)
    async with await open_source(stores) as source:
        await source.publish(b"0")
        assert not rests(source), "stores do not know yet that it is stable"
    assert rests(source)
