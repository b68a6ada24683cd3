"""The receiver's events and what is written about them."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from tests.receiver.fakes import Group

import quorate.receiver
from quorate.protocol.identity import SourceName
from quorate.receiver import Event, Receiver, RegistrationComplete

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


async def test_the_function_hears_each_event_from_the_registration_on(group: Group) -> None:
    await group.announce()
    group.store(4)
    heard: list[Event] = []
    async with await Receiver.open(
        "orders", stores=group.addresses, session_id=0x20, on_event=heard.append
    ) as receiver:
        assert any(isinstance(event, RegistrationComplete) for event in heard)
        events = receiver.events()
        assert [await anext(events) for _ in heard[:2]] == heard[:2]
