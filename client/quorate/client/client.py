"""The door: one object for the stores, from which an application opens sources and receivers.

It keeps what is open, and closes it. The rules of sources and receivers are not known here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from quorate.client.opening import ConsumerOpening, Opening, ReceiverOpening
from quorate.client.settings import (
    Settings,
    Stores,
    read_settings,
    tracing_of,
)
from quorate.consumer.consumer import Consumer
from quorate.protocol.bookmarks import Position
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.delivery import DELIVERY_DEFAULT, Delivery
from quorate.protocol.errors import Closed
from quorate.protocol.heartbeat import HEARTBEAT_SECONDS, SILENCE_SECONDS
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.receiver.events import Event as ReceiverEvent
from quorate.receiver.options import AcknowledgeMode, ReceiverOptions
from quorate.receiver.receiver import Receiver
from quorate.receiver.start import Start
from quorate.source.events import Event as SourceEvent
from quorate.source.io.live_server import LiveServers
from quorate.source.options import SourceOptions
from quorate.source.publish_store import PublishStore
from quorate.source.source import CLOSE_SECONDS, OPEN_SECONDS, Source
from quorate.subscriber.begin import EPOCH, GivenBegin, GivenEnd
from quorate.subscriber.bookmarks import BookmarkStore
from quorate.subscriber.events import Event as SubscriberEvent
from quorate.subscriber.options import Delivered, OnUnknownBookmark
from quorate.subscriber.protocol.chooser import StoreChooser
from quorate.subscriber.protocol.topics import GivenTopics
from quorate.subscriber.state import State
from quorate.subscriber.subscriber import SAVE_SECONDS, Subscriber, spread_over
from quorate.transport import forks
from quorate.transport.connections import Connections
from quorate.transport.tracing import Tracing

T = TypeVar("T", Source, Receiver, Subscriber, Consumer)

Opener = Callable[[Callable[[], object]], Coroutine[Any, Any, T]]
"""Opens something, and is given a function to call when that is closed."""


def connect(
    stores: Stores,
    *,
    previous_policies: Sequence[Stores] = (),
    timeout: float | None = OPEN_SECONDS,
    heartbeat_interval: float = HEARTBEAT_SECONDS,
    heartbeat_timeout: float = SILENCE_SECONDS,
    delays: Delays | None = None,
    tls: Tls | None = None,
    name: str = "",
    tracing: bool = False,
) -> Client:
    """Return a client of these stores.

    - stores: `name=host:port,name=host:port,…`, or a list of such names with addresses: a majority
      of these stores makes a message stable. Or a Layout of groups with rules and backups. Or the
      path of the TOML file that the command reads, too: with stores or groups, earlier
      configurations, and options for sources and receivers.
    - previous_policies: what `stores` was in earlier configurations. Needed until one source has
      registered under the present one. Without it the source refuses to take over a stream that is
      under another policy.
    - timeout: seconds for which opening a source or a receiver waits, unless its call says
      otherwise; None: as long as it takes.
    - heartbeat_interval: seconds between two heartbeats on each connection.
    - heartbeat_timeout: seconds of silence after which the client takes a store or a source for
      hung, and a store or a source this client. Events report it.
    - delays: how long sources and receivers wait between attempts to reach a peer, unless their
      options say otherwise in code; None: as their options say.
    - tls: the files for secure connections, made by Tls; None: those of the file, or
      connections are not secure.
    - name: a name by which operators recognise the application in listings such as `quorate
      sources`. Stores also show the program, the host and the process ID.
    - tracing: whether to make spans of OpenTelemetry, with the provider of the application. Needs
      the extra `otel`.

    The call does not speak with the stores: the first source or receiver that opens does. Use the
    client on one event loop.

    Raises InvalidArgument, or ConfigurationInvalid with every problem of a file. The files of
    TLS count, too.
    """
    return Client(
        read_settings(
            stores,
            previous_policies,
            timeout,
            heartbeat_interval,
            heartbeat_timeout,
            delays,
            tls,
            name,
        ),
        tracing_of(tracing),
    )


class Client:
    """A client of a group of stores: opens sources and receivers, and closes them.

    Make it with `connect`, and leave its `async with`, or close it, at the end.
    """

    def __init__(self, settings: Settings, tracing: Tracing | None = None) -> None:
        """Remember the stores. Applications use `connect`."""
        self._settings = settings
        self._connections = Connections(
            settings.heartbeat, settings.tls, settings.application, tracing
        )
        self._live_servers = LiveServers(settings.tls)
        self._chooser = spread_over(settings.layout.readable)
        self._opening: set[asyncio.Task[Any]] = set()
        self._open: dict[object, Source | Receiver | Subscriber | Consumer] = {}
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failures = await self._close(CLOSE_SECONDS)
        # An error from inside is what matters; an error of the close must not hide it.
        if error is None:
            raise_first(failures)

    def source(
        self,
        topic: str,
        *,
        session_id: int | None = None,
        reg_id: int | None = None,
        publish_store: PublishStore | None = None,
        take_over: bool = False,
        options: SourceOptions | None = None,
        timeout: float | None = None,
        on_event: Callable[[SourceEvent], None] | None = None,
    ) -> Opening[Source]:
        """Return a source of this topic, to be opened by `await` or `async with`.

        - session_id: identifies the source together with the topic; give the same one after a
          restart. None: that of the publish store, or reg_id, or a random one.
        - reg_id: the RegID to have on every store that does not name one; None: each store assigns
          one.
        - publish_store: keeps what is not stable yet; None: in memory.
        - take_over: take the identity even if another process is using it now.
        - options: further settings. One that is not named here has the value of the client's file.
        - timeout: seconds to wait for enough stores; None: that of the client.
        - on_event: a function that gets each event at once, on the event loop, from the start of
          the registration on. It must not block.

        Opening raises InvalidArgument, NoQuorum, PolicyNotInForce, SourceActive, Fenced,
        MissingMessages, SourceDeleted, ContentConflict, RegIdInUse, TopicRefused, NotAStore,
        VersionMismatch, StorageFailed, Closed.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Coroutine[Any, Any, Source]:
            return Source.open(
                topic,
                stores=settings.layout,
                previous_policies=settings.previous,
                session_id=session_id,
                reg_id=reg_id,
                publish_store=publish_store,
                take_over=take_over,
                options=settings.source_options(topic, options),
                timeout=settings.timeout if timeout is None else timeout,
                on_event=on_event,
                connections=self._connections,
                live_servers=self._live_servers,
                on_closed=on_closed,
            )

        return Opening(f"source({topic!r})", lambda: self._opened(opener))

    def receiver(
        self,
        topic: str | None = None,
        *,
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
        timeout: float | None = None,
        on_event: Callable[[ReceiverEvent], None] | None = None,
    ) -> ReceiverOpening:
        """Return a receiver of this topic, to be opened by `await`, `async with` or `async for`.

        - topic: one topic. topic_pattern: instead, a regular expression that must match the whole
          topic.
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
        - options: further settings. One that is not named here has the value of the client's file.
        - timeout: seconds to wait for stores to answer, and for a registration with each source
          that they know; None: that of the client.
        - on_event: a function that gets each event at once, on the event loop, from the start of
          the registration on. It must not block.

        With no source yet opening returns, and iterating waits for one. With
        options.wait_for_source opening waits so long, and then raises UnknownTopic.

        Opening raises NoQuorum if too few stores answer, NotAStore or VersionMismatch if no store
        is of use, RegIdInUse, ReceiverActive, InvalidArgument, InvalidFilter, Closed.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Coroutine[Any, Any, Receiver]:
            return Receiver.open(
                topic,
                stores=settings.layout.stores,
                session_id=session_id,
                reg_id=reg_id,
                topic_pattern=topic_pattern,
                delivery=delivery,
                acknowledge=acknowledge,
                start=start,
                where=where,
                payload=payload,
                take_over=take_over,
                options=settings.receiver_options(topic, options),
                timeout=settings.timeout if timeout is None else timeout,
                on_event=on_event,
                connections=self._connections,
                on_closed=on_closed,
            )

        return ReceiverOpening(
            f"receiver({topic or topic_pattern!r})", lambda: self._opened(opener)
        )

    def subscriber(
        self,
        topic: GivenTopics | None = None,
        *,
        topic_pattern: str | None = None,
        begin: GivenBegin = EPOCH,
        end: GivenEnd | None = None,
        unknown_bookmark: str | OnUnknownBookmark = OnUnknownBookmark.FAIL,
        delivered: str | Delivered = Delivered.STABLE,
        where: str | None = None,
        select: str | Sequence[str] | None = None,
        payload: str | PayloadFormat = PayloadFormat.JSON,
        archive: str | os.PathLike[str] | None = None,
        rate: str | None = None,
        rate_max_gap: float | None = None,
        conflation: float | str | None = None,
        conflation_key: str | Sequence[str] | None = None,
        paused: bool = False,
        bookmarks: BookmarkStore | None = None,
        name: str | None = None,
        save_interval: float = SAVE_SECONDS,
        save_every: int | None = None,
        chooser: StoreChooser | None = None,
        timeout: float | None = None,
        on_event: Callable[[SubscriberEvent], None] | None = None,
    ) -> Opening[Subscriber]:
        """Return a subscription, to be opened by `await` or `async with`, and iterated.

        It replays the journal of one store at a time, in the journal's order, and goes on with what
        comes. If the store fails it goes on at another one, without a gap and without a duplicate.

        - topic: one topic, or a mapping of several topics. Each has a condition, or None for all
          its messages.
        - topic_pattern: instead, a regular expression that must match the whole topic.
        - begin: EPOCH, NOW, MOST_RECENT, a bookmark, a list of bookmarks of which the earliest
          counts, a position, or a time. A text such as "-15m" does as well.
        - end: where it ends: NOW, a bookmark, a list of bookmarks of which the latest counts, a
          position, or a time, also one to come. The last item is then Completed. None: it goes on
          with what comes.
        - Of begin and end: "at" before a bookmark or a time means that its message is given, and
          "after" or "before" that it is not. By default a bookmark to begin at is not given, and
          one to end at is. A time to begin at is given, and one to end at is not.
        - unknown_bookmark: for a bookmark that the stores do not have. With "fail", UnknownBookmark
          is raised. With "epoch" or "now" the subscription begins there instead. The event
          BeganElsewhere says so.
        - delivered: which messages it is given. "stable": stable ones. "durable": those on the
          store's disk. "live": those that have come to the store.
        - where: a condition in the words of SQL. Only messages for which it is true are given.
        - select: fields of payloads to keep, a list or a text with commas. A - before each leaves
          them out instead. A payload that is no object of its format stays as it is. `where` sees
          whole payloads.
        - payload: the format of the payloads, "json" or "msgpack". The subscriber goes by it when
          it reads an archive or compares the fields of a conflation_key. The stores go by their own
          configuration.
        - archive: the directory of an archive that `quorate archive` writes. Messages that have
          left the stores are read from there. It needs the extra `archive` to be installed.
        - rate: the pace: "1000/s", "500KB/s", or "2x" for twice the messages' own pace.
        - rate_max_gap: the longest pause of such a multiple, in seconds.
        - conflation: the interval of a window, such as "500ms" or seconds. Of the messages of one
          key within it only the newest is given, with the bookmark of the first.
        - conflation_key: what these messages have in common: "key" for their key, or fields of
          payloads, as in `select`. Each topic has keys of its own.
        - paused: nothing is given before `resume`.
        - bookmarks: keeps how far the application has consumed the messages, under this name.
          Begin at MOST_RECENT to go on there. After a crash the messages since the last saving
          come again.
        - save_interval: seconds between two savings.
        - save_every: how many messages are consumed before it saves sooner. None: the interval
          alone counts.
        - chooser: a function that chooses the store to begin at, and to go on at. None: each
          subscription of the client begins at another store than the one before, and goes on at the
          next in the list.
        - timeout: seconds to wait until a store has begun it; None: that of the client.
        - on_event: a function that gets each event at once, on the event loop. It must not block.

        Opening raises InvalidArgument, InvalidFilter, UnknownBookmark, Unreachable, InLimbo,
        NotAStore, Closed. Iterating raises PositionNotReached. With an archive, opening and
        iterating raise ArchiveUnusable, ArchiveInvalid, ArchiveNewer and ArchiveDiffers.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Coroutine[Any, Any, Subscriber]:
            return Subscriber.open(
                topic,
                stores=settings.layout.readable,
                topic_pattern=topic_pattern,
                begin=begin,
                end=end,
                unknown_bookmark=unknown_bookmark,
                delivered=delivered,
                where=where,
                select=select,
                payload=payload,
                archive=archive,
                rate=rate,
                rate_max_gap=rate_max_gap,
                conflation=conflation,
                conflation_key=conflation_key,
                paused=paused,
                bookmarks=bookmarks,
                name=name,
                save_interval=save_interval,
                save_every=save_every,
                chooser=chooser or self._chooser,
                timeout=settings.timeout if timeout is None else timeout,
                delays=settings.delays or RECONNECT,
                on_event=on_event,
                connections=self._connections,
                on_closed=on_closed,
            )

        return Opening(f"subscriber({topic or topic_pattern!r})", lambda: self._opened(opener))

    def state(
        self, topic: str, *, chooser: StoreChooser | None = None, timeout: float | None = None
    ) -> State:
        """Return the state of a topic with keys: its last stable message of each key.

        Nothing is called yet: each query is a call of its own, to one store after the other until
        one answers.

        - chooser: a function that chooses the store to ask, when there is none yet, and when it
          fails. Each watch has a choice of its own. None: each state of the client, and each watch,
          begins at another store than the one before. It goes on at the next in the list.
        - timeout: seconds for which a query waits for a store that answers; None: that of the
          client.

        Raises InvalidArgument.
        """
        settings, chosen_by = self._settings, chooser or self._chooser
        return State(
            topic,
            settings.layout.readable,
            self._connections,
            settings.timeout if timeout is None else timeout,
            settings.delays or RECONNECT,
            self._check_open,
            partial(self._subscribe, topic, chosen_by),
            chosen_by,
        )

    def queue(
        self,
        queue: str,
        *,
        max_backlog: int = 1,
        name: str | None = None,
        timeout: float | None = None,
    ) -> ConsumerOpening:
        """Return a consumer of a queue, to be opened by `await`, `async with` or `async for`.

        Each message of the queue goes to one of its consumers.

        - max_backlog: the most jobs that the consumer has at a time: those that the application
          works on, and those that wait in its process. With 1 a job is handed out when the one
          before it is settled.
        - name: the name of the consumer, for people; None: that of its host.
        - timeout: seconds to wait for a dispatcher; None: that of the client.

        Opening raises InvalidArgument, UnknownQueue, AccessDenied, Closed, and the error of the
        last store if none dispatches in time: QueueElsewhere, Unreachable, StoreStopping. If a
        dispatcher fails later, the consumer goes on with the next one.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Coroutine[Any, Any, Consumer]:
            return Consumer.open(
                queue,
                stores=settings.layout.stores,
                max_backlog=max_backlog,
                name=name,
                timeout=settings.timeout if timeout is None else timeout,
                delays=settings.delays or RECONNECT,
                connections=self._connections,
                on_closed=on_closed,
            )

        return ConsumerOpening(f"queue({queue!r})", lambda: self._opened(opener))

    async def _subscribe(
        self,
        topic: str,
        chooser: StoreChooser,
        begin: Position,
        where: str | None,
        select: str | Sequence[str] | None,
    ) -> Subscriber:
        return await self.subscriber(
            topic, begin=begin, where=where, select=select, chooser=chooser
        )

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("The client")

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Close every source, receiver, subscriber and consumer that is still open.

        timeout: seconds for which each source waits for its messages to become stable, and each
        receiver for enough stores to take its acknowledgements. Calls that are opening one raise
        Closed. Raises the first error of a close; the others are its notes.
        In each case all are closed.
        """
        check_timeout(timeout)
        raise_first(await self._close(timeout))

    async def _close(self, timeout: float) -> list[BaseException]:
        if (forked := forks.error()) is not None:
            return [forked]
        self._closed = True
        for task in self._opening:
            task.cancel()
        if self._opening:
            await asyncio.wait(self._opening)
        failures = await failures_of(each.close(timeout) for each in self._open.values())
        await self._connections.close()
        return failures

    async def _opened(self, opener: Opener[T]) -> T:
        """Open something, and keep it until it is closed."""
        self._check_open()
        task = asyncio.create_task(self._kept(opener))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        try:
            return await task
        except asyncio.CancelledError:
            this_task = asyncio.current_task()
            if this_task is not None and not this_task.cancelling():
                raise Closed("The client") from None
            raise

    async def _kept(self, opener: Opener[T]) -> T:
        key = object()
        opened = await opener(partial(self._open.pop, key, None))
        self._open[key] = opened
        return opened


async def failures_of(closing: Iterable[Coroutine[Any, Any, None]]) -> list[BaseException]:
    """Run these side by side, and return the errors that they raise."""
    results = await asyncio.gather(*closing, return_exceptions=True)
    return [result for result in results if result is not None]


def raise_first(failures: list[BaseException]) -> None:
    """Raise the first of these errors, with the others as its notes."""
    for other in failures[1:]:
        failures[0].add_note(f"Also: {other}")
    if failures:
        raise failures[0]
