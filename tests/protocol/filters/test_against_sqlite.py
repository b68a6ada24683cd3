"""Random filters: what passes here passes in SQLite, and what is NULL here is NULL there."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator

import pytest
from tests.protocol.filters.messages import Seen, truth_of
from tests.protocol.filters.random_filters import NUMBERS, REALS, TEXTS, Writer, random_row

from quorate.protocol.filters.evaluate import Filter

_FIELDS = (*NUMBERS, *REALS, *TEXTS)
_ROWS = 12


@pytest.fixture(scope="module")
def rows() -> list[dict[str, float | str | None]]:
    choice = random.Random(1)
    return [random_row(choice) for _ in range(_ROWS)]


@pytest.fixture(scope="module")
def table(rows: list[dict[str, float | str | None]]) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(":memory:")
    database.execute("PRAGMA case_sensitive_like = ON")
    database.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, {', '.join(_FIELDS)})")
    for row in rows:
        marks = ", ".join("?" * len(_FIELDS))
        values = [row[name] for name in _FIELDS]
        database.execute(f"INSERT INTO t ({', '.join(_FIELDS)}) VALUES ({marks})", values)
    yield database
    database.close()


@pytest.mark.parametrize(
    "filters", [1_000, pytest.param(100_000, marks=[pytest.mark.big, pytest.mark.timeout(900)])]
)
def test_random_filters_say_what_sqlite_says(
    filters: int, rows: list[dict[str, float | str | None]], table: sqlite3.Connection
) -> None:
    found = {True: 0, False: 0, None: 0}
    for seed in range(filters):
        text = Writer(random.Random(seed)).condition(3)
        filtering = Filter(text)
        said = [truth_of(filtering, Seen(row)) for row in rows]
        cursor = table.execute(f"SELECT {text} FROM t ORDER BY id")
        expected = [None if value is None else bool(value) for (value,) in cursor]
        assert said == expected, f"seed {seed}: {text}"
        for truth in said:
            found[truth] += 1
    assert min(found.values()) > filters
