"""The check of an application on what sources send to its store: it allows a batch, or refuses it.

Pure: a check is a function of the batch alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import BatchRefused
from quorate.protocol.framing import BatchHeader, read_contents
from quorate.protocol.identity import SourceName


@dataclass(frozen=True, slots=True)
class OfferedMessage:
    """A message that a source sends."""

    sequence: int
    payload: bytes
    attributes: Attributes
    """Its key, its properties, and what else it has beside the payload."""


@dataclass(frozen=True, slots=True)
class OfferedBatch:
    """A batch that a source sends. It is whole, belongs to the stream, and is not kept yet."""

    source: SourceName
    first: int
    """The sequence number of its first message."""
    last: int
    """The sequence number of its last message."""
    size: int
    """The bytes of the batch."""
    _header: BatchHeader
    _frame: bytes = field(repr=False)

    @property
    def is_large(self) -> bool:
        """Whether the batch came in fragments. It is one message, and its content is not shown."""
        return not self._frame

    def messages(self) -> list[OfferedMessage]:
        """Return the messages; none of a large batch. Raises CorruptBatch."""
        if self.is_large:
            return []
        contents = read_contents(self._frame, self._header, self.first, self.last)
        return [
            OfferedMessage(sequence, payload, attributes)
            for sequence, (payload, attributes) in enumerate(contents, self.first)
        ]


class BatchCheck(Protocol):
    """A check of each batch that a source sends to this store.

    The same batch may come again, and to other stores. So the check must not depend on anything but
    the batch. The store waits for it: it must be quick, and must not block.
    """

    def __call__(self, batch: OfferedBatch, /) -> str:
        """Return why the store refuses the batch; empty: the store takes it."""
        ...


def refuse(check: BatchCheck, header: BatchHeader, frame: bytes, size: int, store: str) -> None:
    """Raise BatchRefused if a check refuses a batch, or fails. frame: empty for a large batch."""
    batch = OfferedBatch(header.source, header.first, header.last, size, header, frame)
    try:
        reason = check(batch)
    except Exception as error:
        reason = f"its check failed: {error!r}"
    if reason:
        raise BatchRefused(str(header.source), header.first, header.last, store, reason)
