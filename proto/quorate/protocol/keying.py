"""The keys of a topic: the fields that say which thing a message is about. Pure.

A key becomes bytes, and equal keys are equal bytes on every store. The last message of each key is
found elsewhere (quorate.store.rules.state_rows).
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Sequence

from quorate.protocol.columns import Body
from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.protocol.figures import counted
from quorate.protocol.filters.evaluate import Evaluate, field_of, members_of
from quorate.protocol.filters.messages import BatchMessages
from quorate.protocol.filters.syntax import About, Field, MessageField, Property
from quorate.protocol.framing import BatchHeader
from quorate.protocol.payloads import PayloadFormat, reader_of
from quorate.protocol.times import TIME_NS_MAX

KEY_BYTES_MAX = 64 * 1024
"""Bytes of the longest key of a row. A message with a longer one makes no row."""
KEYS_MAX = 16
"""The most fields of a key."""
KEY = "$key"
"""The name of the field that has the message's own key."""

KeyValue = str | int | float | bool | None
"""The value of one field of a key. None stands for a field that is missing."""

_RAW, _VALUES = b"k", b"j"
_INTEGERS_UPTO = 2**53


class Missing(enum.Enum):
    """The fate of a message that lacks a field of the key."""

    DROP = "drop"
    """It makes no row. The store counts it."""
    NULL = "null"
    """The field counts as null, and null is a value like any other."""


