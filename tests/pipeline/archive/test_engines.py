"""Other engines read the table of an archive, and have each message once."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import deltalake
import duckdb
import polars
import pytest
from tests.pipeline.archive.support import (
    DAY_NS,
    NOON_NS,
    ORDERS,
    TRADES,
    FakeStores,
    Stream,
    batch,
)
from tests.pipeline.archive.test_archiving import numbers, run

from quorate.pipeline.archive.upkeep import compact

EXPECTED = sorted([*numbers(0, 59), *numbers(0, 29, TRADES)])
COLUMNS = ["topic", "source", "sequence"]


@pytest.fixture(params=["as it was written", "compacted", "during a compaction"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> deltalake.DeltaTable:
    """A table of two topics and three days, written in three runs."""
    path = tmp_path / "archive"
    orders, trades = Stream(), Stream()
    stores = FakeStores({ORDERS: orders, TRADES: trades})
    for run_number in range(3):
        first = 20 * run_number
        time_ns = NOON_NS + run_number // 2 * DAY_NS
        orders.frames += [
            batch(at, at + 9, time_ns=time_ns, attributes=True) for at in (first, first + 10)
        ]
        orders.stable_upto = first + 19
        first //= 2
        trades.frames.append(batch(first, first + 9, source=TRADES, time_ns=time_ns))
        trades.stable_upto = first + 9
        run(stores, path)
    opened = deltalake.DeltaTable(str(path))
    if request.param != "as it was written":
        assert compact(str(path)).before == 4
    return opened if request.param == "during a compaction" else deltalake.DeltaTable(str(path))


def test_pyarrow_reads_each_message_once(table: deltalake.DeltaTable) -> None:
    found = table.to_pyarrow_table(columns=COLUMNS).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == EXPECTED
    day = table.to_pyarrow_table(columns=COLUMNS, filters=[("day", "=", date(2026, 11, 22))])
    assert sorted(day.column("sequence").to_pylist()) == [*range(20, 30), *range(40, 60)]


def test_duckdb_reads_each_message_once(table: deltalake.DeltaTable) -> None:
    archive = table.to_pyarrow_dataset()
    connection = duckdb.connect()
    connection.register("archive", archive)
    found = connection.sql("SELECT topic, source, sequence FROM archive").fetchall()
    assert sorted(found) == EXPECTED
    (count,) = connection.sql(
        "SELECT count(*) FROM archive WHERE topic = 'orders' AND sequence >= 50"
    ).fetchall()
    assert count == (10,)


def test_polars_reads_each_message_once(table: deltalake.DeltaTable) -> None:
    found = polars.scan_delta(table).select(COLUMNS).collect().rows()
    assert sorted(found) == EXPECTED
    some = polars.scan_delta(table).filter(polars.col("topic") == "trades").collect()
    assert some.height == 30
    assert set(some["payload"]) == {b"message %d" % n for n in range(30)}
