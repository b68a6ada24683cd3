"""The gRPC service of queues: requests checked and read, jobs and answers sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, NoReturn

from quorate.protocol.errors import InvalidArgument, QuorateError, UnknownQueue
from quorate.protocol.queues import DELAY_SECONDS_MAX, REASON_LENGTH_MAX
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_from_wire
from quorate.queue.io.decision_wire import ranges_from
from quorate.queue.io.dispatcher import Dispatcher
from quorate.queue.io.outbox import Outbox
from quorate.queue.io.term import Term
from quorate.queue.protocol.dispatch import Kind, Settlement
from quorate.transport.failures import abort, check_version
from quorate.v1 import queue_pb2 as v1
from quorate.v1.queue_pb2_grpc import QueueServicer

_KINDS = {
    v1.SETTLEMENT_KIND_DONE: Kind.DONE,
    v1.SETTLEMENT_KIND_RETRY: Kind.RETRY,
    v1.SETTLEMENT_KIND_DISCARD: Kind.DISCARD,
    v1.SETTLEMENT_KIND_RETURN: Kind.RETURN,
    v1.SETTLEMENT_KIND_EXTEND: Kind.EXTEND,
}
_NUMBERS_MAX = 100_000
"""The most messages that one request may settle."""
_NUMBERS_AT_ONCE = 1024
"""The most of them that one turn of the event loop settles, so that none holds up the store."""


class QueueService(QueueServicer):  # type: ignore[misc]
    """The queues of one store, as its clients see them."""

    def __init__(self, dispatchers: Mapping[str, Dispatcher], store: str) -> None:
        """Serve these queues. store: the name of the store."""
        self._dispatchers = dispatchers
        self._store = store

    async def refuse(self, context: Any, error: QuorateError) -> NoReturn:
        """End a call with an error."""
        await abort(context, error)

    async def Consume(
        self, requests: AsyncIterator[v1.ConsumeRequest], context: Any
    ) -> AsyncIterator[v1.ConsumeResponse]:
        try:
            opened = (await anext(requests, v1.ConsumeRequest())).open
            check_version(self._store, opened.protocol_version)
            dispatcher = self._dispatcher(opened.queue)
            term = dispatcher.term
            outbox = term.join(opened.name, opened.max_backlog, context.peer())
            settling = asyncio.create_task(_settle(term, outbox, requests))
            try:
                yield v1.ConsumeResponse(lease_seconds=dispatcher.settings.lease_seconds)
                async for response in outbox.responses():
                    yield response
            finally:
                settling.cancel()
                with suppress(asyncio.CancelledError):
                    await settling
                term.leave(outbox)
        except QuorateError as error:
            await self.refuse(context, error)

    async def ShowQueues(
        self, request: v1.ShowQueuesRequest, context: Any
    ) -> v1.ShowQueuesResponse:
        try:
            shown = (
                [self._dispatcher(request.queue)] if request.queue else self._dispatchers.values()
            )
            return v1.ShowQueuesResponse(queues=[each.status() for each in shown])
        except QuorateError as error:
            await self.refuse(context, error)

    def _dispatcher(self, queue: str) -> Dispatcher:
        dispatcher = self._dispatchers.get(queue)
        if dispatcher is None:
            raise UnknownQueue(queue, self._store)
        return dispatcher


async def _settle(term: Term, outbox: Outbox, requests: AsyncIterator[v1.ConsumeRequest]) -> None:
    """Take what the consumer says, until it ends the call or an error does."""
    try:
        async for request in requests:
            if request.settlements.leaving:
                term.retire(outbox)
            settlements = [_settlement(each) for each in request.settlements.settlements]
            if sum(len(part) for each in settlements for part in each.ranges) > _NUMBERS_MAX:
                raise InvalidArgument("settlements", f"more than {_NUMBERS_MAX:,} in one request")
            *parts, last = _in_parts(settlements)
            for part in parts:
                # The number of the request before: this one is not settled as a whole yet.
                term.settle(outbox, outbox.consumer.number, part)
                await asyncio.sleep(0)
            term.settle(outbox, request.settlements.number, last)
    except QuorateError as error:
        outbox.end(error)
    else:
        outbox.finish()


def _in_parts(settlements: Iterable[Settlement]) -> Iterator[list[Settlement]]:
    """Yield the settlements in parts of a bounded count of messages: one part, if it is empty."""
    part, count = list[Settlement](), 0
    for each in settlements:
        for whole in each.ranges:
            for first in range(whole.first, whole.last + 1, _NUMBERS_AT_ONCE):
                some = Range(first, min(whole.last, first + _NUMBERS_AT_ONCE - 1))
                if part and count + len(some) > _NUMBERS_AT_ONCE:
                    yield part
                    part, count = [], 0
                part.append(replace(each, ranges=(some,)))
                count += len(some)
    yield part


def _settlement(wire: v1.Settlement) -> Settlement:
    kind = _KINDS.get(wire.kind)
    if kind is None:
        raise InvalidArgument("kind", f"{wire.kind} is not known")
    if not 0 <= wire.delay_seconds < inf or wire.delay_seconds > DELAY_SECONDS_MAX:
        raise InvalidArgument("delay", f"{wire.delay_seconds} seconds is too long, or below 0")
    return Settlement(
        source_from_wire(wire.source),
        wire.epoch,
        ranges_from(wire.bounds),
        kind,
        wire.delay_seconds,
        wire.reason[:REASON_LENGTH_MAX],
    )
