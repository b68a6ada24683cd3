"""Messages with a span, from their hand-over until the application acknowledges them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from quorate.protocol.identity import SourceName
from quorate.receiver.cursor import Cursor
from quorate.receiver.message import DeliveredBatch, Message, MessageHandle
from quorate.receiver.options import AcknowledgeMode
from quorate.transport.tracing import Processing, Tracing

_OPEN_MAX = 10_000
"""The spans that may be open at a time. Beyond that the oldest one ends."""


class Spans:
    """The open spans of one receiver."""

    def __init__(self, tracing: Tracing, mode: AcknowledgeMode) -> None:
        """Begin without a span."""
        self._tracing = tracing
        self._mode = mode
        self._last: tuple[SourceName, int] | None = None
        self._open: dict[tuple[SourceName, int], Processing] = {}

    async def messages(
        self, cursor: Cursor, following: Callable[[], Awaitable[DeliveredBatch | None]]
    ) -> AsyncIterator[Message]:
        """Yield the messages, each with a span. following: waits for the next batch; None: the
        receiver is closed."""
        while True:
            self.asked()
            if (message := cursor.take()) is not None:
                yield self.hand_over(message)
                continue
            cursor.leave()
            batch = await following()
            if batch is None:
                return
            cursor.enter_messages(batch)

    def hand_over(self, message: Message) -> TracedMessage:
        """Return the message, with a span that begins now."""
        span = self._tracing.processing(
            "receive", message.source, message.sequence, message.properties
        )
        if len(self._open) >= _OPEN_MAX:
            self._end(next(iter(self._open)), "forgotten")
        self._last = message.source, message.sequence
        self._open[self._last] = span
        return TracedMessage(self, message)

    def asked(self) -> None:
        """Note that the application wants a message: in mode "automatic" the last one is done."""
        if self._mode is AcknowledgeMode.AUTOMATIC and self._last is not None:
            self._end(self._last, "acknowledged")

    def end(self, source: SourceName, sequence: int, outcome: str, *, all_before: bool) -> None:
        """End the span of a message, or of all before it, too."""
        ending = [(source, sequence)]
        if all_before:
            ending = [key for key in self._open if key[0] == source and key[1] <= sequence]
        for key in ending:
            self._end(key, outcome)

    def end_all(self) -> None:
        """End every span: the receiver is closed."""
        for key in list(self._open):
            self._end(key, "closed")

    def _end(self, key: tuple[SourceName, int], outcome: str) -> None:
        if (span := self._open.pop(key, None)) is not None:
            span.end(outcome)


class TracedMessage(Message):
    """A message with a span."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Spans, message: Message) -> None:
        super().__init__(message.batch, message.sequence, message.payload)
        self._spans = spans

    def acknowledge(self, *, all_before: bool = False) -> None:
        """Acknowledge as any message, and end the span."""
        super().acknowledge(all_before=all_before)
        self._spans.end(self.source, self.sequence, "acknowledged", all_before=all_before)

    def nack(self, delay: float = 0.0) -> None:
        """Deliver the message again, and end the span."""
        super().nack(delay)
        self._spans.end(self.source, self.sequence, "nacked", all_before=False)

    def handle(self) -> MessageHandle:
        """Return a handle that ends the span, too."""
        return _TracedHandle(self._spans, self.batch, self.sequence)


class _TracedHandle(MessageHandle):
    """A handle of a message with a span."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Spans, batch: DeliveredBatch, sequence: int) -> None:
        super().__init__(batch, sequence, sequence)
        self._spans = spans

    def acknowledge(self, *, all_before: bool = False) -> None:
        super().acknowledge(all_before=all_before)
        self._spans.end(self.source, self.sequence, "acknowledged", all_before=all_before)
