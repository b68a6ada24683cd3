"""The settlements of a consumer, until the dispatcher has answered that they are stable.

Settlements are gathered into requests with ascending numbers, and one answer counts for all up to a
number. How they travel is not known here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import RangeSet
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import queue_pb2 as queue_v1

_Said = tuple[SourceName, int, queue_v1.SettlementKind, float, str]
"""Source, epoch, kind, delay and reason."""


class Settling:
    """A settlement of a job. Await it to know that it is stable; it becomes so in any case."""

    __slots__ = ("_ledger", "_number")

    def __init__(self, ledger: Ledger, number: int) -> None:
        """Belong to the settlements of this number. Applications use a `Job`."""
        self._ledger = ledger
        self._number = number

    def __await__(self) -> Generator[object, None, None]:
        """Wait until it is stable. Raises NotYetSettled, or the error that ended the consumer."""
        return self._ledger.answered_upto(self._number).__await__()

    @property
    def is_stable(self) -> bool:
        """Whether it is known to be stable."""
        return self._number <= self._ledger.answered


class Ledger:
    """All that one consumer has said."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._number = 0
        """The number of the last request."""
        self.answered = 0
        """Everything up to this number is stable."""
        self.unanswered: deque[queue_v1.Settlements] = deque()
        """The requests that were made and not answered, for another dispatcher."""
        self._jobs: deque[tuple[int, int]] = deque()
        self._gathered: dict[_Said, list[int]] = {}
        self._is_leaving = False
        self._is_said = asyncio.Event()
        self._news = asyncio.Event()
        self._error: QuorateError | None = None

    @property
    def unsettled_jobs(self) -> int:
        """The number of jobs for which something was said that is not known to be stable."""
        return sum(count for _, count in self._jobs) + sum(map(len, self._gathered.values()))

    def say(
        self,
        source: SourceName,
        epoch: int,
        sequence: int,
        kind: queue_v1.SettlementKind,
        delay: float = 0.0,
        reason: str = "",
    ) -> Settling:
        """Note what is said of a job. Raises the error that ended the consumer."""
        if self._error is not None:
            raise self._error
        self._gathered.setdefault((source, epoch, kind, delay, reason), []).append(sequence)
        self._is_said.set()
        return Settling(self, self._number + 1)

    def leave(self) -> None:
        """Say that the consumer takes no more jobs."""
        self._is_leaving = True
        self._is_said.set()

    async def next(self) -> queue_v1.Settlements:
        """Return the next request, once something was said."""
        await self._is_said.wait()
        self._is_said.clear()
        self._number += 1
        request = queue_v1.Settlements(number=self._number, leaving=self._is_leaving)
        for (source, epoch, kind, delay, reason), numbers in self._gathered.items():
            ranges = RangeSet()
            for number in sorted(numbers):
                ranges.add(number, number)
            request.settlements.add(
                source=v1.SourceName(topic=source.topic, session_id=source.session_id),
                epoch=epoch,
                bounds=[bound for each in ranges for bound in (each.first, each.last)],
                kind=kind,
                delay_seconds=delay,
                reason=reason,
            )
        self._jobs.append((self._number, sum(map(len, self._gathered.values()))))
        self._gathered.clear()
        self.unanswered.append(request)
        return request

    def answer(self, upto: int) -> None:
        """Note that everything up to this number is stable."""
        self.answered = max(self.answered, upto)
        while self.unanswered and self.unanswered[0].number <= upto:
            self.unanswered.popleft()
        while self._jobs and self._jobs[0][0] <= upto:
            self._jobs.popleft()
        self._wake()

    def end(self, error: QuorateError) -> None:
        """Raise this error to everybody who waits, and to everybody who says something."""
        self._error = self._error or error
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def all_answered(self) -> None:
        """Wait until all that was said is stable."""
        await self.answered_upto(self._number + self._is_said.is_set())

    async def answered_upto(self, number: int) -> None:
        """Wait until everything up to this number is stable. Raises the error that ends that."""
        while self.answered < number:
            if self._error is not None:
                raise self._error
            await self._news.wait()
