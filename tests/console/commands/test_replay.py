"""`quorate replay` as a user has it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from tests.console.command import Ran, quorate
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


async def replay(stores: str, *options: str, topics: Sequence[str] = ("orders",)) -> Ran:
    """Run `quorate replay`."""
    return await quorate("replay", *topics, "--stores", stores, *options)


async def test_only_some_fields_are_printed(stores: str) -> None:
    code, out, _ = await replay(stores, "--select", "id")
    assert (code, out) == (0, '{"id":0}\nno JSON\n{"id":2}\n')
    _, out, _ = await replay(stores, "--select", "-id", "--where", "price > 2")
    assert out == '{"price":3}\n'
    code, _, err = await replay(stores, "--select", "id, -price")
    assert code == 2
    assert "fields to keep and fields to leave out" in err


async def test_a_topic_that_no_store_knows_is_told(stores: str) -> None:
    code, out, err = await replay(stores, topics=["odrers"])
    assert (code, out) == (0, "")
    assert err.endswith("No source of these topics was found. `quorate topics` lists the topics.\n")
    _, _, err = await replay(stores, "--where", "FALSE")
    assert "No source" not in err


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


async def test_the_newest_of_each_key_is_printed(stores: str) -> None:
    quick = SourceOptions(registration_interval=0.3)
    async with (
        connect(stores) as client,
        client.source("prices", session_id=1, options=quick) as source,
    ):
        for number in range(9):
            await source.send(b'{"id": %d, "at": %d}' % (number % 2, number))
        await source.flush()
    newest = ("--conflation", "10m", "--conflation-key", "id")
    code, out, err = await replay(stores, *newest, topics=["prices"])
    assert (code, out) == (0, '{"id": 1, "at": 7}\n{"id": 0, "at": 8}\n')
    assert 'position: ["prices/0x1@1:8"]' in err
    _, out, _ = await replay(stores, *newest, "--output", "jsonl", topics=["prices"])
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["sequence"], each["bookmark"], each["conflated"]) for each in found] == [
        (7, "prices/0x1@1:1", 4),
        (8, "prices/0x1@1:0", 5),
    ]
    # The position stays before a window of which a part was printed.
    code, _, err = await replay(stores, *newest, "--count", "1", topics=["prices"])
    assert code == 0
    assert "prices/0x1" not in err
    code, _, err = await replay(stores, "--conflation", "1s")
    assert code == 2
    assert "conflation: needs a conflation_key" in err


async def test_the_pauses_of_a_multiple_are_bounded(stores: str, tmp_path: Path) -> None:
    options = ("--rate", "0.0000001x", "--rate-max-gap", "0.01")
    code, out, _ = await replay(stores, *options)
    assert (code, out.encode()) == (0, b"".join(each + b"\n" for each in ORDERS))
    code, _, err = await replay(stores, "--rate-max-gap", "0.01")
    assert code == 2
    assert "rate_max_gap: needs a rate" in err
    file = str(tmp_path / "risk.db")
    kept = ("--name", "risk", "--bookmarks", file, "--save-every", "2", "--save-interval", "60")
    code, out, _ = await replay(stores, *kept)
    assert (code, out.encode()) == (0, b"".join(each + b"\n" for each in ORDERS))
    code, out, _ = await replay(stores, *kept)
    assert (code, out) == (0, "")
    code, _, err = await replay(stores, "--save-every", "2")
    assert code == 2
    assert "--save-every: needs --name" in err


async def test_several_topics_are_printed(stores: str) -> None:
    async with connect(stores) as client, client.source("trades", session_id=2) as source:
        await source.publish(b"traded")
    code, out, _ = await replay(stores, topics=["orders", "trades"])
    assert (code, out.encode()) == (0, b"".join(each + b"\n" for each in [*ORDERS, b"traded"]))
    _, out, _ = await replay(stores, "--where", "price > 2", topics=["orders", "trades"])
    assert out.encode() == ORDERS[2] + b"\n"
    code, _, err = await replay(stores, "--pattern", topics=["orders", "trades"])
    assert code == 2
    assert "needs one TOPIC" in err
