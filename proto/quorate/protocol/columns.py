"""The body of a batch: its messages in columns, laid out as Arrow lays out its buffers.

The columns come in this order: keys, properties by name, times, flags, expiries, payloads.
docs/protocol.md, "A batch", has the layout. Equal messages are always equal bytes. A column is
packed and read by C code at once. The head of a batch, and how many bytes it may have, are not
known here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import accumulate, chain
from operator import itemgetter, lt
from typing import TypeVar

from quorate.protocol.attributes import EXPIRY_BYTES, NO_ATTRIBUTES, Attributes
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.fields import varint
from quorate.protocol.limits import (
    ATTRIBUTE_BYTES_MORE,
    BATCH_BYTES_TARGET,
    MESSAGE_BYTES_MAX,
    MESSAGE_BYTES_USUAL,
    PROPERTY_NAME_BYTES_MAX,
)
from quorate.protocol.times import TIME_NS_MAX

T = TypeVar("T")

_KEYS, _PROPERTIES, _TIMES, _FLAGS, _EXPIRIES = 1, 2, 4, 8, 16
_KNOWN = _KEYS | _PROPERTIES | _TIMES | _FLAGS | _EXPIRIES
_FLAG_BYTES = b"\0\1"
"""The values of a flag byte: bit 1 says that the message is a deletion."""
_EQUAL = b"\0"
"""Stands for the lengths of a column whose values all have the same one."""
BEHIND_KEY = _EQUAL
"""The bytes between key and payload in the body of a message that has nothing else."""
_ALONE = b"\1\1" + _EQUAL
"""The beginning of a column of one message: it has a value, which is the only distinct one."""
_COUNTED_MAX = BATCH_BYTES_TARGET + MESSAGE_BYTES_USUAL
"""The bytes that attributes of several messages may count: a source closes its batch."""
_KEY_ALONE = bytes((_KEYS,)) + _ALONE
_ALONE_BYTES_MAX = 32
"""More bytes than the body of one message has apart from key, properties and payload."""
_SIZES = [varint(number) for number in range(256)]
"""The sizes that most values have, as they are written."""
_CODES = {1: "B", 2: "H", 4: "I"}
_TIME_CODES = {**_CODES, 8: "Q"}

_key, _properties, _deleted, _expires_ns = map(itemgetter, range(4))


# Packing.


def pack(
    payloads: Sequence[bytes], attributes: Sequence[Attributes] = (), later: Sequence[int] = ()
) -> bytes:
    """Return the body of these messages, at least one.

    - attributes: those of each message, or empty if no message has any.
    - later: how much later than the batch's time each was sent, in nanoseconds, or empty.
    """
    before = before_payloads(list(map(len, payloads)), attributes, later)
    return b"".join((*before, *payloads))


def before_payloads(
    lengths: list[int], attributes: Sequence[Attributes] = (), later: Sequence[int] = ()
) -> Iterable[bytes]:
    """Return what a body has before the bytes of the payloads. lengths: of each payload."""
    times = [_numbers(later, _TIME_CODES)] if any(later) else []
    if not attributes:
        return bytes((_TIMES * bool(times),)), *times, _lengths(lengths)
    columns = {
        _KEYS: _optional(list(map(_key, attributes))),
        _PROPERTIES: _named(attributes),
        _TIMES: times,
        _FLAGS: _flags(attributes),
        _EXPIRIES: _expiries(list(map(_expires_ns, attributes))),
    }
    kinds = sum(kind for kind, column in columns.items() if column)
    return bytes((kinds,)), *chain.from_iterable(columns.values()), _lengths(lengths)


def before_payload(
    key: bytes | None, properties: Mapping[str, bytes], expires_ns: int | None
) -> bytes:
    """Return what the body of one message alone has before its payload.

    It is what `before_payloads` returns, made without columns of one value each.
    """
    if key is not None and not properties and expires_ns is None:
        return _KEY_ALONE + _size(len(key)) + key + _EQUAL  # most messages of topics with keys
    kinds = 0
    parts: list[bytes] = []
    if key is not None:
        kinds |= _KEYS
        parts += (_ALONE, _size(len(key)), key)
    if properties:
        kinds |= _PROPERTIES
        parts.append(_size(len(properties)))
        for name in sorted(properties):
            raw, value = name.encode(), properties[name]
            parts += (_size(len(raw)), raw, _ALONE, _size(len(value)), value)
    if expires_ns is not None:
        kinds |= _EXPIRIES
        parts += (_ALONE, _size(EXPIRY_BYTES), _expiry_bytes(expires_ns))
    return b"".join((bytes((kinds,)), *parts, _EQUAL))


def before_key_alone(key_bytes: int) -> bytes:
    """Return what `before_payload` has before a key, if the message has nothing else.

    BEHIND_KEY follows the key. key_bytes: the length of the key.
    """
    return _KEY_ALONE + _size(key_bytes)


def key_of_one(body: bytes) -> bytes | None:
    """Return the key of a body of one message. Raises CorruptBatch."""
    size_at = len(_KEY_ALONE)
    if body.startswith(_KEY_ALONE) and (size := body[size_at]) < 0x80:
        return body[size_at + 1 : size_at + 1 + size]
    return Body(body, 0, 1).read_keys()[0]


def _size(number: int) -> bytes:
    return _SIZES[number] if number < len(_SIZES) else varint(number)


def _expiry_bytes(expires_ns: int) -> bytes:
    return expires_ns.to_bytes(EXPIRY_BYTES, "little", signed=True)


def _expiries(values: list[int | None]) -> Sequence[bytes]:
    """Return the column of the times at which messages expire. Mostly none does."""
    if values.count(None) == len(values):
        return []
    return _optional([None if value is None else _expiry_bytes(value) for value in values])


def _flags(attributes: Sequence[Attributes]) -> list[bytes]:
    flags = bytes(map(_deleted, attributes))
    return [flags] if any(flags) else []


def _optional(values: Sequence[bytes | None]) -> Sequence[bytes]:
    """Return a column of the values of all messages; None: a message has none."""
    count = len(values)
    present = [value for value in values if value is not None]
    if not present:
        return []
    rows: Sequence[int] = range(count)
    if len(present) < count:
        rows = [row for row, value in enumerate(values) if value is not None]
    return _column(rows, present, count)


def _named(attributes: Sequence[Attributes]) -> list[bytes]:
    """Return the columns of properties, by name."""
    mappings = list(map(_properties, attributes))
    if not any(mappings):
        return []
    properties = _by_name(mappings)
    parts = [varint(len(properties))]
    for name in sorted(properties):
        raw = name.encode()
        parts += (varint(len(raw)), raw, *_column(*properties[name], len(attributes)))
    return parts


def _by_name(
    mappings: Sequence[Mapping[str, bytes]],
) -> Mapping[str, tuple[Sequence[int], list[bytes]]]:
    """Return, for each name, the messages that have a value, by place, and the values."""
    names = mappings[0]
    if set(map(len, mappings)) == {len(names)}:
        try:
            return {
                name: (range(len(mappings)), list(map(itemgetter(name), mappings)))
                for name in names
            }
        except KeyError:
            pass  # A message has other names.
    return _by_any_name(mappings)


def _by_any_name(
    mappings: Iterable[Mapping[str, bytes]],
) -> dict[str, tuple[list[int], list[bytes]]]:
    """Return as _by_name does, in one pass: a batch may have as many names as messages."""
    found: dict[str, tuple[list[int], list[bytes]]] = {}
    for row, own in enumerate(mappings):
        for name, value in own.items():
            column = found.get(name)
            if column is None:
                column = found[name] = ([], [])
            column[0].append(row)
            column[1].append(value)
    return found


def _column(rows: Sequence[int], values: Sequence[bytes], count: int) -> Sequence[bytes]:
    """Return a column of the values of these messages. It has each distinct value once."""
    parts = [varint(len(values))]
    if len(values) < count:
        parts.append(_numbers(rows))
    distinct = dict.fromkeys(values)
    parts.append(varint(len(distinct)))
    if len(distinct) < len(values):
        places = dict(zip(distinct, range(len(distinct)), strict=True))
        parts.append(_numbers(list(map(places.__getitem__, values))))
    lengths = list(map(len, distinct))
    said = _lengths(lengths)
    return *parts, said, varint(lengths[0]) if said == _EQUAL else b"", *distinct


def _lengths(lengths: list[int]) -> bytes:
    return _EQUAL if lengths.count(lengths[0]) == len(lengths) else _numbers(lengths)


def _numbers(numbers: Sequence[int], codes: Mapping[int, str] = _CODES) -> bytes:
    """Return the least width that has all numbers, in bytes, and the numbers."""
    largest = max(numbers)
    width = next(width for width in codes if largest < 1 << 8 * width)
    return struct.pack(f"<B{len(numbers)}{codes[width]}", width, *numbers)


# Reading.


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers in a body."""

    at: int
    """The offset of the first in the data."""
    width: int
    """The bytes of each; the lowest come first."""
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """Values in a body, one behind the other."""

    at: int
    """The offset of the first in the data."""
    end: int
    """The offset behind the last."""
    count: int
    lengths: Numbers | None
    """The length of each; None: all are equal."""

    @property
    def longest(self) -> int:
        """The bytes of the longest."""
        if self.lengths is None:
            return (self.end - self.at) // self.count
        return max(self.lengths.values)

    def read(self, data: bytes) -> list[bytes]:
        """Return the values."""
        if self.lengths is None:
            length = (self.end - self.at) // self.count
            if not length:
                return [b""] * self.count
            return list(_equal(length, self.count).unpack_from(data, self.at))
        reader = BytesIO(data)  # shares the bytes
        reader.seek(self.at)
        return list(map(reader.read, self.lengths.values))

    def read_some(self, data: bytes, places: Sequence[int]) -> list[bytes]:
        """Return the values in these places. It is quicker than `read` if they are few."""
        if self.lengths is None:
            length = (self.end - self.at) // self.count
            begin_of = [self.at + place * length for place in places]
            return [data[begin : begin + length] for begin in begin_of]
        begins = list(accumulate(self.lengths.values, initial=self.at))
        return [data[begins[place] : begins[place + 1]] for place in places]


