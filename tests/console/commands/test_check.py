"""`quorate check` as a user has it, against real stores."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.console.command import quorate
from tests.console.commands.test_repair import COMPLAINTS, Group, group
from tests.source.real_stores import RealStores
from tests.store.support import Client, batch, running

from quorate.client import connect
from quorate.source import SourceOptions
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.state_records import is_row_key

__all__ = ["group"]

pytestmark = pytest.mark.processes

QUICK = SourceOptions(registration_interval=0.3)


@asynccontextmanager
async def two_stores(directory: Path, **of_the_second: Any) -> AsyncIterator[Group]:
    async with AsyncExitStack() as stack:
        clients = []
        for name, fields in (("s1", {}), ("s2", of_the_second)):
            node = await stack.enter_async_context(running(directory / name, name, **fields))
            clients.append(await stack.enter_async_context(Client(node.address)))
        yield Group(clients)


async def test_a_group_in_which_all_is_well(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49)
    result = await group.quorate("check")
    assert (result.code, result.out, result.err) == (0, "", "Healthy.\n")
    result = await group.quorate("check", "-o", "json")
    assert json.loads(result.out) == {"healthy": True, "findings": []}
    assert (await group.quorate("check", "-o", "jsonl")).out == ""


@pytest.mark.expects_log(COMPLAINTS)
async def test_what_is_wrong_comes_with_what_it_means_and_the_next_step(group: Group) -> None:
    await group.fill(0, 49)
    await group.holes(1)
    result = await group.quorate("check", "--stores", f"{group.stores},s3=127.0.0.1:9")
    assert result.code == 10
    heads = [line for line in result.out.splitlines() if line[:1].isupper()]
    assert [line.partition("  ")[0] for line in heads] == ["CRITICAL", "WARNING"]
    assert heads[0].startswith("CRITICAL  Store s3 at 127.0.0.1:9 gives no status: ")
    assert heads[1].startswith("WARNING  Store s2 lacks [10, 19], [30, 39] of orders/0x10: ")
    assert "    Next: `quorate repair` fetches them from the other stores now." in result.out
    rows = (await group.quorate("check", "-o", "jsonl")).rows()
    assert [row["kind"] for row in rows] == ["hole"]


async def test_no_store_answers(group: Group) -> None:
    assert (await group.quorate("check", "--stores", "s3=127.0.0.1:9")).code == 69


@pytest.mark.expects_log("the disk of store s2 has")
async def test_stores_that_are_configured_differently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 3600.0)
    async with two_stores(tmp_path, retention_bytes=7, disk_free_warning_bytes=1 << 60) as group:
        result = await group.quorate("check", "-o", "jsonl")
        assert result.code == 10
        assert [row["kind"] for row in result.rows()] == ["disk", "configuration"]
        assert "retention_bytes is 0 at s1; 7 at s2." in result.rows()[1]["what"]


async def test_a_tail_that_does_not_move_is_seen_at_the_second_look(group: Group) -> None:
    for client in group.clients:
        await client.promise()
        await client.begin()
    streams = [await client.stream(stores=group.addresses) for client in group.clients]
    for stream in streams:
        await stream.batch(batch(0, 9), -1)
        await stream.durable(9)
    result = await group.quorate("check", "--tail-seconds", "0.1", "-o", "jsonl")
    assert [row["kind"] for row in result.rows()] == ["tail"]
    assert "nothing behind -1 becomes stable; 10 messages wait" in result.rows()[0]["what"]
    for stream in streams:
        await stream.close()


async def test_a_row_that_was_tampered_with_is_found(tmp_path: Path) -> None:
    stores = RealStores(tmp_path)
    stores.settings = {name: {"topic": ({"pattern": "prices", "keys": "$key"},)} for name in "abc"}
    await stores.start("abc")
    async with connect(stores.named("abc")) as client:
        async with client.source("prices", options=QUICK) as source:
            for number in range(20):
                await source.send(b"%d" % number, key=b"%d" % (number % 7))
            receipt = await source.publish(b"20", key=b"last")
        for name in "abc":
            async with connect(stores.named(name)) as one:
                await one.state("prices").get(b"last", at_least=receipt.bookmark)
    command = ("check", "--rows", "--stores", stores.named("abc"), "-o", "jsonl")
    assert (await quorate(*command)).rows() == []
    storage = stores.node("b")._storage
    assert storage is not None
    rows = storage.scan(Table.STATE, b"", b"\xff" * 64, 1000)
    key, value = next(each for each in rows if is_row_key(each[0]))
    storage.write([Write(Table.STATE, key, value[:-1] + bytes([value[-1] ^ 1]))])
    result = await quorate(*command)
    assert result.code == 10
    (found,) = result.rows()
    assert (found["kind"], found["subject"]) == ("rows", "prices")
    assert "8 at a, c; 8 at b." in found["what"]
    assert found["next"].startswith("Stop b,")
    await stores.stop_all()
