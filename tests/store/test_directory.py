from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.store.support import ORDERS, TRADES, World

from quorate.protocol.errors import InvalidArgument
from quorate.store.directory import Directory, by_pattern, by_topic
from quorate.store.state import SourceState


@pytest.fixture
def states() -> list[SourceState]:
    world = World()
    world.stream()
    world.stream(source=TRADES)
    return list(world.core.sources.values())


def names(states: list[SourceState]) -> list[str]:
    return [state.name.topic for state in states]


def test_a_watcher_is_owed_what_is_known_and_asked_for(states: list[SourceState]) -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), states) as watcher:
        assert names(watcher.take()) == ["orders"]
        assert watcher.take() == []
    with directory.watching(by_pattern("tr.*|or"), states) as watcher:
        assert names(watcher.take()) == ["trades"], "a pattern matches all of the topic"


async def test_changes_that_were_not_taken_are_one(states: list[SourceState]) -> None:
    directory = Directory()
    orders = states[0]
    with directory.watching(by_pattern(".*"), ()) as watcher:
        for _ in range(1000):
            directory.changed(orders)
        await asyncio.wait_for(watcher.changed(), 1)
        assert names(watcher.take()) == ["orders"]
        waiting = asyncio.create_task(watcher.changed())
        await asyncio.sleep(0)
        assert not waiting.done()
        directory.changed(states[1])
        await asyncio.wait_for(waiting, 1)


def test_a_source_that_never_streamed_is_not_listed(states: list[SourceState]) -> None:
    states[0].registration = replace(states[0].registration, information=None)
    with Directory().watching(by_topic(ORDERS.topic), states) as watcher:
        assert watcher.take() == []


def test_nobody_watches_after_the_call(states: list[SourceState]) -> None:
    directory = Directory()
    with directory.watching(by_topic("orders"), ()) as watcher:
        pass
    directory.changed(states[0])
    assert watcher.take() == []


def test_a_bad_pattern_is_a_clear_error() -> None:
    with pytest.raises(InvalidArgument, match="not a regular expression"):
        by_pattern("(")
