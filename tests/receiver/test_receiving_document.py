"""docs/receiving.md says what is: its tables are what comes out, its code runs against stores."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.documents import Document
from tests.receiver.real_peers import QUICK, Stores, numbered, receiver, send, source, take
from tests.receiver.support import told

from quorate.protocol.consensus import receiver_consensus
from quorate.protocol.delivery import DELIVERY_DEFAULT
from quorate.protocol.identity import SourceName
from quorate.receiver import (
    AcknowledgeMode,
    Behaviour,
    Delivery,
    Receiver,
    RegistrationComplete,
    StartingPoint,
)
from quorate.source import Policy

PAGE = Document("receiving")


def test_whose_word_counts_when_stores_differ() -> None:
    rows = PAGE.table("`ReceiverOptions.consensus`")
    assert len(rows) == len(Behaviour)
    policy = Policy.majority_of("abc")
    for name, _, *said in rows:
        behaviour = Behaviour[name.split("`")[1].removeprefix("Behaviour.")]
        # A position is the first number that is not acknowledged.
        for answers, start in zip(
            ({"a": 10, "b": 6, "c": 3}, {"a": 10, "b": 6}), said, strict=True
        ):
            first = receiver_consensus(behaviour, policy, answers, answers.keys())
            assert start == f"starts at {first}"


CHOICES = [(row[0], int(row[1])) for row in PAGE.table("`choose_start` returns")]


@asynccontextmanager
async def seven_messages(stores: Stores) -> AsyncIterator[None]:
    """0 to 6 are stored, and the receiver acknowledged 0."""
    async with await source(stores) as sending:
        await send(sending, 0, 0)
        await sending.flush()
        async with await receiver(stores) as one:
            assert await take(one, 1) == numbered(0, 0)
        await send(sending, 1, 6)
        await sending.flush()
        yield


def start(answer: str, shown: list[StartingPoint], **options: Any) -> Any:
    def choose(point: StartingPoint) -> int:
        shown.append(point)
        return int(answer)

    chosen = choose if re.fullmatch(r"-?\d+", answer) else None
    return replace(QUICK, choose_start=chosen, **options)


async def test_the_seven_messages(stores: Stores) -> None:
    assert len(CHOICES) == 6
    async with seven_messages(stores):
        for answer, first in CHOICES:
            shown: list[StartingPoint] = []
            options = start(answer, shown, request_maximum=2)
            one = await receiver(stores, options=options, acknowledge="explicit")
            complete = await told(one, RegistrationComplete)
            assert complete.first_sequence == first, answer
            assert (complete.low, complete.low_by_request_maximum, complete.high) == (1, 4, 6)
            for point in shown:
                low, low_by_maximum, high = point.low, point.low_by_request_maximum, point.high
                assert (
                    f"`StartingPoint(source, low={low}, low_by_request_maximum={low_by_maximum}, "
                    f"high={high})`" in PAGE.text
                )
            await one.close()


async def test_positions_never_go_back(stores: Stores) -> None:
    async with seven_messages(stores):
        async with await receiver(stores) as one:
            assert await take(one, 6) == numbered(1, 6)
        async with await receiver(stores, options=start("0", [])) as one:
            assert await take(one, 4) == numbered(0, 3)
        assert await stores.positions() == {"a": 6, "b": 6, "c": 6}
        async with await receiver(stores) as one:
            assert (await told(one, RegistrationComplete)).first_sequence == 7


async def test_what_was_skipped_is_done_with(stores: Stores) -> None:
    async with seven_messages(stores):
        async with await receiver(stores, options=start("5", [])) as one:
            assert await take(one, 1) == numbered(5, 5)
        assert await stores.positions() == {"a": 5, "b": 5, "c": 5}


def test_the_modes_are_those_that_there_are() -> None:
    said = [row[0].split('"')[1] for row in PAGE.table("`acknowledge=`")]
    assert said == [mode.value for mode in AcknowledgeMode]


def test_the_deliveries_are_those_that_there_are() -> None:
    said = [row[0].split('"')[1] for row in PAGE.table("`delivery=`")]
    assert set(said) == {delivery.value for delivery in Delivery}
    assert PAGE.table("`delivery=`")[0][0] == f'`"{DELIVERY_DEFAULT.value}"` (the default)'


async def test_what_is_acknowledged_out_of_order(stores: Stores) -> None:
    async with seven_messages(stores):
        async with await receiver(stores, acknowledge="explicit", options=start("0", [])) as one:
            async for message in one:
                if message.sequence in (0, 1, 2, 4, 5):
                    message.acknowledge()
                if message.sequence == 5:
                    break
            await one.flush()
        assert await stores.positions() == {"a": 2, "b": 2, "c": 2}


def test_the_last_ten() -> None:
    choose = PAGE.run("the_last_ten")["options"].choose_start
    name = SourceName("orders", 1)
    assert choose(StartingPoint(name, 1, 1, 6)) == 1
    assert choose(StartingPoint(name, 1, 1, 99)) == 90


@pytest.mark.parametrize(
    ("name", "session_id"),
    [
        ("several_at_a_time", 2),
        ("a_hundred_at_a_time", 3),
        ("until_it_is_quiet", 4),
        ("the_last_hour", 5),
        ("as_soon_as_it_comes", 6),
        ("with_patience", 7),
    ],
)
async def test_the_loops(stores: Stores, name: str, session_id: int) -> None:
    saved: list[bytes] = []
    lock = threading.Lock()

    def save(payloads: list[bytes]) -> None:
        with lock:
            saved.extend(payloads)

    names = PAGE.run(name, save=save)
    async with await source(stores) as sending:
        await send(sending, 0, 199)
        await sending.flush()
        running = asyncio.create_task(names[name](stores.addresses))
        async with asyncio.timeout(60):
            while await stores.positions(session_id) != {"a": 199, "b": 199, "c": 199}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert sorted(saved) == sorted(payload for _, payload in numbered(0, 199))


async def test_only_dear_ones(stores: Stores) -> None:
    saved: list[bytes] = []
    names = PAGE.run("only_dear_ones", save=saved.extend)
    async with await source(stores) as sending:
        await sending.send_many([b'{"price": %d}' % price for price in (100, 101, 7)])
        await sending.flush()
        running = asyncio.create_task(names["only_dear_ones"](stores.addresses))
        await stores.until_positions(8, a=2, b=2, c=2)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert saved == [b'{"price": 101}']


@pytest.mark.expects_log("no store has a source")
async def test_the_source_hears_that_it_was_read(
    stores: Stores, capsys: pytest.CaptureFixture[str]
) -> None:
    names = PAGE.run("until_it_was_read")
    reading = await Receiver.open("orders", session_id=2, stores=stores.addresses, options=QUICK)
    taking = asyncio.create_task(take(reading, 2))
    async with asyncio.timeout(60):
        await names["until_it_was_read"](stores.addresses, b"0")
    assert capsys.readouterr().out == "receiver 0x2 is done with 0\n"
    taking.cancel()
    with suppress(asyncio.CancelledError):
        await taking
    await reading.close()
