"""The source for code without asyncio: the same methods, usable from several threads.

A send puts the message into a buffer, and the background loop takes whole buffers over. Nothing
here knows the protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from quorate.protocol.errors import (
    Closed,
    Deregistered,
    MessageTooLarge,
    NotYetStable,
    QuorateError,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout, Stores
from quorate.protocol.limits import BATCH_BYTES_TARGET, BATCH_MESSAGES_MAX
from quorate.protocol.policy import Policy
from quorate.source import source as asynchronous
from quorate.source.events import Event
from quorate.source.options import SourceOptions
from quorate.source.protocol.outgoing import (
    Outgoing,
    Ready,
    as_bytes,
    check_commit,
    checked,
    checked_one,
    fill_up,
)
from quorate.source.publish_store import PublishStore
from quorate.source.receipts import Receipt
from quorate.transport.blocking import run_blocking, shared_loop
from quorate.v1.messages_pb2 import SourceInformation

# Two batches: the loop takes one over while the next one gathers.
_BUFFER_MESSAGES = 2 * BATCH_MESSAGES_MAX
_BUFFER_BYTES = 2 * BATCH_BYTES_TARGET
_LOOK_AGAIN_SECONDS = 0.1


class Source:
    """A source: sends one topic's messages to its receivers and, at the same time, to its stores.

    Open it with `Source.open`. All calls may be made from any thread.
    """

    def __init__(self, source: asynchronous.Source) -> None:
        """Wrap an open source. Applications use `Source.open`."""
        self._source = source
        self._core = source._core
        self._loop = shared_loop()
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)
        self._limit = source._window.message_bytes_max
        self._next = source.next_sequence
        self._buffer: list[bytes] = []
        self._attributes: list[bytes] = []  # as in quorate.source.protocol.flight_window.Window
        self._buffer_bytes = 0
        self._draining = False
        self._drained: asyncio.Task[None] | None = None
        self._error: QuorateError | None = None

    @classmethod
    def open(
        cls,
        topic: str,
        *,
        stores: Stores | Layout,
        session_id: int | None = None,
        reg_id: int | None = None,
        policy: Policy | None = None,
        previous_policies: Sequence[Stores | Layout] = (),
        publish_store: PublishStore | None = None,
        take_over: bool = False,
        options: SourceOptions | None = None,
        timeout: float = asynchronous.OPEN_SECONDS,
        on_event: Callable[[Event], None] | None = None,
    ) -> Self:
        """Return a source that is registered with its stores and may send.

        Arguments and errors are those of quorate.source.Source.open. The background thread calls
        on_event.
        """
        return cls(
            run_blocking(
                asynchronous.Source.open(
                    topic,
                    stores=stores,
                    session_id=session_id,
                    reg_id=reg_id,
                    policy=policy,
                    previous_policies=previous_policies,
                    publish_store=publish_store,
                    take_over=take_over,
                    options=options,
                    timeout=timeout,
                    on_event=on_event,
                )
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except QuorateError:
            # The error from inside is what matters; an error of the close must not hide it.
            if error is None:
                raise

    # -- sending ----------------------------------------------------------------------------

    def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
    ) -> int:
        """Accept a message and return its sequence number.

        The call waits only while the flight window is full or receivers lag. Key, properties and
        errors are those of quorate.source.Source.send.
        """
        if key is not None or properties is not None:
            payload, attributes = checked_one(payload, key, properties, self._limit)
            return self._accept(Ready([payload], [attributes])).start
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > self._limit:
            raise MessageTooLarge(size, self._limit)
        with self._lock:
            if self._error is not None or not self._core.complete or self._full():
                self._wait_for_space()
            sequence = self._next
            self._next = sequence + 1
            self._buffer.append(payload)
            self._buffer_bytes += size
            if not self._draining:
                self._start_draining()
        return sequence

    def send_many(self, messages: Iterable[bytes | Outgoing]) -> range:
        """Accept messages one after the other and return their sequence numbers.

        Raises what quorate.source.Source.send_many raises.
        """
        return self._accept(checked(messages, self._limit))

    def _accept(self, ready: Ready) -> range:
        """Put all messages into the buffer at once, even if they are more than it has room for."""
        with self._lock:
            if self._error is not None or not self._core.complete or self._full():
                self._wait_for_space()
            first = self._next
            self._next = first + len(ready)
            if ready.attributes:
                fill_up(self._attributes, len(self._buffer))
                self._attributes += ready.attributes
            self._buffer += ready.payloads
            self._buffer_bytes += ready.size
            if not self._draining:
                self._start_draining()
        return range(first, first + len(ready))

    def commit(self, messages: Iterable[bytes | Outgoing], marker: bytes) -> range:
        """Accept messages together with a marker, as one batch, and return their sequence numbers.

        The call first waits until earlier messages have left the buffer. Raises what
        quorate.source.Source.commit raises.
        """
        ready = checked(messages, self._limit)
        check_commit(ready, marker)
        with self._lock:
            while self._draining and self._error is None:
                self._space.wait(_LOOK_AGAIN_SECONDS)
            if self._error is not None:
                raise self._error
            numbers = run_blocking(self._source.commit_checked(ready, marker))
            self._next = numbers.stop
        return numbers

    def publish(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
    ) -> Receipt:
        """Send a message, wait until it is stable, and return the proof.

        Raises what send raises, and NotYetStable if the source is closed before.
        """
        since = self._loop.time()
        sequence = self.send(payload, key, properties)
        return run_blocking(self._source.receipt(sequence, since))

    def _full(self) -> bool:
        return len(self._buffer) >= _BUFFER_MESSAGES or self._buffer_bytes >= _BUFFER_BYTES

    def _wait_for_space(self) -> None:
        """Wait until the buffer has room, with the lock held. Raises why nothing is accepted."""
        while True:
            refusal = self._error or self._core.refusal()
            if refusal is not None:
                raise refusal
            if not self._full():
                return
            self._space.wait(_LOOK_AGAIN_SECONDS)

    def _start_draining(self) -> None:
        self._draining = True
        self._loop.call_soon_threadsafe(self._drain_soon)

    def _drain_soon(self) -> None:
        self._drained = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        """Hand the buffer over until it is empty. Runs on the loop."""
        while True:
            with self._lock:
                gathered = Ready(self._buffer, self._attributes)
                self._buffer, self._attributes, self._buffer_bytes = [], [], 0
                self._space.notify_all()
                if not gathered:
                    self._draining = False
                    return
            try:
                if gathered.attributes:
                    fill_up(gathered.attributes, len(gathered))
                await self._source.add_accepted(gathered)
            except QuorateError as error:
                with self._lock:
                    self._error = error
                    self._space.notify_all()
                return

    async def _until_drained(self) -> None:
        while self._drained is not None and not self._drained.done():
            await asyncio.shield(self._drained)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every message sent so far is stable.

        Raises NotYetStable after timeout seconds (None: no limit), or the error that ended the
        source.
        """
        run_blocking(self._flush(self._next - 1, timeout))

    async def _flush(self, last: int, timeout: float | None) -> None:
        await self._source.wait_stable(last, timeout)

    def close(self, timeout: float = asynchronous.CLOSE_SECONDS) -> None:
        """Wait for sent messages to become stable, and end.

        Raises what quorate.source.Source.close raises.
        """
        with self._lock:
            failure = self._error
            if isinstance(failure, Closed | Deregistered):
                return
            self._error = Closed(f"Source {self.name}")
            self._space.notify_all()
        run_blocking(self._close(timeout))

    async def _close(self, timeout: float) -> None:
        until = self._loop.time() + timeout
        try:
            async with asyncio.timeout_at(until):
                await self._until_drained()
        except TimeoutError:
            pass
        left = self._next - self._source.next_sequence
        if self._drained is not None:
            self._drained.cancel()
        first = self._next - left
        try:
            await self._source.close(max(0.0, until - self._loop.time()))
        except NotYetStable as error:
            first = error.first
            left = self._next - first
        if left:
            detail = f"it was closed after {timeout:g} s"
            raise NotYetStable(str(self.name), first, self._next - 1, detail)

    def deregister(self, timeout: float = asynchronous.CLOSE_SECONDS) -> None:
        """End this identity for good, as quorate.source.Source.deregister does, with its errors."""
        with self._lock:
            if isinstance(self._error, Closed | Deregistered):
                raise self._error
            self._error = Deregistered(f"Source {self.name}")
            self._buffer, self._attributes, self._buffer_bytes = [], [], 0
            self._space.notify_all()
        run_blocking(self._source.deregister(timeout))

    # -- state ----------------------------------------------------------------------------

    @property
    def name(self) -> SourceName:
        """The topic and the session ID."""
        return self._source.name

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next message."""
        return self._next

    @property
    def stable_upto(self) -> int:
        """The highest sequence number with all messages before it stable; -1: none."""
        return self._source.stable_upto

    @property
    def epoch(self) -> int:
        """The epoch in which the source is registered, or registers."""
        return self._source.epoch

    @property
    def marker(self) -> bytes:
        """The marker of this identity's last commit, also by an earlier source; empty: none."""
        return self._source.marker

    @property
    def registered(self) -> bool:
        """Whether enough stores take the stream, so that a send would not raise NotRegistered."""
        return self._source.registered

    @property
    def information(self) -> SourceInformation:
        """The registration information that receivers and stores get of this source."""
        return self._source.information

    def events(self) -> Iterator[Event]:
        """Yield the newest events, then wait for each new one, until the source is closed."""
        events = self._source.events()

        async def next_event() -> Event | None:
            return await anext(events, None)

        while (event := run_blocking(next_event())) is not None:
            yield event
