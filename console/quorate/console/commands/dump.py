"""`quorate store dump`: what a stopped store has: its sources, its receivers, its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.commands.receive import Writer
from quorate.console.commands.stored import StoredMessage, messages_of
from quorate.console.ui.exits import OUTPUT_KEY, say
from quorate.console.ui.output import Output, print_json, print_jsonl, print_table
from quorate.protocol.exit_codes import FAILED
from quorate.protocol.identity import SourceName, parse_session_id
from quorate.protocol.ranges import Range, RangeSet

if TYPE_CHECKING:
    from quorate.store.offline import OfflineSource, OfflineStore

_COUNT = 100


def dump(
    context: typer.Context,
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="The data directory of the store.")
    ],
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="NAME", help="Only this topic.  [all]")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Only this session ID.  [all]")
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Print the messages. The next options imply it.")
    ] = False,
    first: Annotated[
        int | None,
        typer.Option("--from", min=0, metavar="N", help="From this sequence number on.  [0]"),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=0, help=f"So many messages; 0: all.  [{_COUNT}]"),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option(
            "--grep",
            metavar="TEXT",
            help="Only messages with these bytes in the key, a property or the payload.",
        ),
    ] = None,
    output: Annotated[Output, typer.Option("--output", "-o", help="Format of the output.")] = (
        Output.TABLE
    ),
) -> None:
    """Show what a stopped store has: sources, ranges, positions of receivers, messages.

    The store must be stopped; nothing is changed. The exit code is 1 if a message cannot be read.
    """
    context.meta[OUTPUT_KEY] = output

    from quorate.store.offline import OfflineStore

    with OfflineStore(directory) as store:
        sources = _chosen(store, topic, session)
        if not messages and (first, count, grep) == (None, None, None):
            _print_sources(store, sources, output)
            return
        found = _Found(store, [each.name for each in sources], first or 0, (grep or "").encode())
        wanted = _COUNT if count is None else count
        _print_messages(islice(found.messages(), wanted or None), output)
    for problem in found.unreadable:
        say(problem)
    if found.unreadable:
        raise typer.Exit(FAILED)


def _chosen(store: OfflineStore, topic: str | None, session: str | None) -> list[OfflineSource]:
    """Return the sources that are wanted. Raises InvalidArgument if there is none."""
    known = store.sources()
    session_id = parse_session_id(session) if session is not None else None
    chosen = [
        each
        for each in known
        if topic in (None, each.name.topic) and session_id in (None, each.name.session_id)
    ]
    if known and not chosen:
        from quorate.protocol.errors import InvalidArgument

        has = ", ".join(str(each.name) for each in known)
        raise InvalidArgument(
            "--topic, --session", f"store {store.store} has no such source; it has {has}"
        )
    return chosen


@dataclass
class _Found:
    """The messages that are wanted, and what cannot be read among them."""

    store: OfflineStore
    sources: list[SourceName]
    first: int
    grep: bytes
    unreadable: list[str] = field(default_factory=list)

    def messages(self) -> Iterator[StoredMessage]:
        """Yield the messages by source and number, and note what cannot be read."""
        for source in self.sources:
            for batch in self.store.batches(source, self.first):
                if batch.problem:
                    why = batch.problem.rstrip(".")
                    self.unreadable.append(f"{batch.part} of {source} cannot be read: {why}.")
                    continue
                yield from filter(self._is_wanted, messages_of(source, batch))

    def _is_wanted(self, message: StoredMessage) -> bool:
        attributes = message.attributes
        places = (attributes.key or b"", *attributes.properties.values(), message.payload)
        return any(self.grep in place for place in places)


def _print_messages(messages: Iterable[StoredMessage], output: Output) -> None:
    if output is Output.TABLE:
        print_table("Messages", [_for_people(each) for each in messages], empty="none")
        return
    writer = Writer(output, StoredMessage.as_object)
    for each in messages:
        writer.write([each])
    writer.end()


def _for_people(message: StoredMessage) -> dict[str, Any]:
    """Return a row. Bytes that are no text are escaped."""
    attributes = message.attributes
    row = message.as_object()
    return {
        "topic": row["topic"],
        "session_id": row["session_id"],
        "sequence": message.sequence,
        "time": row["time"],
        "key": None if attributes.key is None else _text(attributes.key),
        "properties": " ".join(f"{k}={_text(v)}" for k, v in attributes.properties.items()) or None,
        "payload": "deletes the key's row" if attributes.deleted else _text(message.payload),
    }


def _text(value: bytes) -> str:
    text = value.decode(errors="backslashreplace")
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _print_sources(store: OfflineStore, sources: list[OfflineSource], output: Output) -> None:
    rows = [_source_row(each) for each in sources]
    receivers = [row for each in sources for row in _receiver_rows(each)]
    match output:
        case Output.JSON:
            whole = {"store": store.store, "limbo": store.limbo}
            print_json({**whole, "sources": rows, "receivers": receivers})
        case Output.JSONL:
            print_jsonl({"kind": "source", **row} for row in rows)
            print_jsonl({"kind": "receiver", **row} for row in receivers)
        case Output.TABLE:
            say(f"Store {store.store}" + (f", in limbo: {store.limbo}" if store.limbo else ""))
            for title, shown in (("Sources", rows), ("Receivers", receivers)):
                print_table(title, [_plain(row) for row in shown], empty="none")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row for people: lists as text."""
    return {
        key: (", ".join(value) or "none") if isinstance(value, list) else value
        for key, value in row.items()
    }


def _source_row(source: OfflineSource) -> dict[str, Any]:
    return {
        "topic": source.name.topic,
        "session_id": f"{source.name.session_id:#x}",
        "epoch": max((term.epoch for term in source.lineage.terms), default=0),
        "held": [*map(str, RangeSet(Range(each.first, each.last) for each in source.held))],
        "holes": [str(each) for each in source.holes],
        "lost": [str(each) for each in source.lost],
        "stable_upto": source.stable_upto,
        "retained_from": source.retained_from,
        "set_aside": source.set_aside,
        "limbo": source.limbo or None,
    }


def _receiver_rows(source: OfflineSource) -> Iterator[dict[str, Any]]:
    for session_id, receiver in sorted(source.receivers.items()):
        yield {
            "topic": source.name.topic,
            "source": f"{source.name.session_id:#x}",
            "session_id": f"{session_id:#x}",
            "epoch": receiver.epoch,
            "acknowledged_upto": receiver.acknowledged_upto,
            "waited_for": receiver.waited_for,
        }
