"""Stories of receivers: away for long, killed in the middle, two with one identity."""

from __future__ import annotations

import json

import pytest
from tests.end_to_end.world import SESSION, World

pytestmark = [pytest.mark.processes, pytest.mark.long]


async def test_a_receiver_that_was_away_recovers_from_two_of_three_stores(world: World) -> None:
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source, receiver, _ = await world.streaming(100)
    await receiver.kill()
    last = await source.send_stable(20_000)
    for store in (s1, s2, s3):
        await store.until_it_has(last)
    await world.close(source)
    await s1.kill()

    # Nobody is there but the two stores.
    await receiver.start()
    await receiver.until_reached(last)
    assert receiver.lines("starts")[0][0] <= 100
    await s1.start()
    await source.start()
    await world.end(source)


async def test_a_receiver_that_is_killed_in_the_middle_goes_on_where_it_was(world: World) -> None:
    await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    receiver = await world.receiver("receiver", session=20)
    await receiver.start()
    for _ in range(3):
        before = await source.send_stable(2000)
        await receiver.until_reached(before - 1000)
        await receiver.kill()
        await source.send_stable(100)
        await receiver.start()
    await world.end(source)


async def test_the_application_says_where_it_goes_on_however_often_it_is_killed(
    world: World,
) -> None:
    """Seven messages, of which it had the first; two are to be requested at most."""
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    receiver = await world.receiver("receiver", session=20, request_maximum=2)

    async def until_acknowledged(upto: int) -> None:
        for store in stores:
            await store.until(
                f"{upto} is acknowledged", lambda of: of["receivers"].get("20") == upto
            )

    await receiver.start()
    await receiver.until_reached(await source.send_stable(1))
    await until_acknowledged(0)
    await receiver.kill()
    for _ in range(6):
        await source.send_stable(1)

    # Low, low by request maximum and high are 1, 4 and 6; low means that nothing is changed.
    await receiver.start(start="low", takes=0)
    assert await receiver.until_said("starts") == [4, 1, 6]
    assert receiver.lines("chose") == [[1, 1, 4, 6]]
    # Who took nothing stays where it was.
    await receiver.kill()
    await receiver.start(start=2, takes=2)
    assert await receiver.until_said("starts") == [2, 1, 6]
    await receiver.until_reached(3)
    await until_acknowledged(2)
    await receiver.kill()
    assert [first for first, *_ in receiver.lines("delivered")] == [2, 3]
    # It may go back behind what it has acknowledged.
    await receiver.start(start=0)
    assert await receiver.until_said("starts") == [0, 3, 6]
    await receiver.until_reached(6)
    await world.end(source)


@pytest.mark.long
async def test_a_store_answers_for_a_source_that_is_away_until_it_returns(world: World) -> None:
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    last = await source.send_stable(1000)
    for store in stores:
        await store.until_it_has(last)
    await source.kill()
    await world.progress.until(
        "a store answers for the source", lambda: any(store.of().get("proxy") for store in stores)
    )
    receiver = await world.receiver("receiver", session=21, delivery="stable")
    await receiver.start()
    await receiver.until_said("event", "ProxyServes")
    await receiver.until_reached(last)
    await source.start(take_over=True)
    await receiver.until_said("event", "ProxyGone")
    await world.end(source)


async def test_of_two_receivers_with_one_identity_the_older_is_told_to_go(world: World) -> None:
    await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    older = await world.receiver("older", session=20)
    await older.start()
    await older.until_reached(await source.send_stable(100))
    newer = await world.receiver("newer", session=20, take_over=True)
    await newer.start()
    await newer.until_reached(await source.send_stable(100))
    await older.until_said("error", "Fenced")
    # They are one identity: what one was handed and acknowledged the other need not be.
    world.receivers.remove(older)
    newer.runs.insert(0, older.said)
    await older.kill()
    await world.end(source)


@pytest.mark.long
async def test_one_that_was_deregistered_begins_anew_whatever_a_store_that_was_away_has(
    world: World,
) -> None:
    stores = await world.founded("s1", "s2", "s3")
    s1, s3 = stores[0], stores[2]
    source = await world.source()
    await source.start()
    receiver = await world.receiver("receiver", session=20)
    await receiver.start()
    last = await source.send_stable(1000)
    for store in stores:
        await store.until(
            "it knows what was acknowledged", lambda of: of["receivers"].get("20") == last
        )
    await world.close(receiver)
    await s3.kill()
    who = ("--source", f"history/{SESSION}", "--receiver", "20", "--yes")
    told = json.loads(await world.quorate("deregister", *who, "-o", "json", fails=True))
    assert {each["store"]: each["done"] for each in told} == {"s1": True, "s2": True, "s3": False}
    await s3.start()
    await s3.until("it has heard of it", lambda of: not of["receivers"])
    incarnation = s1.facts["incarnation"]
    await s1.kill()
    s1.wipe()
    await s1.start()
    await s1.until_it_vouches(other_than=incarnation)
    assert [store.of()["receivers"] for store in stores] == [{}, {}, {}]

    world.receivers.remove(receiver)  # it is over, and was not handed what comes now
    again = await world.receiver("again", session=20)
    await again.start()
    await again.until_reached(last)
    assert again.lines("starts")[0][0] == 0
    await world.end(source)
