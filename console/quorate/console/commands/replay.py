"""`quorate replay`: print the stores' journal from a point on, filtered."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.commands.receive import Writer, content, origin
from quorate.console.ui.exits import say
from quorate.console.ui.help import FORMAT, SAFETY, WAITING
from quorate.console.ui.options import Count, OutputFormat, Pattern, Stores, Timeout
from quorate.console.ui.output import Output
from quorate.console.ui.running import run
from quorate.console.ui.settings import GroupSettings, resolve
from quorate.console.ui.warnings import show_warnings
from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.figures import counted
from quorate.protocol.payloads import PayloadFormat
from quorate.subscriber.options import Delivered, OnUnknownBookmark

if TYPE_CHECKING:
    from quorate.subscriber import ReplayedMessage, Subscriber
    from quorate.subscriber.events import Event

_log = logging.getLogger("quorate.console")


def replay(
    context: typer.Context,
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC…", help="The topics, or a pattern with --pattern.")
    ],
    stores: Stores = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BEGIN",
            help="Where to begin: epoch, now, most_recent, a position, or a time such as "
            "2026-01-31T12:00Z, 1769860800 or -15m. A bookmark, or the earliest of several with "
            "commas.  [epoch; most_recent with --name]",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--end",
            metavar="END",
            help="Where to end: now, a position, or a time, also one to come such as +5m. A "
            "bookmark, or the latest of several with commas. Before a bookmark, "
            '"before" leaves its message out.',
        ),
    ] = None,
    unknown_bookmark: Annotated[
        OnUnknownBookmark,
        typer.Option(
            rich_help_panel=SAFETY,
            help="If the stores do not have the bookmark: fail, or begin there instead.",
        ),
    ] = OnUnknownBookmark.FAIL,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Print only messages for which this is true: \"price > 100 AND $key = 'x'\".",
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="FIELDS",
            help='Print only these fields of payloads, "id, order.price", or all but these: '
            '"-comment".',
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="RATE", help="The pace: 1000/s, 500KB/s, or 2x: twice the messages' own."
        ),
    ] = None,
    rate_max_gap: Annotated[
        float | None,
        typer.Option(
            metavar="S", help="With a --rate such as 2x: the longest pause between two messages."
        ),
    ] = None,
    conflation: Annotated[
        str | None,
        typer.Option(
            metavar="INTERVAL",
            help="Print only the newest message of each key within such a time: 500ms, or 2s.",
        ),
    ] = None,
    conflation_key: Annotated[
        str | None,
        typer.Option(
            metavar="FIELDS",
            help="With --conflation: key, the key of the message, or fields of payloads.",
        ),
    ] = None,
    payload: Annotated[
        PayloadFormat,
        typer.Option(
            help="The format of the payloads, for --archive and --conflation-key. The stores go by "
            "their own configuration."
        ),
    ] = PayloadFormat.JSON,
    archive: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Read what has left the stores from the archive that `quorate archive` wrote.",
        ),
    ] = None,
    pattern: Pattern = False,
    count: Count = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C or --end."),
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=SAFETY,
            help="Keep how far was printed under this name in the file of --bookmarks.",
        ),
    ] = None,
    bookmarks: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=SAFETY, help="The file for --name.  [bookmarks.db]"
        ),
    ] = None,
    save_interval: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            rich_help_panel=SAFETY,
            help="With --name: seconds between two savings.  [1]",
        ),
    ] = None,
    save_every: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=SAFETY,
            help="With --name: save sooner, once so many messages were printed.",
        ),
    ] = None,
    delivered: Annotated[
        Delivered,
        typer.Option(
            rich_help_panel=SAFETY,
            help="Print what is stable, what is on the store's disk, or what has come to it.",
        ),
    ] = Delivered.STABLE,
    timeout: Timeout = None,
    until_idle: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            rich_help_panel=WAITING,
            help="With --follow: stop when nothing came for this many seconds.",
        ),
    ] = None,
    output: OutputFormat = None,
    events: Annotated[
        bool,
        typer.Option("--events", rich_help_panel=FORMAT, help="Print events on stderr."),
    ] = False,
) -> None:
    """Print what the stores recorded, in the order of one store's journal.

    At the end stderr shows the position: the next replay goes on there with --from.
    """
    from quorate.subscriber import FileBookmarkStore

    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    show_warnings(settings.output)
    saving = {
        "--bookmarks": bookmarks,
        "--save-interval": save_interval,
        "--save-every": save_every,
    }
    for option, value in saving.items():
        if value is not None and name is None:
            raise InvalidArgument(option, "needs --name, under which positions are kept")
    opening: dict[str, Any] = {
        **_selection(topics, pattern),
        "begin": begin or ("epoch" if name is None else "most_recent"),
        "end": end,
        "unknown_bookmark": unknown_bookmark,
        "delivered": delivered,
        "where": where,
        "select": select,
        "payload": payload,
        "archive": archive,
        "rate": rate,
        "rate_max_gap": rate_max_gap,
        "conflation": conflation,
        "conflation_key": conflation_key,
        "timeout": settings.timeout,
    }
    if name is not None:
        opening |= {"bookmarks": FileBookmarkStore(bookmarks or "bookmarks.db"), "name": name}
        opening["save_every"] = save_every
        if save_interval is not None:
            opening["save_interval"] = save_interval
    run(_Replaying(settings, opening, count, follow, until_idle, events).run)


def _selection(topics: list[str], pattern: bool) -> dict[str, Any]:
    if not pattern:
        return {"topic": topics[0] if len(topics) == 1 else dict.fromkeys(topics)}
    if len(topics) > 1:
        raise InvalidArgument("--pattern", f"needs one TOPIC, and {len(topics)} are given")
    return {"topic_pattern": topics[0]}


@dataclass(slots=True)
class _Replaying:
    settings: GroupSettings
    opening: dict[str, Any]
    count: int | None
    follow: bool
    until_idle: float | None
    events: bool
    printed: int = 0
    position: Position = field(default_factory=Position)

    async def run(self) -> None:
        from quorate.subscriber import Subscriber

        async with await Subscriber.open(
            stores=self.settings.stores,
            tls=self.settings.tls,
            on_event=self._show if self.events else None,
            **self.opening,
        ) as subscriber:
            writer = Writer(self.settings.output, as_object)
            try:
                # Ctrl-C is a normal end.
                with suppress(asyncio.CancelledError):
                    await self._print(subscriber, writer)
            finally:
                writer.end()
            if self.settings.output is Output.TABLE:
                say(f"{counted(self.printed, 'message')}; position: {self.position}")
                if not self.position:  # a store that has one names it, with or without messages
                    say("No source of these topics was found. `quorate topics` lists the topics.")

    async def _print(self, subscriber: Subscriber, writer: Writer[ReplayedMessage]) -> None:
        from quorate.subscriber import Completed, ReplayedBatch, ReplayedMessage

        # At a pace, a batch would wait for its last message. Its messages are not conflated.
        alone = self.opening["rate"] is not None or self.opening["conflation"] is not None
        given = aiter(subscriber) if alone else subscriber.batches()
        self.position = subscriber.position
        while self.printed != self.count:
            try:
                async with asyncio.timeout(self.until_idle if self.follow else None):
                    item = await anext(given)
            except (TimeoutError, StopAsyncIteration):
                return
            self.position = subscriber.position
            if isinstance(item, ReplayedBatch | ReplayedMessage):
                messages = list(item.messages()) if isinstance(item, ReplayedBatch) else [item]
                if self.count is not None:
                    messages = messages[: self.count - self.printed]
                writer.write(messages)
                self.printed += len(messages)
                for message in messages:
                    message.consumed()
                if isinstance(item, ReplayedBatch):
                    last = messages[-1].bookmark
                    self.position = self.position.moved(last.source, last.place)
            elif not isinstance(item, Completed):
                _log.warning("%s", item)
            else:
                self.position = item.position
                if not self.follow:
                    return

    def _show(self, event: Event) -> None:
        say(str(event))


def as_object(message: ReplayedMessage) -> dict[str, Any]:
    """Return all fields of a message, for programs. Bytes that are no text become base64."""
    row = origin(message.source, message.sequence, message.epoch, message.timestamp_ns)
    row["bookmark"] = str(message.bookmark)
    row["stable"] = message.stable
    row["conflated"] = message.conflated
    return row | content(message.attributes, message.payload)
