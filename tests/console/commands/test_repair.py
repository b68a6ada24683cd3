"""`quorate repair`, `loss accept` and `store readmit` as a user has them, against real stores."""

from __future__ import annotations

import getpass
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.console.command import Ran, quorate
from tests.store.support import ORDERS, Client, batch, running
from typer.testing import CliRunner

from quorate.console.group.repair import (
    parse_range,
    parse_source,
)
from quorate.console.main import app
from quorate.protocol.errors import InvalidArgument, QuorateError, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import StatusResponse

pytestmark = pytest.mark.processes

COMPLAINTS = "lacks .* no peer could give it|accepted by an operator|hold other content|in limbo"


class Group:
    def __init__(self, clients: list[Client]) -> None:
        self.clients = clients
        self.addresses = [client.address for client in clients]
        self.stores = ",".join(f"s{at}={each}" for at, each in enumerate(self.addresses, 1))

    async def quorate(self, *arguments: str) -> Ran:
        return await quorate(*arguments, QUORATE_STORES=self.stores)

    async def fill(self, at: int, last: int, **fields: Any) -> None:
        stream = await self.clients[at].stream(stores=self.addresses)
        for first in range(0, last + 1, 10):
            await stream.batch(batch(first, first + 9, **fields), last)
        await stream.durable(last)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=last))
        await stream.close()

    async def holes(self, at: int) -> None:
        """The store lacks [10, 19] and [30, 39] of [0, 49]."""
        await self.clients[at].promise()
        await self.clients[at].begin()
        for first in (0, 20, 40):
            stream = await self.clients[at].open(
                retained_from=first, stable_upto=first - 1, stores=self.addresses
            )
            await stream.batch(batch(first, first + 9), first - 1)
            await stream.durable(first + 9)
            await stream.close()


@pytest.fixture
async def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Group]:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 3600.0)  # only when asked
    async with AsyncExitStack() as stack:
        clients = []
        for name in ("s1", "s2"):
            node = await stack.enter_async_context(running(tmp_path / name, name))
            clients.append(await stack.enter_async_context(Client(node.address)))
        yield Group(clients)


@pytest.mark.parametrize("thorough", [[], ["--thorough"]])
async def test_what_lacks_is_fetched(group: Group, thorough: list[str]) -> None:
    await group.fill(0, 49)
    await group.holes(1)
    result = await group.quorate("repair", "-o", "jsonl", *thorough)
    assert result.code == 0, result.err
    verdicts = {row["store"]: row for row in result.rows() if row["verdict"]}
    assert verdicts["s2"]["filled_messages"] == 20
    assert [verdicts[store]["verdict"] for store in ("s1", "s2")] == ["whole", "whole"]
    assert verdicts["s1"]["checked_messages"] == (50 if thorough else 0)
    assert len((await group.clients[1].fetch()).messages) == 50
    result = await group.quorate("repair", "--source", str(ORDERS), "-o", "json")
    assert (result.code, len(json.loads(result.out))) == (0, 2)
    result = await group.quorate("repair", "--source", "nobody/0x1")
    assert result.code == 0
    assert "does not know it" in result.out


@pytest.mark.expects_log(COMPLAINTS)
async def test_what_lacks_everywhere_or_differs_fails(group: Group) -> None:
    await group.holes(0)
    await group.holes(1)
    result = await group.quorate("repair")
    assert result.code == 1, result.err
    assert "lacks 20 messages that no peer could give: [10, 19], [30, 39]" in result.out
    assert f"`quorate loss accept FIRST-LAST --source {ORDERS} --reason WHY`" in result.err
    group.stores += ",s3=127.0.0.1:1"
    assert "cannot be reached" in (await group.quorate("repair")).out


@pytest.mark.expects_log(COMPLAINTS)
async def test_other_content_fails(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49, salt="other ")
    result = await group.quorate("repair")
    assert result.code == 1, result.err
    assert "has other content than store s2 for [0, 49]" in result.out
    assert "loss accept" not in result.err, "nothing lacks"
    result = await group.quorate("status")
    assert result.code == 10
    assert "Stores s1 and s2 hold different content for [0, 49]" in result.err


