"""`quorate state`: print the last stable message of each key of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.commands.receive import Writer
from quorate.console.commands.replay import as_object
from quorate.console.ui.exits import say
from quorate.console.ui.options import OutputFormat, Stores, Timeout
from quorate.console.ui.output import Output, print_json, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import GroupSettings, resolve
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.exit_codes import FAILED

if TYPE_CHECKING:
    from quorate.client import Client, Rows
    from quorate.subscriber import ReplayedMessage

state = typer.Typer(
    help="Query the last message of each key.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

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
        help='Print only these fields of JSON payloads, "id, order.price", or all but these: '
        '"-comment".',
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


@state.command(short_help="Print the rows of these keys.")
def get(
    context: typer.Context,
    topic: Topic,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help='The keys. If fields of the payload make the key: a JSON array, as ["A-17", 3].',
        ),
    ],
    stores: Stores = None,
    select: Select = None,
    at_least: AtLeast = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print the last stable message of each of these keys. Exit 1 if one of them has none."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    asked = [_key(each) for each in keys]

    async def found() -> list[ReplayedMessage | None]:
        async with _client(settings) as client:
            of_topic = client.state(topic)
            return [await of_topic.get(each, select=select, at_least=at_least) for each in asked]

    rows = run(found)
    _print([row for row in rows if row is not None], settings.output)
    lacking = [key for key, row in zip(keys, rows, strict=True) if row is None]
    if lacking:
        say(f"No row has the key {', '.join(lacking)}.")
        raise typer.Exit(FAILED)


@state.command(short_help="Print the rows that a condition selects.")
def query(
    context: typer.Context,
    topic: Topic,
    stores: Stores = None,
    where: Where = None,
    order_by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELDS", help='The order: "-price, id" prints the highest price first.'
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Print at most so many rows.")] = None,
    select: Select = None,
    at_least: AtLeast = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print the last stable message of each key, in the order of the keys.

    At the end stderr shows the position at which the rows hold.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    fields = None if order_by is None else order_by.split(",")

    async def found() -> Rows:
        async with _client(settings) as client:
            return await client.state(topic).query(
                where, order_by=fields, limit=limit, select=select, at_least=at_least
            )

    rows = run(found)
    _print(list(rows), settings.output)
    if settings.output is Output.TABLE:
        say(f"{len(rows):,} rows; position: {rows.position}")


@state.command(short_help="Count the rows that a condition selects.")
def count(
    context: typer.Context,
    topic: Topic,
    stores: Stores = None,
    where: Where = None,
    at_least: AtLeast = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print how many keys have a row."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    async def found() -> int:
        async with _client(settings) as client:
            return await client.state(topic).count(where, at_least=at_least)

    rows = run(found)
    if settings.output is Output.TABLE:
        print(rows)
    else:
        print_json({"topic": topic, "rows": rows})


def _key(text: str) -> Any:
    """Return the key that a text names: itself, or the values of an array in JSON."""
    import json

    if not text.startswith("["):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument("KEY", f"{text!r} is no array in JSON: {error}") from None


def _client(settings: GroupSettings) -> Client:
    from quorate.client import connect

    return connect(settings.stores, timeout=settings.timeout)


def _print(rows: list[ReplayedMessage], output: Output) -> None:
    if output is Output.TABLE:
        print_table("State", [_shown(row) for row in rows], empty="no rows")
        return
    writer = Writer(output, as_object)
    writer.write(rows)
    writer.end()


def _shown(row: ReplayedMessage) -> dict[str, str]:
    return {
        "key": "" if row.key is None else row.key.decode(errors="backslashreplace"),
        "payload": row.payload.decode(errors="backslashreplace"),
        "time": row.time.isoformat(timespec="milliseconds"),
        "bookmark": str(row.bookmark),
    }
