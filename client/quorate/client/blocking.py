"""The door for code without asyncio: the same methods; sources and receivers open at once.

The sources and receivers run on the process's background loop. Their rules are not known here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from quorate.client.client import failures_of, raise_first
from quorate.client.settings import (
    Settings,
    Stores,
    read_settings,
    tracing_of,
)
from quorate.consumer.blocking import Consumer
from quorate.protocol.bookmarks import Position
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.delivery import DELIVERY_DEFAULT, Delivery
from quorate.protocol.errors import Closed, QuorateError
from quorate.protocol.heartbeat import HEARTBEAT_SECONDS, SILENCE_SECONDS
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.receiver.blocking import Receiver
from quorate.receiver.events import Event as ReceiverEvent
from quorate.receiver.options import AcknowledgeMode, ReceiverOptions
from quorate.receiver.start import Start
from quorate.source.blocking import Source
from quorate.source.events import Event as SourceEvent
from quorate.source.io.live_server import LiveServers
from quorate.source.options import SourceOptions
from quorate.source.publish_store import PublishStore
from quorate.source.source import CLOSE_SECONDS, OPEN_SECONDS
from quorate.subscriber.begin import EPOCH, GivenBegin, GivenEnd
from quorate.subscriber.blocking import Subscriber
from quorate.subscriber.blocking_state import State
from quorate.subscriber.bookmarks import BookmarkStore
from quorate.subscriber.events import Event as SubscriberEvent
from quorate.subscriber.options import Delivered, OnUnknownBookmark
from quorate.subscriber.protocol.chooser import StoreChooser
from quorate.subscriber.protocol.topics import GivenTopics
from quorate.subscriber.state import State as AsyncState
from quorate.subscriber.subscriber import SAVE_SECONDS, spread_over
from quorate.subscriber.subscriber import Subscriber as AsyncSubscriber
from quorate.transport import forks
from quorate.transport.blocking import check_may_wait, run_blocking
from quorate.transport.connections import Connections
from quorate.transport.tracing import Tracing

__all__ = ["Client", "Consumer", "Receiver", "Source", "State", "Subscriber", "connect_blocking"]

T = TypeVar("T", Source, Receiver, Subscriber, Consumer)

Opener = Callable[[Callable[[], object]], T]
"""Opens something, and is given a function to call when that is closed."""


def connect_blocking(
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
    """Return a client of these stores, for code without asyncio.

    Arguments and errors are those of quorate.client.connect. All calls may be made from any thread.
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

    Make it with `connect_blocking`, and leave its `with`, or close it, at the end.
    """

    def __init__(self, settings: Settings, tracing: Tracing | None = None) -> None:
        """Remember the stores. Applications use `connect_blocking`."""
        self._settings = settings
        self._connections = Connections(
            settings.heartbeat, settings.tls, settings.application, tracing
        )
        self._live_servers = LiveServers(settings.tls)
        self._chooser = spread_over(settings.layout.readable)
        self._open: dict[object, Source | Receiver | Subscriber | Consumer] = {}
        self._lock = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failures = self._close(CLOSE_SECONDS)
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
    ) -> Source:
        """Open a source of this topic.

        Arguments and errors are those of quorate.client.Client.source. The background thread calls
        on_event.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Source:
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

        return self._kept(opener)

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
    ) -> Receiver:
        """Open a receiver of this topic.

        Arguments and errors are those of quorate.client.Client.receiver. The background thread
        calls on_event. A loop over the receiver that is left early leaves it open; it closes with
        the client at the latest.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Receiver:
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

        return self._kept(opener)

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
    ) -> Subscriber:
        """Open a subscription.

        Arguments and errors are those of quorate.client.Client.subscriber. The background thread
        calls on_event and chooser.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Subscriber:
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

        return self._kept(opener)

    def state(
        self, topic: str, *, chooser: StoreChooser | None = None, timeout: float | None = None
    ) -> State:
        """Return the state of a topic with keys.

        Arguments and errors are those of quorate.client.Client.state. The background thread calls
        chooser.
        """
        settings, chosen_by = self._settings, chooser or self._chooser

        def subscribe(
            begin: Position, where: str | None, select: str | Sequence[str] | None
        ) -> Subscriber:
            return self.subscriber(
                topic, begin=begin, where=where, select=select, chooser=chosen_by
            )

        return State(
            AsyncState(
                topic,
                settings.layout.readable,
                self._connections,
                settings.timeout if timeout is None else timeout,
                settings.delays or RECONNECT,
                self._check_open,
                _never,
                chosen_by,
            ),
            subscribe,
        )

    def queue(
        self,
        queue: str,
        *,
        max_backlog: int = 1,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Consumer:
        """Open a consumer of a queue.

        Arguments and errors are those of quorate.client.Client.queue.
        """
        settings = self._settings

        def opener(on_closed: Callable[[], object]) -> Consumer:
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

        return self._kept(opener)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("The client")

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Close every source and receiver that is still open.

        timeout and errors are those of quorate.client.Client.close.
        """
        check_timeout(timeout)
        raise_first(self._close(timeout))

    def _close(self, timeout: float) -> list[BaseException]:
        if (forked := forks.error()) is not None:
            return [forked]
        check_may_wait()
        with self._lock:
            self._closed = True
            still_open = list(self._open.values())

        async def closed() -> list[BaseException]:
            failures = await failures_of(each._closing(timeout) for each in still_open)
            await self._connections.close()
            return failures

        return run_blocking(closed())

    def _kept(self, opener: Opener[T]) -> T:
        """Open something, and keep it until it is closed."""
        self._check_open()
        key = object()
        try:
            opened = opener(partial(self._open.pop, key, None))
        except QuorateError as error:
            if self._closed:  # Its connections ended under the call.
                raise Closed("The client") from error
            raise
        with self._lock:
            if not self._closed:
                self._open[key] = opened
                return opened
        opened.close()
        raise Closed("The client")


async def _never(*_: object) -> AsyncSubscriber:
    raise AssertionError("the blocking state subscribes by itself")
