"""Shows the events of a source or a receiver on stderr while a data command runs."""

from __future__ import annotations

import dataclasses
import enum
import json
import sys
from collections.abc import AsyncIterable
from typing import Any

from quorate.console.exits import say
from quorate.console.output import Output
from quorate.protocol.identity import SourceName


async def show_events(events: AsyncIterable[Any], output: Output) -> None:
    """Each event as it comes, until they end: a line for people, a JSON object for machines."""
    async for event in events:
        fields = {
            field.name: _plain(getattr(event, field.name)) for field in dataclasses.fields(event)
        }
        name = type(event).__name__
        if output is Output.TABLE:
            text = ", ".join(f"{key} {value}" for key, value in fields.items())
            say(text, style="cyan", label=name)
        else:
            print(json.dumps({"event": name, **fields}), file=sys.stderr, flush=True)


def _plain(value: Any) -> Any:
    match value:
        case SourceName() | Exception():
            return str(value)
        case enum.Enum():
            return value.value
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return value
