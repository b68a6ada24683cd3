"""Replicas on real stores: they follow, die and catch up, and have no part in what is stable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from tests.source.real_stores import HURRIED, ORDERS, RealStores, numbered

from quorate.client import connect
from quorate.console.group.rules.assessment import Look, assess
from quorate.console.group.rules.findings import Bounds, Kind, Severity
from quorate.console.group.status import ask_all, compare
from quorate.protocol.layout import Layout
from quorate.source import MessageStable, StabilityEvents
from quorate.store.monitor.group_view import Report, view_of
from quorate.v1.store_pb2 import StatusResponse


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    await made.start("abcd")
    yield made
    await made.stop_all()


def with_replica(stores: RealStores) -> Layout:
    return Layout.plain(stores.named("abc"), also=stores.named("d"))


@pytest.mark.expects_log("store d |directory of")
async def test_a_replica_follows_dies_and_catches_up_and_is_in_no_receipt(
    stores: RealStores,
) -> None:
    told: list[MessageStable] = []
    options = replace(HURRIED, retention_bytes_max=1 << 20, stability_events=StabilityEvents.STORE)
    async with await stores.open(
        with_replica(stores),
        options=options,
        on_event=lambda event: told.append(event) if isinstance(event, MessageStable) else None,
    ) as source:
        receipts = [await source.publish(b"%d" % number) for number in range(5)]
        await stores.until_held("abcd", numbered(0, 4))
        await stores.stop("d")
        receipts += [await source.publish(b"%d" % number) for number in range(5, 10)]
        await stores.start("d")
        await stores.until_held("abcd", numbered(0, 9))
        receipts.append(await source.publish(b"10"))
    for receipt in receipts:
        assert set(receipt.stores) <= set("abc")
        assert receipt.durability.keys() == set(receipt.stores)
    assert told
    assert all("d" not in event.stores for event in told)


@pytest.mark.expects_log("store d |directory of")
async def test_a_replica_catches_up_from_its_peers_when_the_source_is_gone(
    stores: RealStores,
) -> None:
    async with await stores.open(with_replica(stores)) as source:
        await source.publish(b"0")
        await stores.until_held("abcd", numbered(0, 0))
    await stores.stop("d")
    async with await stores.open(with_replica(stores)) as source:
        for number in range(1, 5):
            await source.publish(b"%d" % number)
    stores.settings["d"] = {"peers": tuple(stores.address(name) for name in "abc")}
    await stores.start("d")
    await stores.until_held("d", numbered(0, 4))


@pytest.mark.expects_log("store d |directory of|does not answer")
async def test_opening_waits_for_no_replica(stores: RealStores) -> None:
    await stores.stop("d")
    patient = replace(HURRIED, registration_interval=600.0)
    async with asyncio.timeout(60):
        async with await stores.open(with_replica(stores), options=patient) as source:
            receipt = await source.publish(b"0")
    assert set(receipt.stores) <= set("abc")


async def test_the_status_has_a_role_and_a_lag_for_it(stores: RealStores) -> None:
    async with await stores.open(with_replica(stores)) as source:
        await source.publish(b"0")
        await stores.until_held("abcd", numbered(0, 0))
        answers = await ask_all(stores.addresses("abcd"), 10.0)
        told = {store.address: Report(cast("StatusResponse", a)) for store, a in answers.items()}
        page = view_of(told, "a", 0.0, {}, None)
        assert [each.name for each in page.stores if each.is_replica] == ["d"]
        status = compare(answers, 0)
        roles = {row["store"]: row["role"] for row in status.stores}
        assert roles == {"a": "member", "b": "member", "c": "member", "d": "replica"}
        (row,) = status.replicas
        assert row == {
            "topic": "orders", "session_id": f"{ORDERS.session_id:#x}", "store": "d",
            "newest": 0, "lag": 0,
        }  # fmt: skip
        assert status.healthy


async def test_a_subscriber_reads_from_it_after_all_members_are_gone(stores: RealStores) -> None:
    async with await stores.open(with_replica(stores)) as source:
        for number in range(5):
            await source.publish(b"%d" % number)
        await stores.until_held("abcd", numbered(0, 4))
    await stores.stop("abc")
    async with (
        connect(stores.named("d"), timeout=30.0) as quorate,
        quorate.subscriber("orders", delivered="durable") as subscriber,
    ):
        items = aiter(subscriber)
        read = [await anext(items) for _ in range(5)]
    assert [getattr(item, "payload", item) for item in read] == [b"%d" % n for n in range(5)]


async def test_a_replica_far_behind_is_a_note_and_no_problem(stores: RealStores) -> None:
    async with await stores.open(with_replica(stores)) as source:
        for number in range(5):
            await source.publish(b"%d" % number)
        await stores.until_held("abcd", numbered(0, 4))
        answers = await ask_all(stores.addresses("abcd"), 10.0)
        for where, answer in answers.items():
            if where.name == "d":
                assert isinstance(answer, StatusResponse)
                del answer.sources[0].held[:]
        status = compare(answers, 0)
        assert status.healthy
        (row,) = status.replicas
        assert row["lag"] == status.sources[0]["stable_upto"] + 1 > 1
        assert {row["store"]: row["lacking"] for row in status.stores}["d"] == 0
        found = assess(Look(answers, {}, {}), Bounds(lag_max=1), {})
        (finding,) = [each for each in found if each.kind is Kind.REPLICA]
        assert finding.severity is Severity.NOTE
        assert finding.what == f"Replica d is {row['lag']} stable messages behind in orders/0x10."
        assert not [each for each in found if each.kind is Kind.LAG]
