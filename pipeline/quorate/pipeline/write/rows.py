"""From Spark's columns to rows of topics: which columns are written, and how values are converted.

Nothing here knows of sources, or of rows that were written before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.pipeline.rules.chunks import Rows
from quorate.protocol.attributes import Attributes, checked_attributes, has_any
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.identity import check_topic
from quorate.protocol.limits import MESSAGE_BYTES_USUAL

_TYPES = {
    "topic": ("string",),
    "payload": ("binary", "string"),
    "value": ("binary", "string"),
    "key": ("binary", "string"),
    "properties": ("map<string,binary>", "map<string,string>"),
    "deleted": ("boolean",),
    "expires": ("timestamp",),
}


def check_columns(columns: Sequence[tuple[str, str]], topic: str) -> None:
    """Raise InvalidArgument with every problem if rows of these columns cannot be written.

    - columns: the name of each, and its type as Spark writes it.
    - topic: the topic of all rows; empty: the column `topic` has it.
    """
    problems = list(_problems(columns, topic))
    if problems:
        raise InvalidArgument("columns", "; ".join(problems))


def _problems(columns: Sequence[tuple[str, str]], topic: str) -> Iterator[str]:
    names = [name for name, _ in columns]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"there are {names.count(name)} columns {name}; keep one"
    if "payload" in names and "value" in names:
        yield "payload and value mean the same; select one"
    if "payload" not in names and "value" not in names:
        yield "there is no payload or value; rename a column with select or withColumnRenamed"
    if "topic" not in names and not topic:
        yield "there is no topic; add the column or the option topic"
    for name, kind in columns:
        if name not in _TYPES:
            yield (
                f"{name} is not written; select only topic, payload, key, properties, deleted and "
                "expires (put anything else into the properties)"
            )
        elif kind not in _TYPES[name]:
            yield f"{name} is {kind}; cast it to {' or '.join(_TYPES[name])}"


def rows_by_topic(batch: pa.RecordBatch, topic: str) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of each topic, in their order. Raises InvalidArgument, MessageTooLarge.

    topic: the topic of all rows; empty: the column `topic` has it.
    """
    if batch.num_rows == 0:
        return
    if topic:
        yield topic, _rows(batch)
        return
    column = _column(batch, "topic")
    if column.null_count:
        raise InvalidArgument("column topic", "is null in some row; filter such rows or fill it")
    topics = column.dictionary_encode()
    names = topics.dictionary.to_pylist()
    if len(names) == 1:
        yield check_topic(names[0]), _rows(batch)
        return
    # A stable sort, so that the rows of each topic stay in order.
    order = pc.sort_indices(topics.indices)
    batch = batch.take(order)
    at = 0
    for name, count in zip(names, _counts(topics.indices, len(names)), strict=True):
        yield check_topic(name), _rows(batch.slice(at, count))
        at += count


def _counts(indices: pa.Array, size: int) -> list[int]:
    counts = [0] * size
    for each in pc.value_counts(indices).to_pylist():
        counts[each["values"]] = each["counts"]
    return counts


def _rows(batch: pa.RecordBatch) -> Rows:
    name = "payload" if "payload" in batch.schema.names else "value"
    payloads = _bytes(_column(batch, name))
    if payloads.null_count:
        raise InvalidArgument(
            f"column {name}", "is null in some row; a message may be empty but not null: fill it"
        )
    rows = Rows(payloads.to_pylist(), _attributes(batch))
    largest = max(rows.sizes())
    if largest > MESSAGE_BYTES_USUAL:
        raise MessageTooLarge(largest, MESSAGE_BYTES_USUAL)
    return rows


def _attributes(batch: pa.RecordBatch) -> list[Attributes]:
    """Return the attributes of each row; an empty list if no row has any."""
    columns = [_values(batch, name) for name in ("key", "properties", "deleted", "expires")]
    if columns == [None] * len(columns):
        return []
    nothing = [None] * batch.num_rows
    found = [
        checked_attributes(key, _named(entries), bool(deleted), expires_ns)
        for key, entries, deleted, expires_ns in zip(
            *(column or nothing for column in columns), strict=True
        )
    ]
    return found if has_any(found) else []


def _values(batch: pa.RecordBatch, name: str) -> list[Any] | None:
    """Return the values of a column; None if there is no such column, or all are null."""
    if name not in batch.schema.names:
        return None
    column = _column(batch, name)
    if column.null_count == len(column):
        return None
    if name == "expires":
        # In ns since 1970, whatever zone Spark says.
        column = pc.multiply_checked(
            column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()), 1000
        )
    elif name == "key":
        column = _bytes(column)
    values: list[Any] = column.to_pylist()
    return values


def _named(entries: list[tuple[str, bytes | str | None]] | None) -> dict[str, bytes]:
    named = {}
    for name, value in entries or ():
        if value is None:
            raise InvalidArgument(
                "column properties", f"{name} is null in some row; leave it out of the map there"
            )
        named[name] = value.encode() if isinstance(value, str) else value
    return named


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.names.index(name))


def _bytes(column: pa.Array) -> pa.Array:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())
