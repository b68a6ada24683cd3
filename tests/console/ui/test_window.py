"""A part of a long page, and a table that fits, at any width."""

from __future__ import annotations

import io

from rich.console import Console
from rich.text import Text

from quorate.console.ui.tables import fitting
from quorate.console.ui.window import Window, offset_within


def console(width: int, height: int = 5) -> Console:
    return Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None
    )


def shown(page: object, on: Console) -> list[str]:
    with on.capture() as capture:
        on.print(page)
    return [line.rstrip() for line in capture.get().splitlines()]


PAGE = Text("\n".join(f"line {number}" for number in range(9)))


def test_as_many_lines_as_there_is_room_for_from_the_offset_on() -> None:
    assert shown(Window(PAGE, 0), console(20)) == [f"line {n}" for n in range(5)]
    assert shown(Window(PAGE, 3), console(20)) == [f"line {n}" for n in range(3, 8)]
    assert shown(Window(PAGE, 99), console(20)) == [f"line {n}" for n in range(4, 9)]
    assert shown(Window(PAGE, 1), console(20, height=20)) == [f"line {n}" for n in range(9)]


def test_the_offset_stays_on_the_page() -> None:
    assert [offset_within(at, 9, 5) for at in (-1, 0, 4, 5)] == [0, 0, 4, 4]
    assert offset_within(3, 2, 5) == 0


def test_a_narrow_terminal_shows_the_first_columns() -> None:
    rows = [{"store": "a", "state": "ok", "messages": 1_000_000, "bytes": 7}]
    narrow, wide = console(25), console(80)
    assert shown(fitting(wide, "Stores", rows), wide)[2].split() == [
        "store",
        "state",
        "messages",
        "bytes",
    ]
    assert shown(fitting(narrow, "Stores", rows), narrow)[2].split() == ["store", "state"]
    tiny = console(8)
    assert len(fitting(tiny, "Stores", rows).columns) == 2