@pytest.mark.expects_log(COMPLAINTS)
async def test_a_loss_is_shown_confirmed_and_recorded(group: Group) -> None:
    await group.holes(0)
    await group.holes(1)
    name = ("--source", str(ORDERS))
    reason = ("--reason", "the disks are gone, says Ada")
    result = await group.quorate("loss", "accept", "30-39", *name, *reason)
    assert result.code == 2, "nobody can be asked"
    assert f"10 messages, [30, 39] of {ORDERS}, would be lost for good." in result.err
    assert "s1 lacks [30, 39]" in result.err
    result = await group.quorate("loss", "accept", "25-39", *name, *reason, "--yes")
    assert result.code == 1
    assert "s1 has [25, 29] and lacks [30, 39]" in result.err
    assert f"[25, 39] of {ORDERS} is not recorded as lost at s1, s2: " in result.err
    before = datetime.now(UTC).replace(microsecond=0)
    result = await group.quorate("loss", "accept", "30-39", *name, *reason, "--yes")
    assert result.code == 0, result.err
    for at in (0, 1):
        fetched = await group.clients[at].fetch(25, 49)
        assert fetched.missing == [(30, 39, v1.LOOKUP_LOST)]
    result = await group.quorate("status", "-o", "json")
    shown = json.loads(result.out)
    losses = shown["losses"]
    assert [(row["store"], row["lost"], row["reason"], row["epoch"]) for row in losses] == [
        (store, "[30, 39]", reason[1], 1) for store in ("s1", "s2")
    ]
    for row in losses:
        assert before <= datetime.fromisoformat(row["time"]) <= datetime.now(UTC)
    assert shown["sources"][0]["lost"] == {"s1": ["[30, 39]"], "s2": ["[30, 39]"]}
    for missing in (["1-2"], ["1-2", *name], ["1-2", *reason], ["1-2", *name, "--reason", " "]):
        assert (await group.quorate("loss", "accept", *missing, "--yes")).code == 2


@pytest.mark.expects_log(COMPLAINTS)
async def test_poison_is_confirmed_recorded_listed_and_removed(group: Group) -> None:
    await group.fill(0, 49)
    await group.fill(1, 49)
    mark = ("poison", "add", str(ORDERS), "20-29", "--reason", "breaks the parser")
    result = await group.quorate(*mark)
    assert result.code == 2, "nobody can be asked"
    assert f"10 messages, [20, 29] of {ORDERS}." in result.err
    result = await group.quorate(*mark, "--yes")
    assert result.code == 0, result.err
    (row,) = json.loads((await group.quorate("poison", "list", "-o", "json")).out)
    assert (row["source"], row["messages"], row["stores"]) == (
        str(ORDERS),
        "[20, 29]",
        ["s1", "s2"],
    )
    assert row["reason"] == f"breaks the parser (said by {getpass.getuser()})"
    request = v1.FetchRequest(
        source=source_to_wire(ORDERS), first=0, last=49, protocol_version=PROTOCOL_VERSION
    )
    request.delivers = True
    missing = [
        (each.missing.first, each.missing.last, each.missing.why)
        async for response in group.clients[0].stub.Fetch(request)
        for each in response.answers
        if each.HasField("missing")
    ]
    assert missing == [(20, 29, v1.LOOKUP_POISONED)]
    assert (await group.clients[0].fetch()).missing == []
    status = await group.quorate("status", "-o", "json")
    assert {row["lost"] for row in json.loads(status.out)["losses"]} == {
        "nothing: [20, 29] is poison"
    }
    removal = ("poison", "remove", str(ORDERS), "20-24", "--reason", "it was mended", "--yes")
    assert (await group.quorate(*removal)).code == 0
    (row,) = json.loads((await group.quorate("poison", "list", "-o", "json")).out)
    assert row["messages"] == "[25, 29]"
    for wrong in ("60", "x", "9-8"):
        asked = ("poison", "add", str(ORDERS), wrong, "--reason", "why", "--yes")
        assert (await group.quorate(*asked)).code == 2


@pytest.mark.expects_log(COMPLAINTS)
async def test_poison_names_a_store_that_does_not_answer(group: Group) -> None:
    await group.fill(0, 49)
    with_another = ("--stores", f"{group.stores},s3=127.0.0.1:9")
    mark = ("poison", "add", str(ORDERS), "20", "--reason", "breaks the parser", "--yes")
    result = await group.quorate(*mark, *with_another)
    assert result.code == 0, result.err
    assert "Store s3 does not know this yet, and learns it from the others: " in result.err
    result = await group.quorate("poison", "list", "-o", "jsonl", *with_another)
    assert result.code == 10
    assert [row["messages"] for row in result.rows()] == ["[20, 20]"]
    assert result.err.startswith("127.0.0.1:9 cannot be reached")


def _all_answer_but(to: pytest.MonkeyPatch, silent: str) -> None:
    """All stores but this say that they are in limbo, and know no source."""

    async def ask_all(
        stores: Sequence[StoreAddress], _: float
    ) -> dict[StoreAddress, StatusResponse | QuorateError]:
        return {
            store: Unreachable(store.address, "refused")
            if store.name == silent
            else StatusResponse(store_name=store.name, limbo=True)
            for store in stores
        }

    seams.GROUP_STATUS_ASK_ALL.replace(to, ask_all)


