"""The subscriber: one replay, from one store at a time, that goes on at another if that one fails.

What is given next is decided by the store, and whether it fits by quorate.subscriber.protocol.
Nothing is read ahead of the application but what gRPC buffers: a slow application slows its own
replay alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from math import inf
from types import TracebackType
from typing import Self

from quorate.protocol.bookmarks import Position, is_behind
from quorate.protocol.choices import check_flag, check_function, choice_of
from quorate.protocol.delays import RECONNECT, Delays
from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    QuorateError,
    StorageFailed,
    UnknownBookmark,
    Unreachable,
)
from quorate.protocol.filters.projection import Projection
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.subscriber.asking import request_behind, request_of
from quorate.subscriber.begin import (
    EPOCH,
    NOW,
    Ahead,
    Begin,
    Behind,
    End,
    Epoch,
    GivenBegin,
    GivenEnd,
    MostRecent,
    Now,
    Time,
    check_order,
    ends_first,
    read_begin,
    read_end,
)
from quorate.subscriber.bookmarks import BookmarkStore
from quorate.subscriber.events import (
    ArchiveEntered,
    BeganElsewhere,
    Event,
    NotSaved,
    StoreLeft,
    Subscribed,
)
from quorate.subscriber.io.archived import ARCHIVE_FAILURES, Archived
from quorate.subscriber.io.conflating import Conflating
from quorate.subscriber.io.pacing import Pacing
from quorate.subscriber.io.replay import Given, Replay
from quorate.subscriber.io.saving import Saving
from quorate.subscriber.items import Completed, Item, ReplayedBatch, ReplayedMessage, Withdrawn
from quorate.subscriber.options import Delivered, OnUnknownBookmark
from quorate.subscriber.protocol import exclusions
from quorate.subscriber.protocol.chooser import Spread, StoreChooser, Turns
from quorate.subscriber.protocol.conflation_key import ConflationKey, read_interval
from quorate.subscriber.protocol.follower import Follower
from quorate.subscriber.protocol.pace import Pace, Rate
from quorate.subscriber.protocol.progress import Progress
from quorate.subscriber.protocol.topics import GivenTopics, read_topics
from quorate.subscriber.protocol.unreached import Unreached
from quorate.transport.application import this_application
from quorate.transport.connections import Connection, Connections
from quorate.transport.delays import delay
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.subscriber")

OPEN_SECONDS = 30.0
SAVE_SECONDS = 1.0
CLOSE_SECONDS = 10.0

_DELIVERED = {
    Delivered.STABLE: store_v1.DELIVERED_STABLE,
    Delivered.DURABLE: store_v1.DELIVERED_DURABLE,
    Delivered.LIVE: store_v1.DELIVERED_LIVE,
}

_OF_ONE_STORE = Unreachable, StorageFailed
"""Errors that another store need not have, though another try at the store would not help."""

_INSTEAD: dict[OnUnknownBookmark, Epoch | Now] = {
    OnUnknownBookmark.EPOCH: EPOCH,
    OnUnknownBookmark.NOW: NOW,
}


class Subscriber:
    """A subscription: iterate over it. Open it with `Client.subscriber`, and close it."""

    def __init__(
        self,
        stores: Sequence[StoreAddress],
        request: store_v1.SubscribeRequest,
        begin: Begin,
        end: End | None,
        delays: Delays,
        on_event: Callable[[Event], None] | None,
        connections: Connections | None,
        tls: Tls | None,
        on_closed: Callable[[], object] | None,
        bookmarks: BookmarkStore | None = None,
        name: str = "",
        save_interval: float = SAVE_SECONDS,
        save_every: int | None = None,
        pace: Pace | None = None,
        on_unknown: OnUnknownBookmark = OnUnknownBookmark.FAIL,
        archived: Archived | None = None,
        conflating: Conflating | None = None,
        chooser: StoreChooser | None = None,
    ) -> None:
        """Begin unconnected. Applications use `Client.subscriber`."""
        self._turns = Turns(stores, chooser or spread_over(stores))
        self._unreached = Unreached(len(self._turns.stores))
        self._request = request
        self._begin = begin
        self._end = end
        self._named = begin, end
        """Where the application said that it begins and ends."""
        self._is_over = False
        """Whether the end was handed over."""
        self._delays = delays
        self._on_event = on_event
        self._on_closed = on_closed
        self._connections = connections or Connections(tls=tls, application=this_application())
        if self._connections.application is not None:
            request.application.CopyFrom(self._connections.application)
        self._are_own = connections is None
        self._follower: Follower | None = None
        self._replay: Replay | None = None
        self._connection: Connection | None = None
        self._silence: Unreachable | None = None
        self._failure: QuorateError | None = None
        self._given: AsyncIterator[Given] | None = None
        self._messages: Iterator[ReplayedMessage] = iter(())
        self._last: ReplayedMessage | None = None
        self._before = Position()
        self._closed = asyncio.Event()
        self._coming: asyncio.Task[Given] | None = None
        """The task that waits for the stores. A cancelled call leaves it to the next one."""
        self._on_unknown = on_unknown
        self._without_bookmark: set[str] = set()
        """The stores that do not have the bookmark to begin at."""
        self._has_completed = False
        self._archived = archived
        self._archive_failure: QuorateError | None = None
        """Why the archive can no longer be read."""
        self._conflating = conflating
        self._pacing = Pacing(pace, self._closed)
        self._is_one_by_one = pace is not None or conflating is not None
        """Whether messages are handed over one by one, each at a time of its own."""
        self._saving: Saving | None = None
        if bookmarks is not None:
            self._saving = Saving(
                bookmarks,
                name,
                save_interval,
                save_every,
                self._consumed_position,
                lambda reason: self._tell(NotSaved(name, reason)),
                self._stop,
            )
        is_counted = self._saving is not None and save_every is not None
        self._progress = Progress(self._saving.consumed if self._saving and is_counted else None)

    @classmethod
    async def open(
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
        """Return a subscription that a store has begun. Applications use `Client.subscriber`.

        timeout: seconds to wait until a store has begun it; None: as long as it takes. Then the
        error of the last store is raised. chooser: chooses the stores; None: it begins at any.

        Raises InvalidArgument, InvalidFilter, UnknownBookmark, Unreachable, InLimbo, StoreLags,
        NotAStore, TlsFailed, AccessDenied, ConfigurationInvalid; with an archive ArchiveUnusable,
        ArchiveInvalid, ArchiveNewer.
        """
        check_timeout(timeout)
        check_function("on_event", on_event)
        check_function("chooser", chooser)
        check_flag("paused", paused)
        request = store_v1.SubscribeRequest(
            protocol_version=PROTOCOL_VERSION,
            delivered=_DELIVERED[choice_of("delivered", Delivered, delivered)],
        )
        given = {
            "rate": rate is not None,
            "rate_max_gap": rate_max_gap is not None,
            "conflation": conflation is not None,
            "conflation_key": conflation_key is not None,
            "paused": paused,
            exclusions.LIVE: request.delivered == store_v1.DELIVERED_LIVE,
        }
        exclusions.check({name for name, is_given in given.items() if is_given})
        topics = read_topics(topic, topic_pattern, where)
        if topics.pattern:
            request.pattern = topics.pattern
        else:
            request.topic = topics.topic
        request.where = "" if topics.where is None else topics.where.text
        fields = None if select is None else Projection(select)
        request.select = "" if fields is None else fields.text
        form = choice_of("payload", PayloadFormat, payload)
        archived = None
        if archive is not None:
            archived = Archived(archive, topics.selects, topics.where, fields, form)
        conflating = None
        if conflation is not None and conflation_key is not None:
            conflating = Conflating(
                read_interval(conflation), ConflationKey(conflation_key, fields, form)
            )
        now_ns = time.time_ns()
        started = read_begin(begin, now_ns)
        ended = None if end is None else read_end(end, now_ns)
        if ended is not None:
            check_order(started, ended, now_ns)
        if bookmarks is not None and not hasattr(bookmarks, "claim"):
            detail = f"{bookmarks!r} is none; give one, such as FileBookmarkStore(path)"
            raise InvalidArgument("bookmarks", detail)
        if not isinstance(name, str | None):
            raise InvalidArgument("name", f"{name!r} is not text")
        if not isinstance(save_every, int | None) or (save_every is not None and save_every < 1):
            raise InvalidArgument("save_every", f"{save_every!r} is not 1 message or more")
        if bookmarks is not None and not name:
            raise InvalidArgument("name", "is missing: a bookmark store keeps positions by name")
        for argument, value in ("name", name), ("save_every", save_every):
            if bookmarks is None and value is not None:
                raise InvalidArgument(argument, "needs bookmarks, where positions are kept")
        if not isinstance(save_interval, int | float) or not 0 < save_interval < inf:
            raise InvalidArgument("save_interval", f"{save_interval!r} is not above 0 seconds")
        if bookmarks is None and isinstance(started, MostRecent):
            raise InvalidArgument("begin", "most_recent needs bookmarks, and the name in them")
        subscriber = cls(
            stores, request, started, ended, delays, on_event, connections, tls, on_closed,
            bookmarks, name or "", save_interval, save_every, _pace(rate, rate_max_gap),
            choice_of("unknown_bookmark", OnUnknownBookmark, unknown_bookmark),
            archived,
            conflating,
            chooser,
        )  # fmt: skip
        if paused:
            subscriber.pause()
        try:
            async with asyncio.timeout(timeout):
                await subscriber._claim()
                await subscriber._begin_somewhere()
        except TimeoutError:
            await subscriber.close()
            nowhere = Unreachable(stores[0].address, "it did not answer in time")
            raise subscriber._failure or nowhere from None
        except BaseException:
            await subscriber.close()
            raise
        if conflating is not None:
            conflating.begin(subscriber._before)
        return subscriber

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def position(self) -> Position:
        """The position behind everything that was handed over.

        Print it, store it, and give it as `begin` to any store of the group: what follows is what
        was not handed over yet.
        """
        if self._conflating is not None:
            return self._conflating.position
        waiting = self._pacing.position
        return _moved(self._before, self._last) if waiting is None else waiting

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        if not self._is_one_by_one and self._pacing.is_going:
            for message in self._messages:
                self._last = message
                return message
        return await self._slowly()

    async def _slowly(self) -> Item:
        """Return the next item, which may have to be waited for."""
        if self._conflating is None:
            return await self._paced()
        return await self._conflating.next(self._paced, lambda: self._before, self._until_going)

    async def _until_going(self) -> None:
        """Wait while it is paused. Raises Closed."""
        await self._pacing.until_going()
        self._pacing.check_open()

    async def _paced(self) -> Item:
        """Return the next message, or what else there is, when its pace says so."""
        if self._pacing.has_pace or not self._pacing.is_going:
            item = await self._when_due(self._item)
            assert not isinstance(item, ReplayedBatch)
            return item
        return await self._item()

    async def _item(self) -> Item:
        while True:
            for message in self._messages:
                self._last = message
                return message
            given = await self._next()
            if not isinstance(given, ReplayedBatch):
                return given
            self._messages = given.messages()

    def _handing_over(self, batch: ReplayedBatch) -> Iterator[ReplayedMessage]:
        """Yield the messages of a batch, with the position behind each."""
        for message in batch.messages():
            self._last = message
            yield message

    async def batches(self) -> AsyncIterator[Given]:
        """Yield whole batches instead of messages, and what else there is. They are faster.

        A pace counts for each batch as a whole. Raises InvalidArgument with conflation.
        """
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield await self._batch()

    async def _batch(self) -> Given:
        if self._conflating is not None:
            exclusions.check({"conflation", "conflation_key", exclusions.BATCHES})
        given = await self._when_due(self._next)
        assert not isinstance(given, ReplayedMessage)
        return given

    def pause(self) -> None:
        """Hand over nothing more until `resume`. The place is kept, and the store waits.

        Raises InvalidArgument with delivered="live", which waits for none.
        """
        if self._request.delivered == store_v1.DELIVERED_LIVE:
            exclusions.check({"pause()", exclusions.LIVE})
        self._pacing.pause()

    def resume(self) -> None:
        """Go on after `pause`."""
        self._pacing.resume()

    async def _when_due(self, take: Callable[[], Awaitable[Item | Given]]) -> Item | Given:
        """Return what comes next when it is due. A call that is cancelled leaves it to the next."""
        return await self._pacing.next(take, partial(_moved, self._before, self._last))

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """End the subscription, and save its position.

        timeout: seconds for the saving. Raises BookmarksTakenOver, and BookmarkStoreFailed, also if
        the saving takes longer. It is closed in each case.
        """
        if self._closed.is_set():
            return
        self._closed.set()
        self._pacing.resume()
        self._stop()
        self._leave()
        try:
            if self._saving is not None:
                await self._saving.close(timeout)
        finally:
            if self._are_own:
                await self._connections.close()
            if self._on_closed is not None:
                self._on_closed()

    # -- the bookmark store -----------------------------------------------------------------

    @property
    def consumed_position(self) -> Position:
        """The position before the first message that is not consumed."""
        return self._consumed_position() or Position()

    def _consumed_position(self) -> Position | None:
        if self._follower is None:
            return None
        return self._progress.position(self._follower.position)

    async def _claim(self) -> None:
        if self._saving is None:
            return
        saved = await self._saving.claim()
        if isinstance(self._begin, MostRecent):
            self._begin = EPOCH if saved is None else saved

    # -- one store after the other ----------------------------------------------------------

    async def _next(self) -> Given:
        """Return what a store gives next, from whichever store that is.

        Raises StopAsyncIteration behind the end.
        """
        self._check_going()
        if self._is_over:
            raise StopAsyncIteration
        if self._coming is None:
            self._coming = asyncio.create_task(self._receive())
        coming = self._coming
        await asyncio.wait({coming})
        self._check_going()
        self._coming = None
        given = coming.result()
        assert self._follower is not None
        self._before, self._last = self._follower.position, None
        if isinstance(given, Completed) and self._end is not None:
            self._is_over = True
            self._leave()
        return given

    def _check_going(self) -> None:
        """Raise if nothing more is handed over: it is closed, or what it needs has failed."""
        self._pacing.check_open()
        if self._archive_failure is not None:
            raise self._archive_failure
        if self._saving is not None and self._saving.failure is not None:
            raise self._saving.failure

    def _stop(self) -> None:
        if self._coming is not None:
            self._coming.cancel()

    async def _receive(self) -> Given:
        while True:
            if self._given is None:
                await self._begin_somewhere()
            assert self._given is not None
            try:
                with self._failing():
                    given = await anext(self._given, None)
            except ARCHIVE_FAILURES as error:
                self._archive_failure = error
                raise
            except QuorateError as error:
                self._left(error)
                await self._rest()
                continue
            if given is None:
                self._given = None  # the archive ends here, and the stores go on
                assert self._follower is not None
                if not self._follower.is_at_end:
                    continue
                self._follower.finish()
                given = Completed(self._follower.position)
            if isinstance(given, Completed):
                if self._has_completed:
                    continue
                self._has_completed = True
                self._tell(given)
            else:
                self._turns.gave()
            if self._saving is not None:
                self._note(given)
            return given

    def _note(self, given: Given) -> None:
        """Note what is handed over, so that the application can consume it."""
        assert self._follower is not None
        if isinstance(given, ReplayedBatch):
            behind = self._follower.place(given.source)
            given.taken = self._progress.handed(given.source, given.numbers, given.before, behind)
        elif isinstance(given, Withdrawn):
            self._progress.withdrawn(given.source, given.first)

    async def _begin_somewhere(self) -> None:
        """Begin at the first store that can. Raises what no store can mend."""
        while True:
            try:
                await self._begin_at_next()
                return
            except UnknownBookmark as error:
                if await self._begins_elsewhere(error):
                    continue
                self._left(error)
            except QuorateError as error:
                if not error.retryable and not isinstance(error, _OF_ONE_STORE):
                    raise
                self._left(error)
            await self._rest()

    async def _begins_elsewhere(self, error: UnknownBookmark) -> bool:
        """Begin elsewhere if that is asked for, once all stores were tried; return whether it does.

        One store that lags must not decide where: more than half of them have to say so.
        """
        turns, store = self._turns, self._turns.store
        self._without_bookmark.add(store.name)
        if not turns.is_last:
            return False
        if await self._begins_without(error) or await self._ends_without(error):
            return True
        if not _names(self._begin, error):
            raise error  # it is the end's, and nothing could be instead
        instead = _INSTEAD.get(self._on_unknown)
        if instead is None:
            raise error
        if 2 * len(self._without_bookmark) <= len(turns.stores):
            return False
        self._leave()
        self._begin = instead
        self._named = instead, self._end
        _log.warning("the subscription begins at %s: %s", instead, error)
        self._tell(BeganElsewhere(store.name, error, instead))
        return True

    async def _begins_without(self, error: UnknownBookmark) -> bool:
        """Begin without a bookmark if the archive has it; return whether it does."""
        begin, archived = self._begin, self._archived
        if archived is None or not isinstance(begin, Behind | Ahead):
            return False
        found = await archived.begins_at(begin, error.bookmark)
        if found is None:
            return False
        self._begin = found
        self._leave()
        self._turns.gave()
        return True

    async def _ends_without(self, error: UnknownBookmark) -> bool:
        """End without a bookmark if the archive has it; return whether it does."""
        end, archived = self._end, self._archived
        if archived is None or not isinstance(end, Behind | Ahead):
            return False
        found = await archived.ends_at(end, error.bookmark)
        if found is None:
            return False
        self._end = found
        self._leave()
        self._turns.gave()
        return True

    async def _rest(self) -> None:
        """Wait before the next store if each of them has failed in a row."""
        if (rounds := self._turns.rounds) is not None:
            await asyncio.sleep(delay(self._delays, rounds))

    async def _begin_at_next(self) -> None:
        store = self._turns.store
        self._silence = None
        self._connection = self._connections.connect(store.address, self._told)
        self._replay = replay = Replay(
            store.address, self._connection.store, self._asked(), self._archived
        )
        with self._failing():
            follower = await replay.begun()
        if self._follower is None:
            if self._archived is not None and await self._begins_in(self._archived, follower):
                return
            self._follow(follower)
        elif self._follower.ends is None:
            self._follower.ends = follower.ends
        assert self._follower is not None
        self._given = replay.given(self._follower)
        self._tell(Subscribed(store.name, self._follower.position))

    async def _begins_in(self, archived: Archived, at_store: Follower) -> bool:
        """Begin in the archive if it has messages behind the position; return whether it does.

        at_store: begins where the store would.
        """
        if archived.cut is not None and isinstance(self._begin, Behind | Ahead):
            self._begin = Time(archived.cut.time_ns)
            self._leave()
            await self._begin_at_next()
            return True
        beginning = await archived.begins(self._begin, self._end, at_store)
        follower = Follower(beginning.position, beginning.ends)
        is_as_at_store = beginning.position == at_store.position and (
            beginning.ends == at_store.ends
        )
        if is_as_at_store and not beginning.ranges:
            return False
        self._leave()
        self._follow(follower)
        self._given = archived.given(follower, beginning.ranges)
        self._tell(ArchiveEntered(archived.path, beginning.position))
        return True

    def _follow(self, follower: Follower) -> None:
        """Begin where the store, or the archive, has said. Raises InvalidArgument."""
        (begin, end), ends = self._named, follower.ends
        if end is not None and ends is not None and _can_be_compared(begin, end):
            _check_is_before(follower.position, ends, begin, end)
        self._follower = follower
        self._before = follower.position

    def _asked(self) -> store_v1.SubscribeRequest:
        """Return the request to the next store: from where the subscription has come to."""
        follower = self._follower
        if follower is None:
            return request_of(self._request, self._begin, self._end)
        return request_behind(self._request, follower.position, self._end, follower.ends)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Raise one of Quorate's errors if the call to the store fails, or the store is silent."""
        store = self._turns.store
        try:
            with errors_of(store.address):
                yield
        except asyncio.CancelledError:
            # To its reader, a cancelled call looks like its own cancellation.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            if self._closed.is_set():
                raise Closed("The subscriber") from None
            raise self._silence or Unreachable(store.address, "the call was cancelled") from None

    def _told(self, silence: Unreachable | None) -> None:
        """Leave a store that has become silent."""
        if silence is not None and self._replay is not None:
            self._silence = silence
            self._replay.cancel()

    def _left(self, error: QuorateError) -> None:
        """Leave the store. Raises PositionNotReached if no store has reached the position."""
        store = self._turns.store
        if isinstance(error, Closed) and self._closed.is_set():
            raise error
        self._leave()
        self._failure = error
        self._turns.left(error)
        position = self._follower.position if self._follower is not None else None
        _log.info("the subscription leaves store %s: %s", store.name, error)
        self._tell(StoreLeft(store.name, error, position))
        if (unreached := self._unreached.left(store.name, error)) is not None:
            raise unreached

    def _leave(self) -> None:
        self._given = None
        if self._replay is not None:
            self._replay.cancel()
            self._replay = None
        if self._connection is not None:
            self._connection.release()
            self._connection = None

    def _tell(self, event: Event) -> None:
        if self._on_event is not None:
            self._on_event(event)


