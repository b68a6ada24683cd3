"""Old disks that are put back where no store can contradict, and an operator who decides."""

from __future__ import annotations

import json
import signal

import pytest
from tests.end_to_end import checker
from tests.end_to_end.world import SESSION, SourceProcess, Store, World

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.offline import OfflineStore

pytestmark = [pytest.mark.processes, pytest.mark.long]

_WHY = ("--reason", "old disks were put back, says Ada", "--yes")
_SOURCE = f"history/{SESSION:#x}"


async def _in_conflict(world: World) -> tuple[list[Store], SourceProcess]:
    """s1 has [0, 199] of the first epoch. s2 and s3 got old disks, and go on at 100 with a source.

    All of it was stable at its time. No store is a peer of another one: none can contradict.
    """
    s1, s2, s3 = stores = await world.founded("s1", "s2", "s3")
    for store in stores:
        await store.kill()
        store.group = ()
    for store in stores:
        await store.start()
    source = await world.source()
    await source.start()
    last = await source.send_stable(100)
    for store in stores:
        await store.until_it_has(last)
    for store in (s2, s3):
        await store.kill()
    for store in (s2, s3):
        store.save()
    for store in (s2, s3):
        await store.start()
        await source.until_it_streams_again(store)
    last = await source.send_stable(100)
    for store in stores:
        await store.until("all is stable", lambda facts: facts["stable_upto"] == last)
    await world.close(source)
    for store in stores:
        await store.kill()
    for store in (s2, s3):
        store.roll_back()
        await store.start()
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == 100, "no store that answers knows better"
    await source.send_stable(50)
    await s1.start()
    return stores, source


async def _status(world: World, code: int) -> list[dict[str, object]]:
    """The conflicts in the status, which exits with this code."""
    rows: list[dict[str, object]] = json.loads(
        await world.quorate("status", "-o", "json", code=code)
    )["conflicts"]
    return rows


async def _until_refused(world: World, source: SourceProcess, store: Store) -> None:
    await world.progress.until(
        f"{store.name} refuses the source",
        lambda: any(
            fields.get("store") == store.name and "holds other content" in str(fields)
            for _, fields in source.lines("event")
        ),
    )


async def test_a_source_goes_on_with_the_stores_that_agree_and_an_operator_settles_it(
    world: World,
) -> None:
    (s1, s2, s3), source = await _in_conflict(world)
    await _until_refused(world, source, s1)
    last = await source.send_stable(50)
    rows = await _status(world, code=10)
    assert [row["stores"] for row in rows] == [["s1", "s2"], ["s1", "s3"]]
    assert {str(row["ranges"]) for row in rows} == {"['[100, 199]']"}
    assert not s1.has_all(149), "nothing was overwritten"
    await world.quorate("repair", code=1)

    await world.quorate("conflict", "settle", "--source", _SOURCE, "--keep", "s2", *_WHY)
    await world.quorate("repair", code=0)
    assert await _status(world, code=0) == []
    last = await source.send_stable(50)
    for store in (s1, s2, s3):
        await store.until_it_has(last)
    receiver = await world.receiver("receiver", session=21, delivery="stable")
    await receiver.start()
    await receiver.until_reached(last)
    await world.close(source, receiver)
    for store in (s1, s2, s3):
        store.signal(signal.SIGTERM)
        assert await store.ended() == 0, store.log()
    held = {store.name: checker.stored(store.data, SESSION) for store in (s1, s2, s3)}
    final = checker.check_stores(held, last, set())
    assert {name.partition(":")[0] for name, _ in (final[99], final[100])} == {"source1", "source2"}
    checker.check_receiver("receiver", checker.Receiver(receiver.runs, True), final, set())
    with OfflineStore(s1.data) as offline:
        aside = [each.batch.part for each in offline.set_aside(SourceName("history", SESSION))]
    assert RangeSet(aside) == RangeSet([Range(100, 199)])


async def test_the_older_history_may_be_kept_too(world: World) -> None:
    """The source that wrote the newer one is fenced, and goes on once it is opened again."""
    stores, source = await _in_conflict(world)
    await _until_refused(world, source, stores[0])
    await world.quorate("conflict", "settle", "--source", _SOURCE, "--keep", "s1", *_WHY)
    await source.until_said("event", "SourceFailed")
    await source.kill()
    await world.quorate("repair", code=0)
    assert await _status(world, code=0) == []
    await source.start(take_over=True)
    assert source.lines("opened")[0][1] == 200
    last = await source.send_stable(50)
    for store in stores:
        await store.until_it_has(last)
    (row,) = json.loads(await world.quorate("status", "-o", "json"))["sources"]
    assert row["set_aside"] == {"s1": 0, "s2": 50, "s3": 50}
