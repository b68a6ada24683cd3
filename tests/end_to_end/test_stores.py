"""Stories of stores: away for long, all killed at once."""

from __future__ import annotations

import pytest
from tests.end_to_end.world import World

pytestmark = [pytest.mark.processes, pytest.mark.long]


async def test_a_store_that_was_away_is_repaired_while_the_source_is_away(world: World) -> None:
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    await s3.until_it_has(await source.send_stable(100))
    await s3.kill()
    last = await source.send_stable(20_000)
    await world.close(source)
    await s3.start()
    await s3.until_it_has(last)
    # It is as good as any other now.
    await s1.kill()
    await source.start()
    assert source.lines("opened")[0][1] == last + 1
    await source.send_stable(10)
    await s1.start()
    await world.end(source)
    assert s2.running is False


async def test_what_is_stable_outlives_all_stores_and_the_source_being_killed(world: World) -> None:
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source(durable=True)
    await source.start()
    receiver = await world.receiver("receiver", session=21, delivery="stable")
    await receiver.start()
    await source.send_stable(1000)
    last = await source.send(500)
    for process in (*stores, source, receiver):
        await process.kill()
    for store in stores:
        await store.start()
    await source.start()
    # What the publish store kept goes on where it was.
    assert source.lines("opened")[0][1] == last + 1
    await receiver.start()
    summary = await world.end(source)
    assert summary.messages == last + 2


async def test_three_blank_stores_found_a_group_once_all_are_there(world: World) -> None:
    s1, s2, s3 = await world.add_stores("s1", "s2", "s3")
    await world.look_at_stores()
    await s1.start()
    await s2.start()
    await world.progress.until(
        "two wait for the third", lambda: s1.facts.get("limbo") and s2.facts.get("limbo")
    )
    source = await world.source()
    await source.refused("NoQuorum", "limbo")
    await s3.start()
    await world.until_founded()
    await source.start()
    await source.send_stable(10)
    await world.end(source)
