"""The receiver for code without asyncio: the same methods, the same errors, a plain `for`.

The streams run on the process's background loop; whole batches cross to the calling thread. A batch
that has crossed is never lost, even if the caller is interrupted. Nothing here knows the protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from quorate.protocol.bookmarks import Position
from quorate.protocol.delivery import DELIVERY_DEFAULT, Delivery
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.receiver.events import Event
from quorate.receiver.message import DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode, ReceiverOptions
from quorate.receiver.receiver import CLOSE_SECONDS
from quorate.receiver.receiver import Receiver as AsyncReceiver
from quorate.receiver.start import Start
from quorate.receiver.traced import Spans
from quorate.transport.blocking import check_may_wait, run_blocking
from quorate.transport.connections import Connections

_CROSSING_BYTES = 1024 * 1024
"""The bytes that cross to the caller's thread at a time."""


class Receiver:
    """A receiver: quorate.receiver.Receiver for one thread.

    The background thread calls options.choose_start.
    """

    @classmethod
    def open(
        cls,
        topic: str | None = None,
        *,
        stores: str | Sequence[StoreAddress],
        session_id: int | None = None,
        reg_id: int | None = None,
        topic_pattern: str | None = None,
        delivery: str | Delivery = DELIVERY_DEFAULT,
        acknowledge: str | AcknowledgeMode = AcknowledgeMode.AUTOMATIC,
        start: Start | str | int | datetime = Start.EARLIEST,
        where: str | None = None,
        payload: str | PayloadFormat = PayloadFormat.JSON,
        take_over: bool = False,
        options: ReceiverOptions | None = None,
        timeout: float | None = 30.0,
        on_event: Callable[[Event], None] | None = None,
        connections: Connections | None = None,
        tls: Tls | None = None,
        on_closed: Callable[[], object] | None = None,
    ) -> Receiver:
        """Find the topic's sources in the stores' directory and register with them.

        Arguments and errors are those of quorate.receiver.Receiver.open. The background thread
        calls on_event and on_closed, and the background loop uses the connections.
        """
        return cls(
            run_blocking(
                AsyncReceiver.open(
                    topic,
                    stores=stores,
                    session_id=session_id,
                    reg_id=reg_id,
                    topic_pattern=topic_pattern,
                    delivery=delivery,
                    acknowledge=acknowledge,
                    start=start,
                    where=where,
                    payload=payload,
                    take_over=take_over,
                    options=options,
                    timeout=timeout,
                    on_event=on_event,
                    connections=connections,
                    tls=tls,
                    on_closed=on_closed,
                )
            )
        )

    def __init__(self, receiver: AsyncReceiver) -> None:
        """Wrap an open receiver. Applications use `Receiver.open`."""
        self._receiver = receiver
        self._crossed: deque[DeliveredBatch] = deque()

    @property
    def session_id(self) -> int:
        """The session ID, also if it was drawn."""
        return self._receiver.session_id

    @property
    def sources(self) -> tuple[SourceName, ...]:
        """The sources known so far."""
        return self._receiver.sources

    @property
    def position(self) -> Position:
        """The position behind all that was acknowledged, as that of quorate.receiver.Receiver."""
        return run_blocking(self._position())

    async def _position(self) -> Position:
        return self._receiver.position

    @property
    def undecoded(self) -> int:
        """The number of payloads so far that are not of their format, of those that `where` looked
        into."""
        return self._receiver.undecoded

    @property
    def known_topics(self) -> tuple[str, ...]:
        """The topics that the stores had when they were first asked; at most 100 from each."""
        return self._receiver.known_topics

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages until the receiver is closed. Raises Fenced, Deregistered."""
        cursor = self._receiver._cursor
        if (spans := self._receiver._spans) is not None:
            yield from self._traced(spans)
            return
        while True:
            batch = cursor.batch
            for message in cursor.messages:
                batch._taken = message.sequence  # type: ignore[union-attr]
                yield message
            if cursor.batch is batch:
                check_may_wait()
                cursor.leave()
                following = self._next()
                if following is None:
                    return
                cursor.enter_messages(following)

    def _traced(self, spans: Spans) -> Iterator[Message]:
        """Yield the messages, each with a span."""
        cursor = self._receiver._cursor
        while True:
            spans.asked()
            if (message := cursor.take()) is not None:
                yield spans.hand_over(message)
                continue
            check_may_wait()
            cursor.leave()
            following = self._next()
            if following is None:
                return
            cursor.enter_messages(following)

    def batches(self) -> Iterator[DeliveredBatch]:
        """Yield the messages, a batch at a time. Errors and the end are those of iterating."""
        cursor = self._receiver._cursor
        while True:
            batch = cursor.rest()
            if batch is None:
                check_may_wait()
                cursor.leave()
                batch = self._next()
            if batch is None:
                return
            cursor.enter(batch)
            yield batch

    def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it; None: none came for `timeout` seconds.

        With a timeout of 0 it polls. Everything else is as in quorate.receiver.Receiver.receive.
        """
        check_may_wait()
        check_timeout(timeout)
        self._receiver._check_open()
        if (spans := self._receiver._spans) is not None:
            spans.asked()
        cursor = self._receiver._cursor
        message = cursor.take()
        if message is None:
            cursor.leave()
            batch = self._next(timeout)
            if batch is None:
                self._receiver._check_open()
                return None
            cursor.enter_messages(batch)
            message = cursor.take()
        if spans is not None and message is not None:
            return spans.hand_over(message)
        return message

    def flush(self, timeout: float | None = None) -> None:
        """Wait until enough stores have taken the acknowledgement of all that was acknowledged.

        Raises what quorate.receiver.Receiver.flush raises.
        """
        run_blocking(self._receiver.flush(timeout))

    def events(self) -> Iterator[Event]:
        """Yield the newest events, then wait for each new one, until the receiver is closed."""
        stream = self._receiver.events()
        while True:
            event = run_blocking(_next_of(stream))
            if event is None:
                return
            yield event

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Hand over nothing more, send the last acknowledgements, and end.

        timeout: as in quorate.receiver.Receiver.close.
        """
        run_blocking(self._closing(timeout))

    async def _closing(self, timeout: float) -> None:
        self._crossed.clear()
        await self._receiver.close(timeout)

    def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """End this identity for good, as quorate.receiver.Receiver.deregister does, with its
        errors."""
        check_may_wait()
        self._crossed.clear()
        run_blocking(self._receiver.deregister(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run_blocking(self._receiver.__aexit__(kind, error, trace))

    def _next(self, timeout: float | None = None) -> DeliveredBatch | None:
        if not self._crossed:
            run_blocking(self._receiver._take_into(self._crossed, _CROSSING_BYTES, timeout))
        ended = self._receiver._cursor.ended
        return self._crossed.popleft() if self._crossed and not ended else None


async def _next_of(stream: AsyncIterator[Event]) -> Event | None:
    return await anext(stream, None)
