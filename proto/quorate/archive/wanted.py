"""The rows of an archive that can pass a filter, by the columns that are quick to read.

Arrow compares keys, properties and times. It decides about AND and OR of such comparisons. A row
that it leaves out never passes. One that it leaves may still not pass: the filter decides. Nothing
here touches a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.protocol.filters.bounds import TURNED
from quorate.protocol.filters.syntax import (
    About,
    AllOf,
    AnyOf,
    Between,
    Comparison,
    Literal,
    MessageField,
    Node,
    OneOf,
    Property,
)

_COMPARE: dict[str, Callable[..., Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_EXACT_UPTO = 2**53
"""Whole numbers up to this one are the same as numbers with a point."""


@dataclass(frozen=True, slots=True)
class RowTest:
    """A condition that every row has to meet that can pass."""

    columns: frozenset[str]
    """The columns that it looks at."""
    holds: Callable[[pa.Table], Any]
    """Returns a truth for each row of these columns. Null counts as false."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A part of each row that comparisons are about."""

    column: str
    read: Callable[[pa.Table], Any]
    is_text: bool

    def scalar(self, value: object) -> pa.Scalar | None:
        """Return a value as it is compared with the part; None: Arrow would compare otherwise."""
        if self.is_text:
            # A text with half a character is that of no key.
            return pa.scalar(_encoded(value), pa.binary()) if isinstance(value, str) else None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not abs(value) <= _EXACT_UPTO:  # type: ignore[arg-type]
            return None
        return pa.scalar(float(value), pa.float64())  # type: ignore[arg-type]


def test_of(node: Node | None) -> RowTest | None:
    """Return the test of rows for a filter; None: these columns leave no row out."""
    match node:
        case AllOf(parts):
            known = [test for part in parts if (test := test_of(part)) is not None]
            return _joined(known, pc.and_kleene) if known else None
        case AnyOf(parts):
            tests = [test for part in parts if (test := test_of(part)) is not None]
            return _joined(tests, pc.or_kleene) if len(tests) == len(parts) else None
        case Comparison(operator, value, Literal(literal)):
            return _compared(value, operator, literal)
        case Comparison(operator, Literal(literal), value):
            return _compared(value, TURNED[operator], literal)
        case Between(value, Literal(low), Literal(high)):
            both = _compared(value, ">=", low), _compared(value, "<=", high)
            known = [test for test in both if test is not None]
            return _joined(known, pc.and_kleene) if known else None
        case OneOf(value, options):
            return _one_of(value, options)
    return None


def _compared(value: Node, operator: str, literal: object) -> RowTest | None:
    operand = _operand(value)
    scalar = None if operand is None else operand.scalar(literal)
    if operand is None or scalar is None:
        return None
    compare, read = _COMPARE[operator], operand.read
    return RowTest(frozenset([operand.column]), lambda rows: compare(read(rows), scalar))


def _one_of(value: Node, options: Iterable[Node]) -> RowTest | None:
    operand = _operand(value)
    if operand is None or not operand.is_text:
        return None
    texts: list[bytes] = []
    for option in options:
        if not isinstance(option, Literal):
            return None
        if isinstance(option.value, str):
            texts.append(_encoded(option.value))
    among, read = pa.array(texts, pa.binary()), operand.read
    return RowTest(frozenset([operand.column]), lambda rows: pc.is_in(read(rows), value_set=among))


def _joined(tests: Sequence[RowTest], join: Callable[..., Any]) -> RowTest:
    columns = frozenset[str]().union(*(test.columns for test in tests))
    return RowTest(columns, lambda rows: reduce(join, [test.holds(rows) for test in tests]))


def _operand(node: Node) -> _Operand | None:
    match node:
        case MessageField(About.KEY):
            return _Operand("key", lambda rows: rows.column("key"), is_text=True)
        case MessageField(About.TIME):
            return _Operand("timestamp_ns", _seconds, is_text=False)
        case Property(name) if name.isprintable():  # Arrow takes no half of a character
            return _Operand("properties", lambda rows: _property(rows, name), is_text=True)
    return None


def _property(rows: pa.Table, name: str) -> Any:
    """Return the property of each row. Arrow's own lookup in maps takes many times as long."""
    maps = rows.column("properties").combine_chunks()
    entry = pa.struct([("key", maps.type.key_type), ("value", maps.type.item_type)])
    lists = maps.cast(pa.list_(entry))
    names, values = pc.list_flatten(lists).flatten()
    is_it = pc.equal(names, name)
    having = pc.list_parent_indices(lists).filter(is_it)
    every = pc.subtract(pc.cumulative_sum(pa.repeat(1, len(maps))), 1)
    return values.filter(is_it).take(pc.index_in(every, value_set=having))


def _seconds(rows: pa.Table) -> Any:
    # A filter compares times as such floats, too.
    return pc.divide(pc.cast(rows.column("timestamp_ns"), pa.float64(), safe=False), 1e9)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
