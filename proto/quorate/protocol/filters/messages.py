"""The messages of a batch, as filters look at them.

One object stands for each message in turn. A part of a message is decoded when a filter asks for
it, and at most once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quorate.protocol.attributes import Attributes
from quorate.protocol.columns import Body
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.framing import BatchHeader
from quorate.protocol.payloads import DECODERS, UNDECODABLE, PayloadFormat

_UNREAD = object()


class Shown:
    """A message of a batch. It is moved on from one to the next."""

    __slots__ = (
        "_attributes", "_body", "_decode", "_document", "_header", "_keys", "_payloads",
        "_properties", "_row", "_times", "epoch", "sequence", "session", "topic", "undecoded",
    )  # fmt: skip

    def __init__(
        self,
        header: BatchHeader,
        payloads: Sequence[bytes],
        body: Body,
        form: PayloadFormat = PayloadFormat.JSON,
    ) -> None:
        """Begin with the first message."""
        self._decode = DECODERS[form]
        self.topic = header.source.topic
        self.session = header.source.session_id
        self.epoch = header.epoch
        self.sequence = header.first
        self._payloads = payloads
        self._keys = body.read_keys() if body.keys is not None else None
        self._properties = body.read_properties() if body.properties else None
        self._row = 0
        self._document: Any = _UNREAD
        self._header = header
        self._body = body
        self._times: Sequence[int] | None = None
        self._attributes: Sequence[Attributes] | None = None
        self.undecoded = 0
        """How many payloads so far are not of their format, of those that were looked into."""

    def at(self, row: int, sequence: int) -> None:
        """Go to the message in this place of the batch. sequence: its number."""
        self._row = row
        self.sequence = sequence
        self._document = _UNREAD

    @property
    def time(self) -> float:
        """The time at which it was sent: seconds since 1970 UTC."""
        if self._times is None:
            self._times = self._body.read_times(self._header.timestamp_ns)
        return self._times[self._row] / 1e9

    @property
    def deleted(self) -> bool:
        """Whether it is a deletion."""
        return self._own.deleted

    @property
    def expires(self) -> float | None:
        """The time at which it expires: seconds since 1970 UTC; None: never."""
        expires_ns = self._own.expires_ns
        return None if expires_ns is None else expires_ns / 1e9

    @property
    def _own(self) -> Attributes:
        if self._attributes is None:
            self._attributes = self._body.read_every_attributes()
        return self._attributes[self._row]

    @property
    def size(self) -> int:
        """The bytes of the payload."""
        return len(self._payloads[self._row])

    @property
    def key(self) -> str | None:
        """The key as text; None: none, or it is no text."""
        key = self._keys[self._row] if self._keys is not None else None
        return text_of(key) if key is not None else None

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that are text."""
        if self._properties is None:
            return {}
        return texts_of(self._properties[self._row])

    @property
    def document(self) -> Any:
        """The decoded payload; None: it is not of its format."""
        if self._document is _UNREAD:
            try:
                self._document = self._decode(self._payloads[self._row])
            except UNDECODABLE:
                self._document = None
                self.undecoded += 1
        return self._document


def texts_of(properties: Mapping[str, bytes]) -> dict[str, str]:
    """Return the properties that are text."""
    found = ((name, text_of(value)) for name, value in properties.items())
    return {name: text for name, text in found if text is not None}


def text_of(value: bytes) -> str | None:
    """Return a key, or the value of a property, as text; None: it is no text."""
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
    form: PayloadFormat = PayloadFormat.JSON,
    numbers: Sequence[int] | None = None,
) -> list[int]:
    """Return the places in the batch of the messages of [first, last] that pass the filter.

    The filter counts the payloads that are not of their format. Raises CorruptBatch.

    - payloads: those of the whole batch.
    - numbers: the number of each message of the batch; None: they are consecutive.
    """
    shown = Shown(header, payloads, body, form)
    chosen: list[int] = []
    for row in range(first - header.first, last - header.first + 1):
        shown.at(row, header.first + row if numbers is None else numbers[row])
        if where.passes(shown):
            chosen.append(row)
    where.undecoded += shown.undecoded
    return chosen
