"""`quorate receive`: print the messages of a topic as they come."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar

import typer

from quorate.console.ui.events import show_events
from quorate.console.ui.help import FORMAT, SAFETY, WAITING
from quorate.console.ui.options import (
    Count,
    OutputFormat,
    Pattern,
    SessionId,
    Stores,
    Timeout,
    TopicOrPattern,
)
from quorate.console.ui.output import Output
from quorate.console.ui.running import run
from quorate.console.ui.settings import (
    GroupSettings,
    resolve,
)
from quorate.console.ui.warnings import show_warnings
from quorate.protocol.delivery import DELIVERY_DEFAULT, Delivery
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName, parse_session_id
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.times import moment_of

if TYPE_CHECKING:
    from quorate.protocol.attributes import Attributes
    from quorate.receiver import Message, Receiver


def receive(
    context: typer.Context,
    topic: TopicOrPattern,
    stores: Stores = None,
    session_id: SessionId = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="Where to start: earliest, latest, a sequence number, or a time such as "
            "2026-01-31T12:00Z. A receiver whose session ID stores know goes on where it "
            "stopped.  [earliest]",
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            min=0,
            metavar="N",
            help="Start with the last N messages of each source; 0 prints only new ones. "
            "Otherwise as --from.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="CONDITION",
            help="Print only messages for which this is true: \"price > 100 AND $key = 'x'\".",
        ),
    ] = None,
    payload: Annotated[
        PayloadFormat,
        typer.Option(
            rich_help_panel=FORMAT,
            help="The format of the payloads, in which --where finds fields.",
        ),
    ] = PayloadFormat.JSON,
    count: Count = None,
    pattern: Pattern = False,
    delivery: Annotated[
        Delivery,
        typer.Option(rich_help_panel=SAFETY, help="Print a message at once, or when it is stable."),
    ] = DELIVERY_DEFAULT,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            rich_help_panel=SAFETY,
            help="Fence another process with this session ID, even within its activity timeout.",
        ),
    ] = False,
    not_waited_for: Annotated[
        bool,
        typer.Option(
            "--not-waited-for",
            rich_help_panel=SAFETY,
            help="Neither receiver-paced sources nor retention wait for this receiver.",
        ),
    ] = False,
    timeout: Timeout = None,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            rich_help_panel=WAITING,
            help="Give up if no store knows a source of TOPIC after this many seconds. For "
            "silence after that see --until-idle.  [never]",
        ),
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            rich_help_panel=WAITING,
            help="Stop when no message came for this many seconds.",
        ),
    ] = None,
    output: OutputFormat = None,
    events: Annotated[
        bool,
        typer.Option(
            "--events", rich_help_panel=FORMAT, help="Print the receiver's events on stderr."
        ),
    ] = False,
) -> None:
    """Print messages until Ctrl-C: payloads as lines, or all fields as JSON.

    A receiver with the same session ID as before goes on behind the last message it printed.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    show_warnings(settings.output)
    if start is not None and last is not None:
        raise InvalidArgument("--last", "cannot be given together with --from")
    opening = {
        "topic_pattern" if pattern else "topic": topic,
        "session_id": parse_session_id(session_id) if session_id is not None else None,
        "delivery": delivery.value,
        "start": start or ("earliest" if last is None else f"last:{last}"),
        "where": where,
        "payload": payload,
        "take_over": take_over,
        "timeout": settings.timeout,
    }
    options: dict[str, Any] = {}
    if wait is not None:
        options["wait_for_source"] = wait
    if not_waited_for:
        options["waited_for"] = False
    run(_Receiving(settings, opening, options, count, until_idle, events).run)


