"""Stories of a source that waits for its receivers, while stores and receivers are killed."""

from __future__ import annotations

import pytest
from tests.end_to_end.world import SESSION, Store, World

pytestmark = [pytest.mark.processes, pytest.mark.long]

RECEIVER = 20
BOUND = 500
PACED = {"receiver_pacing": {"messages": BOUND}}


def held_upto(store: Store) -> int:
    held = store.of().get("held", [])
    return int(held[-1][1]) if held else -1


async def until_acknowledged(world: World, upto: int, *stores: Store) -> None:
    """Until all stores know that the receiver has acknowledged just this."""
    for store in stores:
        await world.progress.until(
            f"{store.name} knows that {upto} is acknowledged",
            lambda store=store: store.of().get("receivers", {}).get(str(RECEIVER)) == upto,  # type: ignore[misc]
        )


async def until_held_up_after(world: World, last: int, *stores: Store) -> None:
    """Until the source has sent all stores everything up to there, and nothing more."""
    for store in stores:
        await world.progress.until(
            f"the source streams to {store.name} as far as it may",
            lambda store=store: store.of().get("live") and held_upto(store) >= last,  # type: ignore[misc]
        )
    assert {held_upto(store) for store in stores} == {last}


@pytest.mark.long
async def test_who_is_killed_holds_it_up_until_it_is_back_whatever_becomes_of_stores(
    world: World,
) -> None:
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source(options=PACED)
    await source.start()
    receiver = await world.receiver("receiver", session=RECEIVER, delivery="stable")
    await receiver.start()
    await until_acknowledged(world, await source.send_stable(1000), *stores)
    await receiver.kill()

    # A source that starts hears of receivers before it may send.
    await source.kill()
    await source.start()
    source.order("send", 5000)
    last = 999 + BOUND
    await until_held_up_after(world, last, *stores)
    await source.until_said("event", "ReceiversLag")
    for store in stores:
        await store.kill()
        await store.start()
        await store.until_met()
        await source.until_it_streams_again(store)
        await until_held_up_after(world, last, *stores)
    assert source.lines("accepted") == [], "the application waits"

    await receiver.start()
    await source.until_said("accepted", 1000)
    await receiver.until_reached(5999)
    await world.end(source)


async def test_an_operator_frees_it_from_one_that_never_comes_back(world: World) -> None:
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source(options=PACED)
    await source.start()
    receiver = await world.receiver("receiver", session=RECEIVER)
    await receiver.start()
    await until_acknowledged(world, await source.send_stable(100), *stores)
    await receiver.kill()
    await source.kill()
    await source.start()
    source.order("send", 5000)
    await until_held_up_after(world, 99 + BOUND, *stores)
    who = ("--source", f"history/{SESSION}", "--receiver", str(RECEIVER), "--yes")
    await world.quorate("deregister", *who)
    await source.until_said("accepted")
    await world.progress.until("the source has sent all", lambda: source.accepted_upto == 5099)
    world.receivers.remove(receiver)  # nobody can tell it any more what it was not handed
    await world.end(source)