@lru_cache(maxsize=8)
def _equal(length: int, count: int) -> struct.Struct:
    """Return what unpacks so many values of this length. Full batches often have as many."""
    return struct.Struct(f"{length}s" * count)


@dataclass(frozen=True, slots=True)
class Column:
    """Values that some messages may lack, in a body."""

    rows: Numbers | None
    """The messages that have a value, by their place in the batch; None: all have one."""
    places: Numbers | None
    """The place among the distinct values, for each of these messages; None: each has its own."""
    distinct: Values

    @property
    def present(self) -> int:
        """The number of messages that have a value, if the distinct values say so."""
        return len(self.places.values) if self.places is not None else self.distinct.count

    @property
    def size_max(self) -> int:
        """The bytes of all messages' values, or more."""
        return self.present * self.distinct.longest

    @property
    def size(self) -> int:
        """The bytes of all messages' values."""
        lengths = self.distinct.lengths
        if lengths is None or self.places is None:
            return self.size_max if lengths is None else self.distinct.end - self.distinct.at
        return sum(map(lengths.values.__getitem__, self.places.values))

    def read(self, data: bytes) -> list[bytes]:
        """Return the value of each message that has one."""
        values = self.distinct.read(data)
        if self.places is None:
            return values
        return list(map(values.__getitem__, self.places.values))


