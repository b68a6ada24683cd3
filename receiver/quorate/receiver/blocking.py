"""The receiver for code without asyncio: the same methods, the same errors, a plain `for`.

The streams run on the process's background loop; whole batches cross to the calling thread. A batch
that has crossed is never lost, even if the caller is interrupted. Nothing here knows the protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from types import TracebackType
from typing import Self

from quorate.protocol.identity import SourceName, StoreAddress
from quorate.receiver.events import Event
from quorate.receiver.message import Acknowledgement, DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode, Delivery, ReceiverOptions
from quorate.receiver.receiver import CLOSE_SECONDS
from quorate.receiver.receiver import Receiver as AsyncReceiver
from quorate.transport.blocking import run_blocking

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
        delivery: str | Delivery = Delivery.LIVE,
        acknowledge: str | AcknowledgeMode = AcknowledgeMode.AUTOMATIC,
        take_over: bool = False,
        options: ReceiverOptions | None = None,
        timeout: float = 30.0,
    ) -> Receiver:
        """Find the topic's sources in the stores' directory and register with them.

        Arguments and errors are those of quorate.receiver.Receiver.open.
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
                    take_over=take_over,
                    options=options,
                    timeout=timeout,
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

    def __iter__(self) -> Iterator[Message]:
        """Yield the messages, one by one, until the receiver is closed. Raises Fenced."""
        cursor = self._receiver.cursor
        while True:
            batch = cursor.batch
            for message in cursor.messages:
                batch.taken = message.sequence  # type: ignore[union-attr]
                yield message
            cursor.leave()
            batch = self._next()
            if batch is None:
                return
            cursor.enter_messages(batch)

    def batches(self) -> Iterator[DeliveredBatch]:
        """Yield the messages, a batch at a time. Errors and the end are those of iterating."""
        cursor = self._receiver.cursor
        batch = cursor.rest()
        while True:
            if batch is not None:
                cursor.enter(batch)
                yield batch
            cursor.leave()
            batch = self._next()
            if batch is None:
                return

    def acknowledge(self, what: Message | DeliveredBatch | Acknowledgement) -> None:
        """Acknowledge this message and every message of its source before it, in mode "explicit".

        Raises what quorate.receiver.Receiver.acknowledge raises.
        """
        self._receiver.check_open()
        self._receiver.cursor.acknowledge(what)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until enough stores have taken the acknowledgement of all that was consumed.

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

    def close(self) -> None:
        """Send the last acknowledgements, and end."""
        self._crossed.clear()
        run_blocking(self._receiver.close())

    def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """End this identity for good, as quorate.receiver.Receiver.deregister does, with its
        errors."""
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

    def _next(self) -> DeliveredBatch | None:
        if not self._crossed:
            run_blocking(self._receiver.take_into(self._crossed, _CROSSING_BYTES))
        return self._crossed.popleft() if self._crossed else None


async def _next_of(stream: AsyncIterator[Event]) -> Event | None:
    return await anext(stream, None)
