"""The receiver for code without asyncio: the same names, the same errors, plain `for`.

The streams run on the process's background loop; whole batches cross to the calling thread, and a
batch that has crossed is never lost, whatever interrupts the caller.
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
"""So much crosses to the caller's thread at a time."""


class Receiver:
    """As quorate.receiver.Receiver, for one thread; options.choose_start runs on another."""

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
        """As quorate.receiver.Receiver.open."""
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
        """Use `open`."""
        self._receiver = receiver
        self._crossed: deque[DeliveredBatch] = deque()

    @property
    def session_id(self) -> int:
        return self._receiver.session_id

    @property
    def sources(self) -> tuple[SourceName, ...]:
        """The sources known so far."""
        return self._receiver.sources

    def __iter__(self) -> Iterator[Message]:
        """The messages, one by one; ends when the receiver is closed. Raises Fenced."""
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
        """The messages, a batch at a time; otherwise as iterating over the receiver."""
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
        """As quorate.receiver.Receiver.acknowledge."""
        self._receiver.check_open()
        self._receiver.cursor.acknowledge(what)

    def flush(self, timeout: float | None = None) -> None:
        """As quorate.receiver.Receiver.flush."""
        run_blocking(self._receiver.flush(timeout))

    def events(self) -> Iterator[Event]:
        """What happens besides messages; waits for the next one."""
        stream = self._receiver.events()
        while True:
            event = run_blocking(_next_of(stream))
            if event is None:
                return
            yield event

    def close(self) -> None:
        """As quorate.receiver.Receiver.close."""
        self._crossed.clear()
        run_blocking(self._receiver.close())

    def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """As quorate.receiver.Receiver.deregister."""
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
