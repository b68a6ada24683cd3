"""The door: sources and receivers of one client, how they open, and that they close with it."""

from __future__ import annotations

import asyncio

import pytest
from tests import seams
from tests.receiver.real_peers import Stores
from tests.source.fake_store import FakeStore
from tests.source.support import addresses

from quorate.client import Receiver, ReceiverOptions, Source, connect
from quorate.client.client import raise_first
from quorate.errors import Closed, InvalidArgument, NotYetStable, QuorateError, UnknownTopic


async def test_the_first_program(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate:
        async with quorate.source("orders", session_id=1) as orders:
            assert isinstance(orders, Source)
            receipt = await orders.publish(b"one")
            assert receipt.sequence == 0
            assert len(receipt.stores) >= 2
        received = []
        async for message in quorate.receiver("orders", session_id=2):
            received.append((message.sequence, message.payload))
            break
        assert received == [(0, b"one")]


async def test_a_loop_that_is_left_acknowledges_what_was_taken_before(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate:
        async with quorate.source("orders", session_id=1) as orders:
            await orders.send_many([b"0", b"1", b"2"])
            await orders.flush()
        async for message in quorate.receiver("orders", session_id=2):
            if message.sequence == 1:
                break
    assert await stores.positions(2) == {"a": 0, "b": 0, "c": 0}


async def test_awaiting_opens_and_the_client_closes(stores: Stores) -> None:
    quorate = connect(stores.addresses)
    orders = await quorate.source("orders", session_id=1)
    receiver = await quorate.receiver("orders", session_id=2)
    assert isinstance(receiver, Receiver)
    sequence = await orders.send(b"0")
    await quorate.close()
    assert orders.stable_upto == sequence, "closing waits for what was sent"
    with pytest.raises(Closed):
        await orders.send(b"1")
    with pytest.raises(Closed):
        await receiver.flush()
    assert [message async for message in receiver] == []
    for opening in (quorate.source("orders"), quorate.receiver("orders")):
        with pytest.raises(Closed, match="The client is closed"):
            await opening
    await quorate.close()


@pytest.mark.expects_log("is deregistered|no store has a source of orders")
async def test_what_is_closed_leaves_the_client(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate:
        for _ in range(3):
            async with quorate.source("orders"), quorate.receiver("orders"):
                assert len(quorate._open) == 2
        gone = await quorate.source("orders")
        await gone.deregister()
        leaving = await quorate.receiver("orders", session_id=2)
        await leaving.deregister()
        assert quorate._open == {}


async def test_connecting_speaks_with_nobody() -> None:
    quorate = connect("127.0.0.1:1")
    quorate.source("orders")
    quorate.receiver("orders")
    await quorate.close()


@pytest.mark.expects_log("127.0.0.1:1 cannot be reached")
async def test_closing_ends_what_is_opening() -> None:
    quorate = connect("127.0.0.1:1")

    async def opened() -> None:
        async with quorate.source("orders"):
            pass

    opening = asyncio.create_task(opened())
    await asyncio.sleep(0)
    assert quorate._opening
    await quorate.close()
    with pytest.raises(Closed, match="The client is closed"):
        await opening


@pytest.mark.expects_log("127.0.0.1:1 cannot be reached")
async def test_cancelling_an_opening_is_no_error_of_the_client() -> None:
    async with connect("127.0.0.1:1") as quorate:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await quorate.receiver("orders")


async def test_an_opening_is_used_once(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate:
        opening = quorate.source("orders")
        async with opening:
            with pytest.raises(InvalidArgument, match=r"source\('orders'\): was used already"):
                await opening


async def test_what_is_not_open_says_so() -> None:
    quorate = connect("127.0.0.1:1")
    with pytest.raises(AttributeError, match=r"`await source\('orders'\)`, or `async with"):
        quorate.source("orders").send(b"0")  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="receiver\\('orders'\\) is not open yet"):
        quorate.receiver("orders").acknowledge  # type: ignore[attr-defined]  # noqa: B018


async def test_a_close_that_fails() -> None:
    group = [FakeStore() for _ in range(3)]
    for store in group:
        await store.start()
        store.deaf = True
    quorate = connect(addresses(group))
    orders = await quorate.source("orders", session_id=1)
    await orders.send(b"lost")
    with pytest.raises(NotYetStable, match="orders/0x1"):
        await quorate.close(timeout=0.01)
    assert quorate._open == {}
    with pytest.raises(Closed):
        await orders.send(b"0")
    for store in group:
        await store.stop()


@pytest.mark.expects_log("no store has a source")
async def test_a_close_tells_receivers_how_long_to_wait(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []

    async def flush(_: object, timeout: float) -> None:
        told.append(timeout)

    seams.ACKNOWLEDGER_FLUSH.replace(monkeypatch, flush)
    quorate = connect(stores.addresses)
    await quorate.receiver("orders", session_id=2)
    await quorate.close(timeout=7.5)
    assert told == [7.5]


def test_the_first_error_is_raised_with_the_others_as_notes() -> None:
    failures: list[BaseException] = [Closed("One"), Closed("Two")]
    with pytest.raises(Closed, match="One is closed") as caught:
        raise_first(failures)
    assert caught.value.__notes__ == ["Also: Two is closed. Open a new one."]
    raise_first([])


async def test_an_error_from_inside_is_what_is_raised(stores: Stores) -> None:
    async def fails() -> None:
        async with connect(stores.addresses) as quorate:
            await quorate.source("orders")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()


@pytest.mark.expects_log("127.0.0.1:1 cannot be reached")
async def test_the_timeout_is_that_of_the_client_unless_the_call_has_one() -> None:
    async with connect("127.0.0.1:1", timeout=0.01) as quorate:
        async with asyncio.timeout(25):
            with pytest.raises(QuorateError):
                await quorate.source("orders")
            with pytest.raises(QuorateError):
                await quorate.receiver("orders")
    async with connect("127.0.0.1:1") as quorate:
        async with asyncio.timeout(25):
            with pytest.raises(QuorateError):
                await quorate.source("orders", timeout=0.01)
            with pytest.raises(QuorateError):
                await quorate.receiver("orders", timeout=0.01)


async def test_errors_of_opening_come_from_the_loop(stores: Stores) -> None:
    async with connect(stores.addresses) as quorate:
        with pytest.raises(UnknownTopic):
            async for _ in quorate.receiver("nothing", options=ReceiverOptions(wait_for_source=0)):
                pass