def test_a_loss_that_no_store_records_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    _all_answer_but(monkeypatch, "s2")
    lost = ("30-39", "--source", str(ORDERS), "--reason", "-", "--yes")
    stores = "s1=127.0.0.1:1,s2=h:2"
    result = CliRunner().invoke(app, ["loss", "accept", "--stores", stores, *lost, "-o", "json"])
    assert "  s2 does not answer and may have them: " in result.stderr
    (row,) = json.loads(result.stdout)
    assert (row["store"], row["recorded"]) == ("s1", False)
    assert "127.0.0.1:1 cannot be reached" in row["detail"]
    assert result.exit_code == 1


@pytest.mark.parametrize(
    "what", [("loss", "accept", "30-39"), ("store", "readmit", "s1")], ids=lambda it: it[1]
)
@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_people_are_asked_before_anything_is_recorded(
    monkeypatch: pytest.MonkeyPatch, what: Sequence[str], answer: str, code: int
) -> None:
    async def accept(stores: Sequence[StoreAddress], *_: object) -> list[dict[str, Any]]:
        told.extend(stores)
        return [{"store": store.name, "recorded": True, "detail": ""} for store in stores]

    told: list[StoreAddress] = []
    _all_answer_but(monkeypatch, "")
    seams.GROUP_REPAIR_ACCEPT.replace(monkeypatch, accept)
    seams.PEOPLE_WATCH_IN_CONFIRMATION.replace(monkeypatch, lambda *_: True)
    command = [*what, "--stores", "s1=h:1", "--source", str(ORDERS), "--reason", "-"]
    result = CliRunner().invoke(app, command, input=answer)
    assert "Record this, for ever?" in result.stderr
    assert (result.exit_code, [store.name for store in told]) == (code, ["s1"] * (1 - code))


@pytest.mark.expects_log(COMPLAINTS)
async def test_a_store_is_readmitted_when_an_operator_says_so(tmp_path: Path, group: Group) -> None:
    await group.fill(0, 49)
    async with AsyncExitStack() as stack:
        peers = ("127.0.0.1:1",)
        node = await stack.enter_async_context(running(tmp_path / "s9", "s9", peers=peers))
        client = await stack.enter_async_context(Client(node.address))
        assert (await client.status()).limbo
        group.stores += f",{node.address}"
        result = await group.quorate("repair", "-o", "json")
        rows = [row for row in json.loads(result.out) if row["limbo"]]
        assert [(row["store"], row["complete"]) for row in rows] == [(node.address, False)]
        assert rows[0]["verdict"].startswith("in limbo: its data directory is new")
        assert result.code == 1, "a blank store knows no source, and lacks everything"
        result = await group.quorate("store", "readmit", "s9", "--yes")
        assert (result.code, "--reason" in result.err) == (2, True)
        result = await group.quorate("store", "readmit", "s7", "--reason", "-", "--yes")
        assert (result.code, "NAME: 's7' is none of s1, s2, s9" in result.err) == (2, True)
        command = ("store", "readmit", "s9", "--reason", "s7 is gone", "--yes")
        result = await group.quorate(*command)
        assert result.code == 0, result.err
        assert f"{ORDERS}: s1 has [0, 49], s2 does not know it, s9 does not know it" in result.err
        status = await client.status()
        assert not status.limbo
        assert [record.first for record in status.accepted_losses] == [-1]
        result = await group.quorate(*command)
        assert result.code == 2
        assert "NAME: s9 is not in limbo: there is nothing to leave" in result.err
        assert "would vouch" not in result.err, "nobody is warned of what can not be"
        other = ("store", "readmit", "s1", "--source", str(ORDERS))
        result = await group.quorate(*other, "--reason", "-", "--yes")
        assert (result.code, f"s1 is not in limbo for {ORDERS}" in result.err) == (2, True)


def test_sources_and_ranges_are_written_as_they_are_shown() -> None:
    assert parse_source(str(ORDERS)) == ORDERS
    assert parse_source("a/b/17").topic == "a/b"
    assert (parse_range("3-17"), parse_range("4")) == (Range(3, 17), Range(4, 4))
    for text in ("", "a", "5-4", "-3", "1-2-3"):
        with pytest.raises(InvalidArgument):
            parse_range(text)
    for text in ("orders", "/1", "orders/x", "orders/0"):
        with pytest.raises(InvalidArgument):
            parse_source(text)
