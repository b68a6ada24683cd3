"""One stream from stores and archive: nothing left out where they meet, and nothing twice."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.pipeline.archive.support import (
    FIRST,
    NOON_NS,
    ORDERS,
    TRADES,
    FakeBoth,
    FakeStores,
    Stream,
    batch,
    here,
)
from tests.pipeline.archive.test_archiving import run
from tests.pipeline.group import Group, numbered

from quorate.pipeline import schema
from quorate.pipeline.archive.archiving import archive
from quorate.pipeline.archive.falling_through import StoresAndArchive
from quorate.pipeline.read.ranges import read_part
from quorate.pipeline.rules.planning import (
    Part,
    SourceRange,
)
from quorate.pipeline.stores.client import Stores
from quorate.protocol.errors import ArchiveDiffers, MissingMessages
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range, RangeSet

FRAMES = [batch(first, first + 9, time_ns=NOON_NS + first) for first in range(0, 100, 10)]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Of an archive with [0, 59]."""
    run(FakeStores({ORDERS: Stream(frames=FRAMES[:6], stable_upto=59)}), tmp_path / "archive")
    return str(tmp_path / "archive")


def both(path: str, *frames: bytes, stable_upto: int = 99, lineage: Lineage = FIRST) -> FakeBoth:
    return FakeBoth({ORDERS: Stream(lineage, list(frames), stable_upto)}, path)


def parts(stores: FakeBoth, first: int, until: int) -> list[tuple[int, int, bool]]:
    known = stores.sources().sources[ORDERS]
    wanted = SourceRange(ORDERS, first, until, known.lineage)
    return [(each.first, each.until, each.archived) for each in stores.parted(known, wanted)]


def sequences(stores: FakeBoth, first: int, until: int) -> list[int]:
    known = stores.sources().sources[ORDERS]
    ranges = stores.parted(known, SourceRange(ORDERS, first, until, known.lineage))
    part = Part(tuple(sorted(ranges, key=lambda each: each.first)), 0)
    rows = read_part(stores, part, schema.ARROW, fail_on_data_loss=True)
    return [number for each in rows for number in each.column("sequence").to_pylist()]


def test_what_the_stores_hold_is_read_from_them(path: str) -> None:
    assert parts(both(path, *FRAMES), 0, 100) == [(0, 100, False)]
    assert sorted(parts(both(path, *FRAMES[4:]), 0, 100)) == [(0, 40, True), (40, 100, False)]
    assert parts(both(path, *FRAMES[4:]), 5, 30) == [(5, 30, True)]
    # What nobody has is asked of the stores: they say why.
    assert sorted(parts(both(path, *FRAMES[7:]), 50, 80)) == [(50, 60, True), (60, 80, False)]


@pytest.mark.parametrize("kept", range(7))
def test_there_is_no_seam(path: str, kept: int) -> None:
    stores = both(path, *FRAMES[kept:])
    assert sequences(stores, 0, 100) == list(range(100))
    assert sequences(stores, 3, 97) == list(range(3, 97))


def test_what_left_the_stores_since_it_was_planned_comes_from_the_archive(path: str) -> None:
    stores = both(path, *FRAMES)
    known = stores.sources().sources[ORDERS]
    stores.streams[ORDERS].frames = FRAMES[5:]
    pieces = list(stores.fetch(ORDERS, known.lineage, 5, 99))
    assert [(piece.first, piece.last) for piece in pieces] == [
        (5, 9),
        *((first, first + 9) for first in range(10, 100, 10)),
    ]


def test_what_neither_has_is_an_error(path: str) -> None:
    stores = both(path, *FRAMES[7:])
    with pytest.raises(MissingMessages) as caught:
        sequences(stores, 0, 100)
    assert (caught.value.first, caught.value.last) == (60, 69)


def test_a_source_that_the_stores_have_forgotten_is_read_from_the_archive(path: str) -> None:
    stores = FakeBoth({TRADES: Stream(frames=[batch(0, 9, source=TRADES)], stable_upto=9)}, path)
    sources = stores.sources().sources
    assert list(sources) == [ORDERS, TRADES]
    assert (sources[ORDERS].until, sources[ORDERS].high) == (60, 59)
    assert sequences(stores, 0, 60) == list(range(60))


def test_stores_that_know_less_do_not_make_the_stream_shorter(path: str) -> None:
    stores = both(path, *FRAMES[:3], stable_upto=24)
    known = stores.sources().sources[ORDERS]
    assert (known.until, known.held) == (60, RangeSet([Range(0, 24)]))
    assert sequences(stores, 0, 60) == list(range(60))


def test_another_history_is_never_joined(path: str) -> None:
    other = Lineage((Term(1, 0), Term(4, 50)))
    stores = both(path, *FRAMES[:5], batch(50, 99, 4), lineage=other)
    with pytest.raises(ArchiveDiffers):
        stores.sources()
    # An epoch behind the archive's end is no other history.
    later = Lineage((Term(1, 0), Term(4, 60)))
    assert both(path, *FRAMES[:6], batch(60, 99, 4), lineage=later).sources().sources


def test_messages_are_found_by_time_in_both(path: str) -> None:
    stores = both(path, *FRAMES[4:])
    for number in (0, 7, 30, 39, 41, 77):
        expected = next(n for n in range(0, 101, 10) if n >= number)
        assert stores.first_since(ORDERS, NOON_NS + number) == expected, number


def test_it_can_go_to_a_worker(path: str) -> None:
    there = pickle.loads(pickle.dumps(StoresAndArchive(["h:1"], path)))
    assert there.archive.sources[ORDERS].last == 59
    assert there.addresses == ("h:1",)


# With Spark.


def test_spark_reads_what_the_stores_lost_without_noticing(
    spark: SparkSession, tmp_path: Path
) -> None:
    group = Group(tmp_path, 1)
    group.start()
    try:
        group.publish("orders", numbered(0, 2999))
        group.publish("trades", numbered(0, 99))
        path = str(tmp_path / "archive")
        archive(here, Stores(group.addresses), path)
        group.publish("orders", numbered(3000, 3999))
        archive(here, Stores(group.addresses), path, selects=lambda topic: topic == "trades")
        group.kill(0)
        group.wipe(0)
        group.start(0)

        def table(**options: str) -> DataFrame:
            given = {"stores": group.stores, "archive": path, **options}
            return spark.read.format("quorate").options(**given).load()

        rows = table(topics="orders").orderBy("sequence").collect()
        assert [row.payload for row in rows] == numbered(0, 2999)
        some = table(startingOffsets='{"orders/0x10": 2990, "trades/0x10": 95}')
        assert some.count() == 15
    finally:
        group.stop()
