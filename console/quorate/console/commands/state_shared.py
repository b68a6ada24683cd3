"""The options, keys and rows that the commands of `quorate state` share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.settings import GroupSettings
from quorate.protocol.errors import InvalidArgument

if TYPE_CHECKING:
    from quorate.client import Client
    from quorate.subscriber import ReplayedMessage

Topic = Annotated[str, typer.Argument(help="The topic. The stores' configuration names its keys.")]
Where = Annotated[
    str | None,
    typer.Option(
        metavar="CONDITION",
        help="Only rows for which this is true: \"price > 100 AND $key = 'x'\".",
    ),
]
Select = Annotated[
    str | None,
    typer.Option(
        metavar="FIELDS",
        help='Print only these fields of payloads, "id, order.price", or all but these: '
        '"-comment".',
    ),
]
Keys = typer.Argument(
    metavar="KEY...",
    help='The keys. If fields of the payload make the key: a JSON array, as ["A-17", 3].',
)
AsOf = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="TIME",
        help='The rows of a time that has passed: "2026-11-21T10:00", or "-15m".',
    ),
]
AtLeast = Annotated[
    str | None,
    typer.Option(
        "--at-least",
        metavar="POSITION",
        help="A position, or a bookmark, that the rows must have come to.",
    ),
]


def key_of(text: str) -> Any:
    """Return the key that a text names: itself, or the values of an array in JSON."""
    import json

    if not text.startswith("["):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument("KEY", f"{text!r} is no array in JSON: {error}") from None


def connected(settings: GroupSettings) -> Client:
    """Return a client of the stores that the settings name."""
    from quorate.client import connect

    return connect(
        settings.layout,
        previous_policies=settings.previous,
        timeout=settings.timeout,
        tls=settings.tls,
    )


def shown(row: ReplayedMessage) -> dict[str, str]:
    """Return a row as people see it."""
    return {
        "key": "" if row.key is None else row.key.decode(errors="backslashreplace"),
        "payload": row.payload.decode(errors="backslashreplace"),
        "time": row.time.isoformat(timespec="milliseconds"),
        "bookmark": str(row.bookmark),
    }
