"""Turning batches of messages into Arrow's batches of rows.

Every row that Spark reads pays for what is done here. A batch has columns like Arrow's, so rows are
made without a Python object for each. Nothing here fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from quorate.protocol.answers import Piece
from quorate.protocol.columns import Body, Column, Numbers, Values
from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import body_of, plain, read_header

ROWS_MAX = 16_384
"""Most rows of a batch of rows, unless one batch of messages has more."""
BYTES_MAX = 4 * 1024 * 1024
"""A batch of rows is closed once its messages have more bytes than this."""


Builder = Callable[[list[Piece]], pa.Array]
"""Makes a column of consecutive pieces."""


def record_batches(
    pieces: Iterable[Piece], schema: pa.Schema, more: Mapping[str, Builder] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns of the schema, in the order of the pieces.

    The pieces may belong to several sources.
    more: builders of the columns that quorate.pipeline.schema does not have.
    Raises CorruptBatch.
    """
    known = {**_BUILDERS, **(more or {})}
    builders = [(field, known[field.name]) for field in schema]
    sizes = _with_attributes if {"key", "properties"} & set(schema.names) else _plain_size
    for group in _grouped(map(plain_piece, pieces), sizes):
        columns = [build(group).cast(field.type) for field, build in builders]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        else:
            yield _without_columns(sum(map(_count, group)))


def plain_piece(piece: Piece) -> Piece:
    """Return the piece with its batch as it was before it was compressed. Raises CorruptBatch."""
    if not piece.header.is_compressed:
        return piece
    frame = plain(piece.frame, piece.header)
    return Piece(frame, read_header(frame), piece.first, piece.last)


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])))


def _plain_size(piece: Piece) -> int:
    return len(piece.frame)


def _with_attributes(piece: Piece) -> int:
    """Return the bytes of a piece's rows: a key that many messages share is copied for each."""
    return len(piece.frame) + body_of(piece.frame, piece.header).attributes_size


def _grouped(pieces: Iterable[Piece], size_of: Callable[[Piece], int]) -> Iterator[list[Piece]]:
    group: list[Piece] = []
    rows = size = 0
    for piece in pieces:
        if group and (rows + _count(piece) > ROWS_MAX or size > BYTES_MAX):
            yield group
            group, rows, size = [], 0, 0
        group.append(piece)
        rows += _count(piece)
        size += size_of(piece)
    if group:
        yield group


def _count(piece: Piece) -> int:
    return piece.last - piece.first + 1


# Columns with one value for all messages of a batch.


def constant(value: Callable[[Piece], object], kind: pa.DataType) -> Builder:
    """Return the builder of a column with one value for all messages of a batch."""

    def build(group: list[Piece]) -> pa.Array:
        runs: list[tuple[object, int]] = []
        for piece in group:
            each, count = value(piece), _count(piece)
            if runs and runs[-1][0] == each:
                runs[-1] = (each, runs[-1][1] + count)
            else:
                runs.append((each, count))
        return _joined([pa.repeat(pa.scalar(each, kind), count) for each, count in runs])

    return build


