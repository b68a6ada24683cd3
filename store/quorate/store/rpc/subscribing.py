"""The request of Subscribe: checked, and turned into a subscription that begins somewhere."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import Executor

from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import InLimbo, InvalidArgument
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.wire import (
    bookmark_from_wire,
    bookmarks_from_wire,
    position_from_wire,
    position_to_wire,
)
from quorate.store import watchers
from quorate.store.engine import Engine
from quorate.store.rpc.begins import Begins
from quorate.store.rpc.selecting import Wanted
from quorate.store.rpc.subscribe import Subscription, given_upto
from quorate.store.rules.ending import Ending
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Running, Subscriptions
from quorate.store.rules.walk import Walk
from quorate.v1 import store_pb2 as store_v1


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
    ) -> None:
        """Check the request. Raises InvalidArgument, InvalidFilter, InLimbo.

        - client: the address of the client.
        - subscriptions: those that run at the store.
        - check_running: raises the error with which the store refuses calls, if there is one.
        """
        self._client = client
        self._subscriptions = subscriptions
        self._check_running = check_running
        self._engine = engine
        self._executor = executor
        self._request = request
        self._selection = _selection(request)
        self._wanted = Wanted(
            Filter(request.where) if request.where else None,
            Projection(request.select) if request.select else None,
        )
        if request.delivered not in _DELIVERED:
            raise InvalidArgument("delivered", f"{request.delivered} is none that is known")
        if reason := engine.limbo_reason(None):
            raise InLimbo("the journal", engine.core.store, reason)

    async def responses(self) -> AsyncGenerator[store_v1.SubscribeResponse, None]:
        """Yield where the subscription begins, and then all that it is given.

        Raises TooManySubscriptions, UnknownBookmark, StorageFailed.
        """
        request = self._request
        running = Running(
            self._client,
            self._selection.topic,
            request.pattern,
            self._selection.selects,
            request.delivered,
            request.where,
            time.monotonic(),
        )
        with self._subscriptions.opened(running):
            async for response in self._responses(running):
                yield response

    async def _responses(self, running: Running) -> AsyncIterator[store_v1.SubscribeResponse]:
        begins = Begins(self._engine, self._executor, self._selection.selects)
        beginning = await begins.at_position(await self._begin(begins))
        ending = await self._ending(begins)
        walk = Walk(beginning.position, beginning.journal_at, self._selection.selects, ending)
        subscription = Subscription(
            self._engine,
            self._executor,
            walk,
            self._request.delivered,
            self._wanted,
            begins,
            self._check_running,
        )
        running.walk = walk
        await subscription.meet_all()
        response = store_v1.SubscribeResponse(begins=position_to_wire(beginning.position))
        if ending is not None and ending.position is not None:
            response.ends.CopyFrom(position_to_wire(ending.position))
        yield response
        async for response in subscription.responses(self._selection):
            yield response

    def _upto(self, state: SourceState) -> int:
        return given_upto(state, self._request.delivered)

    async def _begin(self, begins: Begins) -> Position:
        request = self._request
        match request.WhichOneof("begin"):
            case "position":
                return position_from_wire(request.position)
            case "now":
                return begins.now(self._upto)
            case "since_ns":
                return await begins.since(request.since_ns)
            case "bookmarks":
                bookmarks = bookmarks_from_wire(request.bookmarks)
                return await begins.at_earliest(bookmarks, behind=True)
            case "before_bookmarks":
                bookmarks = bookmarks_from_wire(request.before_bookmarks)
                return await begins.at_earliest(bookmarks, behind=False)
            case _:
                return Position()

    async def _ending(self, begins: Begins) -> Ending | None:
        """Return where the subscription ends; None: it does not."""
        request = self._request
        before_ns = request.end_before_ns if request.HasField("end_before_ns") else None
        match request.WhichOneof("end"):
            case "end_position":
                position = position_from_wire(request.end_position)
            case "end_now":
                position = begins.now(self._upto)
            case "end_bookmark":
                bookmarks = [bookmark_from_wire(request.end_bookmark)]
                position = await begins.at_earliest(bookmarks, behind=True)
            case "end_before_bookmark":
                bookmarks = [bookmark_from_wire(request.end_before_bookmark)]
                position = await begins.at_earliest(bookmarks, behind=False)
            case _ if before_ns is None:
                return None
            case _ if time.time_ns() < before_ns:
                return Ending(None, before_ns)
            case _:
                position = await begins.before(before_ns, self._upto)
        return Ending(position, before_ns)


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
