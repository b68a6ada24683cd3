"""The messages that are to be delivered once more: each waits for its time, and then in the inbox.

What was consumed is counted in quorate.receiver.protocol.consumed. How much may wait in memory is
bounded in the inbox.
"""

from __future__ import annotations

import asyncio
from math import inf

from quorate.protocol.errors import InvalidArgument
from quorate.receiver.io.inbox import Inbox
from quorate.receiver.message import DeliveredBatch
from quorate.receiver.options import AcknowledgeMode


class Redelivery:
    """The batches that wait for their time. Other threads may add to them."""

    def __init__(self, inbox: Inbox, mode: AcknowledgeMode) -> None:
        """Begin with nothing that waits, on the running event loop."""
        self._inbox = inbox
        self._mode = mode
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[tuple[int, int, int], asyncio.TimerHandle] = {}
        """The timer of each batch, by its count of consumption, first and last number."""
        self._ended = False

    def redeliver(self, batch: DeliveredBatch, delay: float) -> None:
        """Deliver this batch after so many seconds. Raise InvalidArgument."""
        if self._mode is not AcknowledgeMode.EXPLICIT:
            detail = (
                'nack needs "explicit": otherwise taking the next message acknowledges this one'
            )
            raise InvalidArgument("acknowledge", detail)
        if not isinstance(delay, int | float) or not 0 <= delay < inf:
            raise InvalidArgument("delay", f"{delay!r} is not at least 0, and finite")
        if not self._ended:
            self._loop.call_soon_threadsafe(self._wait, batch, delay)

    def end(self) -> None:
        """Deliver nothing more."""
        self._ended = True
        for timer in self._waiting.values():
            timer.cancel()
        self._waiting.clear()

    def _wait(self, batch: DeliveredBatch, delay: float) -> None:
        key = (id(batch._progress), batch.first, batch.last)
        if self._ended or key in self._waiting or not _is_lacked(batch):
            return
        self._inbox.delay(batch)
        self._waiting[key] = self._loop.call_later(delay, self._due, key, batch)

    def _due(self, key: tuple[int, int, int], batch: DeliveredBatch) -> None:
        del self._waiting[key]
        self._inbox.due(batch, wanted=_is_lacked(batch))


def _is_lacked(batch: DeliveredBatch) -> bool:
    return any(map(batch._progress.lacks, range(batch.first, batch.last + 1)))
