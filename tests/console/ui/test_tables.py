"""Tables are shown whole, whatever the width of the terminal."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from quorate.console.commands.status import _for_people
from quorate.console.ui.tables import show

STORES = [
    {
        "store": f"store-{number}",
        "address": f"127.0.0.1:730{number}",
        "state": Text("ok", style="green"),
        "version": "0.1.0",
        "uptime_seconds": 24.25 * number,
        "durability": "fsync",
        "messages": 203_000,
        "sync_milliseconds": 0.5,
        "rejected": 0,
        "lacking": 1_000 * number,
        "repair": "idle",
    }
    for number in (1, 2, 3)
]


def drawn(rows: list[dict[str, Any]], width: int, *, terminal: bool = True) -> list[str]:
    file = io.StringIO()
    console = Console(
        file=file, width=width, force_terminal=terminal, color_system=None, highlight=False
    )
    show(console, "Stores", rows)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_where_there_is_room_it_is_one_table() -> None:
    lines = drawn(STORES, 160)
    assert lines[2].split() == list(STORES[0])
    assert [line.split()[0] for line in lines[4:7]] == ["store-1", "store-2", "store-3"]
    assert len(lines) == 8


def test_a_pipe_has_room_for_all() -> None:
    wide = [{**row, "repair": "x" * 500} for row in STORES]
    lines = drawn(wide, 80, terminal=False)
    assert [line.split()[-1] for line in lines[4:7]] == ["x" * 500] * 3


def test_headings_are_folded_before_anything_else() -> None:
    assert any(line.split() == ["uptime", "sync"] for line in drawn(STORES, 117))
    assert not any("all:" in line for line in drawn(STORES, 117))


def test_what_all_rows_say_is_said_once_where_a_table_would_not_fit() -> None:
    lines = drawn(STORES, 80)
    assert max(map(len, lines)) <= 80
    said = " ".join(lines)
    for text in ("store-2", "127.0.0.1:7302", "24.2", "48.5", "72.8", "1,000", "2,000", "3,000"):
        assert text in said
    assert "all: messages 203,000" in said
    assert "repair idle" in said
    assert said.count("repair") == 1
    assert "…" not in said


@pytest.mark.parametrize("width", [20, 40, 60, 80])
def test_nothing_is_ever_cut_off(width: int) -> None:
    odd = [{**row, "topic": f"a.very.long.topic.{'x' * 60}.{row['store']}"} for row in STORES]
    for rows in (odd, odd[:1]):
        said = "".join(drawn(rows, width))
        assert "…" not in said
        for row in rows:
            assert str(row["topic"]) in said
            assert str(row["address"]) in said


def test_one_row_that_does_not_fit_is_a_paragraph() -> None:
    title, head, *rest = drawn(STORES[:1], 60)
    assert (title, head) == ("Stores", "  store-1")
    assert rest[0] == "    address 127.0.0.1:7301   state ok   version 0.1.0"
    assert max(map(len, rest)) <= 60


def test_the_status_of_three_stores_can_be_read_in_80_columns() -> None:
    more = {"sources": 4, "repair_bytes_per_second": 5_000_000}
    lines = drawn([_for_people("stores", {**row, **more}) for row in STORES], 80)
    assert max(map(len, lines)) <= 80
    assert sum("127.0.0.1:730" in line and "store-" in line for line in lines) == 3
