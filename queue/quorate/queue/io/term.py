"""The term of a dispatcher: from the registration of the queue's source until that source ends.

The term reads the topics, hands messages out, and writes what is decided to the queue's stream. The
rules of both are in quorate.queue.protocol.dispatch.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from quorate.client import Client, Source
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import InvalidArgument, QuorateError, UnknownBookmark
from quorate.protocol.limits import MESSAGE_BYTES_USUAL
from quorate.protocol.queues import MAX_BACKLOG_MOST, QueueSettings, check_consumer
from quorate.queue.io.burial import Burial
from quorate.queue.io.decision_wire import decode, encode
from quorate.queue.io.lot import Lot
from quorate.queue.io.outbox import Outbox
from quorate.queue.protocol.consumers import Consumer
from quorate.queue.protocol.decisions import Decision
from quorate.queue.protocol.dispatch import Dispatch, Settlement
from quorate.subscriber.begin import EPOCH, GivenBegin
from quorate.subscriber.items import Gap, ReplayedBatch
from quorate.subscriber.protocol.topics import GivenTopics
from quorate.v1 import queue_pb2 as v1

_log = logging.getLogger("quorate.queue")

_SNAPSHOT_AFTER = 2_000
"""Messages of the stream after which everything that was decided is written again."""
_DECISIONS_MAX = 1_000
"""Decisions that share a message. So it stays far below the size that a message may have."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Decisions in the stream: their number, and the sequence number of the last message."""

    number: int
    sequence: int


