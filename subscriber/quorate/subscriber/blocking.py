"""The subscriber for code without asyncio: the same methods, the same errors, a plain `for`.

The call runs on the process's background loop; whole batches cross to the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from quorate.protocol.bookmarks import Position
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.identity import StoreAddress
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.tls import Tls
from quorate.subscriber.begin import EPOCH, GivenBegin, GivenEnd
from quorate.subscriber.bookmarks import BookmarkStore
from quorate.subscriber.events import Event
from quorate.subscriber.io.replay import Given
from quorate.subscriber.items import Item, ReplayedBatch
from quorate.subscriber.options import Delivered, OnUnknownBookmark
from quorate.subscriber.protocol.chooser import StoreChooser
from quorate.subscriber.protocol.topics import GivenTopics
from quorate.subscriber.subscriber import (
    CLOSE_SECONDS,
    OPEN_SECONDS,
    SAVE_SECONDS,
    called,
    given_of,
    item_of,
    until_going,
)
from quorate.subscriber.subscriber import Subscriber as AsyncSubscriber
from quorate.transport.blocking import run_blocking
from quorate.transport.connections import Connections

T = TypeVar("T")


class Subscriber:
    """A subscription: quorate.subscriber.Subscriber for one thread."""

    @classmethod
    def open(
        cls,
        topic: GivenTopics | None = None,
        *,
        stores: Sequence[StoreAddress],
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
        timeout: float | None = OPEN_SECONDS,
        delays: Delays = RECONNECT,
        on_event: Callable[[Event], None] | None = None,
        connections: Connections | None = None,
        tls: Tls | None = None,
        on_closed: Callable[[], object] | None = None,
        chooser: StoreChooser | None = None,
    ) -> Subscriber:
        """Return a subscription that a store has begun.

        Arguments and errors are those of quorate.subscriber.Subscriber.open. The background thread
        calls on_event, on_closed and chooser, and the background loop uses the connections.
        """
        return cls(
            run_blocking(
                AsyncSubscriber.open(
                    topic,
                    stores=stores,
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
                    timeout=timeout,
                    delays=delays,
                    on_event=on_event,
                    connections=connections,
                    tls=tls,
                    on_closed=on_closed,
                    chooser=chooser,
                )
            )
        )

    def __init__(self, subscriber: AsyncSubscriber) -> None:
        """Wrap an open subscription. Applications use `Client.subscriber`."""
        self._subscriber = subscriber

    @property
    def position(self) -> Position:
        """The position behind everything that was handed over."""
        return self._subscriber.position

    @property
    def consumed_position(self) -> Position:
        """The position before the first message that is not consumed."""
        return self._subscriber.consumed_position

    def __iter__(self) -> Iterator[Item]:
        """Yield messages, and what else there is, until the subscription ends or is closed."""
        if self._subscriber._is_one_by_one:
            yield from self._until_end(item_of)
            return
        for given in self.batches():
            if isinstance(given, ReplayedBatch):
                for message in self._subscriber._handing_over(given):
                    yield message
                    if not self._subscriber._pacing.is_going:
                        run_blocking(until_going(self._subscriber))
            else:
                yield given

    def batches(self) -> Iterator[Given]:
        """Yield whole batches instead of messages, and what else there is. They are faster."""
        yield from self._until_end(given_of)

    def _until_end(self, take: Callable[[AsyncSubscriber], Coroutine[Any, Any, T]]) -> Iterator[T]:
        while True:
            try:
                taken = run_blocking(take(self._subscriber))
            except StopAsyncIteration:
                return
            yield taken

    def pause(self) -> None:
        """Hand over nothing more until `resume`. The place is kept, and the store waits."""
        run_blocking(called(self._subscriber.pause))

    def resume(self) -> None:
        """Go on after `pause`, which another thread called."""
        run_blocking(called(self._subscriber.resume))

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """End the subscription, and save its position, as quorate.subscriber.Subscriber does."""
        run_blocking(self._closing(timeout))

    async def _closing(self, timeout: float) -> None:
        await self._subscriber.close(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        run_blocking(self._subscriber.__aexit__(kind, error, traceback))
