"""Sources and receivers wait when a store bounds the new identities of their host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.support import Client, running

from quorate.client import SourceOptions, connect
from quorate.errors import TooManyRegistrations
from quorate.protocol.identity import SourceName


async def use_up(client: Client, first: int) -> None:
    """Register sources until the store refuses one."""
    for session_id in range(first, first + 1000):
        try:
            await client.promise(1, source=SourceName("flood", session_id))
        except TooManyRegistrations:
            return
    pytest.fail("the store refused none")


@pytest.mark.expects_log("too many new sources and receivers|waits for more stores|does not take")
async def test_a_source_and_a_receiver_wait_for_their_turn(tmp_path: Path) -> None:
    async with (
        running(tmp_path, new_identities_per_second=1.0) as node,
        Client(node.address) as client,
        connect(f"s1={node.address}", timeout=None) as quorate,
    ):
        await use_up(client, 1)
        options = SourceOptions(registration_interval=0.1)
        source = await quorate.source("orders", session_id=5000, options=options)
        await source.publish(b"0")
        await use_up(client, 2000)
        receiver = await quorate.receiver("orders", session_id=6000)
        message = await receiver.receive()
        assert message is not None
        assert message.payload == b"0"
        assert node._engine is not None
        assert node._engine.rejected >= 4  # both were refused before their turn came