@dataclass(slots=True)
class _Receiving:
    settings: GroupSettings
    opening: dict[str, Any]
    options: dict[str, Any]
    count: int | None
    until_idle: float | None
    events: bool
    printed: int = 0

    async def run(self) -> None:
        from quorate.receiver import Receiver, ReceiverOptions

        async with await Receiver.open(
            stores=self.settings.stores,
            tls=self.settings.tls,
            acknowledge="explicit",
            options=self.settings.options("receiver", ReceiverOptions).of(
                self.opening.get("topic"), ReceiverOptions(**self.options)
            ),
            **self.opening,
        ) as receiver:
            writer = Writer(self.settings.output, as_object)
            showing = None
            if self.events:
                showing = asyncio.create_task(show_events(receiver.events(), self.settings.output))
            try:
                # Ctrl-C is a normal end. Closing acknowledges the printed messages.
                with suppress(asyncio.CancelledError):
                    await self._print(receiver, writer)
            finally:
                writer.end()
        if showing is not None:
            # Events end with the receiver, and the last ones are shown too.
            await showing

    async def _print(self, receiver: Receiver, writer: Writer[Message]) -> None:
        batches = receiver.batches()
        while self.printed != self.count:
            try:
                async with asyncio.timeout(self.until_idle):
                    batch = await anext(batches)
            except (TimeoutError, StopAsyncIteration):
                return
            messages = list(batch.messages())
            if self.count is not None:
                messages = messages[: self.count - self.printed]
            writer.write(messages)
            self.printed += len(messages)
            messages[-1].acknowledge(all_before=True)


class HasPayload(Protocol):
    """A message that can be printed. People see its payload."""

    @property
    def payload(self) -> bytes: ...


_Printed = TypeVar("_Printed", bound=HasPayload)


class Writer(Generic[_Printed]):
    """A writer of messages to stdout in the chosen format."""

    def __init__(self, output: Output, as_object: Callable[[_Printed], dict[str, Any]]) -> None:
        """as_object: returns all fields of a message, for programs."""
        self._output = output
        self._as_object = as_object
        self._first = True

    def write(self, messages: Sequence[_Printed]) -> None:
        """Write whole messages and flush. After this they may be acknowledged."""
        for message in messages:
            if self._output is Output.TABLE:
                self._put(message.payload)
                continue
            if self._output is Output.JSON:
                sys.stdout.buffer.write(b"[" if self._first else b",")
            self._first = False
            self._put(json.dumps(self._as_object(message)).encode())
        sys.stdout.buffer.flush()

    def end(self) -> None:
        """End the output after the last message, so that it is valid as a whole."""
        if self._output is Output.JSON:
            self._put(b"[]" if self._first else b"]")
            sys.stdout.buffer.flush()

    def _put(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")


def as_object(message: Message) -> dict[str, Any]:
    """Return all fields of a message, for programs. Bytes that are no text become base64."""
    row = origin(message.source, message.sequence, message.epoch, message.timestamp_ns)
    row["retransmitted"] = message.retransmitted
    return row | content(message.batch.attributes_of(message.sequence), message.payload)


def origin(source: SourceName, sequence: int, epoch: int, timestamp_ns: int) -> dict[str, Any]:
    """Return the fields that identify a message: source, sequence number, epoch and time."""
    return {
        "topic": source.topic,
        "session_id": f"{source.session_id:#x}",
        "sequence": sequence,
        "epoch": epoch,
        "time": moment_of(timestamp_ns).isoformat(),
        "timestamp_ns": timestamp_ns,
    }


def content(attributes: Attributes, payload: bytes) -> dict[str, Any]:
    """Return the fields of a message's content: its attributes and its payload."""
    row: dict[str, Any] = {}
    if attributes.key is not None:
        row |= _shown("key", attributes.key)
    for name, value in attributes.properties.items():
        for where, shown in _shown("properties", value).items():
            row.setdefault(where, {})[name] = shown
    if attributes.deleted:
        row["deleted"] = True
    if attributes.expires is not None:
        row["expires"] = attributes.expires.isoformat()
    return row | _shown("payload", payload)


def _shown(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
