"""`quorate state watch` and `quorate state delete`: follow the rows of a topic, and delete some."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.commands.replay import as_object
from quorate.console.commands.state_shared import (
    Keys,
    Select,
    Topic,
    Where,
    connected,
    key_of,
    shown,
)
from quorate.console.ui.exits import say
from quorate.console.ui.options import OutputFormat, SessionId, Stores, Timeout
from quorate.console.ui.output import Output, people_watch, print_json, print_jsonl
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.console.ui.warnings import show_warnings
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.exit_codes import FAILED
from quorate.protocol.identity import parse_session_id

if TYPE_CHECKING:
    from rich.console import Console

    from quorate.client.replay import Completed, Left, Updated
    from quorate.subscriber import Watching

_SHOWN_SECONDS = 0.2
"""Seconds from one picture of the table to the next."""


def watch(
    context: typer.Context,
    topic: Topic,
    stores: Stores = None,
    where: Where = None,
    select: Select = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after this many changes.")
    ] = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print the rows of a topic, and each change of them, until Ctrl-C.

    A terminal shows a table that lives. Otherwise each change is a line, and for programs an object
    in JSON.
    """
    import sys

    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    show_warnings(settings.output)
    lives = settings.output is Output.TABLE and people_watch(sys.stdout)

    async def follow() -> None:
        async with (
            connected(settings) as client,
            client.state(topic).watch(where, select=select) as changes,
        ):
            if lives:
                await _show(topic, changes, count)
            else:
                await _print(changes, count, settings.output)

    run(follow)


async def _print(changes: Watching, count: int | None, output: Output) -> None:
    """Print each change as a line."""
    left = count
    async for change in changes:
        fields = _fields(change)
        if output is Output.TABLE:
            print(_line(fields), flush=True)
        else:
            print_jsonl([fields])
        if left is not None and "key" in fields:
            left -= 1
            if not left:
                return


async def _show(topic: str, changes: Watching, count: int | None) -> None:
    """Show a table of the rows, as long as they change."""
    import asyncio

    from rich.console import Console
    from rich.live import Live

    from quorate.client.replay import Left, Updated

    rows: dict[Any, dict[str, str]] = {}
    console = Console(highlight=False)
    loop = asyncio.get_running_loop()
    with Live(console=console, auto_refresh=False) as live:
        left, show_at = count, None
        while left is None or left > 0:
            try:
                async with asyncio.timeout_at(show_at):
                    change = await anext(changes)
            except TimeoutError:
                show_at = None
                live.update(_picture(topic, rows, console), refresh=True)
                continue
            match change:
                case Updated(key, row):
                    rows.pop(key, None)
                    rows[key] = shown(row) | {"key": _key_text(key)}
                case Left(key):
                    del rows[key]
            if left is not None and isinstance(change, Updated | Left):
                left -= 1
            show_at = show_at or loop.time() + _SHOWN_SECONDS
        live.update(_picture(topic, rows, console), refresh=True)


def _picture(topic: str, rows: dict[Any, dict[str, str]], console: Console) -> Any:
    """Return the newest rows as a table, as many as the terminal has room for."""
    from quorate.console.ui.tables import fitting

    newest = list(rows.values())[: -_room(console) - 1 : -1]
    title = f"{topic}: {len(rows):,} rows, the newest first"
    return fitting(console, title, newest) if newest else title


def _room(console: Console) -> int:
    """Return how many rows a table on this terminal has room for."""
    return max(1, console.height - 6)


def _fields(change: Updated | Left | Completed) -> dict[str, Any]:
    """Return a change for programs."""
    from quorate.client.replay import Left, Updated

    match change:
        case Updated(key, row):
            return {"change": "updated", "key": _key(key), "row": as_object(row)}
        case Left(key, reason, bookmark):
            return {
                "change": "left",
                "key": _key(key),
                "reason": reason.value,
                "bookmark": str(bookmark),
            }
        case _:
            return {"change": "completed", "position": str(change.position)}


def _line(fields: dict[str, Any]) -> str:
    """Return a change as people read it."""
    at = datetime.now().astimezone().strftime("%H:%M:%S.%f")[:-3]
    match fields["change"]:
        case "updated":
            return f"{at}  {_key_text(fields['key'])}  {fields['row'].get('payload', '')}"
        case "left":
            return f"{at}  {_key_text(fields['key'])}  has left: {fields['reason']}"
    return f"{at}  All rows are there. Changes follow."


def _key(key: Any) -> Any:
    return key.decode(errors="backslashreplace") if isinstance(key, bytes) else list(key)


def _key_text(key: Any) -> str:
    text = _key(key) if not isinstance(key, str | list) else key
    return text if isinstance(text, str) else json.dumps(text)


def delete(
    context: typer.Context,
    topic: Topic,
    keys: Annotated[list[str] | None, Keys] = None,
    stores: Stores = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Delete all rows for which this is true."),
    ] = None,
    session_id: SessionId = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Delete the rows of these keys, or those that a condition selects.

    A deletion is a message of a source, and stays as long as the source: with --session-id the same
    source sends each time. Exit 1 if a key has no row.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    show_warnings(settings.output)
    if bool(keys) == (where is not None):
        raise InvalidArgument("KEY", "give keys, or --where with a condition, and not both")
    asked = [key_of(each) for each in keys or ()]
    identity = None if session_id is None else parse_session_id(session_id)

    async def deleted() -> tuple[int, list[str]]:
        async with (
            connected(settings) as client,
            client.source(topic, session_id=identity) as source,
        ):
            rows = client.state(topic)
            if where is not None:
                return await rows.delete_where(where, source=source), []
            lacking = [
                text
                for text, key in zip(keys or (), asked, strict=True)
                if not await rows.delete(key, source=source)
            ]
            return len(asked) - len(lacking), lacking

    count, lacking = run(deleted)
    if settings.output is Output.TABLE:
        say(f"{count:,} deleted in {topic}.")
    else:
        print_json({"topic": topic, "deleted": count, "lacking": lacking})
    if lacking:
        say(f"No row has the key {', '.join(lacking)}.")
        raise typer.Exit(FAILED)
