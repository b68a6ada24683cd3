"""Stories of stores that keep registrations and positions, and no messages."""

from __future__ import annotations

import pytest
from tests.end_to_end.world import World

pytestmark = pytest.mark.processes


@pytest.mark.long
async def test_positions_outlive_a_kill_where_no_messages_are(world: World) -> None:
    *_, witness = await world.founded("s1", "s2", "s3", "s4", state_only=["s4"])
    source = await world.source()
    await source.start()
    await source.until_said("event", "StoreKeepsState")
    receiver = await world.receiver("receiver", session=21, delivery="stable")
    await receiver.start()
    last = await source.send_stable(5_000)
    await receiver.until_reached(last)
    await witness.until("it has the position", lambda of: of["receivers"].get("21") == last)
    assert witness.of()["held"] == witness.of()["holes"] == []

    await witness.kill()
    # It is not needed.
    await receiver.until_reached(await source.send_stable(1_000))
    await receiver.kill()
    await source.kill()
    await witness.start()
    await witness.until(
        "it has the position still", lambda of: of["receivers"].get("21", -1) >= last
    )
    await receiver.start()
    await source.start()
    assert receiver.lines("starts")[0][0] > last
    await receiver.until_reached(await source.send_stable(1_000))
    assert witness.of()["held"] == []
    assert "keeps no messages" in await world.quorate("repair")
    await world.end(source)


@pytest.mark.long
async def test_what_is_stable_never_rests_on_it(world: World) -> None:
    """Five stores, of which three are needed, and two take no messages."""
    s1, s2, s3, *_ = await world.founded("s1", "s2", "s3", "s4", "s5", state_only=["s4", "s5"])
    source = await world.source()
    await source.start()
    receiver = await world.receiver("receiver", session=21)
    await receiver.start()
    last = await source.send_stable(1_000)
    await receiver.until_reached(last)
    await receiver.kill()

    await s3.kill()
    await source.until_said("event", "QuorumLost")
    await s3.start()
    await world.progress.until(
        "it works again by itself",
        lambda: sum(line[0] == "RegistrationComplete" for line in source.lines("event")) == 2,
    )
    last = await source.send_stable(1_000)
    for store in (s1, s2):
        await store.until_it_has(last)
        await store.kill()
    # One store has the messages; with the two it knows what every receiver has acknowledged.
    await receiver.start()
    await receiver.until_reached(last)
    for store in (s1, s2):
        await store.start()
    await world.end(source)


@pytest.mark.long
async def test_a_data_store_is_killed_and_repaired_beside_it(world: World) -> None:
    s1, *_ = await world.founded("s1", "s2", "s3", "s4", "s5", state_only=["s5"])
    source, receiver, _ = await world.streaming(100)
    await receiver.kill()
    await s1.kill()
    last = await source.send_stable(20_000)
    await receiver.start()
    await receiver.until_reached(last)
    s1.wipe()
    await s1.start()
    await s1.until_it_has(last)
    assert await world.quorate("status", "--wait", "30", "-o", "json")
    await world.end(source)


@pytest.mark.long
async def test_it_is_wiped_and_vouches_again_with_what_its_peers_know(world: World) -> None:
    *_, witness = await world.founded("s1", "s2", "s3", "s4", state_only=["s4"])
    source, receiver, last = await world.streaming(3_000)
    await witness.until("it has the position", lambda of: of["receivers"].get("21") == last)
    await witness.until_met()
    before = witness.facts["incarnation"]
    await witness.kill()
    witness.wipe()
    await witness.start()
    await witness.until_it_vouches(other_than=before)
    await witness.until(
        "it has lineage and position, and nothing else",
        lambda of: of["begun"] == 1 and of["receivers"].get("21") == last and not of["holes"],
    )
    last = await source.send_stable(1_000)
    await receiver.until_reached(last)
    await world.end(source)


@pytest.mark.long
async def test_one_turns_to_keep_state_only_and_back(world: World) -> None:
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    receiver = await world.receiver("receiver", session=20)
    await receiver.start()
    before = await source.send_stable(1_000)
    for store in (s1, s2, s3):
        await store.until_it_has(before)
    await s3.kill()
    s3.state_only = True
    await s3.start()
    await source.until_said("event", "StoreKeepsState")
    last = await source.send_stable(1_000)
    await receiver.until_reached(last)
    await s3.until_it_has(last)
    assert [held[:2] for held in s3.of()["held"]] == [[0, before]]
    assert s3.of()["holes"] == []
    await s3.kill()
    s3.state_only = False
    await s3.start()
    await s3.until_it_has(last)
    await source.send_stable(1_000)
    await world.end(source)


@pytest.mark.long
async def test_what_it_took_before_it_kept_state_only_is_found_stable_and_fetched(
    world: World,
) -> None:
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source(durable=True)
    await source.start()
    before = await source.send_stable(100)
    for store in (s1, s2, s3):
        await store.until_it_has(before)
    await s2.kill()
    # Nobody hears that the two have it: that it is stable, only who asks them can find out.
    for store in (s1, s3):
        world.network.stall(store.name, "back")
    last = await source.send(50)
    for store in (s1, s3):
        await store.until_it_has(last)
    await source.kill()
    await s3.kill()
    for store in (s1, s3):
        world.network.cut(store.name)
        world.network.heal(store.name)
    assert s1.of()["stable_upto"] == before
    s3.state_only = True
    await s3.start()
    for store in (s1, s3):
        await store.until("knows what is stable", lambda of: of["stable_upto"] == last)

    await s1.kill()
    await s2.start()
    await s2.until_it_has(last)
    await s1.start()
    assert "whole" in await world.quorate("repair")
    await source.start()
    await world.end(source)
