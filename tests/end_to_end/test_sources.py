"""Stories of sources: killed with tails that differ, overtaken, replaced while they sleep."""

from __future__ import annotations

import pytest
from tests.end_to_end.network import Proxies
from tests.end_to_end.world import ReceiverProcess, World

pytestmark = pytest.mark.processes


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


async def test_an_epoch_that_a_minority_began_is_overtaken(world: World) -> None:
    """It had kept a tail that the next one never heard of; it must not void what that one keeps."""
    last, _ = await _strand_a_tail(world, 50)
    s1, s2, s3 = world.stores.values()
    await s1.start()
    assert isinstance(world.network, Proxies)
    to_s2, to_s3 = [await world.network.door(store.name) for store in (s2, s3)]
    minority = await world.source(
        "minority",
        stores=f"s1={s1.place.address},s2={to_s2.address},s3={to_s3.address}",
        take_over=True,
        timeout=600.0,
        options={"registration_interval": 600.0},
    )
    to_s3.refuses = True
    await minority.start(until_open=False)
    for store in (s1, s2):
        await store.until("promised", lambda source: source["promised"] == 2)
    # What it asks of s3 passes once they have greeted each other; the answer is held back.
    to_s3.stall("there")
    to_s3.refuses = False
    await to_s3.until_passed("back")
    to_s3.stall("back")
    to_s3.heal("there")
    await s3.until("promised", lambda source: source["promised"] == 2)
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
    await sleeper.until_said("error", "Fenced")
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
    last = await sleeper.send_stable(100)
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
    assert f"knows of messages up to {last}" in told["error"]
    sleeper.order("send", 1)
    await sleeper.until_said("error", "SourceDeleted")
    await sleeper.ended()
    anew = await world.source("anew")
    await anew.start()
    assert anew.lines("opened")[0][1] == 0
    await anew.send_stable(10)
