"""Stories of streams that move to other stores while messages flow."""

from __future__ import annotations

import pytest
from tests.end_to_end.changing import Changes
from tests.end_to_end.world import SourceProcess, World

pytestmark = pytest.mark.processes


@pytest.mark.timeout(300)
@pytest.mark.long
async def test_whoever_is_killed_in_the_middle_of_a_change_nothing_is_lost(world: World) -> None:
    changes = Changes(world, 0)
    await changes.begin()
    for kind, victims in (
        ("grows", ("source",)),
        ("shrinks", ("store",)),
        ("gains a group", ("store", "source")),
    ):
        await changes.until_it_goes_on()
        await changes.change(kind, victims, in_the_middle=True)
    await changes.until_it_goes_on()
    summary = await changes.end()
    assert summary.stable_said > 0
    assert summary.delivered >= 2 * summary.messages


@pytest.mark.long
async def test_a_stream_moves_to_other_stores_under_load(world: World) -> None:
    """Its source is killed in the middle of the change; then most of the old stores are."""
    s1, s2, _ = await world.founded("s1", "s2", "s3")
    before = world.addresses_of("s1", "s2", "s3")
    source = await world.source(durable=True)
    await source.start()
    stable = await world.receiver("stable", session=21, delivery="stable")
    await stable.start()
    source.order("chat")
    await stable.until_reached(1000)

    for name in ("s4", "s5"):
        (store,) = await world.add_stores(name)
        await store.start()
        await world.until_founded()
    after = world.addresses_of("s3", "s4", "s5")
    await source.kill()
    await source.start(stores=after, previous=[before], take_over=True)
    source.order("chat")
    await source.until_said("event", "MembershipChanged")
    await source.kill()
    await source.start(stores=after, previous=[before], take_over=True)
    source.order("chat")
    await _until_confirmed(world, source)
    await world.retire(s1, s2)
    await stable.until_reached(stable.reached + 1000)
    source.order("quiet")
    await world.end(source)


async def _until_confirmed(world: World, source: SourceProcess) -> None:
    """Until the stream has moved: whoever it has left may be switched off."""
    await world.progress.until(
        "the new stores are enough",
        lambda: any(
            kind == "MembershipChanged" and facts["confirmed"] == "True"
            for kind, facts in source.lines("event")
        ),
    )


@pytest.mark.long
async def test_a_store_that_is_gone_for_good_is_replaced_by_a_blank_one(world: World) -> None:
    s1, _, s3 = await world.founded("s1", "s2", "s3")
    before = world.addresses
    source, receiver, last = await world.streaming(1000)
    await world.retire(s3)

    (s4,) = await world.add_stores("s4")
    await s4.start()
    await world.until_founded()
    await source.kill()
    await source.start(previous=[before], take_over=True)
    await _until_confirmed(world, source)
    await s4.until_it_has(last)
    # It is as good as the one before.
    await s1.kill()
    last = await source.send_stable(100)
    await receiver.until_reached(last)
    await world.close(source)
    await source.start()
    assert source.lines("opened")[0][1] == last + 1
    await s1.start()
    await world.end(source)


@pytest.mark.long
async def test_a_stream_moves_to_other_stores_altogether(world: World) -> None:
    """Those it leaves are switched off at the confirmation; its new ones never knew them."""
    old = await world.founded("s1", "s2", "s3")
    before = world.addresses
    source, receiver, _ = await world.streaming(1000)

    new = await world.add_stores("s4", "s5", "s6")
    for store in new:
        store.group = ("s4", "s5", "s6")
        await store.start(until_ready=False)
    await world.until_founded()
    await source.kill()
    after = world.addresses_of("s4", "s5", "s6")
    await source.start(stores=after, previous=[before], take_over=True)
    await _until_confirmed(world, source)
    await world.retire(*old)
    await receiver.until_reached(await source.send_stable(100))
    # Also who comes now finds all of it there.
    late = await world.receiver("late", session=22, delivery="stable")
    await late.start()
    await world.close(source)
    await source.start()
    await world.end(source)
