"""The door without asyncio. The stores run on the background loop, as everything else does."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests import seams
from tests.receiver.real_peers import Stores
from tests.source.fake_store import FakeStore
from tests.source.support import addresses

from quorate.client import connect_blocking
from quorate.errors import Closed, NotYetStable, WaitsForItself
from quorate.transport.blocking import run_blocking


def test_the_first_program(stores_aside: Stores) -> None:
    with connect_blocking(stores_aside.addresses) as quorate:
        with quorate.source("orders", session_id=1) as orders:
            assert orders.publish(b"one").sequence == 0
        for message in quorate.receiver("orders", session_id=2):
            assert (message.sequence, message.payload) == (0, b"one")
            break


def test_the_client_closes_what_is_open(stores_aside: Stores) -> None:
    quorate = connect_blocking(stores_aside.addresses)
    orders = quorate.source("orders", session_id=1)
    receiver = quorate.receiver("orders", session_id=2)
    sequence = orders.send(b"0")
    quorate.close()
    assert orders.stable_upto == sequence
    with pytest.raises(Closed):
        orders.send(b"1")
    with pytest.raises(Closed):
        receiver.flush()
    assert quorate._open == {}
    with pytest.raises(Closed, match="The client is closed"):
        quorate.source("orders")
    with pytest.raises(Closed, match="The client is closed"):
        quorate.receiver("orders")
    quorate.close()


def test_a_close_in_a_callback_leaves_the_client_open(stores_aside: Stores) -> None:
    async def called(call: Callable[[], None]) -> None:
        call()

    with connect_blocking(stores_aside.addresses) as quorate:
        with pytest.raises(WaitsForItself):
            run_blocking(called(quorate.close))
        with quorate.source("orders") as orders:
            assert orders.publish(b"0").sequence == 0


def test_a_close_that_fails() -> None:
    async def begin() -> list[FakeStore]:
        group = [FakeStore() for _ in range(3)]
        for store in group:
            await store.start()
            store.deaf = True
        return group

    group = run_blocking(begin())
    quorate = connect_blocking(addresses(group))
    orders = quorate.source("orders", session_id=1)
    orders.send(b"lost")
    with pytest.raises(NotYetStable, match="orders/0x1"):
        quorate.close(timeout=0.01)
    assert quorate._open == {}
    for store in group:
        run_blocking(store.stop())


@pytest.mark.expects_log("no store has a source")
def test_a_close_tells_receivers_how_long_to_wait(
    stores_aside: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[float] = []

    async def flush(_: object, timeout: float) -> None:
        told.append(timeout)

    seams.ACKNOWLEDGER_FLUSH.replace(monkeypatch, flush)
    quorate = connect_blocking(stores_aside.addresses)
    quorate.receiver("orders", session_id=2)
    quorate.receiver("orders", session_id=3).close(timeout=2.5)
    quorate.close(timeout=7.5)
    assert told == [2.5, 7.5]


def test_an_error_from_inside_is_what_is_raised(stores_aside: Stores) -> None:
    def fails() -> None:
        with connect_blocking(stores_aside.addresses) as quorate:
            quorate.source("orders")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()


@pytest.mark.expects_log("does not take|lost its quorum")
def test_closing_while_another_thread_opens(stores_aside: Stores) -> None:
    quorate = connect_blocking(stores_aside.addresses)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while True:
                quorate.source("orders")
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not quorate._open:
        pass
    quorate.close()
    thread.join(timeout=30)
    assert [type(error) for error in failures] == [Closed]
    assert quorate._open == {}
