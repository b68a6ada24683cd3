"""`quorate replay` as a user has it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.real_stores import RealStores

from quorate.client import connect
from quorate.source import SourceOptions

pytestmark = pytest.mark.processes

ORDERS = [b'{"id": 0, "price": 1.10}', b"no JSON", b'{"id": 2, "price": 3}']


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[str]:
    """Their addresses; they hold ORDERS."""
    made = RealStores(tmp_path)
    await made.start("abc")
    named = made.named("abc")
    quick = SourceOptions(registration_interval=0.3)
    async with (
        connect(named) as client,
        client.source("orders", session_id=1, options=quick) as source,
    ):
        await source.send_many(ORDERS)
        await source.flush()
    yield named
    await made.stop_all()


async def replay(stores: str, *options: str) -> tuple[int | None, str, str]:
    """Exit code, stdout and stderr of the command."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "quorate.console.main", "replay", "orders", "--stores", stores),
        *options,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_only_some_fields_are_printed(stores: str) -> None:
    code, out, _ = await replay(stores, "--select", "id")
    assert (code, out) == (0, '{"id":0}\nno JSON\n{"id":2}\n')
    _, out, _ = await replay(stores, "--select", "-id", "--where", "price > 2")
    assert out == '{"price":3}\n'
    code, _, err = await replay(stores, "--select", "id, -price")
    assert code == 2
    assert "fields to keep and fields to leave out" in err


async def test_a_range_ends_by_itself(stores: str) -> None:
    for follow in ((), ("--follow",)):
        code, out, _ = await replay(stores, "--end", "before orders/0x1@1:2", *follow)
        assert (code, out.encode()) == (0, b"".join(each + b"\n" for each in ORDERS[:2]))
    code, out, _ = await replay(stores, "--from", "at orders/0x1@1:2", "--end", "+1s")
    assert (code, out.encode()) == (0, ORDERS[2] + b"\n")
    code, out, err = await replay(stores, "--from", "now", "--end", "-1m")
    assert (code, out) == (2, "")
    assert "is before the beginning, now" in err


async def test_an_unknown_bookmark_fails_or_begins_elsewhere(stores: str) -> None:
    unknown = ("--from", "orders/0x1@1:1000")
    code, out, err = await replay(stores, *unknown)
    assert code
    assert out == ""
    assert "orders/0x1@1:1000" in err
    code, out, err = await replay(stores, *unknown, "--unknown-bookmark", "epoch")
    assert (code, out.encode()) == (0, b"".join(each + b"\n" for each in ORDERS))
    assert "the subscription begins at epoch: " in err
    code, out, _ = await replay(stores, *unknown, "--unknown-bookmark", "now")
    assert (code, out) == (0, "")
