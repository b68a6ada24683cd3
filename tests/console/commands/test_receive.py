"""`quorate receive` with a receiver that has everything at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from tests import seams

from quorate import receiver
from quorate.console.commands.receive import _Receiving
from quorate.console.ui.output import Output
from quorate.console.ui.settings import GroupSettings
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.policy import Policy

NAME = SourceName("orders", 0x10)


class Receiver:
    """Stands in for one that has something to tell when it is open, and again when it closes."""

    sources = (NAME,)

    def __init__(self) -> None:
        self._told: list[Any] = []

    async def __aenter__(self) -> Self:
        self._tell(1)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tell(2)

    def _tell(self, epoch: int) -> None:
        self._told.append(receiver.SourceAttached(NAME, "127.0.0.1:1", epoch, 0))

    async def events(self) -> AsyncIterator[Any]:
        for event in self._told:
            yield event

    async def batches(self) -> AsyncIterator[Any]:
        """None: they have ended."""
        none: tuple[Any, ...] = ()
        for batch in none:
            yield batch


async def test_what_happened_is_shown_to_the_last_however_soon_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def opened(**_: Any) -> Receiver:
        return Receiver()

    seams.RECEIVER_OPEN.replace(monkeypatch, opened)
    settings = GroupSettings(
        Layout(Policy.majority_of("a"), (StoreAddress("a", "127.0.0.1:2"),)), Output.JSONL, 1.0
    )
    receiving = _Receiving(settings, {"topic": "orders"}, {}, count=1, until_idle=None, events=True)
    await receiving.run()
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["epoch"] for each in told] == [1, 2]