class Keying:
    """The fields of a topic's keys."""

    __slots__ = (
        "_expires_after_ns",
        "_fields",
        "_is_raw",
        "_missing",
        "_names",
        "_reader",
        "history_seconds",
        "payload",
        "text",
    )

    def __init__(
        self,
        keys: Sequence[str],
        missing: Missing,
        expires_seconds: float | None = None,
        payload: PayloadFormat = PayloadFormat.JSON,
        history_seconds: float | None = None,
    ) -> None:
        """Take the names of the fields, as filters have them. Raises InvalidArgument.

        - expires_seconds: after so long a row expires, unless its message says so; None: it does
          not.
        - payload: the format of the payloads.
        - history_seconds: how long ago a time may be whose rows are asked for; None: any time.
        """
        if not 0 < len(keys) <= KEYS_MAX:
            raise InvalidArgument("keys", f"names {len(keys)} fields, not 1 to {KEYS_MAX}")
        named = [_field(text) for text in keys]
        self._fields = [read for _, read in named]
        paths = [each.path for each, _ in named if isinstance(each, Field)]
        self._reader = reader_of(payload, members_of(paths))
        self.payload = payload
        """The format of the payloads."""
        self.history_seconds = history_seconds
        """How long ago a time may be whose rows are asked for; None: any time."""
        self._missing = missing
        self._names = [text.strip() for text in keys]
        self._is_raw = [name.lower() for name in self._names] == [KEY]
        facts: list[str | float] = [*self._names, missing.value]
        self._expires_after_ns = None
        if expires_seconds is not None:
            self._expires_after_ns = round(min(expires_seconds * 1e9, TIME_NS_MAX))
            facts.append(expires_seconds)
        if payload is not PayloadFormat.JSON and any(isinstance(each, Field) for each, _ in named):
            facts.append(payload.value)
        self.text = json.dumps(facts)
        """The fields as one text: another text means other rows."""

    def keys_of(
        self, header: BatchHeader, payloads: Sequence[bytes], body: Body, first: int, last: int
    ) -> list[bytes | None]:
        """Return the key of each message of [first, last] of a batch; None: it makes no row.

        payloads: those of the whole batch. Raises CorruptBatch.
        """
        rows = range(first - header.first, last - header.first + 1)
        if self._is_raw:
            return [
                _RAW + key if key is not None and len(key) <= KEY_BYTES_MAX else self._of_raw(key)
                for key in body.read_keys()[rows.start : rows.stop]
            ]
        messages = BatchMessages(header, payloads, body, self._reader)
        columns = [map(_part, read(messages, rows)) for read in self._fields]
        return [self._of_values(list(values)) for values in zip(*columns, strict=True)]

    def keys_in(
        self, header: BatchHeader, body: Body, first: int, last: int
    ) -> tuple[bytes, Sequence[bytes | None]]:
        """Return what `keys_of` returns, and before it a beginning that each key lacks there.

        Payloads are read only if they are needed. Raises CorruptBatch.
        """
        own = body.keys
        if not self._is_raw or own is None or own.distinct.longest > KEY_BYTES_MAX:
            return b"", self.keys_of(header, body.read_payloads(), body, first, last)
        keys = body.read_keys()[first - header.first : last - header.first + 1]
        if own.rows is None:
            return _RAW, keys
        of_none = self._of_raw(None)
        return b"", [of_none if key is None else _RAW + key for key in keys]

    def expires(self, body: Body) -> bool:
        """Return whether messages of a batch may expire."""
        return body.expiries is not None or self._expires_after_ns is not None

    def expiries_of(self, body: Body, times: Sequence[int]) -> Sequence[int | None]:
        """Return the time at which the row of each message expires, in ns; None: it does not.

        times: those of the messages.
        """
        said, after_ns = body.read_expiries(), self._expires_after_ns
        if after_ns is None:
            return said
        return [
            own if own is not None or deleted else min(time_ns + after_ns, TIME_NS_MAX)
            for own, deleted, time_ns in zip(said, body.read_deleted(), times, strict=True)
        ]

    def of(self, asked: bytes | Sequence[KeyValue]) -> bytes:
        """Return the key that an application asks for: bytes, or the value of each field.

        Raises InvalidArgument.
        """
        if isinstance(asked, bytes):
            if not self._is_raw:
                raise InvalidArgument(
                    "key", "is bytes, but the rows have fields of payloads as keys; give values"
                )
            key = self._of_raw(asked)
        elif self._is_raw and len(asked) == 1 and isinstance(asked[0], str):
            key = self._of_raw(asked[0].encode(errors="surrogatepass"))
        else:
            if len(asked) != len(self._fields):
                raise InvalidArgument(
                    "key",
                    f"has {counted(len(asked), 'value')}, and the key of these rows has "
                    f"{len(self._names)}: {', '.join(self._names)}; give them together, as a tuple "
                    "or a JSON array",
                )
            key = _packed([_part(value) for value in asked])
        if key is None:
            raise InvalidArgument("key", f"has more than {KEY_BYTES_MAX:,} bytes")
        return key

    def _of_raw(self, key: bytes | None) -> bytes | None:
        if key is None:
            return self._of_values([None])
        return _RAW + key if len(key) <= KEY_BYTES_MAX else None

    def _of_values(self, values: list[KeyValue]) -> bytes | None:
        if self._missing is Missing.DROP and None in values:
            return None
        return _packed(values)


def key_of_row(packed: bytes) -> bytes | tuple[KeyValue, ...]:
    """Return the key that rows have as these bytes: bytes, or the value of each field."""
    return packed[1:] if packed.startswith(_RAW) else tuple(json.loads(packed[1:]))


def _field(text: str) -> tuple[Field | MessageField | Property, Evaluate]:
    try:
        named, read = field_of(text)
    except InvalidFilter as error:
        raise InvalidArgument(
            "keys", f"{text[:80]!r} is no field: {error.detail} (after {error.position} characters)"
        ) from None
    if isinstance(named, MessageField) and named.about is not About.KEY:
        raise InvalidArgument(
            "keys",
            f"{text!r} is no key; name fields of the payload such as order.id, {KEY} for the "
            "message's own key, or $properties.NAME",
        )
    return named, read


def _part(value: object) -> KeyValue:
    """Return a value as part of a key. A value counts as missing unless it is a text, a number or a
    truth."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        # Filters take 1 and 1.0 for equal, and so do keys.
        return int(value) if value.is_integer() and abs(value) < _INTEGERS_UPTO else value
    return value if isinstance(value, str | int) else None


def _packed(values: list[KeyValue]) -> bytes | None:
    packed = json.dumps(values, separators=(",", ":")).encode()
    return _VALUES + packed if len(packed) <= KEY_BYTES_MAX else None
