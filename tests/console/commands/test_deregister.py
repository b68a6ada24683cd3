"""`quorate deregister` as a user has it, against stores of this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.console.command import quorate
from tests.store.support import ORDERS, Client, running

from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.v1 import store_pb2 as store_v1

pytestmark = [pytest.mark.processes, pytest.mark.expects_log("is deregistered|could give it")]

SOURCE = str(ORDERS)


class Group:
    def __init__(self, clients: list[Client]) -> None:
        self.clients = clients
        self.addresses = [client.address for client in clients]

    async def deregister(
        self, *arguments: str, stores: str = ""
    ) -> tuple[int, list[dict[str, Any]], str]:
        ran = await quorate(
            *("deregister", "-o", "jsonl", *arguments),
            QUORATE_STORES=stores or self.addresses[0],
            QUORATE_TIMEOUT="10",
        )
        return ran.code, ran.rows(), ran.err

    async def receivers(self) -> list[int]:
        """How many each store has."""
        return [
            sum(len(source.receivers) for source in (await client.status()).sources)
            for client in self.clients
        ]


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    """Two stores with a source, which is alive, and a receiver."""
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(running(tmp_path / name, name)) for name in ("s1", "s2")
        ]
        clients = [await stack.enter_async_context(Client(node.address)) for node in nodes]
        made = Group(clients)
        for client in clients:
            stream = await client.stream(stores=made.addresses)
            await stream.append(0, 9)
            request = store_v1.RegisterReceiverRequest(
                source=source_to_wire(ORDERS),
                session_id=0x20,
                instance=b"r",
                epoch=1,
                protocol_version=PROTOCOL_VERSION,
            )
            await client.call("RegisterReceiver", request)
        yield made


async def test_a_receiver_is_forgotten_by_every_store_of_its_source(group: Group) -> None:
    code, rows, _ = await group.deregister("--source", SOURCE, "--receiver", "0x20", "--yes")
    assert (code, [row["done"] for row in rows]) == (0, [True, True])
    assert {row["address"] for row in rows} == set(group.addresses), "one was named, both were told"
    assert await group.receivers() == [0, 0]
    code, rows, _ = await group.deregister("--source", SOURCE, "--receiver", "0x20", "--yes")
    assert (code, [row["done"] for row in rows]) == (0, [True, True]), "it may be said again"
    code, _, err = await group.deregister("--source", SOURCE, "--receiver", "0x21", "--yes")
    assert (code, "no store knows receiver 0x21" in err) == (2, True)


async def test_a_source_is_deleted_even_while_it_lives(group: Group) -> None:
    code, rows, _ = await group.deregister("--source", SOURCE, "--yes")
    assert (code, [row["last_sequence"] for row in rows]) == (0, [9, 9])
    for client in group.clients:
        assert not (await client.status()).sources


async def test_nobody_is_asked_where_nobody_can_answer(group: Group) -> None:
    code, rows, err = await group.deregister("--source", SOURCE)
    assert (code, rows, "--yes" in err) == (2, [], True)
    for client in group.clients:
        assert (await client.status()).sources


async def test_what_is_not_a_source_is_a_usage_error(group: Group) -> None:
    for wrong in ("orders", "orders/x", "nothing/0x10"):
        code, _, _ = await group.deregister("--source", wrong, "--yes")
        assert code == 2


async def test_a_store_that_is_not_heard_may_know_it(group: Group) -> None:
    named = f"here={group.addresses[0]},away=127.0.0.1:1"
    code, rows, err = await group.deregister("--source", "ticks/0x1", "--yes", stores=named)
    assert (code, rows) == (69, [])
    error = json.loads(err)
    assert (error["fields"]["answered"], error["fields"]["silent"]) == ("here", "away")
    assert "ticks/0x1, which no store that answered knows," in error["message"]
    code, _, err = await group.deregister("--source", "ticks/0x1", "--yes")
    assert (code, "no store knows source ticks/0x1" in err) == (2, True), "all were heard"


async def test_a_source_that_too_few_stores_can_end_is_said_to_go_on(tmp_path: Path) -> None:
    async with running(tmp_path / "s1", "s1") as node, Client(node.address) as client:
        stream = await client.stream(stores=[node.address, "127.0.0.1:1", "127.0.0.1:2"])
        await stream.append(0, 9)
        # It asks until its timeout: as long as for the others, so that the store here answers.
        code, rows, err = await Group([client]).deregister("--source", SOURCE, "--yes")
        assert (code, {row["done"] for row in rows}) == (69, {False})
        here = next(row["error"] for row in rows if row["address"] == node.address)
        assert "needs more stores than answered." in here, "it has promised, so it was reached"
        assert "Not done: too few stores took part." in err
        assert "other stores tell it" not in err
        assert (await client.status()).sources
