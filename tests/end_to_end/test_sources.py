"""Stories of sources: killed with tails that differ, overtaken, replaced while they sleep."""

from __future__ import annotations

import asyncio

import pytest
from tests.end_to_end.applications import TOPIC, message
from tests.end_to_end.network import Proxies
from tests.end_to_end.proxy import Proxy
from tests.end_to_end.world import SESSION, ReceiverProcess, SourceProcess, Store, World
from tests.store.support import Client

from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Membership, Policy

pytestmark = [pytest.mark.processes, pytest.mark.long]

ASKED_WITHIN_SECONDS = 5.0
"""A source that was greeted asks within this time, unless it gave the connection up."""


async def _strand_a_tail(
    world: World, messages: int, *receivers: ReceiverProcess
) -> tuple[int, int]:
    """A source with 100 stable messages and a tail that only the first store has; both are killed.

    Returns the last stable number, and the tail's. Live receivers were handed the tail.
    """
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    for receiver in receivers:
        await receiver.start()
    last = await source.send_stable(100)
    for store in (s2, s3):
        await store.until_it_has(last)
        world.network.stall(store.name, "there")
    tail = await source.send(messages)
    await s1.until_it_has(tail)
    for receiver in receivers:
        await receiver.until_reached(last if receiver.stable else tail)
    await source.kill()
    await s1.kill()
    for store in (s2, s3):
        world.network.cut(store.name)
        world.network.heal(store.name)
    assert source.lines("stable") == [[last]]
    return last, tail


async def test_a_source_that_was_killed_goes_on_within_a_second(world: World) -> None:
    """No timeout, and no interval to wait for, lies between a kill and the next life."""
    await world.founded("s1", "s2", "s3")
    source = await world.source(options={"registration_interval": 60.0})
    await source.start()
    for _ in range(4):
        last = await source.send(100)
        await source.kill()
        await source.start(timeout=1.0)
        assert source.lines("opened")[0][1] <= last + 1
    await source.send_stable(1)


async def test_a_tail_that_one_store_has_is_kept_if_that_store_answers(world: World) -> None:
    live = await world.receiver("live", session=20)
    stable = await world.receiver("stable", session=21, delivery="stable")
    _, tail = await _strand_a_tail(world, 50, live, stable)
    await world.stores["s1"].start()
    successor = await world.source("successor", take_over=True)
    await successor.start()
    assert successor.lines("opened")[0][1] == tail + 1
    await stable.until_reached(tail)
    summary = await world.end(successor)
    assert summary.withdrawn == 0
    assert live.lines("withdrawn") == []


async def test_a_tail_that_one_store_has_is_set_aside_and_withdrawn(world: World) -> None:
    live = await world.receiver("live", session=20)
    stable = await world.receiver("stable", session=21, delivery="stable")
    last, tail = await _strand_a_tail(world, 50, live, stable)
    successor = await world.source("successor", take_over=True)
    await successor.start()
    assert successor.lines("opened")[0][1] == last + 1
    await successor.send_stable(10)
    assert await live.until_said("withdrawn") == [last + 1, tail]
    await world.stores["s1"].start()
    summary = await world.end(successor)
    assert (summary.messages, summary.withdrawn) == (111, 1)
    assert stable.lines("withdrawn") == []


async def _promised_by_two(world: World, name: str) -> tuple[SourceProcess, list[Proxy]]:
    """One that takes over, with the promises of all stores but the last, which it waits for.

    And the doors through which it goes to the stores.
    """
    assert isinstance(world.network, Proxies)
    doors = {store: await world.network.door(store) for store in world.stores}
    *others, last = world.stores
    doors[last].refuses = True
    source = await world.source(
        name,
        stores=",".join(f"{store}={door.address}" for store, door in doors.items()),
        take_over=True,
        timeout=600.0,
        options={"registration_interval": 600.0},
    )
    await source.start(until_open=False)
    for store in others:
        await world.stores[store].until("promised", lambda source: source["promised"] == 2)
    return source, list(doors.values())