@dataclass(frozen=True, slots=True)
class Later:
    """How much later than the batch's time each message was sent: numbers in a body, in ns."""

    at: int
    """The offset of the first in the data."""
    width: int
    """The bytes of each; the lowest come first."""

    def read(self, data: bytes, count: int) -> tuple[int, ...]:
        """Return the numbers."""
        return struct.unpack_from(f"<{count}{_TIME_CODES[self.width]}", data, self.at)


class Body:
    """The columns of a body: their places are read at once, their values when one asks for them."""

    __slots__ = (
        "attributes_size", "count", "data", "expiries", "flags_at", "keys", "later", "payloads",
        "properties",
    )  # fmt: skip

    def __init__(self, data: bytes, at: int, count: int, end: int | None = None) -> None:
        """Read where the columns are. Raises CorruptBatch.

        - data: bytes that have the body from `at` on; their end may be missing.
        - count: the number of messages.
        - end: the offset of the end of the body; None: that of the data.
        """
        self.data = data
        """The bytes that the offsets of all columns count from."""
        self.count = count
        """The number of messages."""
        reading = _Reading(data, at, count)
        kinds = reading.byte()
        if kinds & ~_KNOWN:
            raise _corrupt(f"has columns of an unknown kind: {kinds:#x}")
        self.keys = reading.column() if kinds & _KEYS else None
        """The column of keys; None: no message has one."""
        self.properties = reading.properties() if kinds & _PROPERTIES else {}
        """The columns of properties, by name."""
        self.later = reading.later() if kinds & _TIMES else None
        """The column of times; None: all messages have that of the batch."""
        self.flags_at = reading.flags() if kinds & _FLAGS else None
        """The offset of the first message's flags, of a byte each; None: no message has any."""
        self.expiries = reading.expiries() if kinds & _EXPIRIES else None
        """The column of the times at which messages expire; None: no message does."""
        columns = [*self.properties.values(), self.keys, self.expiries]
        present = [each for each in columns if each is not None]
        self.attributes_size = reading.counted + sum(each.size_max for each in present)
        """The bytes that attributes count, or more."""
        if self.attributes_size > reading.counted_max:
            reading.count(sum(each.size for each in present))
        self.payloads = reading.payloads(len(data) if end is None else end)
        """The payloads of all messages."""

    @property
    def size_max_of_one(self) -> int:
        """The bytes of the body of each message alone, if it has no properties, or more."""
        key_bytes = 0 if self.keys is None else self.keys.distinct.longest
        return _ALONE_BYTES_MAX + key_bytes + self.payloads.longest

    def read_payloads(self) -> list[bytes]:
        """Return the payload of each message, in order."""
        return self.payloads.read(self.data)

    def read_payloads_of(self, rows: Sequence[int]) -> list[bytes]:
        """Return the payloads of the messages in these places."""
        return self.payloads.read_some(self.data, rows)

    def read_attributes(self) -> list[Attributes] | None:
        """Return the attributes of each message, in order; None: no message has any."""
        return self.read_attributes_of(range(self.count))

    def read_attributes_of(self, rows: Sequence[int]) -> list[Attributes] | None:
        """Return the attributes of the messages in these places; None: no message has any."""
        none = self.keys is None and self.flags_at is None and self.expiries is None
        if none and not self.properties:
            return None
        columns = (
            values_at(self.read_keys(), rows),
            self.read_properties_of(rows),
            values_at(self.read_deleted(), rows),
            values_at(self.read_expiries(), rows),
        )
        return list(map(Attributes, *columns))

    def read_every_attributes(self) -> Sequence[Attributes]:
        """Return the attributes of each message, in order, also if no message has any."""
        return self.read_attributes() or [NO_ATTRIBUTES] * self.count

    def read_times(self, timestamp_ns: int) -> Sequence[int]:
        """Return the time of each message, in order. timestamp_ns: that of the batch.

        Raises CorruptBatch.
        """
        if self.later is None:
            return [timestamp_ns] * self.count
        later = self.later.read(self.data, self.count)
        if timestamp_ns + max(later) > TIME_NS_MAX:
            raise _corrupt("has a time beyond the year 2262")
        return [timestamp_ns + each for each in later]

    def read_keys(self) -> Sequence[bytes | None]:
        """Return the key of each message, in order."""
        return self._spread(self.keys)

    def read_every_key(self) -> list[bytes]:
        """Return the key of each message, in order. All messages must have one."""
        assert self.keys is not None
        assert self.keys.rows is None
        return self.keys.read(self.data)

    def read_deleted(self) -> Sequence[bool]:
        """Return whether each message is a deletion, in order."""
        if self.flags_at is None:
            return [False] * self.count
        return list(map(bool, self.data[self.flags_at : self.flags_at + self.count]))

    def read_expiries(self) -> Sequence[int | None]:
        """Return the time at which each message expires, in ns since 1970, in order."""
        return [
            None if raw is None else int.from_bytes(raw, "little", signed=True)
            for raw in self._spread(self.expiries)
        ]

    def _spread(self, column: Column | None) -> Sequence[bytes | None]:
        """Return the value of each message, in order; None: it has none."""
        if column is None:
            return [None] * self.count
        values = column.read(self.data)
        if column.rows is None:
            return values
        spread: list[bytes | None] = [None] * self.count
        for row, value in zip(column.rows.values, values, strict=True):
            spread[row] = value
        return spread

    def read_property(self, name: str) -> Sequence[bytes | None]:
        """Return one property of each message, in order; None: it lacks it."""
        return self._spread(self.properties.get(name))

    def read_properties(self) -> Sequence[Mapping[str, bytes]]:
        """Return the properties of each message, in order."""
        return self.read_properties_of(range(self.count))

    def read_properties_of(self, rows: Sequence[int]) -> Sequence[Mapping[str, bytes]]:
        """Return the properties of the messages in these places."""
        if not self.properties:
            return [NO_ATTRIBUTES.properties] * len(rows)
        mappings: dict[int, dict[str, bytes]] = {row: {} for row in rows}
        for name, column in self.properties.items():
            values = column.read(self.data)
            if column.rows is None:
                for row, own in mappings.items():
                    own[name] = values[row]
                continue
            for row, value in zip(column.rows.values, values, strict=True):
                if row in mappings:
                    mappings[row][name] = value
        return list(mappings.values())


