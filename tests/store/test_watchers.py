from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
from tests.store.support import ORDERS, TRADES

from quorate.protocol.errors import InvalidArgument
from quorate.store.watchers import (
    Directory,
    Selection,
    Watcher,
    by_pattern,
    by_topic,
)

SOURCES = [ORDERS, TRADES]


async def taken(watcher: Watcher) -> list[str]:
    return [source.topic async for source in watcher.take()]


async def test_a_watcher_is_owed_what_is_known_and_asked_for() -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), SOURCES) as watcher:
        assert await taken(watcher) == ["orders"]
        assert await taken(watcher) == []
    with directory.watching(by_pattern("tr.*|or"), SOURCES) as watcher:
        assert await taken(watcher) == ["trades"], "a pattern matches all of the topic"


async def test_a_watcher_of_one_topic_never_looks_at_others() -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), (*SOURCES, *SOURCES)) as watcher:
        directory.changed(TRADES)
        assert watcher.owed == 1
        assert await taken(watcher) == ["orders"]


async def test_a_watcher_with_a_quick_selection_is_not_woken_by_other_topics() -> None:
    directory = Directory()
    quick = Selection("orders".__eq__, is_quick=True)
    with directory.watching(quick, ()) as watcher:
        waiting = asyncio.create_task(watcher.changed())
        directory.changed(TRADES)
        await asyncio.sleep(0)
        assert (watcher.owed, waiting.done()) == (0, False)
        directory.changed(ORDERS)
        await asyncio.wait_for(waiting, 1)
        assert await taken(watcher) == ["orders"]


async def test_changes_that_were_not_taken_are_one() -> None:
    directory = Directory()
    with directory.watching(by_pattern(".*"), ()) as watcher:
        for _ in range(1000):
            directory.changed(ORDERS)
        await asyncio.wait_for(watcher.changed(), 1)
        assert await taken(watcher) == ["orders"]
        waiting = asyncio.create_task(watcher.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        directory.changed(TRADES)
        await asyncio.wait_for(waiting, 1)


async def test_nobody_watches_after_the_call() -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), ()) as watcher:
        assert (directory.watches("orders"), directory.watches("trades")) == (True, False)
    with directory.watching(by_pattern("tr.*"), ()):
        assert (directory.watches("orders"), directory.watches("trades")) == (False, True)
    assert not directory.watches("trades")
    directory.changed(ORDERS)
    assert await taken(watcher) == []


async def test_very_many_patterns_are_not_tried_to_find_whether_a_topic_is_watched() -> None:
    def refuse(topic: str) -> bool:
        raise AssertionError(topic)

    directory = Directory()
    with ExitStack() as watching:
        for _ in range(1000):
            watching.enter_context(directory.watching(Selection(refuse), ()))
        assert directory.watches("orders")
    assert not directory.watches("orders")


def test_a_bad_pattern_is_a_clear_error() -> None:
    with pytest.raises(InvalidArgument, match="not a regular expression"):
        by_pattern("(")