def spread_over(stores: Sequence[StoreAddress]) -> Spread:
    """Return a chooser whose first subscription begins at any of these stores."""
    return Spread(random.randrange(len(stores)))


async def called(function: Callable[[], None]) -> None:
    """Call a function on the subscriber's loop, for the blocking subscriber."""
    function()


async def item_of(subscriber: Subscriber) -> Item:
    """Return the next item when it is due, for the blocking subscriber."""
    return await anext(subscriber)


async def given_of(subscriber: Subscriber) -> Given:
    """Return what a store gives next when it is due, for the blocking subscriber."""
    return await subscriber._batch()


async def until_going(subscriber: Subscriber) -> None:
    """Wait while the subscriber is paused, for the blocking subscriber."""
    await subscriber._pacing.until_going()


def _can_be_compared(begin: Begin, end: End) -> bool:
    """Return whether an end before the beginning is a mistake.

    What is there now is never before it, and two times were compared when it was opened.
    """
    are_times = isinstance(begin, Time) and isinstance(end, Time)
    return not isinstance(end, Now) and not are_times


def _check_is_before(position: Position, ends: Position, begin: Begin, end: End) -> None:
    if is_behind(position, ends):
        raise ends_first(begin, end)


def _names(begin: Begin, error: UnknownBookmark) -> bool:
    """Return whether an error is about a bookmark of the beginning."""
    return isinstance(begin, Behind | Ahead) and error.bookmark in map(str, begin.bookmarks)


def _moved(before: Position, last: ReplayedMessage | None) -> Position:
    """Return the position behind the last message that was handed over behind a position."""
    return before if last is None else before.moved(last.source, last.bookmark.place)


def _pace(rate: str | None, max_gap: float | None) -> Pace | None:
    """Return the pace that is asked for. Raises InvalidArgument."""
    if rate is None:
        return None
    if max_gap is not None and (not isinstance(max_gap, int | float) or not 0 < max_gap < inf):
        raise InvalidArgument("rate_max_gap", f"{max_gap!r} is not above 0 seconds")
    return Pace(Rate.parse(rate), max_gap)
