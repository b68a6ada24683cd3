"""The rows of the state of the world, as filters and orders look at them. Pure.

One object stands for some rows at a time. A part of a row is decoded when a filter asks for it. For
the messages of a batch see quorate.protocol.filters.messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from quorate.protocol.columns import Body, key_of_one
from quorate.protocol.filters.evaluate import Rows
from quorate.protocol.filters.messages import Documents, texts_of
from quorate.protocol.filters.syntax import About
from quorate.protocol.payloads import Reader
from quorate.store.storage.interface import Row
from quorate.store.storage.large_rows import is_large, payload_bytes
from quorate.store.storage.state_records import NEVER, Candidate, unpack_candidate


class ShownRows:
    """Some rows of a topic. The object is moved on from some to the next."""

    __slots__ = ("_documents", "_reader", "_rows", "_topic", "_whole")

    def __init__(
        self, topic: str, reader: Reader, whole: Callable[[Candidate], Candidate] | None = None
    ) -> None:
        """Stand for no row yet.

        - reader: makes the documents of payloads, with all that is asked for.
        - whole: returns a row with its payload, if that is beside the row; None: there is no such
          row.
        """
        self._topic = topic
        self._reader = reader
        self._whole = whole
        self.at(())

    def at(self, rows: Sequence[Candidate]) -> ShownRows:
        """Go to these rows, and return this object."""
        self._rows: Sequence[Candidate] = rows
        # A method of this object would keep it, and so the frozen table, until a collection.
        self._documents = Documents(self._reader, partial(_payloads, self._whole, rows))
        return self

    def facts(self, about: About, rows: Rows) -> list[Any]:
        """Return a fact of each of these rows."""
        if about is About.TOPIC:
            return [self._topic] * len(rows)
        if about is About.DELETED:
            return [False] * len(rows)  # no row is a deletion
        read = _FACTS[about]
        return [read(self._rows[row]) for row in rows]

    def properties(self, name: str, rows: Rows) -> list[str | None]:
        """Return a property of each of these rows; None: it lacks it, or it is no text."""
        bodies = (Body(self._rows[row].body, 0, 1) for row in rows)
        return texts_of([body.read_property(name)[0] for body in bodies])

    def documents(self, rows: Rows) -> list[Any]:
        """Return the decoded payload of each; None: it is not of its format."""
        return self._documents.of(rows)


class StoredRows:
    """Some rows as they are stored. Only the parts that a filter looks at are unpacked."""

    __slots__ = ("_documents", "_reader", "_rows", "_topic", "_unpacked")

    def __init__(
        self, topic: str, reader: Reader, rows: Sequence[Row], payloads_at: Sequence[int]
    ) -> None:
        """Stand for these rows. payloads_at: the offset of the payload in each value."""
        self._topic = topic
        self._reader = reader
        self._rows = rows
        self._documents = Documents(
            reader, lambda places: [rows[place][1][payloads_at[place] :] for place in places]
        )
        self._unpacked: ShownRows | None = None

    def _shown(self) -> ShownRows:
        if self._unpacked is None:
            rows = [unpack_candidate(*row) for row in self._rows]
            self._unpacked = ShownRows(self._topic, self._reader).at(rows)
        return self._unpacked

    def facts(self, about: About, rows: Rows) -> list[Any]:
        """Return a fact of each of these rows."""
        return self._shown().facts(about, rows)

    def properties(self, name: str, rows: Rows) -> list[str | None]:
        """Return a property of each of these rows; None: it lacks it, or it is no text."""
        return self._shown().properties(name, rows)

    def documents(self, rows: Rows) -> list[Any]:
        """Return the decoded payload of each; None: it is not of its format."""
        return self._documents.of(rows)


def _payloads(
    whole: Callable[[Candidate], Candidate] | None, of: Sequence[Candidate], rows: Rows
) -> list[bytes]:
    """Return the payloads of some rows."""
    found = [of[row] for row in rows]
    if whole is not None:
        found = [whole(row) if is_large(row) else row for row in found]
    return [row.body[row.payload_at :] for row in found]


def large_alone(rows: list[Candidate]) -> Iterator[list[Candidate]]:
    """Yield these rows in order, in lists that have several rows or a large one.

    So no two payloads of large rows are in memory at once.
    """
    if not any(map(is_large, rows)):
        yield rows
        return
    small: list[Candidate] = []
    for row in rows:
        if is_large(row):
            if small:
                yield small
            yield [row]
            small = []
        else:
            small.append(row)
    if small:
        yield small


def _key(row: Candidate) -> str | None:
    return texts_of([key_of_one(row.body)])[0]


def _expires(row: Candidate) -> float | None:
    return None if row.expires_ns == NEVER else row.expires_ns / 1e9


_FACTS: dict[About, Callable[[Candidate], Any]] = {
    About.SESSION: attrgetter("session_id"),
    About.EPOCH: attrgetter("epoch"),
    About.SEQUENCE: attrgetter("sequence"),
    About.TIME: lambda row: row.time_ns / 1e9,
    About.EXPIRES: _expires,
    About.SIZE: payload_bytes,
    About.KEY: _key,
}
