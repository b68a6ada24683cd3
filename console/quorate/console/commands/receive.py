"""`quorate receive`: prints the messages of a topic as they come."""

from __future__ import annotations

import asyncio
import base64
import enum
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, Protocol, TypeVar

import typer

from quorate.console.ui.events import show_events
from quorate.console.ui.options import (
    OutputFormat,
    SessionId,
    Stores,
    Timeout,
)
from quorate.console.ui.output import Output
from quorate.console.ui.running import run
from quorate.console.ui.settings import (
    Settings,
    resolve,
)
from quorate.console.ui.warnings import show_warnings
from quorate.protocol.identity import SourceName, parse_session_id

if TYPE_CHECKING:
    from quorate.protocol.attributes import Attributes
    from quorate.protocol.consensus import StartingPoint
    from quorate.receiver import Message, Receiver

_log = logging.getLogger("quorate.console")


class Delivery(enum.StrEnum):
    """When a message is handed over."""

    LIVE = "live"
    STABLE = "stable"


def receive(
    context: typer.Context,
    topic: Annotated[str, typer.Argument(help="The topic, or a pattern with --pattern.")],
    pattern: Annotated[
        bool, typer.Option("--pattern", help="TOPIC is a regular expression of whole topics.")
    ] = False,
    session_id: SessionId = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Stop after so many messages.")
    ] = None,
    delivery: Annotated[Delivery, typer.Option(help="At once, or when stable.")] = Delivery.LIVE,
    wait: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="S",
            help="Give up if no store knows a source of TOPIC after so many seconds; else wait "
            "for ever. Messages are waited for all the same: see --until-idle.",
        ),
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", help="Stop when nothing came for so many seconds."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(
            "--last",
            min=0,
            metavar="N",
            help="Begin with the last N messages of each source, if not after them; 0: only what "
            "is new.",
        ),
    ] = None,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Fence another process with this session ID, also within its activity timeout.",
        ),
    ] = False,
    not_waited_for: Annotated[
        bool,
        typer.Option(
            "--not-waited-for",
            help="No source that is paced by its receivers, and no retention, is to wait for it.",
        ),
    ] = False,
    events: Annotated[
        bool, typer.Option("--events", help="Tell on stderr what happens besides messages.")
    ] = False,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Print messages until Ctrl-C: payloads as lines, or with all fields as JSON.

    With a session ID that was used before it goes on behind what it printed then.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    show_warnings(settings.output)
    opening = {
        "topic_pattern" if pattern else "topic": topic,
        "session_id": parse_session_id(session_id) if session_id else None,
        "delivery": delivery.value,
        "take_over": take_over,
        "timeout": settings.timeout,
    }
    options = {
        "wait_for_source": wait,
        "choose_start": None if last is None else partial(_the_last, last),
        "waited_for": not not_waited_for,
    }
    run(_Receiving(settings, opening, options, count, until_idle, events).run)


def _the_last(count: int, point: StartingPoint) -> int:
    return max(point.low, point.high + 1 - count)


@dataclass(slots=True)
class _Receiving:
    settings: Settings
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
            acknowledge="explicit",
            options=ReceiverOptions(**self.options),
            **self.opening,
        ) as receiver:
            writer = Writer(self.settings.output, as_object)
            showing = None
            if self.events:
                showing = asyncio.create_task(show_events(receiver.events(), self.settings.output))
            if not receiver.sources:
                _log.warning(
                    "no store has a source of %s yet; waiting for one. Known topics: %s.",
                    self.opening.get("topic") or self.opening["topic_pattern"],
                    ", ".join(receiver.known_topics) or "none",
                )
            try:
                # Ctrl-C is how this ends well; what was printed is acknowledged on the way out.
                with suppress(asyncio.CancelledError):
                    await self._print(receiver, writer)
            finally:
                writer.end()
        if showing is not None:
            # Events end with the receiver; what happened last is shown, too.
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
            await receiver.acknowledge(messages[-1])


class HasPayload(Protocol):
    """What can be printed: its payload for people."""

    @property
    def payload(self) -> bytes: ...


_Printed = TypeVar("_Printed", bound=HasPayload)


class Writer(Generic[_Printed]):
    """Writes messages to stdout in the form that was asked for."""

    def __init__(self, output: Output, as_object: Callable[[_Printed], dict[str, Any]]) -> None:
        """as_object: all of a message, for machines."""
        self._output = output
        self._as_object = as_object
        self._first = True

    def write(self, messages: Sequence[_Printed]) -> None:
        """Messages, whole and flushed: after this they may be acknowledged."""
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
        """After the last message: what was written is now one valid whole."""
        if self._output is Output.JSON:
            self._put(b"[]" if self._first else b"]")
            sys.stdout.buffer.flush()

    def _put(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")


def as_object(message: Message) -> dict[str, Any]:
    """All of a message, for machines; what is not text as base64."""
    row = origin(message.source, message.sequence, message.epoch, message.timestamp_ns)
    row["retransmitted"] = message.retransmitted
    return row | content(message.batch.attributes_of(message.sequence), message.payload)


def origin(source: SourceName, sequence: int, epoch: int, timestamp_ns: int) -> dict[str, Any]:
    """Where a message comes from."""
    return {
        "topic": source.topic,
        "session_id": f"{source.session_id:#x}",
        "sequence": sequence,
        "epoch": epoch,
        "time": datetime.fromtimestamp(timestamp_ns / 1e9, UTC).isoformat(),
        "timestamp_ns": timestamp_ns,
    }


def content(attributes: Attributes, payload: bytes) -> dict[str, Any]:
    """What a message says."""
    row: dict[str, Any] = {}
    if attributes.key is not None:
        row |= _shown("key", attributes.key)
    for name, value in attributes.properties.items():
        for where, shown in _shown("properties", value).items():
            row.setdefault(where, {})[name] = shown
    return row | _shown("payload", payload)


def _shown(name: str, value: bytes) -> dict[str, str]:
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}