async def _promise_of_the_third(world: World, door: Proxy) -> None:
    """Let the request to s3 pass once the two have greeted each other, and hold its answer back.

    The source may give that connection up before it asks, since no heartbeat comes back on it.
    Then they greet each other on another one.
    """
    s3 = world.stores["s3"]
    while not (s3.of() and s3.of()["promised"] == 2):
        door.cut()
        door.stall("there")
        door.heal("back")
        door.refuses = False
        await door.until_passed("back")
        door.stall("back")
        door.heal("there")
        try:
            async with asyncio.timeout(ASKED_WITHIN_SECONDS):
                await s3.until("promised", lambda source: source["promised"] == 2)
        except TimeoutError:
            door.refuses = True


async def test_an_epoch_that_a_minority_began_is_overtaken(world: World) -> None:
    """It had kept a tail that the next one never heard of; it must not void what that one keeps."""
    last, _ = await _strand_a_tail(world, 50)
    s1, s2, s3 = world.stores.values()
    await s1.start()
    minority, (_, to_s2, to_s3) = await _promised_by_two(world, "minority")
    await _promise_of_the_third(world, to_s3)
    # It decides with the last answer, and only s1 will hear of it.
    to_s2.stall("there")
    to_s3.stall("there")
    to_s3.heal("back")
    await s1.until("begun", lambda source: source["begun"] == 2)
    await minority.kill()
    await s1.kill()
    for store, door in ((s2, to_s2), (s3, to_s3)):
        door.cut()
        assert store.of()["begun"] == 1

    majority = await world.source("majority", take_over=True)
    await majority.start()
    epoch, first = majority.lines("opened")[0]
    assert (epoch >= 3, first) == (True, last + 1)
    newest = await majority.send_stable(20)
    await majority.kill()
    await s3.kill()
    # The store with the minority's epoch is needed now: its record is not the newest.
    await s1.start()
    successor = await world.source("successor", take_over=True)
    await successor.start()
    assert successor.lines("opened")[0][1] == newest + 1
    await s3.start()
    await world.end(successor)


async def test_a_take_over_that_came_to_nothing_ends_the_older_one(world: World) -> None:
    """One that reaches only s3 is told to take over, and is killed: a third one goes on."""
    s1, _, s3 = await world.founded("s1", "s2", "s3")
    source, _, _ = await world.streaming(100)
    assert isinstance(world.network, Proxies)
    nowhere = await world.network.door("s1")
    nowhere.refuses = True
    killed = await world.source(
        "killed",
        stores=f"s1={nowhere.address},s2=127.0.0.1:9,s3={s3.place.address}",
        take_over=True,
        timeout=600.0,
    )
    await killed.start(until_open=False)
    await s3.until("promised", lambda of: of["promised"] == 2)
    await killed.kill()
    await source.until_said("event", "SourceFailed")
    source.order("send", 1)
    await source.until_said("error", "TakenOver")
    await source.ended()
    third = await world.source("third")
    await third.start()
    await s3.until("it has begun anew", lambda of: of["begun"] >= 3)
    await s1.kill()
    await third.send_stable(100)
    await s1.start()
    await world.end(third)


async def test_one_that_slept_between_promise_and_begin_begins_nothing_any_more(
    world: World,
) -> None:
    """All had promised it; meanwhile another one has begun a later epoch."""
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    last = await source.send_stable(100)
    sleeper, (_, _, to_s3) = await _promised_by_two(world, "sleeper")
    await _promise_of_the_third(world, to_s3)
    await source.until_said("event", "SourceFailed")
    sleeper.pause()
    # With this it has all that it needs to decide.
    to_s3.heal("back")
    successor = await world.source("successor", take_over=True)
    await successor.start()
    epoch, first = successor.lines("opened")[0]
    assert (epoch >= 3, first) == (True, last + 1)
    await successor.send_stable(20)
    sleeper.resume()
    await sleeper.until_replaced()
    await sleeper.ended()
    last = await successor.send_stable(20)
    for store in stores:
        await store.until_it_has(last)
    assert [store.of()["begun"] for store in stores] == [epoch] * 3
    assert sleeper.lines("opened") == []
    assert not [kind for kind, _ in successor.lines("event") if kind == "QuorumLost"]
    await world.end(successor)


