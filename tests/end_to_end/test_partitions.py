"""Stories of partitions, told in network namespaces: packets vanish and nobody is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.end_to_end.applications import TOPIC
from tests.end_to_end.namespaces import Namespaces, why_not
from tests.end_to_end.world import SESSION, SourceProcess, Store, World

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(reason := why_not()), reason=f"needs network namespaces: {reason}"),
    pytest.mark.long,
]


@pytest.fixture
async def network() -> Namespaces:
    return Namespaces()


@pytest.fixture
async def world(tmp_path: Path, network: Namespaces) -> AsyncIterator[World]:
    async with World(tmp_path, network) as world:
        yield world


async def test_a_source_without_a_quorum_still_reaches_its_receivers(
    world: World, network: Namespaces
) -> None:
    await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    live = await world.receiver("live", session=20)
    stable = await world.receiver("stable", session=21, delivery="stable")
    for receiver in (live, stable):
        await receiver.start()
    last = await source.send_stable(100)
    await stable.until_reached(last)
    network.part(["source"], ["s2", "s3"])
    await live.until_reached(await source.send(50))
    assert source.lines("stable") == [[last]]
    assert stable.reached == last
    network.unite()
    await world.end(source)
    assert live.lines("withdrawn") == []


async def test_a_minority_goes_on_with_nothing_while_the_others_go_on(
    world: World, network: Namespaces
) -> None:
    s1, _, _ = await world.founded("s1", "s2", "s3")
    source = await world.source()
    successor = await world.source("successor", take_over=True)
    await source.start()
    near = await world.receiver("near", session=20)
    far = await world.receiver("far", session=21)
    for receiver in (near, far):
        await receiver.start()
    last = await source.send_stable(100)
    await far.until_reached(last)

    network.part(["s1", "source", "near"], ["s2", "s3", "successor", "far"])
    tail = await source.send(50)
    await near.until_reached(tail)
    await s1.until_it_has(tail)
    await successor.start()
    assert successor.lines("opened")[0][1] == last + 1
    await far.until_reached(await successor.send_stable(20))
    network.unite()
    await source.until_said("event", "SourceFailed")
    source.order("send", 1)
    await source.until_replaced()
    assert await near.until_said("withdrawn") == [last + 1, tail]
    await world.end(successor)
    assert source.lines("stable") == [[last]]


async def test_a_source_that_hears_late_that_it_was_replaced_does_not_come_back(
    world: World, network: Namespaces
) -> None:
    """Of three stores that know of its successor it reaches one; it may not fence them again."""
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source(take_over=True)
    successor = await world.source("successor", take_over=True)
    await source.start()
    last = await source.send_stable(100)
    network.part(["s1", "source"], ["s2", "s3", "successor"])
    tail = await source.send(50)
    await s1.until_it_has(tail)
    await successor.start()
    await successor.send_stable(20)
    for name in ("s2", "s3", "successor"):
        network.join("s1", name)
        network.join(name, "s1")
    await s1.until_it_has(await successor.send_stable(20))
    for store in (s1, s2, s3):
        await store.until("the successor streams to it", lambda of: of["live"])
    # With the fence of one store it registers anew: whoever was promised may have died since.
    before = len(source.lines("event"))
    await world.progress.until(
        "the source acts on the fence",
        lambda: any(
            kind in ("WaitingForStores", "SourceFailed")
            for kind, _ in source.lines("event")[before:]
        ),
    )
    network.unite()
    await source.until_said("event", "SourceFailed")
    await successor.send_stable(20)
    source.order("send", 1)
    await source.until_said("error", "Fenced")
    assert source.lines("stable") == [[last]]
    assert not [line for line in successor.lines("event") if line[0] == "QuorumLost"]
    await world.end(successor)


async def test_a_store_that_is_not_heard_and_one_that_does_not_hear(
    world: World, network: Namespaces
) -> None:
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source()
    await source.start()
    last = await source.send_stable(100)
    network.sever("source", "s3")
    last = await source.send_stable(100)
    assert not s3.has_all(last)
    network.join("source", "s3")
    await s3.until_it_has(last)

    # Two that have it and can not say so are none.
    for store in (s2, s3):
        network.sever(store.name, "source")
    tail = await source.send(50)
    for store in (s1, s2, s3):
        await store.until_it_has(tail)
    assert source.lines("stable")[-1] == [last]
    network.unite()
    await world.end(source)


async def test_a_store_that_its_peers_do_not_reach_is_repaired_when_they_do(
    world: World, network: Namespaces
) -> None:
    _, _, s3, source = await _with_a_hole_in_s3(world, network)
    network.unite()
    await s3.until_it_has(await source.send_stable(100))
    await world.end(source)


async def test_a_source_goes_on_without_what_an_operator_accepts_as_lost(
    world: World, network: Namespaces
) -> None:
    s1, s2, s3, source = await _with_a_hole_in_s3(world, network)
    # So little the source keeps until s3 has it.
    last = await source.send_stable(10)
    await s3.until("has the end", lambda of: of["held"][-1][1] == last)
    ((first, until),) = s3.of()["holes"]
    await source.kill()
    for store in (s1, s2):
        await store.kill()
        store.wipe()
    network.unite()
    for store in (s1, s2):
        await store.start()
    await source.refused("NoQuorum", "s1", "s2", "limbo")
    why = ("--reason", "its disk is gone for good, says Ada", "--yes")
    await world.quorate("store", "readmit", "s1", *why)
    await source.refused("MissingMessages", f"[{first}, {until}]")

    await world.quorate(
        *("loss", "accept", f"{first}-{until}"),
        *("--source", f"{TOPIC}/{SESSION:#x}", *why),
    )
    world.losses = [range(first, until + 1)]
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == last + 1
    receiver = await world.receiver("receiver", session=21, delivery="stable")
    await receiver.start()
    await world.end(source)
    assert [gap[:3] for gap in receiver.lines("gap")] == [[first, until, "LOST"]]


async def _with_a_hole_in_s3(
    world: World, network: Namespaces
) -> tuple[Store, Store, Store, SourceProcess]:
    """The source does not keep all that s3 missed from 200 on, and its peers do not reach s3."""
    s1, s2, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source(options={"retention_bytes_max": 10_000})
    await source.start()
    await s3.until_it_has(await source.send_stable(100))
    network.part(["s3"], ["s1", "s2"])
    await s3.until_it_has(await source.send_stable(100))
    await s3.kill()
    for _ in range(10):
        await source.send_stable(100)
    await s3.start()
    await s3.until("has a hole", lambda of: of["holes"])
    assert s3.of()["holes"][0][0] == 200
    return s1, s2, s3, source
