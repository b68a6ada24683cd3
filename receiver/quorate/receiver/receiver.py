"""The public receiver: applications open it, iterate over it and acknowledge with it.

It finds the sources and keeps one session for each; how a session follows its source is not known
here.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence, Set
from math import inf
from types import TracebackType
from typing import Self, TypeVar

from quorate.protocol.errors import (
    Closed,
    Deregistered,
    InvalidArgument,
    NoQuorum,
    QuorateError,
    UnknownTopic,
    joined,
)
from quorate.protocol.identity import (
    SourceName,
    StoreAddress,
    check_session_id,
    check_topic,
    parse_stores,
)
from quorate.protocol.limits import SESSION_ID_MAX
from quorate.receiver.cursor import Cursor
from quorate.receiver.events import Event, Events
from quorate.receiver.io.acknowledge import Acknowledger
from quorate.receiver.io.attach import follow
from quorate.receiver.io.channels import Peers
from quorate.receiver.io.deregister import (
    Deregistration,
    Registered,
)
from quorate.receiver.io.fetch import fetch_from
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.io.source_session import Session
from quorate.receiver.io.watch_directory import Watcher
from quorate.receiver.message import Acknowledgement, DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode, Delivery, ReceiverOptions
from quorate.receiver.protocol.directory import (
    Directory,
    SourceRecord,
)
from quorate.receiver.protocol.stream import Room
from quorate.v1 import store_pb2 as store_v1

log = logging.getLogger("quorate.receiver")

E = TypeVar("E", bound=enum.Enum)

CLOSE_SECONDS = 3.0
"""The default time, in seconds, for which closing waits for the last acknowledgements."""
ANONYMOUS_SECONDS = 1.0
"""The time, in seconds, for which closing waits for stores to forget a receiver without a session
ID."""
BREATH_MESSAGES = 4096
"""The number of messages after which the event loop gets a turn."""


class Receiver:
    """A receiver: delivers a topic's messages, in order for each source, each at least once.

    Open it with `Receiver.open`. Iterating yields messages; `batches` yields whole batches, which
    is faster. One task iterates at a time. A loop that is left and entered again goes on where it
    was left.
    """

    @classmethod
    async def open(
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

        - topic: one topic. topic_pattern: instead, a regular expression that must match the whole
          topic.
        - stores: `[name=]host:port[#reg_id],…`; any store of the group leads to the others.
        - session_id: identifies the receiver. A receiver with the same one goes on where the last
          one stopped, and fences it. None: a random one, and stores forget the receiver at its
          close.
        - reg_id: the RegID to have, for one topic with one source. It is also the session ID if
          none is given.
        - delivery: "live" or "stable". acknowledge: "automatic", "batched" or "explicit".
        - take_over: take the identity even if its activity timeout protects another instance.
        - timeout: seconds to wait for stores to answer, and for a registration with each source
          that they know.

        With no source yet the call returns, and iterating waits for one. With
        options.wait_for_source it waits so long here, and then raises UnknownTopic.

        Raises NoQuorum if too few stores answer, NotAStore or VersionMismatch if no store is of
        use, RegIdInUse, ReceiverActive, InvalidArgument.
        """
        receiver = cls(
            _watch_request(topic, topic_pattern),
            stores=parse_stores(stores) if isinstance(stores, str) else tuple(stores),
            session_id=session_id,
            reg_id=reg_id,
            delivery=_one_of(Delivery, "delivery", delivery),
            acknowledge=_one_of(AcknowledgeMode, "acknowledge", acknowledge),
            take_over=take_over,
            options=options or ReceiverOptions(),
        )
        try:
            await receiver._begin(timeout)
        except BaseException:
            await receiver._end()
            raise
        return receiver

    def __init__(
        self,
        request: store_v1.WatchRequest,
        *,
        stores: tuple[StoreAddress, ...],
        session_id: int | None,
        reg_id: int | None,
        delivery: Delivery,
        acknowledge: AcknowledgeMode,
        take_over: bool,
        options: ReceiverOptions,
    ) -> None:
        """Make a receiver that is not open yet. Applications use `Receiver.open`."""
        if not stores:
            raise InvalidArgument("stores", "none given; name them as host:port,host:port,…")
        chosen = session_id or reg_id or secrets.randbelow(SESSION_ID_MAX) + 1
        self.session_id = check_session_id(chosen)
        self._anonymous = not (session_id or reg_id)
        self._take_over = take_over
        self._what = request.topic or request.topic_pattern
        self.cursor = Cursor(acknowledge)
        """The place of the application in what was delivered."""
        self._delivery = delivery
        self._options = options
        self._reg_ids = {store.address: store.reg_id or reg_id or 0 for store in stores}
        self._names = {store.address: store.name for store in stores}
        self._peers = Peers()
        self._directory = Directory()
        self._events = Events()
        self._inbox = Inbox(options.buffer_bytes // 2)
        self._room = Room(options.buffer_bytes // 4, options.buffer_bytes // 2)
        self._sessions: dict[SourceName, Session] = {}
        self._request = request
        self._watchers = [
            Watcher(self._peers, store.address, request, self._heard) for store in stores
        ]
        self._found: dict[str, asyncio.Task[None]] = {}
        """The watchers of stores that the application did not name, but that belong to a source."""
        self._acknowledger = Acknowledger(
            self._peers,
            self.session_id,
            options.acknowledge_interval,
            self._sessions,
            self.cursor.count,
            min(options.activity_timeout or inf, options.state_lifetime or inf),
        )
        self._unpaused = 0
        self._tasks: asyncio.TaskGroup
        self._runner: asyncio.Task[None] | None = None
        self._registered = asyncio.Event()
        self._closed = False

    # Messages.

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield the messages, one by one, until the receiver is closed.

        Raises Fenced once another instance has registered the same identity.
        """
        cursor = self.cursor
        while True:
            batch = cursor.batch
            for message in cursor.messages:
                batch.taken = message.sequence  # type: ignore[union-attr]
                yield message
            cursor.leave()
            batch = await self._next()
            if batch is None:
                return
            cursor.enter_messages(batch)

    async def batches(self) -> AsyncIterator[DeliveredBatch]:
        """Yield the messages, a batch at a time. Errors and the end are those of iterating."""
        batch = self.cursor.rest()
        while True:
            if batch is not None:
                self.cursor.enter(batch)
                yield batch
            self.cursor.leave()
            batch = await self._next()
            if batch is None:
                return

    async def take_into(self, taken: deque[DeliveredBatch], bytes_wanted: int) -> None:
        """Wait for batches and append them, up to about so many bytes; none once it is closed.

        For a caller that keeps the cursor in another thread. An appended batch counts as delivered.
        """
        batch = await self._next()
        while batch is not None:
            taken.append(batch)
            bytes_wanted -= batch.size
            batch = self._inbox.take() if bytes_wanted > 0 else None

    async def acknowledge(self, what: Message | DeliveredBatch | Acknowledgement) -> None:
        """Acknowledge this message and every message of its source before it, in mode "explicit".

        The receiver sends the acknowledgement within options.acknowledge_interval, once the message
        is stable; `flush` waits for that. Raises InvalidArgument in another mode, Fenced, Closed.
        """
        self.check_open()
        self.cursor.acknowledge(what)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until enough stores have taken the acknowledgement of all that was consumed.

        A message that is not stable after one second is left out. Raises NoQuorum after timeout
        seconds (None: 3), Fenced, Closed.
        """
        self.check_open()
        if not await self._flushed(CLOSE_SECONDS if timeout is None else timeout):
            self.check_open()
            raise NoQuorum(f"Acknowledging {self._what}", "", "", "too few stores took it in time")

    def events(self) -> AsyncIterator[Event]:
        """Yield the newest events so far, then each new one, until the receiver is closed.

        Any number of consumers may read. A consumer that is too slow loses the oldest events.
        """
        return self._events.stream()

    @property
    def sources(self) -> tuple[SourceName, ...]:
        """The sources known so far."""
        return tuple(self._sessions)

    @property
    def known_topics(self) -> tuple[str, ...]:
        """The topics that the stores had when they were first asked; at most 100 from each."""
        return tuple(sorted({topic for watcher in self._watchers for topic in watcher.topics}))

    # Closing.

    async def close(self) -> None:
        """Send the last acknowledgements, and end.

        The message (or batch) taken last counts as consumed only if the mode says how. Leaving
        `async with` without an exception counts it in mode "automatic".
        """
        if self._closed:
            return
        self._closed = True
        try:
            if self._inbox.error is None and not await self._flushed(CLOSE_SECONDS):
                log.warning("%s: the last acknowledgements reached too few stores", self._what)
        finally:
            await self._end()

    async def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """End this identity for good: every store forgets its registration and its position.

        The receiver cannot be used again; a new one with its session ID starts from the beginning.
        An event tells of each store. Raises NoQuorum if some stores have not done it after timeout
        seconds, Fenced if another instance owns the identity, Deregistered, Closed.
        """
        self.check_open()
        self._closed = True
        self._inbox.fail(Deregistered(f"Receiver {self.session_id:#x} of {self._what}"))
        self._anonymous = False
        await self._stop_running()
        try:
            await self._deregister(timeout)
        finally:
            await self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.cursor.count(last_is_done=True)
        await self.close()

    # Inside.

    def check_open(self) -> None:
        """Raise the error that ended the receiver, or Closed."""
        if self._inbox.error is not None:
            raise self._inbox.error
        if self._closed:
            raise Closed(f"The receiver of {self._what}")

    async def _flushed(self, timeout: float) -> bool:
        """Return whether enough stores took what was consumed, before a failure or the timeout."""
        assert self._runner is not None
        flushing = asyncio.ensure_future(self._acknowledger.flush(timeout))
        try:
            await asyncio.wait({flushing, self._runner}, return_when=asyncio.FIRST_COMPLETED)
            return flushing.done() and flushing.exception() is None
        finally:
            flushing.cancel()

    async def _next(self) -> DeliveredBatch | None:
        """Return the next batch; None once the receiver is closed."""
        if self._unpaused > BREATH_MESSAGES:
            self._unpaused = 0
            await asyncio.sleep(0)
        while True:
            batch = self._inbox.take()
            if batch is not None:
                self._unpaused += len(batch)
                return batch
            self._unpaused = 0
            if not await self._inbox.filled():
                return None

    async def _begin(self, timeout: float) -> None:
        self._runner = asyncio.create_task(self._run(), name=f"quorate receiver of {self._what}")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._find_stores()
                await self._each_registered()
        self.check_open()
        heard = [watcher for watcher in self._watchers if watcher.complete.is_set()]
        registered = any(session.registered.is_set() for session in self._sessions.values())
        if not heard or (self._sessions and not registered):
            raise self._no_quorum(heard)
        wait = self._options.wait_for_source
        if wait is None or registered:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, begun + wait - loop.time())):
                await self._registered.wait()
        self.check_open()
        if not self._registered.is_set():
            raise UnknownTopic(self._what, ", ".join(self.known_topics))

    async def _find_stores(self) -> None:
        """Wait until each store was heard or has failed.

        After options.registration_interval one store that was heard is enough.
        """
        tried = [asyncio.ensure_future(watcher.tried.wait()) for watcher in self._watchers]
        try:
            await asyncio.wait(tried, timeout=self._options.registration_interval)
        finally:
            for waiting in tried:
                waiting.cancel()
        if not any(watcher.complete.is_set() for watcher in self._watchers):
            hopeless = [
                watcher.error
                for watcher in self._watchers
                if watcher.error is not None and not watcher.error.retryable
            ]
            if len(hopeless) == len(self._watchers):
                raise hopeless[0]
            heard = [asyncio.ensure_future(watcher.complete.wait()) for watcher in self._watchers]
            try:
                await asyncio.wait(heard, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for waiting in heard:
                    waiting.cancel()

    async def _each_registered(self) -> None:
        while True:
            pending = [one for one in self._sessions.values() if not one.registered.is_set()]
            if not pending or self._inbox.error is not None:
                return
            registered = asyncio.ensure_future(pending[0].registered.wait())
            assert self._runner is not None
            try:
                await asyncio.wait([registered, self._runner], return_when=asyncio.FIRST_COMPLETED)
            finally:
                registered.cancel()

    def _no_quorum(self, heard: list[Watcher]) -> QuorateError:
        unheard = [watcher for watcher in self._watchers if watcher not in heard]
        details = [str(watcher.error) for watcher in unheard if watcher.error]
        names = dict(self._names)
        limbo: set[str] = set()
        deleted: set[str] = set()
        silent = {watcher.address for watcher in unheard}
        for session in self._sessions.values():
            waiting = session.waiting_for_stores()
            for name, address in session.record.stores:
                if names.setdefault(address, name) == address:
                    names[address] = name  # the store was given without a name
                limbo |= {address} if name in waiting.limbo else set()
                deleted |= {address} if name in session.registration.deleted else set()
                silent |= {address} if name in waiting.silent else set()
            details.append(
                f"{waiting.source} is registered with {', '.join(waiting.vouching) or 'no store'}"
                f", in limbo: {', '.join(waiting.limbo) or 'none'}"
                f", not registered: {', '.join(waiting.silent) or 'none'}"
            )
        answered = {watcher.address for watcher in heard} | limbo
        return NoQuorum(
            f"The receiver of {self._what}",
            _joined(names, answered - silent),
            _joined(names, silent),
            joined(details) or "no store's directory was heard in time",
            _joined(names, limbo - silent),
            _joined(names, (deleted & limbo) - silent),
        )

    def _heard(self, store: str, record: SourceRecord | None) -> None:
        """Act on an entry of a store's directory; None: the store can no longer be heard."""
        if record is None:
            changed = self._directory.lost(store)
        else:
            merged = self._directory.heard(store, record)
            changed = [merged] if merged is not None else []
        for each in changed:
            session = self._sessions.get(each.source)
            if session is not None:
                session.update(each)
            elif each.epoch > 0 and each.stores:
                self._tasks.create_task(self._follow(self._new_session(each)))

    def _new_session(self, record: SourceRecord) -> Session:
        session = self._sessions[record.source] = Session(
            record,
            peers=self._peers,
            session_id=self.session_id,
            reg_ids=self._reg_ids,
            take_over=self._take_over,
            delivery=self._delivery,
            options=self._options,
            inbox=self._inbox,
            room=self._room,
            events=self._events,
            stores_changed=self._watch_stores,
        )
        self._watch_stores()
        return session

    def _watch_stores(self) -> None:
        """Listen to the directory of every store of a source.

        A source may leave the stores that the application named.
        """
        named = {watcher.address for watcher in self._watchers}
        wanted = {
            address for session in self._sessions.values() for _, address in session.record.stores
        } - named
        for address in self._found.keys() - wanted:
            self._found.pop(address).cancel()
            self._heard(address, None)
        for address in wanted - self._found.keys():
            watcher = Watcher(self._peers, address, self._request, self._heard)
            self._found[address] = self._tasks.create_task(watcher.run())

    async def _follow(self, session: Session) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(session.run(follow, fetch_from))
            await session.registered.wait()
            self._registered.set()

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for watcher in self._watchers:
                    self._tasks.create_task(watcher.run())
                self._tasks.create_task(self._acknowledger.run(self._tasks))
        except BaseExceptionGroup as group:
            error = _first(group)
            log.error("the receiver of %s ends: %s", self._what, error)
            self._inbox.fail(error)
            self._events.end()
            self._registered.set()

    async def _end(self) -> None:
        self._closed = True
        self._inbox.close()
        await self._stop_running()
        if self._anonymous:
            # No later instance can have this session ID.
            try:
                await self._deregister(ANONYMOUS_SECONDS)
            except QuorateError as error:
                log.info("%s: some stores still know this receiver: %s", self._what, error)
        self._events.end()
        await self._peers.close()

    async def _stop_running(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.wait([self._runner])

    async def _deregister(self, timeout: float) -> None:
        ending = Deregistration(self._peers, self.session_id, self._events.tell)
        registered = [
            Registered(
                session.source,
                session.registration.epoch,
                session.registration.instance,
                session.record.stores,
                {
                    store: answer.source_reg_id
                    for store, answer in session.registration.answers.items()
                },
            )
            for session in self._sessions.values()
            if session.registration.answers
        ]
        await ending.run(registered, timeout)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _watch_request(topic: str | None, topic_pattern: str | None) -> store_v1.WatchRequest:
    if (topic is None) == (topic_pattern is None):
        raise InvalidArgument("topic", "give either a topic or a topic_pattern")
    if topic is not None:
        return store_v1.WatchRequest(topic=check_topic(topic))
    try:
        re.compile(topic_pattern or "")
    except re.error as error:
        raise InvalidArgument("topic_pattern", f"is no regular expression: {error}") from None
    return store_v1.WatchRequest(topic_pattern=topic_pattern)


def _one_of(kind: type[E], name: str, value: object) -> E:
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(repr(one.value) for one in kind)
        raise InvalidArgument(name, f"{value!r} is not one of {choices}") from None


def _joined(names: Mapping[str, str], addresses: Set[str]) -> str:
    """Return the names of the stores at these addresses, in the order in which they were given."""
    return ", ".join(name for address, name in names.items() if address in addresses)
