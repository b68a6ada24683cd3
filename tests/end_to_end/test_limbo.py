"""Stories of stores that are not to be believed: wiped, or put back from a copy."""

from __future__ import annotations

import pytest
from tests.end_to_end.world import SourceProcess, Store, World

pytestmark = [pytest.mark.processes, pytest.mark.long]


async def _with_messages(world: World, count: int) -> tuple[list[Store], SourceProcess]:
    """Three stores that all have so many stable messages, and the source that sent them."""
    stores = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    last = await source.send_stable(count)
    for store in stores:
        await store.until_it_has(last)
    return stores, source


async def test_a_wiped_store_is_filled_by_its_peers_and_counts_again(world: World) -> None:
    (s1, s2, s3), source = await _with_messages(world, 5000)
    before = s3.facts["incarnation"]
    await s3.kill()
    s3.wipe()
    await source.send_stable(100)
    await s3.start()
    await s3.until_it_vouches(other_than=before)
    last = await source.send_stable(100)
    await s3.until_it_has(last)
    # What the others have is not needed any more.
    await source.kill()
    await s1.kill()
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == last + 1
    await source.send_stable(10)
    await s1.start()
    await world.end(source)
    assert not s2.running


async def test_a_store_that_was_wiped_while_the_source_is_away(world: World) -> None:
    (s1, _, s3), source = await _with_messages(world, 5000)
    await world.close(source)
    before = s3.facts["incarnation"]
    await s3.kill()
    s3.wipe()
    await s3.start()
    await s3.until_it_vouches(other_than=before)
    await s3.until_it_has(4999)
    await s1.kill()
    await source.start()
    assert source.lines("opened")[0][1] == 5000
    await s1.start()
    await world.end(source)


async def test_two_of_three_wiped_stores_let_no_source_start_over(world: World) -> None:
    (s1, s2, s3), source = await _with_messages(world, 100)
    await world.close(source)
    for store in (s1, s2, s3):
        await store.kill()
    for store in (s2, s3):
        store.wipe()
    for store in (s1, s2, s3):
        await store.start()
    await world.progress.until(
        "the wiped ones are in limbo", lambda: s2.facts.get("limbo") and s3.facts.get("limbo")
    )
    await source.refused("NoQuorum", "s2", "s3", "limbo")
    assert s1.has_all(99)


async def test_three_wiped_stores_are_a_new_group(world: World) -> None:
    """There is nobody left who could know better."""
    stores, source = await _with_messages(world, 100)
    await world.close(source)
    for store in stores:
        await store.kill()
        store.wipe()
    for store in stores:
        await store.start()
    await world.until_founded()
    source.runs.clear()
    await source.start()
    assert source.lines("opened") == [[1, 0]]
    await world.end(source)


async def _goes_on_after_a_copy(s1: Store, s2: Store, s3: Store, source: SourceProcess) -> int:
    """A copy of s3 is made; s2 and s3 alone take what comes after that, up to what is answered.
    Then only s3 runs."""
    await s3.kill()
    s3.save()
    await s3.start()
    await s3.until_met()
    await source.until_it_streams_again(s3)
    await s1.kill()
    last = await source.send_stable(100)
    await source.kill()
    await s2.kill()
    return last


async def test_a_store_that_was_put_back_from_a_copy_is_found_out(world: World) -> None:
    (s1, s2, s3), source = await _with_messages(world, 100)
    before = s3.facts["incarnation"]
    last = await _goes_on_after_a_copy(s1, s2, s3, source)
    await s3.kill()
    s3.roll_back()
    # Of these two none has the second hundred; if both were believed, it would be lost.
    for store in (s1, s3):
        await store.start()
    await source.refused("NoQuorum", "s3", "limbo")

    await s2.start()
    await s3.until_it_vouches(other_than=before)
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == last + 1
    await world.end(source)


async def test_a_copy_that_runs_beside_its_store_is_found_out_and_so_is_that(
    world: World,
) -> None:
    """Nobody can know which of the two is the one: neither is believed while both run."""
    (s1, s2, s3), source = await _with_messages(world, 100)
    before = s3.facts["incarnation"]
    last = await _goes_on_after_a_copy(s1, s2, s3, source)
    await s1.start()
    copy = await world.copy_of(s3)
    await copy.start()
    await copy.until_in_limbo("put back")
    # Of s1 and the copy none has the second hundred; if both were believed, it would be lost.
    by_mistake = f"{world.addresses_of('s1', 's2')},s3={copy.place.address}"
    await source.refused("NoQuorum", "s3", "limbo", stores=by_mistake)
    await s3.until_in_limbo("another store runs under its name")

    await s2.start()
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == last + 1
    await source.send_stable(100)
    await copy.kill()
    await s3.until_it_vouches(other_than=before)
    await world.end(source)


async def test_a_store_that_missed_an_epoch_learns_of_it_while_the_source_is_away(
    world: World,
) -> None:
    (s1, _, s3), source = await _with_messages(world, 100)
    await s3.kill()
    await source.kill()
    await source.start(take_over=True)
    last = await source.send_stable(5000)
    await world.close(source)
    await s3.start()
    await s3.until_it_has(last)
    await s1.kill()
    await source.start()
    assert source.lines("opened")[0][1] == last + 1
    await s1.start()
    await world.end(source)
