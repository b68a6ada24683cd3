"""The public source: applications open it, send with it and close it.

Only the hot path and the checks of arguments live here; the engine does everything else.
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
"""The default time, in seconds, for which opening waits for enough stores."""

CLOSE_SECONDS = 10.0
"""The default time, in seconds, for which closing waits for sent messages to become stable."""


class Source:
    """A source: sends one topic's messages to its receivers and, at the same time, to its stores.

    Open it with `Source.open`, and use it on the event loop on which it was opened.
    """

    def __init__(self, engine: Engine, durable: bool) -> None:
        """Wrap a running engine. Applications use `Source.open`."""
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
        """Return a source that is registered with its stores and may send.

        - stores: a list of them, of which a majority makes a message stable; or a Layout of groups
          with rules and backups.
        - session_id: identifies the source together with the topic; give the same one after a
          restart. None: that of the publish store, or reg_id, or a random one.
        - reg_id: the RegID to have on every store that does not name one; None: each store assigns
          one.
        - policy: the rule of stability for stores that were given as a list; None: a majority.
        - previous_policies: what `stores` was in earlier configurations. Needed until one source
          has registered under the present one. Without it the source refuses to take over a stream
          that is under another policy.
        - publish_store: keeps what is not stable yet; None: in memory.
        - take_over: take the identity even if another process is using it now.
        - timeout: seconds to wait for enough stores.
        - on_event: a function that gets each event at once, on the event loop, from the start of
          the registration on. It must not block.

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
            # The error from inside is what matters; an error of the close must not hide it.
            await self._close(CLOSE_SECONDS)

    # -- sending ----------------------------------------------------------------------------

    # Keyword-only parameters would cost each call 10 % of its time.
    async def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
    ) -> int:
        """Accept a message and return its sequence number.

        key: what the message is about. properties: values by name, by which receivers may filter.
        Both count towards the size of the message.

        The call waits only while the flight window is full. With SourceOptions.receiver_pacing it
        also waits for receivers that lag.

        Raises NotRegistered while too few stores take the stream, MessageTooLarge, InvalidArgument,
        Closed, or the error that ended the source. In all these cases the source has not accepted
        the message.
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
        """Accept messages one after the other and return their sequence numbers.

        Raises what send raises. The source checks all messages before it accepts the first. If it
        fails or loses its quorum meanwhile, it may have accepted some of them; next_sequence tells
        how many.
        """
        ready = checked(messages, self._window.message_bytes_max)
        first = await self._packer.add_all(ready)
        return range(first, first + len(ready))

    async def commit(self, messages: Iterable[bytes | Outgoing], marker: bytes) -> range:
        """Accept messages together with a marker, as one batch, and return their sequence numbers.

        After a crash the stream has all of them and the marker, or none. `marker` of the next
        source with this identity tells which. A commit has at least one message, and at most
        BATCH_MESSAGES_MAX messages of together BATCH_BYTES_TARGET bytes.

        Raises what send raises, and InvalidArgument if the messages are too many for one batch.
        """
        ready = checked(messages, self._window.message_bytes_max)
        check_commit(ready, marker)
        return await self.commit_checked(ready, marker)

    async def commit_checked(self, messages: Ready, marker: bytes) -> range:
        """Commit messages that were checked already. The blocking source and the pipeline use
        it."""
        first = await self._packer.commit(messages, marker)
        return range(first, first + len(messages))

    async def add_accepted(self, messages: Ready) -> None:
        """Send messages that were checked and accepted already. For the blocking source only.

        The call waits while too few stores take the stream, instead of raising NotRegistered.
        """
        await self._packer.add_all(messages, patient=True)

    async def receipt(self, sequence: int, since: float) -> Receipt:
        """Wait until a sent message is stable and return its receipt. For the blocking source only.

        since: the loop's time, in seconds, at which the publish began.
        """
        return await self._engine.receipt(sequence, since)

    async def publish(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
    ) -> Receipt:
        """Send a message, wait until it is stable, and return the proof.

        Raises what send raises, and NotYetStable if the source is closed before.
        """
        since = asyncio.get_running_loop().time()
        return await self._engine.receipt(await self.send(payload, key, properties), since)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every message sent so far is stable.

        Raises NotYetStable after timeout seconds (None: no limit), or the error that ended the
        source.
        """
        await self.wait_stable(self._window.next_sequence - 1, timeout)

    async def wait_stable(self, upto: int, timeout: float | None = None) -> None:
        """Wait until every message up to this number is stable. Raises what flush raises."""
        await self._engine.wait_stable(upto, timeout)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Wait for sent messages to become stable, tell stores and receivers, and end.

        If some message is not stable, raises the error that ended the source. Raises NotYetStable
        if timeout seconds were not enough, unless a publish store on disk keeps the rest. In both
        cases the source is closed.
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
            # A send that still waits gets an error now; its message gets no place in the stream.
            core.stop_accepting()
            self._packer.progressed()
            await engine.wait_stable(last, timeout)
        except QuorateError as error:
            # A message that was not packed yet is in no publish store either.
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

        The stores also delete messages that are not stable yet or that receivers have not read. The
        source cannot be used again; a new one of this name starts from the beginning. An event
        tells of each store.

        Raises NoQuorum if some stores have not done it after timeout seconds. A store that is only
        away hears of it from the others once it is back. Raises Fenced if another instance owns the
        identity, Deregistered, Closed, StorageFailed.
        """
        self._check_not_closed()
        await self._engine.until_owner(timeout)
        self._check_not_closed()
        self._closed = True
        await self._engine.deregister(timeout)

    def _check_not_closed(self) -> None:
        if self._closed:
            raise self._core.refusal() or Closed(f"Source {self.name}")

    # -- state ----------------------------------------------------------------------------

    @property
    def name(self) -> SourceName:
        """The topic and the session ID."""
        return self._core.name

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next message."""
        return self._window.next_sequence

    @property
    def stable_upto(self) -> int:
        """The highest sequence number with all messages before it stable; -1: none."""
        return self._core.stable_upto

    @property
    def epoch(self) -> int:
        """The epoch in which the source is registered, or registers."""
        return self._core.epoch

    @property
    def marker(self) -> bytes:
        """The marker of this identity's last commit, also by an earlier source; empty: none."""
        return self._core.marker

    @property
    def registered(self) -> bool:
        """Whether enough stores take the stream, so that a send would not raise NotRegistered."""
        return self._core.complete

    @property
    def information(self) -> SourceInformation:
        """The registration information that receivers and stores get of this source."""
        return self._core.information()

    def events(self) -> AsyncIterator[Event]:
        """Yield the newest events so far, then each new one, until the source is closed.

        Any number of consumers may read. A consumer that is too slow gets EventsLost.
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
            "publish store",
            f"it keeps the messages of {remembered}, not of {name}; give each source its own",
        )
    return name
