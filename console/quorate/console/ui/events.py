"""The events of a source or a receiver, shown on stderr while a data command runs."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from collections.abc import AsyncIterable
from typing import Any

from quorate.console.ui.exits import say
from quorate.console.ui.output import Output
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Policy


async def show_events(events: AsyncIterable[Any], output: Output) -> None:
    """Show each event as it comes, until the events end."""
    async for event in events:
        show_event(event, output)


def show_event(event: Any, output: Output) -> None:
    """Show an event as a line for people, or as a JSON object for programs."""
    fields = _fields(event)
    name = type(event).__name__
    if output is Output.TABLE:
        text = "; ".join(f"{key.replace('_', ' ')} {_text(each)}" for key, each in fields.items())
        say(text, style="cyan", label=name)
    else:
        print(json.dumps({"event": name, **fields}), file=sys.stderr, flush=True)


def _fields(told: Any) -> dict[str, Any]:
    return {
        field.name: _plain(field.name, getattr(told, field.name))
        for field in dataclasses.fields(told)
    }


def _plain(name: str, value: Any) -> Any:
    match value:
        case SourceName() | Policy() | Exception():
            return str(value)
        case enum.Enum():
            return value.value
        case bytes():
            return value.hex()
        case tuple():
            return [_plain(name, each) for each in value]
        case int() if name == "session_id":
            return f"{value:#x}"
        case _ if dataclasses.is_dataclass(value):
            return _fields(value)
        case _:
            return value


def _text(value: Any) -> str:
    """Return a value for people: without brackets and quotes, and with one decimal place."""
    match value:
        case None:
            return "none"
        case float():
            return f"{value:.1f}"
        case dict():
            return " ".join(f"{key} {_text(each)}" for key, each in value.items())
        case [[str(), str()], *_]:
            return ", ".join(f"{who} says {said}" for who, said in value)
        case list():
            return ", ".join(map(_text, value)) or "none"
        case _:
            return str(value)
