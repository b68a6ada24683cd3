"""Messages that the application asks for once more."""

from __future__ import annotations

import asyncio
import threading
from math import inf, nan
from typing import Any

import pytest
from tests.receiver.fakes import Group
from tests.receiver.support import numbers, opened, position_is, take

from quorate.protocol.errors import InvalidArgument
from quorate.receiver import Message, Receiver

HOUR = 3600.0


async def following(receiver: Receiver) -> Message:
    async with asyncio.timeout(60):
        message = await receiver.receive()
    assert message is not None
    return message


async def test_a_message_comes_again_and_holds_the_position_until_it_is_acknowledged(
    group: Group,
) -> None:
    await group.announce()
    group.store(9)
    async with await opened(group, acknowledge="explicit") as receiver:
        first = await take(receiver, 10)
        for message in first:
            if message.sequence == 4:
                message.nack()
            else:
                message.acknowledge()
        again = await following(receiver)
        assert (again.sequence, again.payload, again.attempt) == (4, b"1:4", 2)
        assert {message.attempt for message in first} == {1}
        await position_is(group, 3)
        again.nack()
        again = await following(receiver)
        assert (again.sequence, again.attempt) == (4, 3)
        again.acknowledge()
        await position_is(group, 9)


async def test_a_message_waits_for_its_time_and_the_next_ones_pass_it(group: Group) -> None:
    await group.announce()
    group.store(3)
    async with await opened(group, acknowledge="explicit") as receiver:
        (await following(receiver)).nack(HOUR)
        (await following(receiver)).nack(0.01)
        came = [await following(receiver) for _ in range(3)]
        assert sorted(numbers(came)) == [1, 2, 3]
        assert receiver._inbox._delayed_bytes > 0


@pytest.mark.parametrize("before", [True, False])
async def test_a_message_that_is_acknowledged_does_not_come_again(
    group: Group, before: bool
) -> None:
    await group.announce()
    group.store(4)
    async with await opened(group, acknowledge="explicit") as receiver:
        one, two, three, *_ = await take(receiver, 5)
        if before:
            two.acknowledge()
        two.nack(0.0)
        if not before:
            one.acknowledge()
            two.acknowledge()
        three.nack(0.0)
        assert (await following(receiver)).sequence == 2
        assert receiver._inbox._delayed_bytes == 0


async def test_asking_twice_brings_a_message_once(group: Group) -> None:
    await group.announce()
    group.store(1)
    async with await opened(group, acknowledge="explicit") as receiver:
        one, two = await take(receiver, 2)
        one.nack()
        one.nack()
        two.nack()
        came = [await following(receiver) for _ in range(2)]
        assert numbers(came) == [0, 1]


async def test_a_batch_comes_again_as_a_whole(group: Group) -> None:
    await group.announce()
    group.store(4)
    async with await opened(group, acknowledge="explicit") as receiver:
        batches = receiver.batches()
        first = await anext(batches)
        first.nack()
        payloads, came = first.payloads, await anext(batches)
        while came.attempt == 1:
            came = await anext(batches)
        assert (came.first, came.payloads, came.attempt) == (first.first, payloads, 2)


async def test_another_thread_may_ask(group: Group) -> None:
    await group.announce()
    group.store(0)
    async with await opened(group, acknowledge="explicit") as receiver:
        one = await following(receiver)
        asking = threading.Thread(target=one.nack)
        asking.start()
        again = await following(receiver)
        asking.join()
        assert (again.sequence, again.attempt) == (0, 2)


async def test_a_copy_of_the_message_alone_waits(group: Group) -> None:
    await group.announce()
    group.store(99)
    async with await opened(group, acknowledge="explicit") as receiver:
        messages = await take(receiver, 100)
        messages[50].nack()
        again = await following(receiver)
        assert (again.key, dict(again.properties)) == (messages[50].key, {})
        assert again.batch.payloads == [b"1:50"]
        assert again.timestamp_ns == messages[50].timestamp_ns


@pytest.mark.parametrize("delay", [-0.1, inf, nan, "1"])
async def test_delays_that_make_no_sense(group: Group, delay: Any) -> None:
    await group.announce()
    group.store(0)
    async with await opened(group, acknowledge="explicit") as receiver:
        one = await following(receiver)
        with pytest.raises(InvalidArgument, match="delay"):
            one.nack(delay)


async def test_a_receiver_that_acknowledges_by_itself_does_not_take_it(group: Group) -> None:
    await group.announce()
    group.store(0)
    async with await opened(group) as receiver:
        one = await following(receiver)
        with pytest.raises(InvalidArgument, match="explicit"):
            one.nack()


async def test_a_closed_receiver_brings_nothing_again(group: Group) -> None:
    await group.announce()
    group.store(1)
    receiver = await opened(group, acknowledge="explicit")
    one, two = await take(receiver, 2)
    one.nack(HOUR)
    await asyncio.sleep(0)
    await receiver.close()
    two.nack()
    assert not receiver._redelivery._waiting