async def _by_hand(store: Store, policy: Policy, upto: int) -> None:
    """Register there, and send all up to this number in one batch."""
    name, instance = SourceName(TOPIC, SESSION), b"by hand"
    record = Membership((policy,), (policy,))
    payloads = [message("hand", number, 10) for number in range(upto + 1)]
    async with Client(store.place.listen) as client:
        await client.promise(1, instance, name)
        await client.begin(source=name, instance=instance, membership=record)
        stream = await client.open(1, instance, source=name)
        if payloads:
            await stream.batch(encode_batch(name, 1, 0, payloads, 0))
            await stream.durable(upto)
        await stream.close()


async def test_of_a_batch_that_straddles_what_is_kept_the_rest_is_void(world: World) -> None:
    """Packed for each store anew, as no source of ours does: by hand. Then all are killed."""
    stores = s1, _, s3 = await world.founded("s1", "s2", "s3")
    for store, upto in zip(stores, (3, 1, -1), strict=True):
        await _by_hand(store, Policy.majority_of(world.stores), upto)
    for store in stores:
        await store.kill()
    for store in stores:
        await store.start(until_ready=False)
    # It hears all three: one that is silent might have the rest, too.
    source = await world.source(
        take_over=True,
        timeout=600.0,
        options={"consensus": "lowest", "registration_interval": 600.0},
    )
    await source.start()
    # With the two stores that have them 0 and 1 may have been stable.
    assert source.lines("opened") == [[2, 2]]
    last = await source.send_stable(10)
    await s3.until_it_has(last)
    assert [of[:2] for of in s3.of()["held"]] == [[0, 1], [2, last]]
    # Where the rest of the batch is on the disk it stays void.
    await s1.kill()
    await s1.start()
    await source.until_it_streams_again(s1)
    receiver = await world.receiver("receiver", session=20)
    await receiver.start()
    await receiver.until_reached(last)
    assert receiver.lines("delivered")[0] == [0, ["hand:0", "hand:1"], 1]
    await world.end(source)


async def test_a_second_source_with_the_identity_of_a_living_one_is_refused(world: World) -> None:
    await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    await source.send_stable(10)
    second = await world.source("second")
    await second.start(until_open=False)
    _, text = await second.until_said("error", "SourceActive")
    assert "another process uses this" in text
    await second.ended()
    await source.send_stable(10)
    assert source.lines("error") == []
    await world.end(source)


async def test_a_source_that_was_replaced_in_its_sleep_makes_nothing_stable_again(
    world: World,
) -> None:
    await world.founded("s1", "s2", "s3")
    sleeper = await world.source("sleeper")
    await sleeper.start()
    live = await world.receiver("live", session=20)
    await live.start()
    last = await sleeper.send_stable(100)
    sleeper.pause()
    # It is told to go on sending as soon as it wakes up.
    for _ in range(3):
        sleeper.order("publish")
    successor = await world.source("successor", take_over=True)
    await successor.start()
    assert successor.lines("opened")[0][1] == last + 1
    await successor.send_stable(20)
    sleeper.resume()
    await sleeper.until_said("event", "SourceFailed")
    sleeper.order("send", 1)
    await sleeper.until_replaced()
    await sleeper.ended()
    await successor.send_stable(20)
    assert sleeper.lines("stable") == [[last]]
    assert sleeper.lines("receipt") == []
    await world.end(successor)


async def test_a_source_whose_state_was_deleted_in_its_sleep_is_told_and_may_begin_anew(
    world: World,
) -> None:
    stores = await world.founded("s1", "s2", "s3")
    sleeper = await world.source("sleeper", options={"state_lifetime": 1.0})
    await sleeper.start()
    await sleeper.send_stable(100)
    # What they said before it registered looks as if they had deleted it.
    await world.progress.until(
        "all stores have it", lambda: all(store.facts and store.of() for store in stores)
    )
    sleeper.pause()
    await world.progress.until(
        "all stores have deleted it",
        lambda: all(store.facts and not store.of() for store in stores),
    )
    sleeper.resume()
    _, told = await sleeper.until_said("event", "SourceFailed")
    assert "its state lifetime is over" in told["error"]
    sleeper.order("send", 1)
    await sleeper.until_said("error", "Deregistered")
    await sleeper.ended()
    anew = await world.source("anew")
    await anew.start()
    assert anew.lines("opened")[0][1] == 0
    await anew.send_stable(10)
