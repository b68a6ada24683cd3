"""Stories of groups: a backup that stands in, a whole group that is away."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.end_to_end.setups import Setup
from tests.end_to_end.world import World

pytestmark = pytest.mark.processes

_STOOD_IN = {"group": "g1", "member": "s3", "backup": "s4"}


async def _groups(world: World, *, healthy: bool) -> list[dict[str, Any]]:
    """What an operator is shown of the groups."""
    told = json.loads(await world.quorate("status", "-o", "json", fails=not healthy))
    groups: list[dict[str, Any]] = told["groups"]
    return groups


@pytest.mark.long
async def test_a_backup_stands_in_for_a_killed_member_until_that_is_back(world: World) -> None:
    s1, s2, s3, s4 = await world.founded("s1", "s2", "s3", "s4")
    setup = Setup((("s1", "s2", "s3"),), backups=("s4",))
    source = await world.source(stores=setup.written(world), options={"backup_after": 2.0})
    await source.start()
    receiver = await world.receiver("receiver", session=21, delivery="stable")
    await receiver.start()
    for store in (s1, s2, s3):
        await store.until_it_has(await source.send_stable(100))
    assert s4.of().get("held", []) == []

    await s3.kill()
    await source.until_said("event", "BackupSteppedIn", _STOOD_IN)
    await s2.kill()
    # Only the backup makes up the quorum now.
    last = await source.send_stable(100)
    await receiver.until_reached(last)
    (shown,) = await _groups(world, healthy=False)
    assert (shown["role"], shown["stores"]) == ("in force", ["s1", "s2", "s4"])
    assert shown["stand_in_for"] == {"s4": "s3"}
    # So it does for the next instance, which is configured as this one was.
    await source.kill()
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == last + 1

    # First the other one, for which the backup would stand in next.
    await s2.start()
    await source.until_it_streams_again(s2)
    await s3.start()
    await source.until_said("event", "BackupSteppedBack", _STOOD_IN)
    await s4.kill()
    await receiver.until_reached(await source.send_stable(100))
    (shown,) = await _groups(world, healthy=False)
    assert (shown["stores"], shown["backups"]) == (["s1", "s2", "s3"], ["s4"])
    assert shown["stand_in_for"] == {}
    await world.retire(s4)
    await world.end(source)


@pytest.mark.long
async def test_a_group_is_killed_and_nothing_is_lost_nor_taken_that_two_groups_can_not_hold(
    world: World,
) -> None:
    """Three groups, of which two must hold what is stable."""
    s1, s2, s3, s4 = await world.founded("s1", "s2", "s3", "s4")
    setup = Setup((("s1",), ("s2",), ("s3", "s4")), rule="majority")
    source, receiver, _ = await world.streaming(100, stores=setup.written(world))
    for store in (s3, s4):
        await store.kill()
    last = await source.send_stable(1000)
    await receiver.until_reached(last)
    shown = await _groups(world, healthy=False)
    assert [group["satisfied"] for group in shown] == [True, True, False]

    await s2.kill()
    await source.until_said("event", "QuorumLost")
    source.order("try_to_send")
    await source.until_said("error", "NotRegistered")
    # Of the third group both are needed.
    await s3.start()
    await source.until_it_streams_again(s3)
    source.order("try_to_send")
    await world.progress.until(
        "the source refuses a message again", lambda: len(source.lines("error")) == 2
    )
    await s4.start()
    await world.progress.until(
        "it works again by itself",
        lambda: sum(kind == "RegistrationComplete" for kind, _ in source.lines("event")) == 2,
    )
    await receiver.until_reached(await source.send_stable(100))
    await s2.start()
    await source.until_it_streams_again(s2)
    await s1.kill()
    # What the third group missed it has by now, or nothing could become stable.
    await receiver.until_reached(await source.send_stable(100))
    await s1.start()
    await world.end(source)


@pytest.mark.long
async def test_a_source_starts_without_a_group_that_is_gone_for_good_by_an_operators_word(
    world: World,
) -> None:
    """One of two groups is enough for sending, but not for starting."""
    _, s2 = await world.founded("s1", "s2")
    setup = Setup((("s1",), ("s2",)), rule="any")
    source, receiver, _ = await world.streaming(100, stores=setup.written(world))
    await s2.kill()
    await receiver.until_reached(last := await source.send_stable(100))
    await source.kill()
    await source.refused("NoQuorum", "s2")

    s2.wipe()
    await s2.start()
    await source.refused("NoQuorum", "s2", "limbo")
    why = ("--reason", "its disk burnt; Ada", "--yes")
    await world.quorate("store", "readmit", "s2", *why)
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == last + 1
    await receiver.until_reached(await source.send_stable(100))
    await world.end(source)
