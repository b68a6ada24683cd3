"""The rows of an archive that can pass a filter, by whole columns.

Arrow compares keys, properties and times. In payloads of JSON it looks for bytes without which a
comparison of a field is not true. It decides about AND and OR of such comparisons. A row that it
leaves out never passes. One that it leaves may still not pass: the filter decides. Nothing here
touches a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.protocol.filters.bounds import TURNED
from quorate.protocol.filters.byte_patterns import MARKS, SPELLINGS, compared, one_of
from quorate.protocol.filters.syntax import (
    About,
    AllOf,
    AnyOf,
    Between,
    Comparison,
    Field,
    Literal,
    MessageField,
    Node,
    Not,
    OneOf,
    Property,
)
from quorate.protocol.payloads import PayloadFormat

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
_LOOK_BYTES = 256 * 1024
"""The bytes in which `MARKS` are looked for at once. They stay in the processor's cache."""


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


def tests_of(node: Node | None, form: PayloadFormat) -> tuple[RowTest, ...]:
    """Return the tests of rows for a filter, the one first that needs no payloads.

    form: the format of the payloads. Without a test, whole columns leave no row out.
    """
    known = [_test_of(node, payloads=False)]
    if form is PayloadFormat.JSON:
        test = _test_of(node, payloads=True)
        if test is not None and "payload" in test.columns:
            known.append(test)
    return tuple(test for test in known if test is not None)


def _test_of(node: Node | None, *, payloads: bool) -> RowTest | None:
    """Return the test of rows for a part of a filter; None: it leaves no row out."""
    match node:
        case AllOf(parts):
            return _every(_test_of(part, payloads=payloads) for part in parts)
        case AnyOf(parts):
            tests = [_test_of(part, payloads=payloads) for part in parts]
            known = [test for test in tests if test is not None]
            return _any(known) if len(known) == len(parts) else None
        case Comparison(operator, value, Literal(literal)):
            return _compared(value, operator, literal, payloads=payloads)
        case Comparison(operator, Literal(literal), value):
            return _compared(value, TURNED[operator], literal, payloads=payloads)
        case Between(value, Literal(low), Literal(high)):
            both = (">=", low), ("<=", high)
            return _every(_compared(value, *each, payloads=payloads) for each in both)
        case OneOf(value, options):
            return _one_of(value, options, payloads=payloads)
        case Field() if payloads:
            return _having(compared(node, "=", True))
        case Not(Field() as field) if payloads:
            return _having(compared(field, "=", False))
    return None


def _compared(value: Node, operator: str, literal: object, *, payloads: bool) -> RowTest | None:
    if isinstance(value, Field):
        return _having(compared(value, operator, literal)) if payloads else None
    operand = _operand(value)
    scalar = None if operand is None else operand.scalar(literal)
    if operand is None or scalar is None:
        return None
    compare, read = _COMPARE[operator], operand.read
    return RowTest(frozenset([operand.column]), lambda rows: compare(read(rows), scalar))


def _one_of(value: Node, options: Iterable[Node], *, payloads: bool) -> RowTest | None:
    literals: list[object] = []
    for option in options:
        if not isinstance(option, Literal):
            return None
        literals.append(option.value)
    if isinstance(value, Field):
        return _having(one_of(value, literals)) if payloads else None
    operand = _operand(value)
    if operand is None or not operand.is_text:
        return None
    texts = [_encoded(literal) for literal in literals if isinstance(literal, str)]
    among, read = pa.array(texts, pa.binary()), operand.read
    return RowTest(frozenset([operand.column]), lambda rows: pc.is_in(read(rows), value_set=among))


def _any(tests: Sequence[RowTest]) -> RowTest:
    return RowTest(
        _columns(tests), lambda rows: reduce(pc.or_kleene, [test.holds(rows) for test in tests])
    )


def _every(parts: Iterable[RowTest | None]) -> RowTest | None:
    """Return the test that all of these hold, of those that are known."""
    known = [test for test in parts if test is not None]
    if not known:
        return None
    # Payloads are long: those alone are looked at that the other tests leave.
    tests = sorted(known, key=lambda test: "payload" in test.columns)

    def holds(rows: pa.Table) -> Any:
        left = _truths(tests[0].holds(rows))
        for test in tests[1:]:
            found = test.holds(rows.select(sorted(test.columns)).filter(left))
            left = pc.replace_with_mask(left, left, _truths(found))
        return left

    return RowTest(_columns(tests), holds)


def _columns(tests: Iterable[RowTest]) -> frozenset[str]:
    return frozenset[str]().union(*(test.columns for test in tests))


def _truths(found: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return truths as one array without nulls."""
    whole = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return pc.fill_null(whole, False)


def _having(pattern: str | None) -> RowTest | None:
    """Return the test whether a payload has a match of a pattern, or may write it otherwise."""
    if pattern is None:
        return None

    def holds(rows: pa.Table) -> Any:
        chunks = rows.column("payload").cast(pa.binary()).chunks
        return pa.chunked_array([_has(each, pattern) for each in chunks], pa.bool_())

    return RowTest(frozenset(["payload"]), holds)


def _has(payloads: pa.Array, pattern: str) -> pa.Array:
    found = pc.match_substring_regex(payloads, pattern)
    if _has_marks(payloads):
        return pc.or_(found, pc.match_substring_regex(payloads, SPELLINGS))
    return found


def _has_marks(payloads: pa.Array) -> bool:
    """Return whether a payload has one of `MARKS`. It is quicker than a look at each of them."""
    _, ends, data = payloads.buffers()
    if data is None:
        return False
    places = pa.Array.from_buffers(pa.int32(), payloads.offset + len(payloads) + 1, [None, ends])
    stop = places[-1].as_py()
    for at in range(places[payloads.offset].as_py(), stop, _LOOK_BYTES):
        some = data.slice(at, min(_LOOK_BYTES, stop - at)).to_pybytes()
        if any(mark in some for mark in MARKS):
            return True
    return False


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
