"""Where a receiver starts and what its stores remember of it, with real stores and sources."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from tests import seams
from tests.receiver.real_peers import QUICK, Stores, numbered, receiver, send, source, take
from tests.receiver.support import told

from quorate.protocol.delays import Delays
from quorate.protocol.errors import Fenced, NoQuorum
from quorate.receiver import (
    ReceiverOptions,
    RegistrationComplete,
    SourceAttached,
    Start,
    StartingPoint,
    StoreRegistered,
)
from quorate.receiver.blocking import Receiver as BlockingReceiver


@pytest.fixture(autouse=True)
def _repeated_often(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.1)
    seams.JOINING_REJOIN.replace(monkeypatch, Delays(first=0.1, longest=0.8))


@pytest.mark.parametrize(
    ("answer", "first"),
    [
        (None, 4),  # no callback: the request maximum decides
        (1, 4),  # written back unchanged: not modified
        (2, 2),
        (7, 7),  # high + 1: no recovery
        (99, 7),  # beyond: clamped
    ],
)
async def test_the_seven_message_example(stores: Stores, answer: int | None, first: int) -> None:
    """0 to 6 are stored, 0 was acknowledged, two are wanted at most."""
    shown: list[StartingPoint] = []

    def choose(point: StartingPoint) -> int:
        shown.append(point)
        return point.low if answer is None else answer

    options = ReceiverOptions(
        registration_interval=QUICK.registration_interval,
        acknowledge_interval=QUICK.acknowledge_interval,
        request_maximum=2,
        choose_start=None if answer is None else choose,
    )
    async with await source(stores) as sending:
        await send(sending, 0, 0)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 1) == numbered(0, 0)
        await send(sending, 1, 6)
        await sending.flush()
        assert await stores.positions() == {"a": 0, "b": 0, "c": 0}
        async with await receiver(stores, options=options) as one:
            complete = await told(one, RegistrationComplete)
            assert complete.first_sequence == first
            assert (complete.low, complete.low_by_request_maximum, complete.high) == (1, 4, 6)
            assert complete.moved_by_request_maximum
            if answer is not None:
                assert shown == [
                    StartingPoint(sending.name, low=1, low_by_request_maximum=4, high=6)
                ]
            await send(sending, 7, 8)
            assert await take(one, 9 - first) == numbered(first, 8)


async def test_events_name_what_each_store_knows(stores: Stores) -> None:
    async with await source(stores, reg_id=77) as sending:
        await send(sending, 0, 9)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 10) == numbered(0, 9)
        async with await receiver(stores) as one:
            await told(one, RegistrationComplete)
            known = [event for event in one._events.kept() if isinstance(event, StoreRegistered)]
            assert sorted(event.store for event in known) == ["a", "b", "c"]
            for event in known:
                assert (event.source_reg_id, event.known, event.limbo) == (77, True, False)
                assert event.acknowledged_upto == 9
                assert event.reg_id not in (0, 77)
            attached = await told(one, SourceAttached)
            assert attached == SourceAttached(
                sending.name, sending._core.information().address, 1, 10
            )
            await send(sending, 10, 10)
            async for message in one:
                assert (message.source_reg_id, message.retransmitted) == (77, False)
                break


@pytest.mark.expects_log(r"receiver of \S+ ends")
@pytest.mark.parametrize("consumes", [True, False])
async def test_an_idle_receiver_hears_that_its_identity_was_taken(
    stores: Stores, consumes: bool
) -> None:
    async with await source(stores) as sending:
        if consumes:
            await send(sending, 0, 9)
        older = await receiver(stores)
        if consumes:
            await take(older, 10)
        taking = asyncio.ensure_future(anext(older.batches()))
        async with await receiver(stores) as newer:
            async with asyncio.timeout(60):
                with pytest.raises(Fenced):
                    await taking
            with pytest.raises(Fenced):
                await older.flush()
            await older.close()
            await send(sending, 10 if consumes else 0, 19)
            assert (await take(newer, 5))[-1][0] >= 4


@pytest.mark.expects_log(r"receiver of \S+ ends")
async def test_an_idle_blocking_receiver_hears_it_too(stores: Stores) -> None:
    outcome: list[BaseException | None] = []
    opened = threading.Event()

    def older() -> None:
        try:
            with BlockingReceiver.open(
                "orders", session_id=0x20, stores=stores.addresses, options=QUICK
            ) as one:
                opened.set()
                for _ in one:
                    pass
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)

    async with await source(stores):
        thread = threading.Thread(target=older)
        thread.start()
        await asyncio.to_thread(opened.wait, 10)
        async with await receiver(stores):
            await asyncio.to_thread(thread.join, 10)
        assert [type(error) for error in outcome] == [Fenced]


@pytest.mark.expects_log(
    "refused|directory of|does not register the receiver|does not take|lost|replaced|came back"
)
async def test_a_store_that_was_wiped_gets_the_position_again(stores: Stores) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 99)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 100) == numbered(0, 99)
            await stores.until_positions(a=98, b=98, c=98)
            await stores.wipe("c")
            await stores.until_positions(a=98, b=98, c=98)
            await send(sending, 100, 199)
            assert await take(one, 100) == numbered(100, 199)
            await stores.until_positions(a=198, b=198, c=198)


@pytest.mark.expects_log("refused|directory of|does not register the receiver|does not take")
async def test_a_store_that_was_away_gets_the_position_that_it_missed(stores: Stores) -> None:
    async with await source(stores) as sending:
        await stores.stop("b")
        await send(sending, 0, 99)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 100) == numbered(0, 99)
            await stores.until_positions(a=98, c=98)
            await stores.start("b")
            await stores.until_positions(a=98, b=98, c=98)


LIMBO = (
    "limbo|refused|directory of|does not register the receiver|does not take|lost|replaced|"
    "another incarnation|waits for more stores|came back"
)


@pytest.mark.expects_log(LIMBO)
@pytest.mark.expects_log("is fenced")
async def test_a_wiped_store_in_limbo_throws_no_receiver_back(stores: Stores) -> None:
    """One store never heard of the receiver, and one that did was wiped: the third is enough."""
    async with await source(stores) as sending:
        await send(sending, 0, 99)
        await sending.flush()
        await stores.stop("b")
        async with await receiver(stores) as one:
            assert await take(one, 60) == numbered(0, 59)
        await stores.until_positions(a=59, c=59)
        await stores.start("b")
        await stores.wipe("c", knows_its_peers=True)
        async with await receiver(stores) as one:
            complete = await told(one, RegistrationComplete)
            assert complete.first_sequence == 60
            assert await take(one, 40) == numbered(60, 99)
            await stores.until_positions(a=98, b=98, c=98)


@pytest.mark.expects_log(LIMBO)
async def test_with_two_wiped_it_waits_and_names_them(stores: Stores) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 99)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 60) == numbered(0, 59)
    await stores.stop("b")
    await stores.stop("c")
    await stores.wipe("b", knows_its_peers=True)
    await stores.wipe("c", knows_its_peers=True)
    said = ""
    async with asyncio.timeout(100):
        while "can be registered with a, in limbo: b, c" not in said:
            with pytest.raises(NoQuorum) as refused:
                await receiver(stores, timeout=2.0)
            said = str(refused.value)


async def test_a_receiver_starts_where_it_asks_to_and_then_where_it_stopped(
    stores: Stores,
) -> None:
    async with await source(stores) as sending:
        await send(sending, 0, 4)
        await sending.flush()
        between = datetime.now(UTC)
        await send(sending, 5, 9)
        await sending.flush()
        asked: list[tuple[Any, int]] = [("earliest", 0), (7, 7), ("last:2", 8), (between, 5)]
        for start, first in asked:
            async with await receiver(stores, session_id=None, start=start) as one:
                assert await take(one, 10 - first) == numbered(first, 9)
        async with await receiver(stores, start=Start.LATEST):
            # It takes nothing, and yet its start is remembered.
            await stores.until_positions(a=9, b=9, c=9)
        await send(sending, 10, 12)
        await sending.flush()
        async with await receiver(stores, start="latest") as one:
            assert await take(one, 3) == numbered(10, 12)