def values_at(values: Sequence[T], rows: Sequence[int]) -> Sequence[T]:
    """Return those of the values that have these places."""
    if isinstance(rows, range):
        return values[rows.start : rows.stop]
    return [values[row] for row in rows]


class _Reading:
    """A place in a body, which moves on as columns are read."""

    __slots__ = ("_at", "_count", "_data", "counted", "counted_max")

    def __init__(self, data: bytes, at: int, count: int) -> None:
        self._data = data
        self._at = at
        self._count = count
        self.counted = 0
        """The bytes that attributes count so far, without the values."""
        self.counted_max = _COUNTED_MAX if count > 1 else MESSAGE_BYTES_MAX

    def count(self, size: int) -> None:
        """Count bytes of attributes. No source sends a batch that counts too many."""
        self.counted += size
        if self.counted > self.counted_max:
            raise _corrupt("has attributes of more bytes than a batch may have")

    def byte(self) -> int:
        at = self._at
        self._at = at + 1
        try:
            return self._data[at]
        except IndexError:
            raise _corrupt("ends before its columns") from None

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 35, 7):
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise _corrupt("has a number that does not end")

    def _upto(self, most: int) -> int:
        """Return a number from 1 to this one."""
        number = self._varint()
        if not 0 < number <= most:
            raise _corrupt(f"has a column with {number} values, not 1 to {most}")
        return number

    def _raw(self, size: int) -> int:
        """Return where the next so many bytes begin."""
        at = self._at
        self._at = at + size
        if self._at > len(self._data):
            raise _corrupt("ends in its columns")
        return at

    def _numbers(self, count: int) -> Numbers | None:
        """Return so many numbers; None if they are said to be equal."""
        width = self.byte()
        if not width:
            return None
        if width not in _CODES:
            raise _corrupt(f"has numbers of {width} bytes")
        at = self._raw(width * count)
        return Numbers(at, width, struct.unpack_from(f"<{count}{_CODES[width]}", self._data, at))

    def _values(self, count: int) -> Values:
        lengths = self._numbers(count)
        size = sum(lengths.values) if lengths is not None else self._varint() * count
        at = self._raw(size)
        return Values(at, at + size, count, lengths)

    def column(self, name_size: int = 0) -> Column:
        rows = places = None
        present = self._upto(self._count)
        self.count(present * (ATTRIBUTE_BYTES_MORE + name_size))
        if present < self._count:
            rows = self._numbers(present)
            if rows is None or rows.values[-1] >= self._count or not _rises(rows.values):
                raise _corrupt("has a column whose messages are not in order")
        distinct = self._upto(present)
        if distinct < present:
            places = self._numbers(present)
            if places is None or max(places.values) >= distinct:
                raise _corrupt("has a column with a value that is not there")
        return Column(rows, places, self._values(distinct))

    def properties(self) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for _ in range(self._upto(len(self._data))):
            size = self._varint()
            if size > PROPERTY_NAME_BYTES_MAX:
                raise _corrupt(f"has the name of a property with {size} bytes")
            at = self._raw(size)
            try:
                name = self._data[at : at + size].decode()
            except UnicodeDecodeError:
                raise _corrupt("has a property whose name is not text") from None
            if not name or name in columns:
                raise _corrupt(f"has the property {name!r} twice, or without a name")
            columns[name] = self.column(size)
        return columns

    def later(self) -> Later:
        width = self.byte()
        if width not in _TIME_CODES:
            raise _corrupt(f"has times of {width} bytes")
        return Later(self._raw(width * self._count), width)

    def flags(self) -> int:
        at = self._raw(self._count)
        if self._data[at : at + self._count].translate(None, _FLAG_BYTES):
            raise _corrupt("has a message with unknown flags")
        return at

    def expiries(self) -> Column:
        column = self.column()
        values = column.distinct
        if values.lengths is not None or values.end - values.at != EXPIRY_BYTES * values.count:
            raise _corrupt(f"has an expiry that is not of {EXPIRY_BYTES} bytes")
        return column

    def payloads(self, end: int) -> Values:
        lengths = self._numbers(self._count)
        size = end - self._at
        if size < 0 or (size % self._count if lengths is None else size != sum(lengths.values)):
            raise _corrupt("has payloads that do not end where it ends")
        return Values(self._at, end, self._count, lengths)


def _rises(numbers: Sequence[int]) -> bool:
    return all(map(lt, numbers, numbers[1:]))


def _corrupt(problem: str) -> CorruptBatch:
    return CorruptBatch("in memory", f"its body {problem}")
