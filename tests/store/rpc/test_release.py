"""An operator lets go of what is old: the oldest first, and nothing that somebody needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.store.rpc.test_journal import filled, report
from tests.store.support import Client, running

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.store.rules.retention import Limit, choose_below
from quorate.store.rules.subscriptions import Slowest
from quorate.store.storage.records import IndexEntry
from quorate.transport.failures import error_from_call
from quorate.v1 import store_pb2 as store_v1

ORDERS, TRADES = SourceName("orders", 1), SourceName("trades", 1)


async def release(
    client: Client, before: int, pattern: str = "", *, unread_too: bool = False
) -> dict[str, store_v1.ReleaseResponse]:
    """Release all that was sent before this second; return the messages gone of each topic."""
    request = store_v1.ReleaseRequest(
        protocol_version=PROTOCOL_VERSION,
        topic_pattern=pattern,
        before_ns=before * 10**9,
        unread_too=unread_too,
    )
    try:
        return {each.source.topic: each async for each in client.stub.Release(request)}
    except grpc.aio.AioRpcError as error:
        raise error_from_call(client.address, error) from error


async def held(client: Client, topic: str = "orders") -> tuple[int, int]:
    (source,) = (each for each in (await report(client)).sources if each.source.topic == topic)
    return source.first, source.last


async def test_what_is_older_goes_and_the_rest_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client, ORDERS, 19, 19)
        found = (await release(client, 12))["orders"]
        assert (found.messages, found.retained_from, found.kept_because) == (12, 12, "")
        assert found.bytes > 0
        assert await held(client) == (12, 19)
        again = (await release(client, 12))["orders"]
        assert (again.messages, again.bytes, again.kept_because) == (0, 0, "")
        assert (await release(client, 99))["orders"].messages == 8, "the newest go, too"


async def test_only_topics_that_match(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client, ORDERS, 9, 9)
        await filled(client, TRADES, 9, 9)
        assert (await release(client, 5, "t.*")).keys() == {"trades"}
        assert (await held(client), await held(client, "trades")) == ((0, 9), (5, 9))
        with pytest.raises(InvalidArgument):
            await release(client, 5, "(")


async def test_what_is_not_stable_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client, ORDERS, 19, 9)
        found = (await release(client, 15))["orders"]
        assert found.messages == 10
        assert found.kept_because == "what follows is not known to be stable"
        assert await held(client) == (10, 19)


async def test_what_no_archive_has_stays_if_the_store_waits_for_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"retain_until": ("archived",)}
    async with running(tmp_path, **settings) as node, Client(node.address) as client:
        await filled(client, ORDERS, 19, 19)
        found = (await release(client, 15, unread_too=True))["orders"]
        assert (found.messages, found.kept_because) == (0, "an archive has it up to -1 only")


async def test_what_a_subscription_has_yet_to_read_stays_unless_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SUBSCRIPTIONS_SLOWEST.replace(monkeypatch, lambda *_: Slowest("ipv4:1.2.3.4:5", 3))
    async with running(tmp_path) as node, Client(node.address) as client:
        await filled(client, ORDERS, 19, 19)
        found = (await release(client, 15))["orders"]
        assert found.messages == 4
        assert found.kept_because == "the subscription of ipv4:1.2.3.4:5 has read up to 3 only"
        assert await held(client) == (4, 19)
        assert (await release(client, 15, unread_too=True))["orders"].messages == 11


def row(first: int, last: int) -> IndexEntry:
    return IndexEntry(first, last, 1, first, 10)


@pytest.mark.parametrize(
    ("below", "upto", "gone", "why"),
    [
        (0, 99, [], ""),
        (9, 99, [], ""),
        (10, 99, [9], ""),
        (25, 99, [9, 19], ""),
        (30, 19, [9, 19], "because"),
        (20, 19, [9, 19], ""),
        (30, -1, [], "because"),
    ],
)
def test_rows_go_whole_and_in_order(below: int, upto: int, gone: list[int], why: str) -> None:
    rows = [row(0, 9), row(10, 19), row(20, 29)]
    going, kept = choose_below(rows, below, Limit(upto, "because"))
    assert ([each.last for each in going], kept) == (gone, why)
