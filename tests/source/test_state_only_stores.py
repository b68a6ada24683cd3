"""Real stores that keep a source's registration and none of its messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.source.real_stores import HURRIED, RealStores, numbered

from quorate.console.group.status import (
    ask_all,
    compare,
)
from quorate.protocol.errors import NeverStable
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.policy import Policy
from quorate.receiver import Receiver, StoreRegistered
from quorate.source import RegistrationComplete, StoreKeepsState


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    made.state_only = {"d", "e"}
    await made.start("abcde")
    yield made
    await made.stop_all()


async def test_receipts_and_events_say_who_has_the_messages(stores: RealStores) -> None:
    async with await stores.open("abcd") as source:
        receipts = [await source.publish(b"%d" % number) for number in range(5)]
        assert {frozenset(receipt.stores) for receipt in receipts} == {frozenset("abc")}
        assert receipts[0].durability.keys() == {"a", "b", "c"}
        told = source._engine.log.kept()
        assert StoreKeepsState("d") in told
        (complete,) = [event for event in told if isinstance(event, RegistrationComplete)]
        assert {*complete.stores, *complete.missing} == {"a", "b", "c"}
    await stores.until_held("abc", numbered(0, 4))
    assert await stores.held("d") == {}


async def test_the_status_finds_nothing_wrong_with_it(stores: RealStores) -> None:
    async with await stores.open("abcd") as source:
        await source.publish(b"0")
        status = compare(await ask_all(stores.addresses("abcd"), 10.0), 0)
        (row,) = status.sources
        assert row["state_only"] == ["d"]
        assert row["lag"].keys() == {"a", "b", "c"}
        assert status.problems == []


@pytest.mark.expects_log("cannot go on: No message of source")
async def test_what_can_never_be_stable_is_refused_and_leaves_nothing_behind(
    stores: RealStores,
) -> None:
    # On a busy machine, a store may take longer to promise than a hurried source waits.
    patient = replace(HURRIED, registration_interval=30.0)
    everyone = Layout.of(StoreGroup("g", stores.named("abd"), "all"))
    with pytest.raises(
        NeverStable, match=r"all of a, b, d\)\. These stores keep no messages .*: d\."
    ):
        await stores.open(everyone, options=patient)
    with pytest.raises(NeverStable, match=r"state-only\): d, e\."):
        await stores.open("ade", options=patient)
    for _, answer in (await ask_all(stores.addresses("abde"), 10.0)).items():
        assert not getattr(answer, "sources", answer), "the promises were taken back"
    async with await stores.open("abd") as source:
        await source.publish(b"0")


@pytest.mark.expects_log(r"store c |directory of")
async def test_one_beside_the_group_has_no_part_in_what_is_stable(stores: RealStores) -> None:
    beside = Layout(Policy.majority_of("abc"), tuple(stores.addresses("abcd")))
    async with await stores.open(beside) as source:
        await source.publish(b"0")
        await stores.stop("c")
        await source.publish(b"1")
        async with await Receiver.open(
            "orders", stores=stores.named("abd"), session_id=0x20
        ) as receiver:
            messages = aiter(receiver)
            assert [(await anext(messages)).payload for _ in range(2)] == [b"0", b"1"]
            registered = [
                event for event in receiver._events.kept() if isinstance(event, StoreRegistered)
            ]
            assert {event.store: event.state_only for event in registered} == {
                "a": False,
                "b": False,
                "d": True,
            }
    assert await stores.held("d") == {}
