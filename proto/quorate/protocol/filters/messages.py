"""The messages of a batch, as filters look at them.

One object stands for each message in turn. A part of a message is decoded when a filter asks for
it, and at most once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from quorate.protocol.columns import Body
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.framing import BatchHeader

_UNREAD = object()


class Shown:
    """A message of a batch. It is moved on from one to the next."""

    __slots__ = (
        "_document", "_keys", "_payloads", "_properties", "_row", "epoch", "sequence", "session",
        "time", "topic",
    )  # fmt: skip

    def __init__(self, header: BatchHeader, payloads: Sequence[bytes], body: Body) -> None:
        """Begin with the first message."""
        self.topic = header.source.topic
        self.session = header.source.session_id
        self.epoch = header.epoch
        self.time = header.timestamp_ns / 1e9
        self.sequence = header.first
        self._payloads = payloads
        self._keys = body.read_keys() if body.keys is not None else None
        self._properties = body.read_properties() if body.properties else None
        self._row = 0
        self._document: Any = _UNREAD

    def at(self, header: BatchHeader, row: int) -> None:
        """Go to the message in this place of the batch."""
        self._row = row
        self.sequence = header.first + row
        self._document = _UNREAD

    @property
    def size(self) -> int:
        """The bytes of the payload."""
        return len(self._payloads[self._row])

    @property
    def key(self) -> str | None:
        """The key as text; None: none, or it is no text."""
        key = self._keys[self._row] if self._keys is not None else None
        return _text(key) if key is not None else None

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that are text."""
        if self._properties is None:
            return {}
        found = ((name, _text(value)) for name, value in self._properties[self._row].items())
        return {name: text for name, text in found if text is not None}

    @property
    def document(self) -> Any:
        """The payload, decoded from JSON; None: it is no JSON."""
        if self._document is _UNREAD:
            self._document = document_of(self._payloads[self._row])
        return self._document


def document_of(payload: bytes) -> Any:
    """Return a payload, decoded from JSON; None: it is no JSON."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def passing(
    where: Filter,
    header: BatchHeader,
    payloads: Sequence[bytes],
    body: Body,
    first: int,
    last: int,
) -> list[int]:
    """Return the places in the batch of the messages of [first, last] that pass the filter.

    payloads: those of the whole batch. Raises CorruptBatch.
    """
    shown = Shown(header, payloads, body)
    chosen: list[int] = []
    for row in range(first - header.first, last - header.first + 1):
        shown.at(header, row)
        if where.passes(shown):
            chosen.append(row)
    return chosen
