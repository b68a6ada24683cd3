"""`quorate send` without a session ID leaves nothing at the stores, once its messages are old."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.console.command import quorate
from tests.store.support import free_addresses

from quorate.console.group.children import StoreChild, founded

pytestmark = [pytest.mark.processes, pytest.mark.long]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    """Three stores in processes, which keep messages for a second."""
    settings = tmp_path / "store.toml"
    settings.write_text("retention_seconds = 1.0\n")
    addresses = free_addresses(3)
    async with AsyncExitStack() as stack:
        children = [
            StoreChild(
                name,
                tmp_path / name,
                address,
                [other for other in addresses if other != address],
                f"--config={settings}",
            )
            for name, address in zip("abc", addresses, strict=True)
        ]
        for child in children:
            stack.push_async_callback(child.kill)
        await asyncio.gather(*(child.start(60.0) for child in children))
        await founded(children, 60.0)
        yield ",".join(addresses)


@pytest.mark.timeout(300)
async def test_what_was_sent_without_a_session_is_forgotten(stores: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    environment = {"QUORATE_STORES": stores, "QUORATE_TIMEOUT": "60"}
    named = await quorate(
        *("send", "lines", "--session-id", "0x10", "--file", str(lines)), **environment
    )
    assert named.code == 0, named.err
    for _ in range(3):
        sent = await quorate("send", "lines", "--file", str(lines), **environment)
        assert sent.code == 0, sent.err
    async with asyncio.timeout(240):
        while True:
            ran = await quorate("sources", "-o", "jsonl", **environment)
            if ran.code == 0 and len(rows := ran.rows()) == 1:
                break
    assert rows[0]["session_id"] == "0x10"
    status = await quorate("status", "-o", "json", **environment)
    assert status.code == 0, status.err