class Term:
    """One term of the dispatcher of a queue."""

    def __init__(self, settings: QueueSettings, client: Client, source: Source) -> None:
        """Begin with an open source of the queue's stream."""
        self._settings = settings
        self._client = client
        self._source = source
        self._loop = asyncio.get_running_loop()
        zero_ns = time.time_ns() - int(self._loop.time() * 1e9)
        self._dispatch = Dispatch(settings, zero_ns)
        self._burial = Burial(settings, client)
        self._outboxes: dict[Consumer, Outbox] = {}
        self._turn_due = asyncio.Event()
        self._has_room = asyncio.Event()
        self._is_written = asyncio.Event()
        self._written: deque[_Written] = deque()
        self._stable_number = 0
        self._since_snapshot = 0
        self._position = Position()

    async def run(self) -> None:
        """Dispatch until the source fails, and raise why."""
        await self._rebuild()
        tasks = [
            asyncio.create_task(each)
            for each in (self._read(), self._turns(), self._stabilities(), self._bury())
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            ended.pop().result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._burial.close()

    # -- what was decided before ------------------------------------------------------------

    async def _rebuild(self) -> None:
        """Read what former dispatchers have decided, from the newest snapshot on."""
        last = self._source.next_sequence - 1
        if last < 0:
            return
        await self._source.flush()
        begin: GivenBegin = EPOCH
        if self._source.marker:
            begin = f"at {self._source.marker.decode()}"
        try:
            await self._restore(begin, last)
        except UnknownBookmark as error:
            _log.info("queue %s reads its stream from the start: %s", self._settings.name, error)
            await self._restore(EPOCH, last)

    async def _restore(self, begin: GivenBegin, last: int) -> None:
        topic = self._source.name.topic
        async with self._client.subscriber(topic, begin=begin) as subscriber:
            async for given in subscriber.batches():
                if isinstance(given, Gap) and given.last >= last:
                    return
                if not isinstance(given, ReplayedBatch) or given.source != self._source.name:
                    continue
                for message in given.messages():
                    self._since_snapshot += 1
                    for decision in decode(message.payload, str(message.bookmark)):
                        self._dispatch.restore(decision)
                if given.numbers[-1] >= last:
                    return

    # -- the topics -------------------------------------------------------------------------

    async def _read(self) -> None:
        settings, dispatch = self._settings, self._dispatch
        places = {
            source: place
            for source, place in dispatch.position.items()
            if settings.has_topic(source.topic)
        }
        begin: GivenBegin = Position(places) if places else EPOCH
        async with self._client.subscriber(
            self._named_topics(), topic_pattern=settings.topic_pattern, begin=begin,
            where=settings.where,
        ) as subscriber:  # fmt: skip
            async for given in subscriber.batches():
                if isinstance(given, ReplayedBatch):
                    dispatch.arrived(Lot.of(given), self._loop.time())
                    self._turn_due.set()
                elif isinstance(given, Gap):
                    _log.warning(
                        "queue %s lacks messages [%d, %d] of %s: no store has them (%s)",
                        settings.name, given.first, given.last, given.source, given.cause.value,
                    )  # fmt: skip
                self._position = subscriber.position
                while not dispatch.has_room:
                    self._has_room.clear()
                    await self._has_room.wait()

    def _named_topics(self) -> GivenTopics | None:
        """Return the topics by their names. With rules of access, one needs no rule of patterns."""
        topics = self._settings.topics
        return dict.fromkeys(topics) if len(topics) > 1 else next(iter(topics), None)

    # -- consumers --------------------------------------------------------------------------

    def join(self, name: str, max_backlog: int, peer: str) -> Outbox:
        """Hand messages to a consumer, too. Raises InvalidArgument."""
        if not 1 <= max_backlog <= MAX_BACKLOG_MOST:
            raise InvalidArgument(
                "max_backlog", f"{max_backlog} is not between 1 and {MAX_BACKLOG_MOST:,}"
            )
        consumer = Consumer(check_consumer(name), max_backlog)
        outbox = self._outboxes[consumer] = Outbox(consumer, peer)
        self._dispatch.join(consumer)
        self._turn_due.set()
        return outbox

    def leave(self, outbox: Outbox) -> None:
        """Hand out to others what a consumer has."""
        if self._outboxes.pop(outbox.consumer, None) is not None:
            self._dispatch.leave(outbox.consumer, self._loop.time())
            self._turn_due.set()

    def retire(self, outbox: Outbox) -> None:
        """Hand a consumer nothing more."""
        outbox.consumer.is_leaving = True

    def settle(self, outbox: Outbox, number: int, settlements: Sequence[Settlement]) -> None:
        """Take what a consumer says of its messages. Raises InvalidArgument."""
        self._dispatch.settle(outbox.consumer, number, settlements, self._loop.time())
        self._turn_due.set()

    def end(self, error: QuorateError) -> None:
        """End the calls of all consumers with this error."""
        for outbox in self._outboxes.values():
            outbox.end(error)
        self._outboxes.clear()

    # -- turns ------------------------------------------------------------------------------

    async def _turns(self) -> None:
        dispatch = self._dispatch
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(dispatch.due_at):
                    await self._turn_due.wait()
            self._turn_due.clear()
            for consumer, entries in dispatch.hand_out(self._loop.time()):
                self._outboxes[consumer].hand(entries)
            self._burial.add(dispatch.take_dying())
            number, decisions = dispatch.decide()
            if decisions:
                await self._write(number, decisions)
            else:
                self._answer()
            if dispatch.has_room:
                self._has_room.set()

    async def _write(self, number: int, decisions: list[Decision]) -> None:
        """Write decisions to the stream, and sometimes everything that was decided."""
        snapshot = b""
        if self._since_snapshot >= _SNAPSHOT_AFTER:
            # Messages that do not pass the filter are behind the position, and never come.
            self._dispatch.passed(self._position)
            snapshot = encode([self._dispatch.snapshot()])
        for at in range(0, len(decisions), _DECISIONS_MAX):
            payload = encode(decisions[at : at + _DECISIONS_MAX])
            sequence = await self._source.send(payload, wait_quorum=True)
            self._since_snapshot += 1
        if snapshot and len(snapshot) <= MESSAGE_BYTES_USUAL:
            place = Bookmark(self._source.name, self._source.epoch, sequence + 1)
            marker = str(place).encode()
            sequence = (await self._source.commit([snapshot], marker, wait_quorum=True)).start
            self._since_snapshot = 0
        self._written.append(_Written(number, sequence))
        self._is_written.set()

    async def _stabilities(self) -> None:
        source, written = self._source, self._written
        while True:
            while not written:
                self._is_written.clear()
                await self._is_written.wait()
            await source.wait_stable(written[0].sequence)
            while written and written[0].sequence <= source.stable_upto:
                self._stable_number = written.popleft().number
            self._answer()
            self._turn_due.set()

    def _answer(self) -> None:
        for answer in self._dispatch.stable(self._stable_number, self._loop.time()):
            if (outbox := self._outboxes.get(answer.consumer)) is not None:
                outbox.answer(answer.number)

    async def _bury(self) -> None:
        while True:
            dying = await self._burial.next()
            self._dispatch.buried(dying, self._loop.time())
            self._turn_due.set()

    # -- for people -------------------------------------------------------------------------

    def status(self, status: v1.QueueStatus) -> None:
        """Fill in what the dispatcher knows."""
        dispatch = self._dispatch
        status.dispatches = True
        status.ready, status.leased = dispatch.ready, dispatch.leased
        status.waiting = dispatch.unsettled - status.ready - status.leased
        status.done = dispatch.counts.done
        status.dead = dispatch.counts.dead
        status.retried = dispatch.counts.retried
        status.full = not dispatch.has_room
        status.repeated = len(tries := dispatch.tries_of_repeated)
        status.most_tries = max(tries, default=0)
        status.tries_max = self._settings.tries
        if dispatch.counts.dead:
            status.dead_seconds_ago = self._loop.time() - dispatch.counts.dead_at
        for outbox in self._outboxes.values():
            consumer = outbox.consumer
            status.consumers.add(
                name=consumer.name,
                peer=outbox.peer,
                max_backlog=consumer.max_backlog,
                leased=consumer.leased,
            )
