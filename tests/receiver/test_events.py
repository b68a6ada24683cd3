"""The receiver's events and what is written about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from tests import seams

import quorate.receiver
from quorate.protocol.identity import SourceName
from quorate.receiver import Event, ProxyServes, RegistrationComplete
from quorate.receiver.events import Events

NAME = SourceName("orders", 7)
DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_is_public_and_documented(kind: type[Event]) -> None:
    assert getattr(quorate.receiver, kind.__name__) is kind
    assert kind.__name__ in quorate.receiver.__all__
    assert f"`{kind.__name__}`" in DOCUMENT.read_text()
    assert kind.__doc__


def test_what_a_registration_came_to() -> None:
    whole = RegistrationComplete(NAME, 4, 1, 4, 6, ("a", "b"), (), ())
    assert (whole.by_quorum, whole.moved_by_request_maximum) == (False, True)
    part = RegistrationComplete(NAME, 1, 1, 1, 6, ("a",), ("b",), ("b",))
    assert (part.by_quorum, part.moved_by_request_maximum) == (True, False)


async def test_who_does_not_take_them_loses_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RECEIVER_EVENTS_KEPT.replace(monkeypatch, 3)
    events = Events()
    early = events.stream()
    waiting = asyncio.ensure_future(anext(early))
    await asyncio.sleep(0)
    for number in range(5):
        events.tell(ProxyServes(NAME, str(number)))
    events.end()
    late = [event async for event in events.stream()]
    assert [event.store for event in late if isinstance(event, ProxyServes)] == ["2", "3", "4"]
    assert await waiting in late
    assert len([event async for event in early]) == 2
