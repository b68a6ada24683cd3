"""Arguments of the wrong kind: each call says which one is wrong, before it changes anything."""

from __future__ import annotations

from typing import Any

import pytest
from tests.receiver.real_peers import Stores

from quorate.client import connect, connect_blocking
from quorate.errors import InvalidArgument

WRONG_OF_BOTH = [
    ({"session_id": True}, "session ID: True"),
    ({"session_id": "1"}, "session ID: '1'"),
    ({"reg_id": True}, "reg_id: True"),
    ({"timeout": -1}, "timeout: -1"),
    ({"timeout": "1"}, "timeout: '1'"),
]


@pytest.mark.parametrize(("wrong", "text"), [*WRONG_OF_BOTH, ({"options": {}}, "SourceOptions")])
async def test_a_source_does_not_open(stores: Stores, wrong: Any, text: str) -> None:
    async with connect(stores.addresses) as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.source("orders", **wrong)


@pytest.mark.parametrize(("wrong", "text"), [*WRONG_OF_BOTH, ({"options": {}}, "ReceiverOptions")])
async def test_a_receiver_does_not_open(stores: Stores, wrong: Any, text: str) -> None:
    async with connect(stores.addresses) as quorate:
        with pytest.raises(InvalidArgument, match=text):
            await quorate.receiver("orders", **wrong)


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1"])
async def test_a_timeout_of_a_call(stores: Stores, wrong: Any) -> None:
    async with (
        connect(stores.addresses) as quorate,
        quorate.source("orders") as orders,
        quorate.receiver("orders") as receiver,
    ):
        for call in (
            orders.publish(b"x", timeout=wrong),
            orders.flush(timeout=wrong),
            orders.wait_stable(-1, timeout=wrong),
            receiver.receive(timeout=wrong),
        ):
            with pytest.raises(InvalidArgument, match="timeout"):
                await call
        assert orders.next_sequence == 0


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1"])
def test_a_timeout_of_a_blocking_call(stores_aside: Stores, wrong: Any) -> None:
    with (
        connect_blocking(stores_aside.addresses) as quorate,
        quorate.source("orders") as orders,
        quorate.receiver("orders") as receiver,
    ):
        for call in (
            lambda: orders.publish(b"x", timeout=wrong),
            lambda: orders.flush(timeout=wrong),
            lambda: orders.wait_stable(-1, timeout=wrong),
            lambda: receiver.receive(timeout=wrong),
        ):
            with pytest.raises(InvalidArgument, match="timeout"):
                call()
        assert orders.next_sequence == 0


async def test_a_commit_with_a_wrong_marker_takes_no_number(stores: Stores) -> None:
    wrong: Any = "text"
    async with connect(stores.addresses) as quorate, quorate.source("orders") as orders:
        with pytest.raises(InvalidArgument, match="marker: is str, not bytes"):
            await orders.commit([b"0"], wrong)
        assert (await orders.publish(b"0")).sequence == 0


def test_a_blocking_commit_with_a_wrong_marker_takes_no_number(stores_aside: Stores) -> None:
    wrong: Any = "text"
    with connect_blocking(stores_aside.addresses) as quorate, quorate.source("orders") as orders:
        with pytest.raises(InvalidArgument, match="marker: is str, not bytes"):
            orders.commit([b"0"], wrong)
        assert orders.publish(b"0").sequence == 0


async def test_waiting_for_a_number_that_was_not_sent(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate, quorate.source("orders") as orders:
        await orders.publish(b"0")
        with pytest.raises(InvalidArgument, match="upto: 1 was not sent yet; the newest is 0"):
            await orders.wait_stable(1)
