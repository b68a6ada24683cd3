"""The schema of the rows that the pipeline reads, archives and restores.

Here are the columns and the check of the columns that a user asks for. Nothing here makes rows.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from quorate.protocol.errors import InvalidArgument

DDL = ", ".join(
    (
        "topic STRING NOT NULL",
        "source STRING NOT NULL",
        "sequence BIGINT NOT NULL",
        "epoch BIGINT NOT NULL",
        "timestamp TIMESTAMP NOT NULL",
        "payload BINARY NOT NULL",
        "key BINARY",
        "properties MAP<STRING, BINARY>",
        "deleted BOOLEAN NOT NULL",
        "expires TIMESTAMP",
    )
)
"""The schema for Spark. The source is text, its session ID, because a BIGINT is signed."""

ARROW = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("properties", pa.map_(pa.string(), pa.binary())),
        pa.field("deleted", pa.bool_(), nullable=False),
        pa.field("expires", pa.timestamp("us", tz="UTC")),
    ]
)
"""The schema for pyarrow, with the same columns."""


def projection(wanted: pa.Schema) -> pa.Schema:
    """Return the columns that a user asks for, in the user's order.

    Raises InvalidArgument for an unknown column and for another type. A column that may be null
    cannot be asked for as one that is never null.
    """
    problems = list(_problems(wanted))
    if problems:
        raise InvalidArgument("schema", "; ".join(problems))
    return wanted.remove_metadata()


def _problems(wanted: Iterable[pa.Field]) -> Iterable[str]:
    for field in wanted:
        at = ARROW.get_field_index(field.name)
        if at < 0:
            yield f"there is no column {field.name}; the columns are {', '.join(ARROW.names)}"
        elif not _same_type(field.type, ARROW.field(at).type):
            yield f"{field.name} is {ARROW.field(at).type}, not {field.type}"
        elif ARROW.field(at).nullable and not field.nullable:
            yield f"{field.name} may be null"


def _same_type(one: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_map(one) and pa.types.is_map(other):
        # It does not matter here whether the values of a map may be null.
        return bool(one.key_type == other.key_type and one.item_type == other.item_type)
    return bool(one == other)
