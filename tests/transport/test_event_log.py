"""The log of events: every reader gets every event, or hears how many it missed."""

from __future__ import annotations

import asyncio

import pytest
from tests import seams

from quorate.transport.event_log import EventLog, EventsLost


async def read(log: EventLog[int]) -> list[int | EventsLost]:
    return [event async for event in log.read()]


async def test_every_reader_gets_every_event_also_the_earlier_ones() -> None:
    log: EventLog[int] = EventLog()
    log.add(1)
    readers = [asyncio.create_task(read(log)) for _ in range(2)]
    await asyncio.sleep(0)
    log.add(2)
    log.end()
    for reader in readers:
        assert await reader == [1, 2]
    assert await read(log) == [1, 2]


async def test_a_slow_reader_is_told_how_many_went_by(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.EVENTS_KEPT.replace(monkeypatch, 3)
    log: EventLog[int] = EventLog()
    log.add(0)
    early = aiter(log.read())
    assert await anext(early) == 0
    for number in range(1, 6):
        log.add(number)
    log.end()
    assert [event async for event in early] == [EventsLost(2), 3, 4, 5]
    assert await read(log) == [EventsLost(3), 3, 4, 5], "a late reader hears it, too"


@pytest.mark.expects_log("on_event failed with 1")
async def test_events_are_handed_over_as_they_come_and_no_harm_comes_of_it() -> None:
    seen: list[int] = []

    def on_event(event: int) -> None:
        seen.append(event)
        if event == 1:
            raise ValueError("the application's own fault")

    log = EventLog(on_event)
    for number in range(3):
        log.add(number)
    assert seen == log.kept() == [0, 1, 2]
