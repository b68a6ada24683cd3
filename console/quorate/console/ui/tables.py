"""Tables for people, in a form that can be read at any width.

If a terminal is too narrow for the whole table, these forms are tried in turn:

- headings in several lines;
- columns with one value in all rows shown once, below;
- each row as a paragraph.

Nothing is left out or cut off. Nothing here knows what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

Row = Mapping[str, Any]

_WIDTH_MAX = 100_000
_INDENT = 4
_BETWEEN = "   "
_ALL = "  all: "


def show(console: Console, title: str, rows: Sequence[Row]) -> None:
    """Print rows, at least one, under the keys of the first; a value may be rich's Text."""
    table = _table(title, rows)
    if not console.is_terminal:
        # A pipe has no width: nothing is folded.
        console.width = _width(console, table)
        console.print(table)
        return
    for made in (table, _table(title, rows, folded=True)):
        if _width(console, made) <= console.width:
            console.print(made)
            return
    apart: list[str] = []
    for name in _same(rows):
        apart = [name, *apart]
        differing = [{key: row[key] for key in row if key not in apart} for row in rows]
        made = _table(title, differing, folded=True)
        if _width(console, made) <= console.width:
            console.print(made)
            for line in _flowing(rows[0], apart, console.width - len(_ALL)):
                console.print(Text(_ALL).append_text(line), soft_wrap=True)
            console.print()
            return
    _paragraphs(console, title, rows)


def _table(title: str, rows: Sequence[Row], *, folded: bool = False) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    if folded:
        table.pad_edge, table.collapse_padding = False, True
    for name, value in rows[0].items():
        heading = name.replace("_", "\n") if folded else name
        table.add_column(heading, justify="right" if isinstance(value, int | float) else "left")
    for row in rows:
        table.add_row(*map(shown, row.values()))
    return table


def _width(console: Console, table: Table) -> int:
    """Return the width of a table in which nothing is folded."""
    options = console.options.update(width=_WIDTH_MAX)
    return console.measure(table, options=options).maximum


def _same(rows: Sequence[Row]) -> list[str]:
    """Return the columns with one value in all of several rows, last first, without the first."""
    if len(rows) < 2:
        return []
    _, *names = rows[0]
    return [name for name in reversed(names) if len({str(shown(row[name])) for row in rows}) == 1]


def _paragraphs(console: Console, title: str, rows: Sequence[Row]) -> None:
    console.print(Text(title, style="bold"))
    for row in rows:
        head, *names = row
        console.print(Text("  ").append_text(shown(row[head])), soft_wrap=True)
        for line in _flowing(row, names, console.width - _INDENT):
            console.print(Text(" " * _INDENT).append_text(line), soft_wrap=True)
    console.print()


def _flowing(row: Row, names: Sequence[str], width: int) -> Iterator[Text]:
    """Yield lines of names with their values, as many in a line as there is room for."""
    line = Text()
    for name in names:
        item = Text(f"{name.replace('_', ' ')} ", style="dim").append_text(shown(row[name]))
        if line and line.cell_len + len(_BETWEEN) + item.cell_len > width:
            yield line
            line = Text()
        line = line.append(_BETWEEN).append_text(item) if line else item
    if line:
        yield line


def shown(value: Any) -> Text:
    """Return a value as people read it, with its style."""
    return value.copy() if isinstance(value, Text) else Text(cell(value))


def cell(value: Any) -> str:
    """Return a value as people read it, without a style."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return str(value)


def fitting(console: Console, title: str, rows: Sequence[Row]) -> Table:
    """Return a table of rows, at least one, with as many of the first columns as have room."""
    names = list(rows[0])
    while True:
        made = _table(title, [{name: row[name] for name in names} for row in rows])
        if len(names) <= 2 or _width(console, made) <= console.width:
            return made
        names.pop()
