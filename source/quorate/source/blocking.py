"""The source for code without asyncio: the same methods, usable from several threads.

A send puts the message into the window of the asynchronous source, under a lock, and the background
loop packs what has gathered. Nothing here knows the protocol.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from time import time_ns
from types import TracebackType
from typing import Self

from quorate.protocol.errors import NotRegistered, QuorateError, UsedBeforeFork
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout, Stores
from quorate.protocol.policy import Policy
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.source import source as asynchronous
from quorate.source.events import Event
from quorate.source.io.live_server import LiveServers
from quorate.source.options import SourceOptions
from quorate.source.protocol.admission import send_timed_out
from quorate.source.protocol.outgoing import (
    Outgoing,
    Ready,
    always_waits,
    as_bytes,
    check_commit,
    check_usual,
    checked,
    checked_one,
    deletion,
    one_ready,
    ready_of,
)
from quorate.source.protocol.unstable import UnstableMessage
from quorate.source.publish_store import PublishStore
from quorate.source.receipts import Receipt
from quorate.transport import forks
from quorate.transport.blocking import check_may_wait, run_blocking, shared_loop
from quorate.transport.connections import Connections

_LOOK_AGAIN_SECONDS = 0.1


class Source:
    """A source: sends one topic's messages to its receivers and, at the same time, to its stores.

    Open it with `Source.open`. All calls may be made from any thread.
    """

    def __init__(self, source: asynchronous.Source) -> None:
        """Wrap an open source, on the background loop. Applications use `Source.open`."""
        self._source = source
        self._core = source._core
        self._window = source._window
        self._packer = source._packer
        self._loop = shared_loop()
        # Re-entrant, because the window takes the lock itself.
        lock = threading.RLock()
        self._window.lock = self._lock = lock
        self._space = threading.Condition(lock)
        self._waiting = 0
        self._packer.on_progress = self._progressed
        self._publish_store = store = source._engine.publish_store
        self._tail = store.tail if store.durable and not store.slow else None
        self._slow = store.slow
        forks.watch(self, Source._forked)

    def _forked(self, _: UsedBeforeFork) -> None:
        """Wait for no thread of the parent. The source itself raises the error."""
        self._lock = threading.RLock()
        self._space = threading.Condition(self._lock)

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
        timeout: float | None = asynchronous.OPEN_SECONDS,
        on_event: Callable[[Event], None] | None = None,
        connections: Connections | None = None,
        live_servers: LiveServers | None = None,
        tls: Tls | None = None,
        on_closed: Callable[[], object] | None = None,
    ) -> Source:
        """Return a source that is registered with its stores and may send.

        Arguments and errors are those of quorate.source.Source.open. The background thread calls
        on_event and on_closed, and the background loop uses connections and live_servers.
        """

        async def opened() -> Source:
            return cls(
                await asynchronous.Source.open(
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
                    connections=connections,
                    live_servers=live_servers,
                    tls=tls,
                    on_closed=on_closed,
                )
            )

        return run_blocking(opened())

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

    # Keyword-only parameters would cost each call 10 % of its time.
    def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> int:
        """Accept a message and return its sequence number.

        The call waits only while the flight window is full or receivers lag. Arguments and errors
        are those of quorate.source.Source.send.
        """
        window = self._window
        if key is not None or properties is not None or expires is not None:
            message = Outgoing(payload, key, properties or {}, expires)
            return self._send_one(message, timeout, wait_quorum)
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > window.usual_bytes_max:
            window.limit.check(size)
            return self._send_all(ready_of([payload], []), timeout, wait_quorum).start
        if self._slow:
            return self._send_all(ready_of([payload], []), timeout, wait_quorum).start
        with self._lock:
            sequence, sent_bytes = window.next_sequence, window.sent_bytes
            if sequence >= window.pause_at or sent_bytes >= window.pause_at_bytes:
                self._wait_for_room(timeout, wait_quorum)
                sequence, sent_bytes = window.next_sequence, window.sent_bytes
            tail, after, now = self._tail, sequence + 1, time_ns()
            if tail is not None:
                write = tail.write  # a call of an attribute would cost more
                if tail.next != sequence:
                    self._publish_store.rewind(sequence)
                tail.next = after
                try:
                    write(payload)
                    tail.times[sequence - tail.first] = now
                    tail.sizes[sequence - tail.first] = size + 1
                except (ValueError, IndexError):
                    tail.next = sequence
                    self._publish_store.keep_all(sequence, (payload,), (), (now,))
            window.times.append(now)
            window.next_sequence = after
            window.sent_bytes = sent_bytes + size
            window.payloads.append(payload)
        return sequence

    def send_nowait(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
    ) -> int:
        """Accept a message without a wait, and return its sequence number.

        Arguments and errors are those of quorate.source.Source.send_nowait. It is no faster than
        send.
        """
        if self._slow:
            raise always_waits()
        has_attributes = key is not None or properties is not None or expires is not None
        if not has_attributes and len(as_bytes(payload)) <= self._window.usual_bytes_max:
            return self.send(payload, timeout=0)
        message = Outgoing(payload, key, properties or {}, expires)
        ready = one_ready(*checked_one(message, self._window.limit, time_ns()))
        check_usual(ready)
        return self._send_all(ready, timeout=0, wait_quorum=False).start

    def delete(
        self,
        key: bytes | None,
        properties: Mapping[str, bytes] | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
        payload: bytes = b"",
    ) -> int:
        """Accept a message that deletes the row of a key, and return its sequence number.

        Arguments and errors are those of quorate.source.Source.delete.
        """
        return self._send_one(deletion(key, properties, payload), timeout, wait_quorum)

    def _send_one(self, message: Outgoing, timeout: float | None, wait_quorum: bool) -> int:
        payload, attributes = checked_one(message, self._window.limit, time_ns())
        return self._send_all(one_ready(payload, attributes), timeout, wait_quorum).start

    def send_many(
        self,
        messages: Iterable[bytes | Outgoing],
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> range:
        """Accept messages one after the other and return their sequence numbers.

        Arguments and errors are those of quorate.source.Source.send_many.
        """
        ready = checked(messages, self._window.limit, time_ns())
        return self._send_all(ready, timeout, wait_quorum)

    def _send_all(self, ready: Ready, timeout: float | None, wait_quorum: bool) -> range:
        if self._slow:
            check_may_wait()
            check_timeout(timeout)
        numbers = self._send_at_once(ready)
        if numbers is None:
            sending = asynchronous.send_ready(self._source, ready, timeout, wait_quorum)
            return run_blocking(sending)
        if self._slow:
            until = None if timeout is None else self._loop.time() + timeout
            run_blocking(asynchronous.synced(self._source, numbers, until))
        return numbers

    def _send_at_once(self, ready: Ready) -> range | None:
        """Accept all messages if the window has room for them now. Else return None."""
        window, size = self._window, ready.size
        with self._lock:
            first = window.next_sequence
            end = first + len(ready)
            if not window.payloads and self._has_room():
                self._begin_batch()
            if end > window.pause_at or window.sent_bytes + size > window.pause_at_bytes:
                return None
            now = time_ns()
            if self._publish_store.durable:
                times = [now] * len(ready)
                self._publish_store.keep_all(first, ready.payloads, ready.attributes, times)
            window.add(ready.payloads, ready.attributes, size, now)
        return range(first, end)

    def commit(
        self,
        messages: Iterable[bytes | Outgoing],
        marker: bytes,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> range:
        """Accept messages together with a marker, as one batch, and return their sequence numbers.

        Arguments and errors are those of quorate.source.Source.commit.
        """
        ready = checked(messages, self._window.limit, time_ns())
        marker = check_commit(ready, marker)
        return run_blocking(
            asynchronous.commit_ready(self._source, ready, marker, timeout, wait_quorum)
        )

    def publish(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> Receipt:
        """Send a message, wait until it is stable, and return the proof.

        Arguments and errors are those of quorate.source.Source.publish.
        """
        check_may_wait()
        check_timeout(timeout)
        if (tracing := self._source._engine.tracing) is None:
            return self._publish(payload, key, properties, expires, timeout, wait_quorum)
        with tracing.publishing(self.name, properties) as publishing:
            receipt = self._publish(
                payload, key, publishing.properties, expires, timeout, wait_quorum
            )
            publishing.is_stable(receipt.sequence, receipt.stores)
        return receipt

    def _publish(
        self,
        payload: bytes,
        key: bytes | None,
        properties: Mapping[str, bytes] | None,
        expires: datetime | float | None,
        timeout: float | None,
        wait_quorum: bool,
    ) -> Receipt:
        since = self._loop.time()
        sequence = self.send(payload, key, properties, expires, timeout, wait_quorum)
        left = None if timeout is None else max(0.0, since + timeout - self._loop.time())
        return run_blocking(asynchronous.receipt_of(self._source, sequence, since, left))

    def _wait_for_room(self, timeout: float | None, wait_quorum: bool) -> None:
        """Wait until a message may be added, with the lock held. Raises why none is accepted."""
        check_timeout(timeout)
        window, core = self._window, self._core
        until = None if timeout is None else self._loop.time() + timeout
        # Before the look, so that no progress behind it is missed.
        self._waiting += 1
        try:
            while True:
                refusal = core.refusal()
                if refusal is not None and not (wait_quorum and isinstance(refusal, NotRegistered)):
                    raise refusal
                if self._has_room():
                    break
                if refusal is None and window.blocked:
                    self._loop.call_soon_threadsafe(core.note_lag)
                left = _LOOK_AGAIN_SECONDS if until is None else until - self._loop.time()
                if left <= 0:
                    seconds = timeout or 0.0
                    raise send_timed_out(core.name, seconds, window, complete=core.complete)
                check_may_wait()
                self._space.wait(min(left, _LOOK_AGAIN_SECONDS))
        finally:
            self._waiting -= 1
        if window.exceeded or window.paced_out:
            self._loop.call_soon_threadsafe(core.note_exceeded)
        self._begin_batch()

    def _has_room(self) -> bool:
        window = self._window
        return self._core.refusal() is None and not window.reserved and not window.blocked

    def _begin_batch(self) -> None:
        """Admit messages up to the end of a batch. The background loop packs what gathers."""
        if not self._window.payloads:
            self._loop.call_soon_threadsafe(self._pack_soon)
        self._window.gather()

    def _pack_soon(self) -> None:
        """Pack in the loop's next iteration. The background loop calls this."""
        with self._lock:
            # The thread that begins a batch has the lock until its first message is in the window.
            self._packer.soon()

    def _progressed(self) -> None:
        """Let threads look again that wait for room. The background loop calls this."""
        if self._waiting:
            with self._lock:
                self._space.notify_all()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every message sent so far is stable.

        Raises NotYetStable after timeout seconds (None: no limit), or the error that ended the
        source.
        """
        self.wait_stable(self._window.next_sequence - 1, timeout)

    def wait_stable(self, upto: int, timeout: float | None = None) -> None:
        """Wait until every message up to this number is stable. Raises what flush raises."""
        run_blocking(self._source.wait_stable(upto, timeout))

    def close(self, timeout: float = asynchronous.CLOSE_SECONDS) -> None:
        """Wait for sent messages to become stable, and end.

        Raises what quorate.source.Source.close raises.
        """
        run_blocking(self._closing(timeout))

    async def _closing(self, timeout: float) -> None:
        await self._source.close(timeout)

    def deregister(self, timeout: float = asynchronous.CLOSE_SECONDS) -> None:
        """End this identity for good, as quorate.source.Source.deregister does, with its errors."""
        run_blocking(self._source.deregister(timeout))

    # -- state ----------------------------------------------------------------------------

    @property
    def name(self) -> SourceName:
        """The topic and the session ID."""
        return self._source.name

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next message."""
        return self._window.next_sequence

    @property
    def stable_upto(self) -> int:
        """The highest sequence number with all messages before it stable; -1: none."""
        return self._source.stable_upto

    @property
    def unstable_messages(self) -> int:
        """The number of messages that were accepted and are not stable."""
        return self._source.unstable_messages

    @property
    def unstable_bytes(self) -> int:
        """The bytes of these messages. A batch that is stable in part counts as a whole."""
        return self._source.unstable_bytes

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
        """Whether enough stores take the stream, so that messages become stable."""
        return self._source.registered

    def unstable(self) -> list[UnstableMessage]:
        """Return the messages that were accepted and are not known to be stable, in order.

        Also after an error has ended the source, and after its close, as
        quorate.source.Source.unstable does.
        """

        async def unstable() -> list[UnstableMessage]:
            return self._source.unstable()

        return run_blocking(unstable())

    def events(self) -> Iterator[Event]:
        """Yield the newest events, then wait for each new one, until the source is closed."""
        events = self._source.events()

        async def next_event() -> Event | None:
            return await anext(events, None)

        while (event := run_blocking(next_event())) is not None:
            yield event
