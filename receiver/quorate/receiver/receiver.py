"""The public receiver: applications open it and iterate over it.

It finds the sources and keeps one session for each; how a session follows its source is not known
here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from math import inf
from types import TracebackType
from typing import Self

from quorate.protocol.bookmarks import Position
from quorate.protocol.choices import check_flag, check_function, choice_of, options_of, some_of
from quorate.protocol.delivery import DELIVERY_DEFAULT, Delivery
from quorate.protocol.errors import (
    Closed,
    Deregistered,
    InvalidArgument,
    NoQuorum,
    QuorateError,
    UnknownTopic,
    Unreachable,
    UsedBeforeFork,
    no_turn,
)
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.identity import (
    SourceName,
    StoreAddress,
    check_reg_id,
    check_session_id,
    check_topic,
    parse_stores,
)
from quorate.protocol.limits import SESSION_ID_MAX
from quorate.protocol.patterns import given_pattern
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.receiver.cursor import Cursor
from quorate.receiver.events import Event, NoSourceYet
from quorate.receiver.io.acknowledge import Acknowledger
from quorate.receiver.io.attach import follow
from quorate.receiver.io.channels import Peers
from quorate.receiver.io.deregister import (
    Deregistration,
    Registered,
)
from quorate.receiver.io.fetch import fetch_from
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.io.joining import SourceForgotten
from quorate.receiver.io.no_quorum import no_quorum
from quorate.receiver.io.redelivery import Redelivery
from quorate.receiver.io.source_session import Session
from quorate.receiver.io.watch_directory import Watcher
from quorate.receiver.message import DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode, ReceiverOptions
from quorate.receiver.protocol.directory import (
    Directory,
    SourceRecord,
)
from quorate.receiver.protocol.stream import Room
from quorate.receiver.protocol.subscription import Seen, Subscription
from quorate.receiver.start import Start
from quorate.receiver.traced import Spans
from quorate.transport import forks
from quorate.transport.connections import Connections
from quorate.transport.event_log import EventLog
from quorate.v1 import store_pb2 as store_v1

log = logging.getLogger("quorate.receiver")

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

        - topic: one topic. topic_pattern: instead, a regular expression of RE2 that must match the
          whole topic.
        - stores: `[name=]host:port[#reg_id],…`; any store of the group leads to the others.
        - session_id: identifies the receiver. A receiver with the same one goes on where the last
          one stopped, and fences it. None: a random one, and stores forget the receiver at its
          close.
        - reg_id: the RegID to have, for one topic with one source. It is also the session ID if
          none is given.
        - delivery: when to hand over a message: once it is "stable", or at once ("live").
        - acknowledge: "automatic" or "explicit".
        - start: "earliest", "latest", "last:N", a sequence number, a time, or what `Start` makes.
          It counts for each source for which no store has a position of the receiver.
        - where: a condition in the words of SQL. Only messages for which it is true come.
          The others count as consumed.
        - payload: the format of the payloads, in which `where` finds fields: "json" or "msgpack".
        - take_over: take the identity even if its activity timeout protects another instance.
        - timeout: seconds to wait for stores to answer, and for a registration with each source
          that they know. None: wait for as long as it takes. An activity timeout that ends in time
          is waited for.
        - on_event: a function that gets each event at once, on the event loop, from the start of
          the registration on. It must not block.
        - connections: those of the client that opens the receiver; None: the receiver has its own.
        - tls: the TLS files of connections of its own; None: they are not secure.
        - on_closed: a function that is called once when the receiver is closed.

        With no source yet the call returns, and iterating waits for one. With
        options.wait_for_source it waits so long here, and then raises UnknownTopic.

        Raises NoQuorum if too few stores answer, NotAStore or VersionMismatch if no store is of
        use, RegIdInUse, ReceiverActive, InvalidArgument, InvalidFilter, TlsFailed, AccessDenied,
        ConfigurationInvalid.
        """
        forks.check()
        check_timeout(timeout)
        check_function("on_event", on_event)
        check_flag("take_over", take_over)
        receiver = cls(
            _watch_request(topic, topic_pattern),
            stores=parse_stores(stores) if isinstance(stores, str) else tuple(stores),
            session_id=session_id,
            reg_id=reg_id,
            delivery=choice_of("delivery", Delivery, delivery),
            acknowledge=choice_of("acknowledge", AcknowledgeMode, acknowledge),
            start=Start.of(start),
            where=None if where is None else Filter(where),
            payload=choice_of("payload", PayloadFormat, payload),
            take_over=take_over,
            options=options_of(ReceiverOptions, options),
            on_event=on_event,
            connections=connections,
            tls=tls,
            on_closed=on_closed,
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
        start: Start,
        where: Filter | None,
        payload: PayloadFormat,
        take_over: bool,
        options: ReceiverOptions,
        on_event: Callable[[Event], None] | None,
        connections: Connections | None,
        tls: Tls | None,
        on_closed: Callable[[], object] | None = None,
    ) -> None:
        """Make a receiver that is not open yet. Applications use `Receiver.open`."""
        if not stores:
            raise InvalidArgument("stores", "none given; name them as a=host:port,b=host:port,…")
        if reg_id is not None:
            check_reg_id(reg_id)
        self._anonymous = session_id is None and reg_id is None
        if session_id is None:
            session_id = reg_id or secrets.randbelow(SESSION_ID_MAX) + 1
        self._session_id = check_session_id(session_id)
        self._start = start
        self._take_over = take_over
        self._what = request.topic or request.topic_pattern
        self._cursor = Cursor(acknowledge)
        """The place of the application in what was delivered."""
        tracing = connections.tracing if connections is not None else None
        self._spans = Spans(tracing, acknowledge) if tracing is not None else None
        """The spans of its messages; None: it makes none."""
        self._delivery = delivery
        self._options = options
        self._reg_ids = {store.address: store.reg_id or reg_id or 0 for store in stores}
        self._names = {store.address: store.name for store in stores}
        self._peers = Peers(connections, self._peer_told, tls)
        self._directory = Directory()
        self._subscription = Subscription()
        self._subscribed = asyncio.Event()
        self._events: EventLog[Event] = EventLog(on_event)
        self._inbox = Inbox(options.buffer_bytes // 2, where, payload)
        self._redelivery = Redelivery(self._inbox, acknowledge)
        self._room = Room(options.buffer_bytes // 4, options.buffer_bytes // 2)
        self._sessions: dict[SourceName, Session] = {}
        self._request = request
        self._found: dict[str, tuple[Watcher, asyncio.Task[None]]] = {}
        """The watchers of stores that the application did not name, but that belong to a source."""
        self._acknowledger = Acknowledger(
            self._peers,
            self._session_id,
            options.acknowledge_interval,
            self._sessions,
            self._cursor,
            min(options.activity_timeout or inf, options.state_lifetime or inf),
            options.delays,
        )
        self._watchers = [self._watcher(store.address) for store in stores]
        self._unpaused = 0
        self._tasks: asyncio.TaskGroup
        self._runner: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        """Set once some source is ready for the registration."""
        self._may_register = asyncio.Event()
        """Set once the receiver can open, so that it may fence older instances."""
        self._registered = asyncio.Event()
        self._patience = 0.0
        """Seconds for which each registration waits for the end of another instance's protection.
        """
        self._closed = False
        self._ended = asyncio.Event()
        self._on_closed = on_closed
        forks.watch(self, Receiver._forked)

    # Messages.

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Yield the messages, one by one, until the receiver is closed.

        Raises Fenced once another instance has registered the same identity, and Deregistered.
        """
        cursor = self._cursor
        if self._spans is not None:
            async for message in self._spans.messages(cursor, self._next):
                yield message
            return
        while True:
            batch = cursor.batch
            for message in cursor.messages:
                batch._taken = message.sequence  # type: ignore[union-attr]
                yield message
            if cursor.batch is batch:
                cursor.leave()
                following = await self._next()
                if following is None:
                    return
                cursor.enter_messages(following)

    async def batches(self) -> AsyncIterator[DeliveredBatch]:
        """Yield the messages, a batch at a time. Errors and the end are those of iterating."""
        cursor = self._cursor
        while True:
            batch = cursor.rest()
            if batch is None:
                cursor.leave()
                batch = await self._next()
            if batch is None:
                return
            cursor.enter(batch)
            yield batch

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for the next message and return it; None: none came for `timeout` seconds.

        A timeout of 0 waits for nothing, and None waits without end. The calls and the loops go on
        from one another: asking for a message is taking the next one. Raises Closed once the
        receiver is closed, Fenced, Deregistered.
        """
        check_timeout(timeout)
        self._check_open()
        if self._spans is not None:
            self._spans.asked()
        message = self._cursor.take()
        if message is None:
            self._cursor.leave()
            batch = await self._next(timeout)
            if batch is None:
                self._check_open()
                return None
            self._cursor.enter_messages(batch)
            message = self._cursor.take()
        if self._spans is not None and message is not None:
            return self._spans.hand_over(message)
        return message

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until enough stores have taken the acknowledgement of all that was acknowledged.

        A message that is not stable after one second is left out. Raises NoQuorum after timeout
        seconds (None: 3), Fenced, Closed.
        """
        check_timeout(timeout)
        self._check_open()
        if not await self._flushed(CLOSE_SECONDS if timeout is None else timeout):
            self._check_open()
            raise NoQuorum(f"Acknowledging {self._what}", "", "", "too few stores took it in time")

    def events(self) -> AsyncIterator[Event]:
        """Yield the newest events so far, then each new one, until the receiver is closed.

        Any number of consumers may read. A consumer that is too slow gets EventsLost.
        """
        return self._events.read()

    @property
    def session_id(self) -> int:
        """The session ID, also if it was drawn."""
        return self._session_id

    @property
    def sources(self) -> tuple[SourceName, ...]:
        """The sources known so far."""
        return tuple(self._sessions)

    @property
    def position(self) -> Position:
        """The position behind all that was acknowledged, of each source that it has begun with.

        Print it, store it, and give it to a subscriber as `begin`: what follows is what was not
        acknowledged yet.
        """
        begun = (session for session in self._sessions.values() if session.registered.is_set())
        return Position({session.source: session.place for session in begun})

    @property
    def undecoded(self) -> int:
        """The number of payloads so far that are not of their format, of those that `where` looked
        into."""
        return self._inbox.undecoded

    @property
    def known_topics(self) -> tuple[str, ...]:
        """The topics that the stores had when they were first asked; at most 100 from each."""
        return tuple(sorted({topic for watcher in self._watchers for topic in watcher.topics}))

    # Closing.

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Hand over nothing more, send the last acknowledgements, and end.

        timeout: seconds to wait for enough stores to take them. The message (or batch) taken last
        counts as consumed only if the mode says how. Leaving `async with` without an exception
        counts it in mode "automatic".
        """
        forks.check()
        check_timeout(timeout)
        if self._closed:
            await self._ended.wait()  # another task may be closing it
            return
        self._closed = True
        self._cursor.end()
        self._inbox.close()
        try:
            if self._inbox.error is None and not await self._flushed(timeout):
                log.warning("%s: the last acknowledgements reached too few stores", self._what)
        finally:
            await self._end()

    def _forked(self, error: UsedBeforeFork) -> None:
        """Raise this error from now on, in a child that was forked. No other thread runs there."""
        self._inbox.fail(error)
        self._events.end()

    async def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """End this identity for good: every store forgets its registration and its position.

        The receiver cannot be used again; a new one with its session ID starts from the beginning.
        An event tells of each store. Raises NoQuorum if some stores have not done it after timeout
        seconds, Fenced if another instance owns the identity, Deregistered, Closed.
        """
        self._check_open()
        self._closed = True
        self._cursor.end()
        self._inbox.fail(Deregistered(f"Receiver {self._session_id:#x} of {self._what}"))
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
            self._cursor.count(last_is_done=True)
        await self.close()

    # Inside.

    async def _take_into(
        self, taken: deque[DeliveredBatch], bytes_wanted: int, timeout: float | None = None
    ) -> None:
        """Wait for batches and append them, up to about so many bytes.

        None comes once the receiver is closed, or if it has none for `timeout` seconds. For a
        caller that keeps the cursor in another thread. An appended batch counts as delivered.
        """
        batch = await self._next(timeout)
        while batch is not None:
            taken.append(batch)
            bytes_wanted -= batch.size
            batch = self._inbox.take() if bytes_wanted > 0 else None

    def _check_open(self) -> None:
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

    async def _next(self, timeout: float | None = None) -> DeliveredBatch | None:
        """Return the next batch; None once the receiver is closed, or after the timeout."""
        if self._unpaused > BREATH_MESSAGES:
            self._unpaused = 0
            await asyncio.sleep(0)
        batch = self._inbox.take()
        if batch is None:
            self._unpaused = 0
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while batch is None and await self._inbox.filled():
                        batch = self._inbox.take()
        if batch is not None:
            self._unpaused += len(batch)
        return batch

    async def _begin(self, timeout: float | None) -> None:
        self._patience = inf if timeout is None else timeout
        begun = asyncio.get_running_loop().time()
        until = begun + self._patience
        async with self._peers.beginning(until) as has_turn:
            await self._register(until, has_turn)
        await self._wait_for_source(begun)

    async def _register(self, until: float, has_turn: bool) -> None:
        """Find the stores and the sources, and register with enough of them."""
        self._runner = asyncio.create_task(self._run(), name=f"quorate receiver of {self._what}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._find_stores()
                self._subscription.made()
                self._subscribed.set()
                await self._until_ready()
                self._may_register.set()
                await self._for_each(lambda session: session.registered)
        self._check_open()
        heard = [watcher for watcher in self._watchers if watcher.complete.is_set()]
        registered = any(session.registered.is_set() for session in self._sessions.values())
        if not heard or (self._sessions and not registered):
            if not has_turn:
                raise no_turn(f"the receiver of {self._what}")
            raise self._refusal() or self._no_quorum(heard)
        if not self._subscribed.is_set():
            # The time was too short for the stores that hang. Sources may still come.
            self._subscription.made()
            self._subscribed.set()
        self._may_register.set()

    async def _wait_for_source(self, begun: float) -> None:
        """Wait for a source, if the application asked for that. begun: when opening began."""
        wait = self._options.wait_for_source
        registered = any(session.registered.is_set() for session in self._sessions.values())
        if wait is None or registered:
            if not self._sessions:
                self._tell_no_source()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(begun + wait):
                await self._registered.wait()
        self._check_open()
        if not self._registered.is_set():
            raise UnknownTopic(self._what, some_of(self.known_topics, self._what))

    def _tell_no_source(self) -> None:
        topics = self.known_topics
        known = some_of(topics, self._what) or "none"
        log.warning(
            "no store has a source of %s yet; waiting for one. Known topics: %s.", self._what, known
        )
        self._events.add(NoSourceYet(self._what, topics))

    async def _find_stores(self) -> None:
        """Wait until each store was heard or has failed.

        After options.registration_interval one store that was heard is enough.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.registration_interval):
                for watcher in self._watchers:
                    await watcher.tried.wait()
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

    async def _until_ready(self) -> None:
        """Wait until each source is ready for the registration.

        The others hold up one that is ready for no longer than options.registration_interval.
        """
        if self._sessions:
            await self._until(self._ready)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(
                min(self._options.registration_interval, self._patience / 2)
            ):
                await self._for_each(lambda session: session.ready)

    async def _for_each(self, event_of: Callable[[Session], asyncio.Event]) -> None:
        while self._inbox.error is None:
            events = map(event_of, self._sessions.values())
            pending = next((event for event in events if not event.is_set()), None)
            if pending is None:
                return
            await self._until(pending)

    async def _until(self, event: asyncio.Event) -> None:
        """Wait for the event, or until the receiver fails."""
        if event.is_set():
            return
        waiting = asyncio.ensure_future(event.wait())
        assert self._runner is not None
        try:
            await asyncio.wait([waiting, self._runner], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    def _refusal(self) -> QuorateError | None:
        """Return why stores refuse this instance, if another one is the reason."""
        refusals = (each.registration.protection.refusal for each in self._sessions.values())
        return next((refusal for refusal in refusals if refusal is not None), None)

    def _no_quorum(self, heard: list[Watcher]) -> NoQuorum:
        sessions = self._sessions.values()
        return no_quorum(self._what, self._names, self._watchers, heard, sessions)

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

    def _seen(self, store: str, source: SourceName, seen: Seen) -> None:
        """Take the end of a source's stream at a store."""
        self._subscription.heard(source, seen)
        if (session := self._sessions.get(source)) is not None:
            session.seen(store, seen)

    def _peer_told(self, address: str, silence: Unreachable | None) -> None:
        """Note that a store or a source is silent; None: it is heard again."""
        for session in self._sessions.values():
            session.peer_told(address, silence)
        if silence is not None:
            stores = {store for one in self._sessions.values() for store in one.record.stores}
            for name in sorted(name for name, at in stores if at == address):
                log.warning("%s: store %s is silent: %s", self._what, name, silence)
            for watcher in (*self._watchers, *(watcher for watcher, _ in self._found.values())):
                if watcher.address == address:
                    watcher.silent(silence)

    def _new_session(self, record: SourceRecord) -> Session:
        session = self._sessions[record.source] = Session(
            record,
            peers=self._peers,
            session_id=self._session_id,
            reg_ids=self._reg_ids,
            take_over=self._take_over,
            delivery=self._delivery,
            options=self._options,
            inbox=self._inbox,
            redelivery=self._redelivery,
            room=self._room,
            events=self._events,
            stores_changed=self._watch_stores,
            subscribed=self._when_subscribed,
            may_register=self._may_register,
            acknowledging=self._acknowledger,
            start=self._start,
            patience=self._patience,
        )
        watched = self._found.keys() | {watcher.address for watcher in self._watchers}
        if not watched.issuperset(address for _, address in record.stores):
            self._watch_stores()
        return session

    async def _when_subscribed(self) -> Subscription:
        await self._subscribed.wait()
        return self._subscription

    def _watcher(self, address: str) -> Watcher:
        return Watcher(
            self._peers,
            address,
            self._request,
            self._heard,
            self._seen,
            self._acknowledger.repeat,
            self._options.delays,
        )

    def _watch_stores(self) -> None:
        """Listen to the directory of every store of a source.

        A source may leave the stores that the application named.
        """
        named = {watcher.address for watcher in self._watchers}
        wanted = {
            address for session in self._sessions.values() for _, address in session.record.stores
        } - named
        for address in self._found.keys() - wanted:
            self._found.pop(address)[1].cancel()
            self._heard(address, None)
        for address in wanted - self._found.keys():
            watcher = self._watcher(address)
            self._found[address] = watcher, self._tasks.create_task(watcher.run())

    async def _follow(self, session: Session) -> None:
        with contextlib.suppress(SourceForgotten):
            await session.ask()
            self._ready.set()
            await session.open()
            self._registered.set()
            await session.run(follow, fetch_from)
        self._leave(session)

    def _leave(self, session: Session) -> None:
        """Drop a source that its stores have forgotten. Opening the receiver waits no longer."""
        log.info("%s: the source has closed, and its stores have forgotten it", session.source)
        del self._sessions[session.source]
        self._directory.forget(session.source)
        for event in (self._ready, session.ready, session.registered):
            event.set()

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                for watcher in self._watchers:
                    self._tasks.create_task(watcher.run())
                self._tasks.create_task(self._acknowledger.run(self._tasks))
                if (patience := self._options.delays.give_up_after) is not None:
                    self._tasks.create_task(self._give_up_after(patience))
        except BaseExceptionGroup as group:
            error = _first(group)
            log.error("the receiver of %s ends: %s", self._what, error)
            self._inbox.fail(error)
            self._events.end()
            self._registered.set()

    async def _give_up_after(self, seconds: float) -> None:
        """Raise NoQuorum once no store could be heard for so many seconds."""
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while loop.time() < heard_at + seconds:
            if any(watcher.complete.is_set() for watcher in self._watchers):
                heard_at = loop.time()
            await asyncio.sleep(min(seconds / 4, 1.0))
        raise self._no_quorum([])

    async def _end(self) -> None:
        self._closed = True
        self._redelivery.end()
        self._inbox.close()
        if self._spans is not None:
            self._spans.end_all()
        try:
            await self._stop_running()
            if self._anonymous:
                await self._forget()
            self._events.end()
            await self._peers.close()
        finally:
            self._ended.set()
            if self._on_closed is not None:
                self._on_closed()

    async def _forget(self) -> None:
        """End the identity of a receiver without a session ID: no later instance can have it."""
        try:
            await self._deregister(ANONYMOUS_SECONDS)
        except QuorateError as error:
            log.info("%s: some stores still know this receiver: %s", self._what, error)

    async def _stop_running(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.wait([self._runner])

    async def _deregister(self, timeout: float) -> None:
        ending = Deregistration(self._peers, self._session_id, self._events.add)
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
            if session.registration.answers and not session.registration.asks_only
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
        pattern = given_pattern(topic_pattern)
    except InvalidArgument as error:
        raise InvalidArgument("topic_pattern", error.detail) from None
    return store_v1.WatchRequest(topic_pattern=pattern.text)
