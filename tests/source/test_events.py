import asyncio
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from quorate.source.events import EVENTS_KEPT, Event, EventLog, EventsLost, FlightRelieved


async def read(log: EventLog) -> list[Event]:
    return [event async for event in log.read()]


async def test_every_consumer_gets_every_event_also_the_earlier_ones() -> None:
    log = EventLog()
    log.add(FlightRelieved(1))
    consumers = [asyncio.create_task(read(log)) for _ in range(2)]
    await asyncio.sleep(0)
    log.add(FlightRelieved(2))
    log.end()
    for consumer in consumers:
        assert await consumer == [FlightRelieved(1), FlightRelieved(2)]


async def test_who_is_too_slow_is_told_how_much_went_by() -> None:
    log = EventLog()
    for number in range(EVENTS_KEPT + 5):
        log.add(FlightRelieved(number))
    log.end()
    events = await read(log)
    assert events[0] == EventsLost(5)
    assert events[1] == FlightRelieved(5)
    assert len(events) == EVENTS_KEPT + 1


def test_the_documentation_names_every_event_with_its_fields() -> None:
    text = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    section = text[text.index("## Of a source") : text.index("## Of a receiver")]
    elsewhere = {"DeliveryConfirmed"}
    for kind in get_args(Event):
        assert f"`{kind.__name__}`" in section
        if kind.__name__ not in elsewhere:
            missing = [f.name for f in fields(kind) if f"`{f.name}`" not in section]
            assert missing == [], kind


@pytest.mark.expects_log("on_event failed")
async def test_events_are_handed_over_as_they_come_and_no_harm_comes_of_it() -> None:
    seen: list[Event] = []

    def on_event(event: Event) -> None:
        seen.append(event)
        if event == FlightRelieved(1):
            raise ValueError("the application's own fault")

    log = EventLog(on_event)
    for number in range(3):
        log.add(FlightRelieved(number))
    assert seen == log.kept() == [FlightRelieved(number) for number in range(3)]
