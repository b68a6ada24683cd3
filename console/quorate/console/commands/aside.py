"""`quorate store aside`: the messages of a stopped store that no longer belong to a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.commands.receive import Writer
from quorate.console.commands.stored import StoredMessage, messages_of
from quorate.console.ui.exits import (
    OUTPUT_KEY,
    say,
)
from quorate.console.ui.output import (
    Output,
    print_json,
    print_jsonl,
    print_table,
)
from quorate.protocol.exit_codes import FAILED
from quorate.protocol.identity import SourceName

if TYPE_CHECKING:
    from quorate.store.offline import OfflineStore
    from quorate.store.storage.reader import SetAside


def aside(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="The data directory of the store.")
    ],
    source: Annotated[
        str | None,
        typer.Option("--source", metavar="TOPIC/SESSION", help="Only this source.  [all]"),
    ] = None,
    messages: Annotated[
        bool,
        typer.Option("--messages", help="Print the messages themselves, as `quorate receive`."),
    ] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="Format of the output.")] = (
        Output.TABLE
    ),
) -> None:
    """Show the messages that a later epoch did not keep, by source and epoch.

    The store does not serve these messages. It must be stopped; nothing is changed. The exit code
    is 1 if some of them cannot be read.
    """
    context.meta[OUTPUT_KEY] = output

    from quorate.store.offline import OfflineStore

    with OfflineStore(directory) as store:
        found = _found(store, _wanted(store, source))
        unreadable = _print_messages(found, output) if messages else _print_ranges(found, output)
    for problem in unreadable:
        say(problem)
    if unreadable:
        raise typer.Exit(FAILED)


def _wanted(store: OfflineStore, source: str | None) -> list[SourceName]:
    known = [each.name for each in store.sources()]
    if source is None:
        return known

    from quorate.console.group.repair import parse_source
    from quorate.protocol.errors import InvalidArgument

    name = parse_source(source)
    if name not in known:
        has = ", ".join(map(str, known)) or "none"
        raise InvalidArgument("source", f"{name} is not known to store {store.store}; it has {has}")
    return [name]


def _found(
    store: OfflineStore, sources: Iterable[SourceName]
) -> Iterator[tuple[SourceName, SetAside]]:
    for source in sources:
        for each in store.set_aside(source):
            yield source, each


def _problem(source: SourceName, found: SetAside) -> str:
    part, why = found.batch.part, found.batch.problem.rstrip(".")
    return f"{part} of {source}, epoch {found.epoch}, cannot be read: {why}."


def _print_messages(found: Iterable[tuple[SourceName, SetAside]], output: Output) -> list[str]:
    """Print the messages. Return the problems of those that are left out."""
    unreadable: list[str] = []
    writer = Writer(output, StoredMessage.as_object)
    for source, each in found:
        if each.batch.problem:
            unreadable.append(_problem(source, each))
        else:
            writer.write(messages_of(source, each.batch))
    writer.end()
    return unreadable


def _print_ranges(found: Iterable[tuple[SourceName, SetAside]], output: Output) -> list[str]:
    """Print the ranges. Return the problems of those that cannot be read."""
    unreadable: list[str] = []
    rows: list[dict[str, Any]] = []
    for source, each in found:
        batch = each.batch
        readable: Sequence[StoredMessage] = ()
        if batch.problem:
            unreadable.append(_problem(source, each))
        else:
            readable = messages_of(source, each.batch)
        row = {
            "topic": source.topic,
            "session_id": f"{source.session_id:#x}",
            "epoch": each.epoch,
            "first": batch.part.first,
            "last": batch.part.last,
            "messages": len(batch.part),
            "bytes": sum(len(message.payload) for message in readable),
            "unreadable": len(batch.part) - len(readable),
        }
        if rows and _goes_on(rows[-1], row):
            rows[-1]["last"] = row["last"]
            for counted in ("messages", "bytes", "unreadable"):
                rows[-1][counted] += row[counted]
        else:
            rows.append(row)
    match output:
        case Output.JSON:
            print_json(rows)
        case Output.JSONL:
            print_jsonl(rows)
        case Output.TABLE:
            print_table("Set aside", rows, empty="nothing")
    return unreadable


def _goes_on(before: dict[str, Any], row: dict[str, Any]) -> bool:
    same = all(before[key] == row[key] for key in ("topic", "session_id", "epoch"))
    return same and before["last"] + 1 == row["first"]
