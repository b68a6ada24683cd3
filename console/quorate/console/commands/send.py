"""`quorate send`: send the messages of a file or of stdin, as a source of the topic."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.group.sending import send_all
from quorate.console.ui.events import show_event
from quorate.console.ui.exits import say
from quorate.console.ui.framed_input import (
    Format,
    read_messages,
)
from quorate.console.ui.help import FORMAT, SAFETY, WAITING
from quorate.console.ui.options import (
    Also,
    Groups,
    Intergroup,
    OutputFormat,
    SessionId,
    Stores,
    Timeout,
)
from quorate.console.ui.output import (
    Output,
    people_watch,
    print_json,
    print_jsonl,
)
from quorate.console.ui.running import run
from quorate.console.ui.settings import (
    GroupSettings,
    resolve,
)
from quorate.console.ui.warnings import show_warnings
from quorate.protocol.compression import Compression
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.figures import counted
from quorate.protocol.identity import check_topic, parse_session_id
from quorate.protocol.limits import MESSAGE_BYTES_MAX
from quorate.protocol.times import seconds_of

if TYPE_CHECKING:
    from quorate.protocol.attributes import Attributes
    from quorate.source import Event, FilePublishStore, Outgoing, Source, SourceOptions

_PROGRESS_SECONDS = 0.5


def send(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic to send to.")],
    stores: Stores = None,
    session_id: SessionId = None,
    file: Annotated[
        str, typer.Option("--file", "-f", metavar="FILE|-", help="The file to send; - is stdin.")
    ] = "-",
    key: Annotated[str | None, typer.Option("--key", help="The key of each message.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property of each message."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            metavar="AGE|TIME", help="When messages expire: an age such as 15m, or a UTC time."
        ),
    ] = None,
    publish_store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=SAFETY,
            help="Keep messages on disk until they are stable, and send them again when reopened.",
        ),
    ] = None,
    synced: Annotated[
        bool,
        typer.Option(
            "--synced",
            rich_help_panel=SAFETY,
            help="With --publish-store: sync what it keeps, so that it outlives the host.",
        ),
    ] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            rich_help_panel=SAFETY,
            help="Fence a living source of this identity.",
        ),
    ] = False,
    timeout: Timeout = None,
    registration_interval: Annotated[
        float | None,
        typer.Option(
            metavar="S",
            min=0,
            rich_help_panel=WAITING,
            help="Seconds to wait for every store; after that, enough of them suffice.  [3]",
        ),
    ] = None,
    receiver_paced: Annotated[
        int | None,
        typer.Option(
            "--receiver-paced",
            metavar="N",
            min=1,
            rich_help_panel=WAITING,
            help="Stay at most this many messages ahead of every registered receiver.",
        ),
    ] = None,
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            rich_help_panel=FORMAT,
            help="One message a line, or each after its length (4 bytes, big-endian).",
        ),
    ] = Format.LINES,
    message_bytes_max: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=MESSAGE_BYTES_MAX,
            rich_help_panel=FORMAT,
            help="Bytes of the largest message.  [1048576]",
        ),
    ] = None,
    compression: Annotated[
        Compression | None,
        typer.Option(rich_help_panel=FORMAT, help="Compress batches of messages.  [not at all]"),
    ] = None,
    output: OutputFormat = None,
    events: Annotated[
        bool,
        typer.Option(
            "--events", rich_help_panel=FORMAT, help="Print the source's events on stderr."
        ),
    ] = False,
    group: Groups = None,
    intergroup: Intergroup = None,
    also: Also = None,
) -> None:
    """Send messages and wait until all are stable."""
    settings = resolve(
        context.meta,
        stores=stores,
        groups=group or (),
        intergroup=intergroup,
        also=also,
        output=output,
        timeout=timeout,
    )
    show_warnings(settings.output)
    check_topic(topic)
    attributes = _attributes(key, properties or ())
    expiry = _expiry(expires) if expires is not None else None
    opening: dict[str, Any] = {
        "session_id": parse_session_id(session_id) if session_id is not None else None,
        "take_over": take_over,
        "options": _options(
            settings, topic, receiver_paced, registration_interval, message_bytes_max, compression
        ),
    }
    if (kept := publish_store_of(publish_store, synced)) is not None:
        opening["publish_store"] = kept
    with ExitStack() as stack:
        descriptor = _open(file, stack)
        sending = _Sending(settings, topic, opening, descriptor, form, attributes, expiry, events)
        run(sending.run)


def publish_store_of(directory: Path | None, synced: bool) -> FilePublishStore | None:
    """Return the publish store in a directory; None: there is none. Raises InvalidArgument."""
    from quorate.source import FilePublishStore

    if directory is not None:
        return FilePublishStore(directory, sync=synced)
    if synced:
        raise InvalidArgument("--synced", "it needs --publish-store, which says where to keep")
    return None


def _options(
    settings: GroupSettings,
    topic: str,
    receiver_paced: int | None,
    registration_interval: float | None,
    message_bytes_max: int | None,
    compression: Compression | None,
) -> SourceOptions:
    from quorate.source import ReceiverPacing, SourceOptions

    given: dict[str, Any] = {}
    if message_bytes_max is not None:
        given["message_bytes_max"] = message_bytes_max
    if compression is not None:
        given["compression"] = compression
    if receiver_paced is not None:
        given["receiver_pacing"] = ReceiverPacing(messages=receiver_paced)
    if registration_interval is not None:
        given["registration_interval"] = registration_interval
    return settings.options("source", SourceOptions).of(topic, SourceOptions(**given))


def _attributes(key: str | None, properties: Sequence[str]) -> Attributes:
    from quorate.protocol.attributes import checked_attributes

    named: dict[str, bytes] = {}
    for given in properties:
        name, separator, value = given.partition("=")
        if not separator:
            raise InvalidArgument("--property", f"{given!r} is not NAME=VALUE")
        if name in named:
            raise InvalidArgument("--property", f"{name} is given twice")
        named[name] = os.fsencode(value)
    # Checked before anything is opened.
    return checked_attributes(None if key is None else os.fsencode(key), named)


def _expiry(text: str) -> datetime | float:
    """Return when messages expire: a moment, or the seconds after each is sent."""
    seconds = seconds_of(text)
    if seconds is not None:
        return seconds
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            "--expires", f"{text!r} is none; give an age such as 15m, or 2026-01-31T12:00Z"
        ) from None


def _open(file: str, stack: ExitStack) -> int:
    if file == "-":
        if sys.stdin is None:
            raise InvalidArgument("--file", "stdin is closed; name a file, or give it an input")
        return sys.stdin.fileno()
    try:
        return stack.enter_context(Path(file).open("rb")).fileno()
    except OSError as error:
        raise InvalidArgument("--file", f"{file} cannot be read: {error.strerror}") from error


@dataclass(slots=True)
class _Sending:
    settings: GroupSettings
    topic: str
    opening: dict[str, Any]
    descriptor: int
    form: Format
    attributes: Attributes
    expires: datetime | float | None
    events: bool
    first: int = -1
    started: float = 0.0
    shown: float = 0.0

    async def run(self) -> None:
        """Send all messages. Raises NotYetStable if they do not become stable in time."""
        from quorate.source import Source

        source = await Source.open(
            self.topic,
            stores=self.settings.layout,
            previous_policies=self.settings.previous,
            timeout=self.settings.timeout,
            tls=self.settings.tls,
            on_event=self._tell,
            **self.opening,
        )
        self.first = source.next_sequence
        self.started = time.monotonic()
        try:
            async with source:
                async for payloads in read_messages(
                    self.descriptor, self.form, self.opening["options"].message_bytes_max
                ):
                    await send_all(source, self._messages(payloads), self.settings.timeout)
                    self._show_progress(source)
                await source.flush(timeout=self.settings.timeout)
        finally:
            self._summarize(source)

    def _messages(self, payloads: list[bytes]) -> Sequence[bytes | Outgoing]:
        from quorate.source import Outgoing

        key, properties, expires = self.attributes.key, self.attributes.properties, self.expires
        if key is None and not properties and expires is None:
            return payloads
        return [Outgoing(payload, key, properties, expires) for payload in payloads]

    def _tell(self, event: Event) -> None:
        """Show an event: with --events all of them, else a few to a person who waits."""
        from quorate.source import (
            MembershipChanged,
            ReceiversCaughtUp,
            StoreInLimbo,
            WaitingForIdentity,
            WaitingForStores,
        )

        if self.events:
            show_event(event, self.settings.output)
            return
        if not people_watch():
            return
        match event:
            case WaitingForStores(missing, seconds):
                how_long = f" for at most {seconds:.1f} s" if seconds else ": too few have answered"
                say(f"Waiting for {', '.join(missing)}{how_long}.")
            case WaitingForIdentity(_, ends_in):
                what = "ends" if ends_in is None else f"has been silent for {ends_in:.1f} s more"
                say(f"Another process uses this identity. Waiting until it {what}.")
            case StoreInLimbo(store, reason):
                say(f"Store {store} is in limbo: {reason}.", style="yellow")
            case ReceiversCaughtUp():
                say("The receivers have caught up.")
            case MembershipChanged(_, to_policies, _, True):
                say(f"The stream has moved to {' and '.join(map(str, to_policies))}.")

    def _show_progress(self, source: Source) -> None:
        now = time.monotonic()
        # Never into lines that a person is typing.
        typed = os.isatty(self.descriptor)
        if people_watch() and not typed and now - self.shown >= _PROGRESS_SECONDS:
            self.shown = now
            sent = source.next_sequence - self.first
            rate = sent / max(now - self.started, 1e-9)
            print(f"\r{sent:,} sent, {rate:,.0f} a second ", end="", file=sys.stderr, flush=True)

    def _summarize(self, source: Source) -> None:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr)
        sent = source.next_sequence - self.first
        unstable = source.next_sequence - 1 - source.stable_upto
        summary = {
            "topic": source.name.topic,
            "session_id": f"{source.name.session_id:#x}",
            "epoch": source.epoch,
            "first": self.first,
            "sent": sent,
            "stable": max(sent - unstable, 0),
            "unstable": unstable,
            "seconds": round(time.monotonic() - self.started, 3),
        }
        match self.settings.output:
            case Output.JSON:
                print_json(summary)
            case Output.JSONL:
                print_jsonl([summary])
            case Output.TABLE:
                say(
                    f"{counted(sent, 'message')} to {source.name} from {self.first}"
                    + (f", {unstable:,} not known to be stable" if unstable else ", all stable")
                    + f", in {summary['seconds']} s",
                    style="yellow" if unstable else "",
                )
