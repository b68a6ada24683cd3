"""The subscriber's events and what is written about them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
from tests.source.real_stores import RealStores
from tests.subscriber.test_replay import send

from quorate.client import connect, replay
from quorate.subscriber.events import Event, Subscribed
from quorate.subscriber.items import Completed

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda kind: kind.__name__)
def test_every_event_is_public_and_documented_with_its_fields(kind: type[Event]) -> None:
    text = DOCUMENT.read_text()
    section = text[text.index("## Of a subscriber") : text.index("## Confirmed delivery")]
    assert getattr(replay, kind.__name__) is kind
    assert f"`{kind.__name__}`" in section
    assert [each.name for each in fields(kind) if f"`{each.name}`" not in section] == []


async def test_the_end_of_history_is_told_once_as_the_item_is(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    await stores.start("a")
    told: list[Event] = []
    async with connect(stores.named("a")) as client:
        await send(client, 1, 0, 9)
        async with client.subscriber("orders", on_event=told.append) as subscriber:
            items = [await anext(subscriber) for _ in range(11)]
            await send(client, 1, 10, 19)
            items += [await anext(subscriber) for _ in range(10)]
    await stores.stop_all()
    (completed,) = [each for each in items if isinstance(each, Completed)]
    assert [type(each) for each in told] == [Subscribed, Completed]
    assert told[1] is completed
