"""Where the application is in what it was handed: the batch under way, and what that consumes.

No I/O. One thread moves it; another may ask it to count what was consumed so far.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.protocol.errors import InvalidArgument
from quorate.receiver.message import Acknowledgement, DeliveredBatch, Message
from quorate.receiver.options import AcknowledgeMode


class Cursor:
    """The place of one iteration; a loop that is left and entered again goes on with it."""

    def __init__(self, mode: AcknowledgeMode) -> None:
        self._mode = mode
        self.batch: DeliveredBatch | None = None
        """The batch under way; who takes a message of it notes that in batch.taken."""
        self.messages: Iterator[Message] = iter(())
        """What was not taken yet of it, if it is taken message by message."""
        self._at_once = 1
        """How many messages the application took last: all of these are still under way."""

    def leave(self) -> None:
        """More is wanted: all that was taken is done with."""
        self.count(last_is_done=True)
        self.batch, self.messages = None, iter(())

    def enter(self, batch: DeliveredBatch) -> None:
        """Go on to this batch, to take it whole."""
        self.leave()
        batch.taken = batch.last
        self._at_once = len(batch)
        self.batch = batch

    def enter_messages(self, batch: DeliveredBatch) -> None:
        """Go on to this batch, to take it message by message."""
        self.leave()
        self.messages = batch.messages()
        self._at_once = 1
        self.batch = batch

    def rest(self) -> DeliveredBatch | None:
        """The part of the batch under way that was not taken yet."""
        batch = self.batch
        if batch is None or batch.taken >= batch.last:
            return None
        return batch.part(batch.taken + 1, batch.last)

    def count(self, *, last_is_done: bool = False) -> None:
        """Mode "automatic": what was taken is done with; what was last only if that is said."""
        batch = self.batch
        if self._mode is AcknowledgeMode.AUTOMATIC and batch is not None:
            done = batch.taken if last_is_done else batch.taken - self._at_once
            if done >= batch.first:
                batch.progress.consumed_through(done)

    def acknowledge(self, what: Message | DeliveredBatch | Acknowledgement) -> None:
        """Mode "explicit": this and everything before it are done with."""
        if self._mode is not AcknowledgeMode.EXPLICIT:
            raise InvalidArgument(
                "acknowledge", f'is for acknowledge="explicit"; this one is {self._mode.value}'
            )
        handle = what if isinstance(what, Acknowledgement) else what.acknowledgement()
        handle.progress.consumed_through(handle.sequence)
