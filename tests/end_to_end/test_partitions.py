"""Stories of partitions, told in network namespaces: packets vanish and nobody is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.end_to_end.namespaces import Namespaces, why_not
from tests.end_to_end.world import World

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(bool(reason := why_not()), reason=f"needs network namespaces: {reason}"),
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
    await source.until_said("error", "Fenced")
    assert await near.until_said("withdrawn") == [last + 1, tail]
    await world.end(successor)
    assert source.lines("stable") == [[last]]


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
    _, _, s3 = await world.founded("s1", "s2", "s3")
    source = await world.source(options={"retention_bytes_max": 0})
    await source.start()
    await s3.until_it_has(await source.send_stable(100))
    network.part(["s3"], ["s1", "s2"])
    await s3.until_it_has(await source.send_stable(100))
    # What it misses now the source does not keep for it.
    await s3.kill()
    await source.send_stable(1000)
    await s3.start()
    await s3.until("has a hole", lambda of: of["holes"])
    network.unite()
    await s3.until_it_has(await source.send_stable(100))
    await world.end(source)
