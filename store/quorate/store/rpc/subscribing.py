"""The request of Subscribe: checked, and turned into a subscription that begins somewhere.

Filters and positions may be long, so a request is read away from the event loop.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from quorate.protocol.application import Application
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.wire import (
    application_from_wire,
    bookmarks_from_wire,
    position_from_wire,
    position_to_wire,
)
from quorate.store import watchers
from quorate.store.engine import Engine
from quorate.store.rpc.selecting import Wanted
from quorate.store.rpc.subscribe import Subscription, given_upto
from quorate.store.rpc.subscription_begins import SubscriptionBegins
from quorate.store.rules.ending import Ending
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Running, Subscriptions
from quorate.store.rules.walk import Walk
from quorate.store.tasks.executor import in_threads
from quorate.v1 import store_pb2 as store_v1


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as it was read."""

    selection: watchers.Selection
    wanted: Wanted
    application: Application


class Subscribing:
    """One call of Subscribe, from its request on."""

    def __init__(
        self,
        engine: Engine,
        executor: Executor,
        request: store_v1.SubscribeRequest,
        client: str,
        subscriptions: Subscriptions,
        check_running: Callable[[], None],
        payload_of: Callable[[str], PayloadFormat],
    ) -> None:
        """Serve a request.

        - client: the address of the client.
        - subscriptions: those that run at the store.
        - check_running: raises the error with which the store refuses calls, if there is one.
        - payload_of: returns the format of the payloads of a topic.
        """
        self._payload_of = payload_of
        self._client = client
        self._subscriptions = subscriptions
        self._check_running = check_running
        self._engine = engine
        self._executor = executor
        self._apart = in_threads(executor)
        self._request = request

    async def responses(self) -> AsyncGenerator[store_v1.SubscribeResponse, None]:
        """Yield where the subscription begins, and then all that it is given.

        Raises InvalidArgument, InvalidFilter, TooManySubscriptions, UnknownBookmark, StoreLags,
        PositionNotReached, InLimbo, StorageFailed.
        """
        self._engine.check_not_in_limbo()
        request = self._request
        asked = await self._apart(partial(_asked, request, self._payload_of))
        running = Running(
            self._client,
            asked.selection.topic,
            request.pattern,
            asked.selection.selects,
            request.delivered,
            asked.wanted.where,
            time.monotonic(),
            application=asked.application,
        )
        with self._subscriptions.opened(running):
            async for response in self._responses(asked, running):
                yield response

    async def _responses(
        self, asked: _Asked, running: Running
    ) -> AsyncIterator[store_v1.SubscribeResponse]:
        selects = asked.selection.selects
        begins = SubscriptionBegins(self._engine, self._executor, selects)
        beginning = await begins.at_position(await self._begin(begins))
        ending = await self._ending(begins)
        walk = await self._apart(
            lambda: Walk(beginning.position, beginning.journal_at, selects, ending)
        )
        subscription = Subscription(
            self._engine,
            self._executor,
            walk,
            self._request.delivered,
            asked.wanted,
            begins,
            self._check_running,
        )
        running.walk = walk
        await subscription.meet_all()
        ends = None if ending is None else ending.position
        yield await self._apart(partial(_opened, beginning.position, ends))
        async for response in subscription.responses(asked.selection):
            yield response

    def _upto(self, state: SourceState) -> int:
        return given_upto(state, self._request.delivered)

    async def _position(self, named: store_v1.Position) -> Position:
        return await self._apart(partial(position_from_wire, named))

    async def _bookmarks(self, named: store_v1.Position) -> list[Bookmark]:
        return await self._apart(partial(bookmarks_from_wire, named))

    async def _begin(self, begins: SubscriptionBegins) -> Position:
        request = self._request
        match request.WhichOneof("begin"):
            case "position":
                return await self._position(request.position)
            case "now":
                return await begins.now(self._upto)
            case "since_ns":
                return await begins.since(request.since_ns)
            case "bookmarks":
                bookmarks = await self._bookmarks(request.bookmarks)
                return await begins.at_earliest(bookmarks, behind=True)
            case "before_bookmarks":
                bookmarks = await self._bookmarks(request.before_bookmarks)
                return await begins.at_earliest(bookmarks, behind=False)
            case _:
                return Position()

    async def _ending(self, begins: SubscriptionBegins) -> Ending | None:
        """Return where the subscription ends; None: it does not."""
        request = self._request
        before_ns = request.end_before_ns if request.HasField("end_before_ns") else None
        match request.WhichOneof("end"):
            case "end_position":
                position = await self._position(request.end_position)
            case "end_now":
                position = await begins.now(self._upto)
            case "end_bookmarks":
                bookmarks = await self._bookmarks(request.end_bookmarks)
                position = await begins.at_latest(bookmarks, behind=True)
            case "end_before_bookmarks":
                bookmarks = await self._bookmarks(request.end_before_bookmarks)
                position = await begins.at_latest(bookmarks, behind=False)
            case _ if before_ns is None:
                return None
            case _ if time.time_ns() < before_ns:
                return Ending(None, before_ns)
            case _:
                position = await begins.before(before_ns, self._upto)
        return await self._apart(partial(Ending, position, before_ns))


_DELIVERED = {
    store_v1.DELIVERED_STABLE,
    store_v1.DELIVERED_DURABLE,
    store_v1.DELIVERED_LIVE,
}


def _selection(request: store_v1.SubscribeRequest) -> watchers.Selection:
    match request.WhichOneof("topics"):
        case "topic":
            return watchers.by_topic(request.topic)
        case "pattern":
            return watchers.by_pattern(request.pattern)
        case _:
            raise InvalidArgument("subscribe", "the request names neither a topic nor a pattern")


# In a thread.


def _asked(
    request: store_v1.SubscribeRequest, payload_of: Callable[[str], PayloadFormat]
) -> _Asked:
    """Read a request. Raises InvalidArgument, InvalidFilter."""
    if request.delivered not in _DELIVERED:
        raise InvalidArgument("delivered", f"{request.delivered} is none that is known")
    return _Asked(
        _selection(request),
        Wanted(
            Filter(request.where) if request.where else None,
            Projection(request.select) if request.select else None,
            payload_of,
        ),
        application_from_wire(request.application),
    )


def _opened(begins: Position, ends: Position | None) -> store_v1.SubscribeResponse:
    """Return the first response. ends: where the subscription ends; None: that is not known."""
    response = store_v1.SubscribeResponse(begins=position_to_wire(begins))
    if ends is not None:
        response.ends.CopyFrom(position_to_wire(ends))
    return response
