"""The place of the application in what was delivered, and what counts as consumed.

No I/O. One thread moves the cursor; another may ask it to count what was consumed so far.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.receiver.message import DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode


class Cursor:
    """The place of one iteration. A loop that is left and entered again goes on from it."""

    def __init__(self, mode: AcknowledgeMode) -> None:
        self._mode = mode
        self.batch: DeliveredBatch | None = None
        """The batch under way. Code that takes a message of it records that in batch._taken."""
        self.messages: Iterator[Message] = iter(())
        """The messages of the batch that were not taken yet, when they are taken one by one."""
        self._payloads: list[bytes] = []
        """The payloads that `messages` goes through: a copy, so that it can be emptied."""
        self._at_once = 1
        """The number of messages taken last; the application still works on them."""
        self.ended = False
        """Whether the application gets nothing more, not even the rest of the batch."""

    def end(self) -> None:
        """Hand over nothing more. The application may be inside a loop, also in another thread."""
        self.ended = True
        self._payloads.clear()

    def leave(self) -> None:
        """Leave the batch: the application wants more, so everything it took is consumed."""
        self.count(last_is_done=True)
        self.batch, self.messages = None, iter(())

    def enter(self, batch: DeliveredBatch) -> None:
        """Go on to this batch as a whole."""
        self.leave()
        batch._taken = batch.last
        self._at_once = len(batch)
        self.batch = batch
        batch._progress.taken()

    def enter_messages(self, batch: DeliveredBatch) -> None:
        """Go on to this batch, message by message."""
        self.leave()
        self._payloads = batch.payloads[:]
        if self.ended:
            self._payloads.clear()
        self.messages = batch._messages_of(self._payloads)
        self._at_once = 1
        self.batch = batch
        batch._progress.taken()

    def take(self) -> Message | None:
        """Take the next message of the batch under way; None: there is none."""
        message = next(self.messages, None)
        if message is not None:
            message.batch._taken = message.sequence
        return message

    def rest(self) -> DeliveredBatch | None:
        """Return the part of the batch under way that was not taken yet; None: there is none."""
        batch = self.batch
        if batch is None or batch._taken >= batch.last or self.ended:
            return None
        return batch._part(batch._taken + 1, batch.last)

    @property
    def is_under_way(self) -> bool:
        """Whether messages may be consumed that nothing but `count` notices."""
        batch = self.batch
        automatic = self._mode is AcknowledgeMode.AUTOMATIC
        return automatic and not self.ended and batch is not None and batch._taken < batch.last

    def count(self, *, last_is_done: bool = False) -> None:
        """Count what was taken as consumed, in mode "automatic".

        last_is_done: also count what was taken last.
        """
        batch = self.batch
        if self._mode is AcknowledgeMode.AUTOMATIC and batch is not None:
            done = batch._taken if last_is_done else batch._taken - self._at_once
            if done >= batch.first:
                batch._progress.consumed_through(done)
