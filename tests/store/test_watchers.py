from __future__ import annotations

import asyncio

import pytest
from tests.store.support import ORDERS, TRADES

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.store.watchers import (
    Directory,
    by_pattern,
    by_topic,
)

SOURCES = [ORDERS, TRADES]


def names(sources: list[SourceName]) -> list[str]:
    return [source.topic for source in sources]


def test_a_watcher_is_owed_what_is_known_and_asked_for() -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), SOURCES) as watcher:
        assert names(watcher.take()) == ["orders"]
        assert watcher.take() == []
    with directory.watching(by_pattern("tr.*|or"), SOURCES) as watcher:
        assert names(watcher.take()) == ["trades"], "a pattern matches all of the topic"


async def test_changes_that_were_not_taken_are_one() -> None:
    directory = Directory()
    with directory.watching(by_pattern(".*"), ()) as watcher:
        for _ in range(1000):
            directory.changed(ORDERS)
        await asyncio.wait_for(watcher.changed(), 1)
        assert names(watcher.take()) == ["orders"]
        waiting = asyncio.create_task(watcher.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        directory.changed(TRADES)
        await asyncio.wait_for(waiting, 1)


def test_nobody_watches_after_the_call() -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), ()) as watcher:
        pass
    directory.changed(ORDERS)
    assert watcher.take() == []


def test_a_bad_pattern_is_a_clear_error() -> None:
    with pytest.raises(InvalidArgument, match="not a regular expression"):
        by_pattern("(")
