"""The calls by which a source ends: asking its stores, again and again, until the end stands.

What is asked of which store is decided in quorate.protocol.stream_end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import QuorateError
from quorate.protocol.incarnations import Word
from quorate.protocol.stream_end import AskBegin, EndGrant, Step, StreamEnd
from quorate.protocol.wire import begin_from_wire, membership_to_wire
from quorate.transport.delays import delay
from quorate.transport.epochs import in_steps
from quorate.v1.store_pb2 import DeregisterRequest, DeregisterResponse

REST_SECONDS = 1.0
"""Seconds for which the other stores are told once the end stands. They hear of it from peers."""

Ask = Callable[[str, DeregisterRequest], Awaitable[DeregisterResponse]]
"""Asks the store at an address. Raises QuorateError."""
Told = Callable[[str, DeregisterResponse], None]
"""Is told of each store that has begun the end, and what it answered to the promise."""


def word_of(answer: DeregisterResponse) -> Word:
    """Return the incarnations that an answer names."""
    return Word(answer.incarnation, tuple(answer.known_stores))


def _grant_of(answer: DeregisterResponse) -> tuple[EndGrant, Mapping[str, str]]:
    """Return a promise, and the addresses of stores that it names."""
    grant = EndGrant(
        word_of(answer),
        begin_from_wire(answer.begun),
        answer.limbo_reason if answer.limbo else "",
    )
    return grant, {store.name: store.address for store in answer.information.stores}


def request_for(step: Step, request: DeregisterRequest) -> DeregisterRequest:
    """Return the request for one step of an end. request: names the source, epoch and who asks."""
    asked = DeregisterRequest()
    asked.CopyFrom(request)
    if isinstance(step, AskBegin):
        asked.membership.CopyFrom(membership_to_wire(step.membership))
        asked.incarnation, asked.durable = step.incarnation, step.durable
    return asked


def note_answer(end: StreamEnd, store: str, step: Step, answer: DeregisterResponse) -> None:
    """Note that a store has taken the step that it was asked for.

    Raises InvalidArgument for an answer that is not valid.
    """
    if isinstance(step, AskBegin):
        end.begun(store, word_of(answer), durable=step.durable)
    else:
        end.promised(store, *_grant_of(answer))


async def end_source(end: StreamEnd, request: DeregisterRequest, ask: Ask, told: Told) -> None:
    """Ask every store until the end stands, or until that cannot be; the caller sets a time limit.

    request: names the source, the epoch, and who asks. `end.addresses` has the stores' addresses.
    """
    asking = _Asking(end, request, ask, told)
    try:
        await asking.run(lambda: end.done or end.refused)
        if end.done:
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_SECONDS):
                    await asking.run(lambda: end.everywhere)
    finally:
        await asking.stop()


class _Asking:
    """The tasks that ask the stores, at most one for each."""

    def __init__(self, end: StreamEnd, request: DeregisterRequest, ask: Ask, told: Told) -> None:
        self._end = end
        self._request = request
        self._ask = ask
        self._told = told
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._failures: Counter[str] = Counter()
        self._promised: dict[str, DeregisterResponse] = {}
        """The stores that have promised and not begun, with what they knew of the source then."""

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Ask until this is so, or until there is nobody left to ask."""
        while not is_over():
            for store in self._end.stores:
                if self._may_be_asked(store):
                    self._tasks[asyncio.create_task(self._take_step(store))] = store
            if not self._tasks:
                return
            done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                del self._tasks[task]
                task.result()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _may_be_asked(self, store: str) -> bool:
        failure = self._end.failures.get(store)
        return (
            store in self._end.addresses
            and store not in self._tasks.values()
            and self._end.step(store) is not None
            and (failure is None or failure.retryable)
        )

    async def _take_step(self, store: str) -> None:
        """Ask one store for one step, after a pause if it has failed before."""
        if failures := self._failures[store]:
            await asyncio.sleep(delay(REPEAT, failures))
        end = self._end
        if (step := end.step(store)) is None:
            return

        async def ask(epoch: int) -> DeregisterResponse:
            request = request_for(step, self._request)
            request.epoch = epoch
            return await self._ask(end.addresses[store], request)

        begins, epoch = isinstance(step, AskBegin), self._request.epoch
        try:
            answer = await (ask(epoch) if begins else in_steps(epoch, ask))
            note_answer(end, store, step, answer)
        except QuorateError as error:
            end.failed(store, error)
            self._failures[store] += 1
            return
        if not begins:
            self._promised[store] = answer
            self._failures[store] += answer.limbo
        elif (promised := self._promised.pop(store, None)) is not None:
            self._told(store, promised)
