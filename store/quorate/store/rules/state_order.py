"""The order in which a query gives rows: by fields, each ascending or descending. Pure.

Numbers come before texts, and texts before truths. A row that lacks the field comes last, in either
direction. Rows that are equal in all fields keep the order of their keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.protocol.filters.evaluate import Messages, Rows, field_of, members_of
from quorate.protocol.filters.syntax import Field

FIELDS_MAX = 16
"""The most fields of an order."""
TEXT_MAX = 1024
"""The characters of a text that count. So what is sorted is small, however large the rows are."""

Rank = tuple[int, float | int | str]
"""The place of a value: its kind, and the value among those of the kind."""

_LACKING: Rank = (3, 0)


class Sorted(NamedTuple):
    """A row that is to be ordered."""

    ranks: Sequence[Rank]
    """The place of each field's value."""
    row_key: bytes
    """The key under which the row is stored."""


class Ordering:
    """Fields to order by, the most important first."""

    def __init__(self, fields: Sequence[str]) -> None:
        """Take the names of fields, as filters have them. A - puts the highest values first.

        Raises InvalidArgument.
        """
        if not 0 < len(fields) <= FIELDS_MAX:
            raise InvalidArgument("order_by", f"names {len(fields)} fields, not 1 to {FIELDS_MAX}")
        self._descends = [text.lstrip().startswith("-") for text in fields]
        self._fields = []
        paths = []
        for text in fields:
            try:
                named, read = field_of(text.strip().removeprefix("-"))
            except InvalidFilter as error:
                raise InvalidArgument(
                    "order_by",
                    f"{text[:80]!r} is no field: {error.detail}; name fields such as order.price, "
                    "or -order.price for the highest first",
                ) from None
            self._fields.append(read)
            if isinstance(named, Field):
                paths.append(named.path)
        self.members = members_of(paths)
        """The names of members that it looks at, of a payload that is an object."""

    def ranks(self, messages: Messages, rows: Rows) -> list[Sequence[Rank]]:
        """Return the place of each of these rows, for `best`."""
        columns = [map(_rank, read(messages, rows)) for read in self._fields]
        return list(zip(*columns, strict=True))

    def best(self, rows: list[Sorted], limit: int) -> list[Sorted]:
        """Return the first rows in this order, at most so many.

        rows: those of the same ranks are in the order of their keys.
        """
        for at in reversed(range(len(self._fields))):
            lacking = [row for row in rows if row.ranks[at] == _LACKING]
            having = [row for row in rows if row.ranks[at] != _LACKING]
            # Python's sort keeps the order of equal ones, also if it is reversed.
            having.sort(key=lambda row: row.ranks[at], reverse=self._descends[at])
            rows = having + lacking
        return rows[:limit]


def _rank(value: object) -> Rank:
    if isinstance(value, list):
        value = value[0] if value else None
    match value:
        case bool():
            return 2, value
        case int() | float() if value == value:
            return 0, value
        case str():
            return 1, value[:TEXT_MAX]
        case _:
            return _LACKING
