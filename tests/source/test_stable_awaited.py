"""A store where somebody waits for what becomes stable: it hears of it at once."""

from __future__ import annotations

import math

from tests.source.fake_store import FakeStore
from tests.source.support import open_source
from tests.source.test_idle import Stores, until

from quorate.source import Source


async def opened(stores: list[FakeStore]) -> Source:
    """Open a source of which no store hears for the time alone how far its stream is stable."""
    source = await open_source(stores)
    source._engine._stable_news_at = math.inf
    return source


def keepalives(store: FakeStore) -> list[int]:
    """How far the stream was stable, by each keepalive."""
    return [each.stable_upto for each in store.frames if each.WhichOneof("kind") == "keepalive"]


async def test_it_hears_of_each_message_and_the_others_do_not(stores: Stores) -> None:
    stores[0].stable_awaited = True
    async with await opened(stores) as source:
        for number in range(4):
            await source.publish(b"%d" % number)
            await until(lambda: keepalives(stores[0])[-1:] == [source.stable_upto])
        assert keepalives(stores[1]) == keepalives(stores[2]) == []


async def test_a_batch_that_says_it_stands_for_it(stores: Stores) -> None:
    stores[0].stable_awaited = True
    async with await opened(stores) as source:
        await source.publish(b"0")
        await until(lambda: keepalives(stores[0]) == [0])
        await source.publish(b"1")
        # The program sends as soon as it is told. So the next batch is about to tell the store.
        assert source._engine._awaited_news is not None
        await source.publish(b"2")
        await until(lambda: keepalives(stores[0])[-1:] == [2])
        assert keepalives(stores[0]) == [0, 2], "the batch of the last message said it"


async def test_a_source_that_is_closed_tells_no_more(stores: Stores) -> None:
    stores[0].stable_awaited = True
    source = await opened(stores)
    await source.publish(b"0")
    await source.close()
    assert source._engine._awaited_news is None