def _joined(parts: list[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _sequences(group: list[Piece]) -> pa.Array:
    return _joined([pa.arange(piece.first, piece.last + 1) for piece in group])


# Columns of messages.


def _of_bodies(make: Callable[[Body], pa.Array]) -> Builder:
    """Return the builder of a column that is made from the body of each batch."""

    def build(group: list[Piece]) -> pa.Array:
        return _joined([part(piece) for piece in group])

    def part(piece: Piece) -> pa.Array:
        column = make(body_of(piece.frame, piece.header))
        return column.slice(piece.first - piece.header.first, _count(piece))

    return build


def _payloads(body: Body) -> pa.Array:
    return _values(body.data, body.payloads)


def _keys(body: Body) -> pa.Array:
    return _spread(body, body.keys, _values, pa.binary())


def _spread(
    body: Body, column: Column | None, read: Callable[[bytes, Values], pa.Array], kind: pa.DataType
) -> pa.Array:
    """Return the value of each message; null: it has none. read: returns the distinct values."""
    if column is None:
        return pa.nulls(body.count, kind)
    values = read(body.data, column.distinct)
    if column.places is not None:
        values = values.take(_numbers(body.data, column.places))
    if column.rows is None:
        return values
    rows = _numbers(body.data, column.rows)
    return values.take(pc.index_in(pa.arange(0, body.count), rows))


def _deletions(body: Body) -> pa.Array:
    """Return whether each message is a deletion."""
    if body.flags_at is None:
        return pa.repeat(False, body.count)
    flags = _integers(body.data, body.flags_at, body.count, pa.uint8())
    return pc.not_equal(flags, 0)


def _expiries(body: Body) -> pa.Array:
    """Return the time at which each message expires, in ns since 1970; null: it does not."""
    return _spread(body, body.expiries, _nanoseconds, pa.int64())


def _nanoseconds(data: bytes, values: Values) -> pa.Array:
    return _integers(data, values.at, values.count, pa.int64())


def times(group: list[Piece]) -> pa.Array:
    """Return the time of each message, in ns since 1970. Raises CorruptBatch."""
    return _joined([_times_of(piece) for piece in group])


def _times_of(piece: Piece) -> pa.Array:
    body, timestamp_ns = body_of(piece.frame, piece.header), piece.header.timestamp_ns
    count = _count(piece)
    if body.later is None:
        return pa.repeat(pa.scalar(timestamp_ns, pa.int64()), count)
    later = _integers(body.data, body.later.at, body.count, _UNSIGNED[body.later.width])
    try:
        each = pc.add_checked(later.cast(pa.int64()), pa.scalar(timestamp_ns, pa.int64()))
    except pa.ArrowInvalid:
        raise CorruptBatch("in memory", "its body has a time beyond the year 2262") from None
    return each.slice(piece.first - piece.header.first, count)


def _moments(build: Builder) -> Builder:
    """Return the builder of times in µs, from one of times in ns."""
    return lambda group: pc.divide(build(group), 1000).cast(pa.timestamp("us", tz="UTC"))


def _properties(body: Body) -> pa.Array:
    """Return a map for each message; null for those without properties. Names are in order."""
    if not body.properties:
        return pa.nulls(body.count, _MAP)
    columns = body.properties.values()
    every = pa.arange(0, body.count)
    rows = [every if each.rows is None else _numbers(body.data, each.rows) for each in columns]
    names = pa.array(list(body.properties), pa.string())
    which = [pa.repeat(place, len(part)) for place, part in enumerate(rows)]
    order = pc.sort_indices(pa.concat_arrays(rows))  # keeps the order of names in each row
    items = pa.concat_arrays([_present(body.data, each) for each in columns]).take(order)
    ends = _ends(pa.concat_arrays(rows), every)
    begins = pc.if_else(pc.equal(ends[:-1], ends[1:]), None, ends[:-1])
    offsets = pa.concat_arrays([begins, ends[-1:]])
    return pa.MapArray.from_arrays(offsets, names.take(pa.concat_arrays(which).take(order)), items)


def _ends(rows: pa.Array, every: pa.Array) -> pa.Array:
    """Return 0, and the number of entries of `rows` up to each row."""
    counted = pc.value_counts(rows)
    counts = counted.field("counts").take(pc.index_in(every, counted.field("values")))
    sums = pc.cumulative_sum(pc.fill_null(counts, 0)).cast(pa.int32())
    return pa.concat_arrays([pa.array([0], pa.int32()), sums])


def _present(data: bytes, column: Column) -> pa.Array:
    """Return the value of each message that has one."""
    values = _values(data, column.distinct)
    return values if column.places is None else values.take(_numbers(data, column.places))


def _values(data: bytes, values: Values) -> pa.Array:
    """Return values where they are, without a copy."""
    size = values.end - values.at
    if values.lengths is None:
        length = size // values.count
        # arange has no step of 0.
        offsets = pa.arange(0, size + 1, length) if length else pa.repeat(0, values.count + 1)
    else:
        sums = pc.cumulative_sum(_numbers(data, values.lengths))
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), sums])
    buffers = [None, offsets.cast(pa.int32()).buffers()[1], _buffer(data, values.at, size)]
    return pa.BinaryArray.from_buffers(pa.binary(), values.count, buffers)


def _numbers(data: bytes, numbers: Numbers) -> pa.Array:
    kind = _UNSIGNED[numbers.width]
    return _integers(data, numbers.at, len(numbers.values), kind).cast(pa.int64())


def _integers(data: bytes, at: int, count: int, kind: pa.DataType) -> pa.Array:
    """Return integers where they are, without a copy."""
    buffers = [None, _buffer(data, at, count * kind.bit_width // 8)]
    return pa.Array.from_buffers(kind, count, buffers)


def _buffer(data: bytes, at: int, size: int) -> pa.Buffer:
    return pa.py_buffer(data).slice(at, size)


expiries = _of_bodies(_expiries)
"""The builder of the times at which messages expire, in ns since 1970; null: they do not."""

_UNSIGNED = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}
_MAP = pa.map_(pa.string(), pa.binary())

_BUILDERS: dict[str, Builder] = {
    "topic": constant(lambda piece: piece.header.source.topic, pa.string()),
    "source": constant(lambda piece: f"{piece.header.source.session_id:#x}", pa.string()),
    "sequence": _sequences,
    "epoch": constant(lambda piece: piece.header.epoch, pa.int64()),
    "timestamp": _moments(times),
    "payload": _of_bodies(_payloads),
    "key": _of_bodies(_keys),
    "properties": _of_bodies(_properties),
    "deleted": _of_bodies(_deletions),
    "expires": _moments(expiries),
}
