"""Taking messages one at a time, in loops and in calls, until the receiver is closed."""

from __future__ import annotations

import asyncio

import pytest
from tests import seams
from tests.receiver.fakes import NAME, Group
from tests.receiver.support import opened

from quorate.protocol.errors import Closed, Deregistered, InvalidArgument
from quorate.receiver import Receiver


async def received(receiver: Receiver, count: int) -> list[int]:
    messages = [await receiver.receive(60) for _ in range(count)]
    return [message.sequence for message in messages if message is not None]


async def test_calls_and_loops_go_on_from_one_another(group: Group) -> None:
    await group.announce()
    group.store(49)
    async with await opened(group) as receiver:
        got = await received(receiver, 3)
        async for message in receiver:
            got += [message.sequence, *await received(receiver, 11)]
            if got[-1] >= 26:
                break
        async for batch in receiver.batches():
            got += [*range(batch.first, batch.last + 1), *await received(receiver, 2)]
            if got[-1] >= 40:
                break
        got += await received(receiver, 50 - len(got))
        assert got == list(range(50))


async def test_nothing_within_the_timeout_is_none(group: Group) -> None:
    await group.announce()
    group.store(1)
    async with await opened(group) as receiver:
        assert await received(receiver, 2) == [0, 1]
        assert await receiver.receive(timeout=0) is None
        assert await receiver.receive(timeout=0.01) is None
        await group.source.until_attached()
        waiting = asyncio.ensure_future(receiver.receive())
        group.send(2)
        message = await waiting
        assert message is not None
        assert message.sequence == 2


@pytest.mark.expects_log("is missing; waiting for")  # on a busy machine
async def test_a_poll_takes_what_is_there(group: Group) -> None:
    await group.announce()
    group.store(9999)
    async with await opened(group) as receiver:
        got = await received(receiver, 5000)
        while (message := await receiver.receive(timeout=0)) is not None or len(got) < 10_000:
            if message is None:
                await asyncio.sleep(0)
            else:
                got.append(message.sequence)
        assert got == list(range(10_000))


async def test_asking_for_a_message_acknowledges_the_one_before(group: Group) -> None:
    await group.announce()
    group.store(1)
    receiver = await opened(group)
    assert await received(receiver, 2) == [0, 1]
    await receiver.flush()
    assert group.stores[0].receivers[NAME, 0x20][1] == 0
    assert await receiver.receive(timeout=0) is None
    await receiver.close()
    assert group.stores[0].receivers[NAME, 0x20][1] == 1


async def test_a_closed_receiver_hands_over_nothing_more(group: Group) -> None:
    """Neither of the batch under way nor of what waits, also to a loop that goes on."""
    await group.announce()
    group.store(99)
    receiver = await opened(group)
    got: list[int] = []
    async for message in receiver:
        got.append(message.sequence)
        if message.sequence == 3:
            await receiver.close()
    assert got == [0, 1, 2, 3]
    assert [message async for message in receiver] == []
    assert [batch async for batch in receiver.batches()] == []
    with pytest.raises(Closed):
        await receiver.receive(timeout=0)


async def test_closing_ends_a_call_that_waits(group: Group) -> None:
    await group.announce()
    receiver = await opened(group)
    waiting = asyncio.ensure_future(receiver.receive())
    await asyncio.sleep(0)
    await receiver.close()
    with pytest.raises(Closed):
        await waiting


@pytest.mark.expects_log("the last acknowledgements reached too few stores")
async def test_what_comes_while_it_closes_is_not_handed_over(group: Group) -> None:
    await group.announce()
    group.store(1)
    receiver = await opened(group)
    await group.source.until_attached()
    assert await received(receiver, 2) == [0, 1]
    for store in group.stores:
        store.acknowledgements_hang = True
    closing = asyncio.ensure_future(receiver.close())
    await asyncio.sleep(0)
    group.send(9)
    assert [message async for message in receiver] == []
    await closing
    assert [message async for message in receiver] == []


async def test_a_close_waits_as_long_as_it_is_told(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.announce()
    told: list[float] = []

    async def flush(_: object, timeout: float) -> None:
        told.append(timeout)

    seams.ACKNOWLEDGER_FLUSH.replace(monkeypatch, flush)
    receiver = await opened(group)
    with pytest.raises(InvalidArgument, match="timeout"):
        await receiver.close(timeout=-1)
    await receiver.close(timeout=7.5)
    await (await opened(group)).close()
    assert told == [7.5, 3.0]


async def test_a_deregistered_receiver_hands_over_nothing_more(group: Group) -> None:
    await group.announce()
    group.store(99)
    receiver = await opened(group)
    got: list[int] = []

    async def loop() -> None:
        async for message in receiver:
            got.append(message.sequence)
            if message.sequence == 3:
                await receiver.deregister()

    with pytest.raises(Deregistered):
        await loop()
    assert got == [0, 1, 2, 3]
