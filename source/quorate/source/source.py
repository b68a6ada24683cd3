"""The public source: what an application opens, sends with and closes.

Only the hot path and arguments are handled here; everything else is the engine's.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from quorate.protocol.errors import Closed, InvalidArgument, MessageTooLarge, QuorateError
from quorate.protocol.identity import SourceName, check_session_id, check_topic
from quorate.protocol.layout import Layout, Stores
from quorate.protocol.limits import REG_ID_MAX, SESSION_ID_MAX
from quorate.protocol.policy import Policy
from quorate.source.events import Event, SourceClosed
from quorate.source.io.engine import Engine
from quorate.source.options import SourceOptions
from quorate.source.protocol.outgoing import (
    Outgoing,
    Ready,
    as_bytes,
    check_commit,
    checked,
    checked_one,
)
from quorate.source.publish_store import MemoryPublishStore, PublishStore
from quorate.source.receipts import Receipt
from quorate.v1.messages_pb2 import SourceInformation

OPEN_SECONDS = 30.0
"""How long opening waits for enough stores, unless told otherwise."""

CLOSE_SECONDS = 10.0
"""How long closing waits for what was sent to become stable, unless told otherwise."""


class Source:
    """Sends one topic's messages to its receivers and, at the same time, to its stores.

    Open with `Source.open`; use on the event loop it was opened on.
    """

    def __init__(self, engine: Engine, durable: bool) -> None:
        """Not for applications: use `Source.open`."""
        self._engine = engine
        self._core = engine.core
        self._window = engine.core.window
        self._packer = engine.packer
        self._durable = durable
        self._closed = False

    @classmethod
    async def open(
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
        timeout: float = OPEN_SECONDS,
        on_event: Callable[[Event], None] | None = None,
    ) -> Self:
        """A source that is registered with its stores and may send.

        stores: a list of them, of which a majority makes a message stable; or a Layout of groups
            with rules and backups.
        session_id: identifies the source together with the topic; give the same one after a
            restart. None: the publish store's, or reg_id, or a random one.
        reg_id: the RegID to have on every store that does not name one; None: theirs to assign.
        policy: when a message is stable on stores that were given as a list; None: when a majority
            of them has it.
        previous_policies: what `stores` was in earlier configurations, until a source has been
            registered under this one: without it a stream that others keep is left alone.
        take_over: take the identity even if another process is using it now.
        timeout: seconds to wait for enough stores.
        on_event: is handed each event as it comes, on the event loop, from the start of the
            registration on; it must not block.

        Raises InvalidArgument, NoQuorum, PolicyNotInForce, SourceActive, Fenced, MissingMessages,
        SourceDeleted, ContentConflict, RegIdInUse, TopicRefused, NotAStore, VersionMismatch,
        StorageFailed.
        """
        layout = _layout(stores, policy)
        previous = [_layout(earlier) for earlier in previous_policies]
        if reg_id is not None and not 0 < reg_id <= REG_ID_MAX:
            raise InvalidArgument("reg_id", f"{reg_id} is not between 1 and {REG_ID_MAX}")
        publish_store = publish_store or MemoryPublishStore()
        remembered = publish_store.open()
        try:
            name = _name(topic, session_id, reg_id, remembered.source)
            publish_store.claim(name)
            engine = Engine(
                name,
                layout,
                previous,
                options or SourceOptions(),
                publish_store,
                remembered,
                reg_id=reg_id or 0,
                take_over=take_over,
                on_event=on_event,
            )
        except BaseException:
            publish_store.close()
            raise
        try:
            await engine.start(timeout)
        except BaseException:
            await engine.give_up()
            raise
        return cls(engine, publish_store.durable)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            # What went wrong inside is the news; a failing goodbye must not hide it.
            await self._close(CLOSE_SECONDS)

    # -- sending ----------------------------------------------------------------------------

    # Keyword-only parameters would cost each call 10 % of its time.
    async def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
    ) -> int:
        """Accept a message; returns its sequence number.

        key: what the message is about. properties: what receivers may filter by, by name. Both
        count towards the size of the message.

        Waits only while the flight window is full, or, with SourceOptions.receiver_pacing, for
        receivers that lag. Raises NotRegistered while too few stores take
        the stream, MessageTooLarge, InvalidArgument, Closed, or why the source failed: in none of
        these cases was the message accepted.
        """
        window = self._window
        if key is not None or properties is not None:
            return await self._send_with_attributes(payload, key, properties)
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > window.message_bytes_max:
            raise MessageTooLarge(size, window.message_bytes_max)
        sequence, sent_bytes = window.next_sequence, window.sent_bytes
        while sequence >= window.pause_at or sent_bytes >= window.pause_at_bytes:
            await self._packer.make_room()
            sequence, sent_bytes = window.next_sequence, window.sent_bytes
        window.next_sequence = sequence + 1
        window.sent_bytes = sent_bytes + size
        window.payloads.append(payload)
        return sequence

    async def _send_with_attributes(
        self, payload: bytes, key: bytes | None, properties: Mapping[str, bytes] | None
    ) -> int:
        window = self._window
        payload, attributes = checked_one(payload, key, properties, window.message_bytes_max)
        while window.next_sequence >= window.pause_at or window.sent_bytes >= window.pause_at_bytes:
            await self._packer.make_room()
        sequence = window.next_sequence
        window.add((payload,), (attributes,), len(payload) + len(attributes))
        return sequence

    async def send_many(self, messages: Iterable[bytes | Outgoing]) -> range:
        """Accept messages one after the other; returns their sequence numbers.

        Raises like send. What is wrong with a message is found before any is accepted; if the
        source fails or loses its quorum meanwhile, the first of them may have been: next_sequence
        tells how far it came.
        """
        ready = checked(messages, self._window.message_bytes_max)
        first = await self._packer.add_all(ready)
        return range(first, first + len(ready))

    async def commit(self, messages: Iterable[bytes | Outgoing], marker: bytes) -> range:
        """Accept messages together with a marker, as one batch; returns their sequence numbers.

        After a crash the stream has all of them and the marker, or none; `marker` of the next
        source with this identity tells which. At most BATCH_MESSAGES_MAX messages of together
        BATCH_BYTES_TARGET bytes, and at least one.

        Raises like send, and InvalidArgument if it is too much for one batch.
        """
        ready = checked(messages, self._window.message_bytes_max)
        check_commit(ready, marker)
        return await self.commit_checked(ready, marker)

    async def commit_checked(self, messages: Ready, marker: bytes) -> range:
        """For the blocking source and the pipeline: commit what was checked already."""
        first = await self._packer.commit(messages, marker)
        return range(first, first + len(messages))

    async def add_accepted(self, messages: Ready) -> None:
        """For the blocking source: send what was checked and accepted already, come what may."""
        await self._packer.add_all(messages, patient=True)

    async def receipt(self, sequence: int, since: float) -> Receipt:
        """For the blocking source: wait until a message that was sent is stable."""
        return await self._engine.receipt(sequence, since)

    async def publish(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
    ) -> Receipt:
        """Send a message and wait until it is stable; returns the proof.

        Raises like send, and NotYetStable if the source is closed before.
        """
        since = asyncio.get_running_loop().time()
        return await self._engine.receipt(await self.send(payload, key, properties), since)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far is stable.

        Raises NotYetStable after timeout seconds, or why the source failed.
        """
        await self.wait_stable(self._window.next_sequence - 1, timeout)

    async def wait_stable(self, upto: int, timeout: float | None = None) -> None:
        """Wait until everything up to this number is stable. Raises like flush."""
        await self._engine.wait_stable(upto, timeout)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Wait for what was sent to become stable, say goodbye, end.

        If something was not stable: raises why the source failed; or NotYetStable, after all has
        ended, if timeout seconds were not enough and no publish store on disk keeps the rest.
        """
        error = await self._close(timeout)
        if error is not None:
            raise error

    async def _close(self, timeout: float) -> QuorateError | None:
        if self._closed:
            return None
        self._closed = True
        engine, core = self._engine, self._core
        last = self._window.next_sequence - 1
        problem: QuorateError | None = None
        try:
            # Whoever is in the middle of a send gets an error now, not a place in the stream.
            core.stop_accepting()
            self._packer.progressed()
            await engine.wait_stable(last, timeout)
        except QuorateError as error:
            # What was not packed yet is in no publish store either.
            if core.error is not None or not self._durable or self._window.payloads:
                problem = error
        finally:
            await engine.stop()
            engine.receipts.fail(lambda upto: engine.not_yet_stable(upto, "the source was closed"))
            engine.log.add(SourceClosed(last, core.stable_upto))
            engine.log.end()
        return problem

    async def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """End this identity for good: every store deletes all that it has of it.

        Also what was sent and is not stable yet, and what receivers have not read. The source can
        not be used again; a new one of this name starts from the beginning. Events tell of each
        store. Raises NoQuorum if after timeout seconds some stores have not done it: those that
        are only away are told by the others once they are back. Raises Fenced if another instance
        owns the identity, Deregistered, Closed, StorageFailed.
        """
        self._check_not_closed()
        await self._engine.until_owner(timeout)
        self._check_not_closed()
        self._closed = True
        await self._engine.deregister(timeout)

    def _check_not_closed(self) -> None:
        if self._closed:
            raise self._core.refusal() or Closed(f"Source {self.name}")

    # -- looking ----------------------------------------------------------------------------

    @property
    def name(self) -> SourceName:
        """Topic and session ID."""
        return self._core.name

    @property
    def next_sequence(self) -> int:
        """The number that the next message gets."""
        return self._window.next_sequence

    @property
    def stable_upto(self) -> int:
        """The highest number with all before it stable; -1: none."""
        return self._core.stable_upto

    @property
    def epoch(self) -> int:
        return self._core.epoch

    @property
    def marker(self) -> bytes:
        """What was committed last, by this source or by those with its identity before it.

        Empty: nothing.
        """
        return self._core.marker

    @property
    def registered(self) -> bool:
        """Enough stores take the stream: a send would not raise NotRegistered."""
        return self._core.complete

    @property
    def information(self) -> SourceInformation:
        """What receivers and stores are told of this source."""
        return self._core.information()

    def events(self) -> AsyncIterator[Event]:
        """What happens to the source: the newest events so far, then each as it comes.

        Any number of consumers; one that is too slow gets EventsLost. Ends when the source is
        closed.
        """
        return self._engine.log.read()


def _layout(stores: Stores | Layout, policy: Policy | None = None) -> Layout:
    if not isinstance(stores, Layout):
        return Layout.plain(stores, policy)
    if policy is not None:
        raise InvalidArgument("policy", "is part of the layout; give it there")
    return stores


def _name(
    topic: str, session_id: int | None, reg_id: int | None, remembered: SourceName | None
) -> SourceName:
    if session_id is None:
        if remembered is not None:
            session_id = remembered.session_id
        else:
            session_id = reg_id or 1 + secrets.randbelow(SESSION_ID_MAX)
    name = SourceName(check_topic(topic), check_session_id(session_id))
    if remembered not in (None, name):
        raise InvalidArgument(
            "publish store", f"it keeps the messages of {remembered}, not of {name}"
        )
    return name
