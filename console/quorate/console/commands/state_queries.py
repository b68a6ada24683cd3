"""`quorate state get`, `query`, `count` and `sql`: print the last stable message of each key."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.commands.receive import Writer
from quorate.console.commands.replay import as_object
from quorate.console.commands.state_shared import (
    AsOf,
    AtLeast,
    Keys,
    Select,
    Topic,
    Where,
    connected,
    key_of,
    shown,
)
from quorate.console.ui.exits import say
from quorate.console.ui.options import OutputFormat, Stores, Timeout
from quorate.console.ui.output import Output, print_json, print_jsonl, print_table
from quorate.console.ui.running import run
from quorate.console.ui.settings import resolve
from quorate.protocol.exit_codes import FAILED
from quorate.protocol.figures import counted

if TYPE_CHECKING:
    from quorate.client import Rows
    from quorate.subscriber import Answer, ReplayedMessage


def get(
    context: typer.Context,
    topic: Topic,
    keys: Annotated[list[str], Keys],
    stores: Stores = None,
    select: Select = None,
    at_least: AtLeast = None,
    as_of: AsOf = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print the last stable message of each of these keys. Exit 1 if one of them has none."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    asked = [key_of(each) for each in keys]

    async def found() -> list[ReplayedMessage | None]:
        async with connected(settings) as client:
            of_topic = client.state(topic)
            return [
                await of_topic.get(each, select=select, at_least=at_least, as_of=as_of)
                for each in asked
            ]

    rows = run(found)
    _print([row for row in rows if row is not None], settings.output)
    lacking = [key for key, row in zip(keys, rows, strict=True) if row is None]
    if lacking:
        say(f"No row has the key {', '.join(lacking)}.")
        raise typer.Exit(FAILED)


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
    as_of: AsOf = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print the last stable message of each key, in the order of the keys.

    At the end stderr shows the position at which the rows hold.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    fields = None if order_by is None else order_by.split(",")

    async def found() -> Rows:
        async with connected(settings) as client:
            return await client.state(topic).query(
                where, order_by=fields, limit=limit, select=select, at_least=at_least, as_of=as_of
            )

    rows = run(found)
    _print(list(rows), settings.output)
    if settings.output is Output.TABLE:
        say(f"{counted(len(rows), 'row')}; position: {rows.position}")


def count(
    context: typer.Context,
    topic: Topic,
    stores: Stores = None,
    where: Where = None,
    at_least: AtLeast = None,
    as_of: AsOf = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Print how many keys have a row."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    async def found() -> int:
        async with connected(settings) as client:
            return await client.state(topic).count(where, at_least=at_least, as_of=as_of)

    rows = run(found)
    if settings.output is Output.TABLE:
        print(rows)
    else:
        print_json({"topic": topic, "rows": rows})


def sql(
    context: typer.Context,
    topic: Topic,
    statement: Annotated[
        str,
        typer.Argument(
            help='The statement, such as "select side, count(*) from rows group by side".'
        ),
    ],
    stores: Stores = None,
    where: Where = None,
    select: Select = None,
    at_least: AtLeast = None,
    as_of: AsOf = None,
    timeout: Timeout = None,
    output: OutputFormat = None,
) -> None:
    """Answer a statement in SQL over the rows, as a table named rows.

    Its columns are the fields of payloads, and "$key", "$time" and "$source". It needs the
    extra `query` to be installed.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)

    async def answered() -> Answer:
        async with connected(settings) as client:
            return await client.state(topic).sql(
                statement, where=where, select=select, at_least=at_least, as_of=as_of
            )

    answer = run(answered)
    found = [
        {name: plain(value) for name, value in row.items()} for row in answer.table.to_pylist()
    ]
    match settings.output:
        case Output.TABLE:
            print_table("Answer", found, empty="no rows")
            say(f"{counted(len(found), 'row')}; position: {answer.position}")
        case Output.JSON:
            print_json(found)
        case Output.JSONL:
            print_jsonl(found)


def plain(value: Any) -> Any:
    """Return a value of an answer as JSON has it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return value.decode(errors="backslashreplace")
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case datetime():
            return value.isoformat()
    return str(value)


def _print(rows: list[ReplayedMessage], output: Output) -> None:
    if output is Output.TABLE:
        print_table("State", [shown(row) for row in rows], empty="no rows")
        return
    writer = Writer(output, as_object)
    writer.write(rows)
    writer.end()
