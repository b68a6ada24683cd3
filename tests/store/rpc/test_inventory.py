"""Which sources an inventory leaves out, because nothing of them is new to an archive."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.ended import MEMBERSHIP, engine_of, filled
from tests.store.support import (
    FIRST_LINEAGE,
    INCARNATION,
    ORDERS,
    TRADES,
    World,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import ARCHIVED_PLACES_MAX
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import source_from_wire, source_to_wire
from quorate.store.rpc.inventory import inventory
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1


def place(source: SourceName, upto: int, epoch: int = 1) -> store_v1.ArchivedPlace:
    return store_v1.ArchivedPlace(source=source_to_wire(source), upto=upto, epoch=epoch)


async def named(world: World, *archived: store_v1.ArchivedPlace) -> set[SourceName]:
    """Return the sources of the answer to an archive that has these."""
    engine, me = engine_of(world), world.standing.greeting("s1:1", 0)
    request = store_v1.InventoryRequest(archived=archived)
    return {
        source_from_wire(source.source)
        async for each in inventory(engine, me, request, Turn())
        for source in each.sources
    }


@pytest.fixture
def world() -> World:
    """A store with two sources of 30 messages. It was told that one of them is archived."""
    made = World()
    for source, archived_upto in ((ORDERS, 29), (TRADES, -1)):
        state = filled(made, source)
        state.held = replace(state.held, stable_upto=29, archived_upto=archived_upto)
    return made


async def test_a_source_that_is_archived_as_far_as_it_is_stable_is_left_out(world: World) -> None:
    assert await named(world) == {ORDERS, TRADES}
    assert await named(world, place(ORDERS, 29)) == {TRADES}


@pytest.mark.parametrize(
    "archived",
    [
        pytest.param(place(ORDERS, 28), id="something is new"),
        pytest.param(place(ORDERS, 30), id="the archive has more"),
        pytest.param(place(ORDERS, 29, epoch=2), id="the archive has another history"),
        pytest.param(place(TRADES, 29), id="the store was not told"),
    ],
)
async def test_a_source_that_an_archive_should_hear_of_is_named(
    world: World, archived: store_v1.ArchivedPlace
) -> None:
    assert await named(world, archived) == {ORDERS, TRADES}


async def test_of_many_sources_only_the_one_with_news_is_named() -> None:
    world = World()
    names = [SourceName("orders", session) for session in range(1, 2002)]
    for name in names:
        world.promise(1, source=name)
        world.done(
            world.core.begin(name, BeginRecord(FIRST_LINEAGE, MEMBERSHIP), b"a", INCARNATION)
        )
        state = world.core.sources[name]
        state.held = replace(state.held, stable_upto=29, archived_upto=29)
    world.core.sources[names[7]].held.stable_upto = 39
    assert await named(world, *[place(name, 29) for name in names]) == {names[7]}


@pytest.mark.parametrize(
    ("begin", "before", "expected"),
    [
        (None, ORDERS, set()),
        (ORDERS, None, {ORDERS, TRADES}),
        (ORDERS, TRADES, {ORDERS}),
        (SourceName(ORDERS.topic, ORDERS.session_id + 1), None, {TRADES}),
    ],
)
async def test_only_sources_within_bounds_are_named(
    world: World, begin: SourceName | None, before: SourceName | None, expected: set[SourceName]
) -> None:
    request = store_v1.InventoryRequest(
        begin=None if begin is None else source_to_wire(begin),
        before=None if before is None else source_to_wire(before),
    )
    engine, me = engine_of(world), world.standing.greeting("s1:1", 0)
    pages = [each async for each in inventory(engine, me, request, Turn())]
    assert {source_from_wire(each.source) for page in pages for each in page.sources} == expected


async def test_a_request_that_names_too_many_sources_is_refused(world: World) -> None:
    with pytest.raises(InvalidArgument, match="20,000 are the most"):
        await named(world, *[place(ORDERS, 29)] * (ARCHIVED_PLACES_MAX + 1))


async def test_a_response_has_many_sources(world: World) -> None:
    """A gRPC message for each source would cost ten times as much as what it says."""
    for session in range(600):
        filled(world, SourceName("orders", 1000 + session))
    engine, me = engine_of(world), world.standing.greeting("s1:1", 0)
    pages = [each async for each in inventory(engine, me, store_v1.InventoryRequest(), Turn())]
    assert [len(page.sources) for page in pages] == [0, 256, 256, 90]
    assert [page.HasField("store") for page in pages] == [True, False, False, False]


async def test_a_response_of_large_inventories_has_few_sources(world: World) -> None:
    for source in (ORDERS, TRADES):
        state = world.core.sources[source]
        state.held = replace(state.held, ranges=RangeSet(Range(n, n) for n in range(0, 100_000, 2)))
    engine, me = engine_of(world), world.standing.greeting("s1:1", 0)
    pages = [each async for each in inventory(engine, me, store_v1.InventoryRequest(), Turn())]
    assert [len(page.sources) for page in pages] == [0, 1, 1]
