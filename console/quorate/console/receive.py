"""`quorate receive`: prints the messages of a topic as they come."""

from __future__ import annotations

import asyncio
import base64
import enum
import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.exits import say
from quorate.console.options import OutputFormat, SessionId, Stores, Timeout
from quorate.console.output import Output, event_text
from quorate.console.running import run
from quorate.console.settings import Settings, resolve
from quorate.protocol.identity import parse_session_id

if TYPE_CHECKING:
    from quorate.receiver import Message, Receiver


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
        typer.Option(min=0, metavar="S", help="Seconds to wait for a source; else for ever."),
    ] = None,
    until_idle: Annotated[
        float | None,
        typer.Option(min=0, metavar="S", help="Stop when nothing came for so many seconds."),
    ] = None,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """Print messages until Ctrl-C: payloads as lines, or with all fields as JSON.

    With a session ID that was used before it goes on behind what it printed then.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    opening = {
        "topic_pattern" if pattern else "topic": topic,
        "session_id": parse_session_id(session_id) if session_id else None,
        "delivery": delivery.value,
        "wait_for_source": wait,
    }
    run(_Receiving(settings, opening, count, until_idle).run)


@dataclass(slots=True)
class _Receiving:
    settings: Settings
    opening: dict[str, Any]
    count: int | None
    until_idle: float | None
    printed: int = 0

    async def run(self) -> None:
        from quorate.receiver import Receiver

        async with await Receiver.open(
            stores=self.settings.stores, acknowledge="explicit", **self.opening
        ) as receiver:
            telling = asyncio.create_task(self._tell_events(receiver))
            writer = Writer(self.settings.output)
            try:
                # Ctrl-C is how this ends well; what was printed is acknowledged on the way out.
                with suppress(asyncio.CancelledError):
                    await self._print(receiver, writer)
            finally:
                telling.cancel()
                writer.end()

    async def _print(self, receiver: Receiver, writer: Writer) -> None:
        messages = aiter(receiver)
        while self.printed != self.count:
            try:
                message = await asyncio.wait_for(anext(messages), self.until_idle)
            except (TimeoutError, StopAsyncIteration):
                return
            writer.write(message)
            self.printed += 1
            await receiver.acknowledge(message)

    async def _tell_events(self, receiver: Receiver) -> None:
        async for event in receiver.events():
            if self.settings.output is Output.TABLE:
                say(event_text(event), style="dim")


class Writer:
    """Writes messages to stdout in the form that was asked for."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._first = True

    def write(self, message: Message) -> None:
        """One message, whole and flushed: after this it may be acknowledged."""
        match self._output:
            case Output.TABLE:
                self._put(message.payload)
            case Output.JSONL:
                self._put(json.dumps(as_object(message)).encode())
            case Output.JSON:
                sys.stdout.buffer.write(b"[" if self._first else b",")
                self._put(json.dumps(as_object(message)).encode())
        self._first = False

    def end(self) -> None:
        """After the last message: what was written is now one valid whole."""
        if self._output is Output.JSON:
            self._put(b"[]" if self._first else b"]")

    def _put(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def as_object(message: Message) -> dict[str, Any]:
    """All of a message, for machines; a payload that is not text as base64."""
    time = datetime.fromtimestamp(message.timestamp_ns / 1e9, UTC)
    row = {
        "topic": message.source.topic,
        "session_id": f"{message.source.session_id:#x}",
        "sequence": message.sequence,
        "epoch": message.epoch,
        "time": time.isoformat(),
        "timestamp_ns": message.timestamp_ns,
        "retransmitted": message.retransmitted,
    }
    try:
        return {**row, "payload": message.payload.decode()}
    except UnicodeDecodeError:
        return {**row, "payload_base64": base64.b64encode(message.payload).decode()}
