"""The output of data commands: a table for people, JSON for programs.

Data goes to stdout, messages about the run go to stderr. Nothing here knows what the data means.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


class Output(enum.StrEnum):
    """The form of a data command's output."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"


_UNFOLDED_WIDTH = 100_000


def unfolded_console() -> Console:
    """Return the console of stdout. A pipe has no width: nothing is folded or left out there."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNFOLDED_WIDTH
    return console


def print_json(value: Any) -> None:
    """Print one JSON value, indented."""
    print(json.dumps(value, indent=2))


def print_jsonl(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print one JSON object a line."""
    for row in rows:
        print(json.dumps(row))
    sys.stdout.flush()  # a reader of a pipe waits for each line of what goes on


def print_table(title: str, rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    """Print rows under the keys of the first one, or the text `empty` if there are none.

    A value may be rich's Text, which is shown as it is.
    """
    from rich.console import Console
    from rich.text import Text

    from quorate.console.ui.tables import show

    console = Console(highlight=False)
    if not rows:
        console.print(Text(f"{title}: {empty}"))
    else:
        show(console, title, rows)


def people_watch(stream: Any = None) -> bool:
    """Return whether this stream is a terminal; it is stderr unless another is named."""
    return bool((stream or sys.stderr).isatty())


def event_text(event: Any) -> str:
    """Return an event of an SDK as people read it: its name and its fields."""
    facts = ((field.name, getattr(event, field.name)) for field in dataclasses.fields(event))
    said = (f"{name.replace('_', ' ')} {_fact(value)}" for name, value in facts)
    return " ".join((type(event).__name__, *said))


def _fact(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "none"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
