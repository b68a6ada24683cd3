"""docs/sending.md says what is: its code runs against stores."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.console.test_tutorial import blocks
from tests.receiver.real_peers import Stores

from quorate.client import Outgoing, connect

PAGE = (Path(__file__).parents[2] / "docs" / "sending.md").read_text()


async def test_refused_messages_are_sent_again(stores: Stores) -> None:
    names: dict[str, Any] = {}
    (code,) = (block.code for block in blocks(PAGE) if "send_again" in block.code)
    exec(code, names)
    refused = [Outgoing(b"1", b"key", {"name": b"value"}), Outgoing(b"2")]
    async with connect(stores.addresses) as quorate:
        other = await quorate.source("orders", session_id=1)
        await names["send_again"](SimpleNamespace(unstable=lambda: refused), other)
        orders = await quorate.receiver("orders", session_id=2)
        first, second = await orders.receive(timeout=60), await orders.receive(timeout=60)
        assert first is not None
        assert second is not None
        assert (first.payload, first.key, first.properties) == (b"1", b"key", {"name": b"value"})
        assert second.payload == b"2"
