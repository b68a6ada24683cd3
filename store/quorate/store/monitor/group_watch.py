"""The watch over a group: asks every store for its report while somebody looks at the page.

One task asks, whatever the number of lookers. Nobody looks: nothing is asked.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial

import grpc.aio

from quorate.protocol.errors import QuorateError
from quorate.store.monitor.group_events import GroupEvent, events_between
from quorate.store.monitor.group_view import SUBSCRIBERS_MAX, GroupView, Report, view_of
from quorate.transport.failures import errors_of
from quorate.transport.status import read_status, status_request
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.queue_pb2 import QueueStatus, ShowQueuesRequest
from quorate.v1.queue_pb2_grpc import QueueStub
from quorate.v1.store_pb2_grpc import StoreStub

LOOK_SECONDS = 1.0
"""The time from one look at the group to the next."""
LOOK_TIMES_MAX = 10
"""A look that took long is followed by a pause of so many times as long: looking stays cheap."""
ANSWER_SECONDS_MAX = 2.0
"""A store that takes longer is shown as one that does not answer."""
EVENTS_MAX = 200

Ask = Callable[[], Awaitable[Report]]
"""Returns what a store reports now. Raises QuorateError."""


async def report_of_peer(channel: grpc.aio.Channel, address: str) -> Report:
    """Return what the store at an address reports. Raises QuorateError."""
    status, queues = await asyncio.gather(
        _status_of_peer(channel, address), _queues_of_peer(channel, address)
    )
    return Report(status, queues)


async def _status_of_peer(channel: grpc.aio.Channel, address: str) -> store_v1.StatusResponse:
    request = status_request(subscriptions_max=SUBSCRIBERS_MAX)
    with errors_of(address):
        return await read_status(StoreStub(channel).Status(request), ANSWER_SECONDS_MAX)


async def _queues_of_peer(channel: grpc.aio.Channel, address: str) -> Sequence[QueueStatus]:
    """Return the queues that a peer reports: none if nothing beside it serves queues."""
    with suppress(QuorateError), errors_of(address):
        call = QueueStub(channel).ShowQueues
        response = await call(ShowQueuesRequest(), timeout=ANSWER_SECONDS_MAX)
        return list(response.queues)
    return ()


class GroupWatch:
    """The watch over the group of one store."""

    def __init__(
        self,
        name: str,
        address: str,
        own: Ask,
        peers: Callable[[], Iterable[str]],
        channel_to: Callable[[str], grpc.aio.Channel],
    ) -> None:
        """Begin without looking.

        - name, address: of this store.
        - own: returns its report.
        - peers: returns the addresses of the others.
        - channel_to: returns the channel to one of them. The watch leaves it open.
        """
        self._name = name
        self._address = address
        self._own = own
        self._peers = peers
        self._channel_to = channel_to
        self._names: dict[str, str] = {}
        """The last known name of each store, by address."""
        self._view: GroupView | None = None
        self._shown = ""
        """The view with all events, as JSON."""
        self._events: deque[GroupEvent] = deque(maxlen=EVENTS_MAX)
        self._lookers = 0
        self._looking: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()
        self._looks = 0
        self._is_stopped = False

    async def stop(self) -> None:
        """End every stream of views, and ask no store any more."""
        if self._looking is not None:
            self._looking.cancel()
        async with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    @property
    def lookers(self) -> int:
        """How many look at the group now."""
        return self._lookers

    @contextmanager
    def _look_on(self) -> Iterator[None]:
        """Let the group be looked at while the block lasts."""
        self._lookers += 1
        if self._looking is None and not self._is_stopped:
            self._looking = asyncio.create_task(self._run())
        try:
            yield
        finally:
            self._lookers -= 1
            if not self._lookers and self._looking is not None:
                self._looking.cancel()
                self._looking = None
                # Rates over a time in which nobody looked would mislead.
                self._view = None

    async def views(self) -> AsyncGenerator[str]:
        """Yield the view with all events as JSON, and then each new one, until `stop`."""
        with self._look_on():
            seen = self._looks
            while True:
                async with self._changed:
                    while self._looks == seen and not self._is_stopped:
                        await self._changed.wait()
                    seen = self._looks
                if self._is_stopped:
                    return
                yield self._shown

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            await self._look()
            async with self._changed:
                self._looks += 1
                self._changed.notify_all()
            took = time.monotonic() - began
            await asyncio.sleep(max(LOOK_SECONDS - took, LOOK_TIMES_MAX * (took - LOOK_SECONDS)))

    async def _look(self) -> None:
        asked: dict[str, Ask] = {self._address: self._own}
        for address in self._peers():
            asked[address] = partial(report_of_peer, self._channel_to(address), address)
        answers = await asyncio.gather(*(_answer(ask) for ask in asked.values()))
        reports = dict(zip(asked, answers, strict=True))
        for address, report in reports.items():
            if isinstance(report, Report):
                self._names[address] = report.status.store_name
        before = self._view
        self._view = view_of(reports, self._name, time.time(), self._names, before)
        if before is not None:
            self._events.extend(events_between(before, self._view))
        events = [asdict(event) for event in self._events]
        self._shown = json.dumps({**self._view.as_json(), "events": events})


async def _answer(ask: Ask) -> Report | str:
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await ask()
    except QuorateError as error:
        return str(error)
    except TimeoutError:
        return f"it took longer than {ANSWER_SECONDS_MAX:g} s to answer"
