"""The messages of a batch, as filters look at them.

A part of the messages is decoded when a filter asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quorate.protocol.columns import Body, values_at
from quorate.protocol.filters.evaluate import Filter, Rows
from quorate.protocol.filters.syntax import About
from quorate.protocol.framing import BatchHeader
from quorate.protocol.payloads import PayloadFormat, Reader, reader_of


class Documents:
    """The documents of payloads. Each is decoded at most once while rows are asked for again."""

    __slots__ = (
        "_apart", "_decoded", "_documents", "_highest", "_payloads", "_reader", "_rows",
        "undecoded",
    )  # fmt: skip

    def __init__(self, reader: Reader, payloads: Callable[[Rows], Sequence[bytes]]) -> None:
        """payloads: returns those of some messages."""
        self._reader = reader
        self._payloads = payloads
        self._rows: Rows = ()
        """The messages that were asked for last."""
        self._documents: list[Any] = []
        """The document of each of them."""
        self._decoded: dict[int, Any] = {}
        """All documents so far, unless only `_apart` or `_documents` have them."""
        self._apart: list[tuple[Rows, list[Any]]] = []
        """Messages that were asked for earlier, and their documents."""
        self._highest = -1
        """The last message that was asked for so far."""
        self.undecoded = 0
        """How many payloads so far are not of their format, of those that were looked into."""

    def of(self, rows: Rows) -> list[Any]:
        """Return the document of each of these messages; None: it is not of its format."""
        if rows == self._rows:
            return self._documents
        self._apart.append((self._rows, self._documents))
        if rows and rows[0] > self._highest:
            # A filter goes on to the next messages. It asks for none of the earlier ones.
            documents, self._highest = self._new(rows), rows[-1]
        else:
            documents = self._some_new(rows)
        self._rows, self._documents = rows, documents
        return documents

    def _some_new(self, rows: Rows) -> list[Any]:
        decoded = self._decoded
        for apart, documents in self._apart:
            decoded.update(zip(apart, documents, strict=True))
        self._apart.clear()
        new = [row for row in rows if row not in decoded]
        if new:
            decoded.update(zip(new, self._new(new), strict=True))
            self._highest = max(self._highest, new[-1])
        return [decoded[row] for row in rows]

    def _new(self, rows: Rows) -> list[Any]:
        documents, undecoded = self._reader.all(self._payloads(rows))
        self.undecoded += undecoded
        return documents


class BatchMessages:
    """The messages of a batch."""

    def __init__(
        self,
        header: BatchHeader,
        payloads: Sequence[bytes],
        body: Body,
        reader: Reader,
        numbers: Sequence[int] | None = None,
    ) -> None:
        """See a batch.

        - payloads: those of the whole batch; empty if no filter looks at them.
        - reader: makes their documents, with all that is asked for.
        - numbers: the number of each message of the batch; None: they are consecutive.
        """
        self._header = header
        self._payloads = payloads
        self._body = body
        self._numbers = numbers
        self._columns: dict[object, Sequence[Any]] = {}
        """The parts of all messages that were read, by what they are."""
        self._documents = Documents(reader, lambda rows: values_at(payloads, rows))

    @property
    def undecoded(self) -> int:
        """How many payloads so far are not of their format, of those that were looked into."""
        return self._documents.undecoded

    def facts(self, about: About, rows: Rows) -> list[Any]:
        """Return a fact of each of these messages. Raises CorruptBatch."""
        header = self._header
        match about:
            case About.TOPIC:
                return [header.source.topic] * len(rows)
            case About.SESSION:
                return [header.source.session_id] * len(rows)
            case About.EPOCH:
                return [header.epoch] * len(rows)
            case About.SEQUENCE:
                if self._numbers is None:
                    return list(map(header.first.__add__, rows))
                return list(values_at(self._numbers, rows))
            case About.SIZE:
                return list(map(len, values_at(self._payloads, rows)))
            case About.KEY:
                return texts_of(values_at(self._column(about), rows))
            case About.TIME | About.EXPIRES:
                return [
                    None if each is None else each / 1e9
                    for each in values_at(self._column(about), rows)
                ]
            case About.DELETED:
                return list(values_at(self._column(about), rows))

    def properties(self, name: str, rows: Rows) -> list[str | None]:
        """Return a property of each of these messages; None: it lacks it, or it is no text."""
        values = self._columns.get(name)
        if values is None:
            values = self._columns[name] = self._body.read_property(name)
        return texts_of(values_at(values, rows))

    def documents(self, rows: Rows) -> list[Any]:
        """Return the decoded payload of each; None: it is not of its format."""
        return self._documents.of(rows)

    def _column(self, about: About) -> Sequence[Any]:
        found = self._columns.get(about)
        if found is None:
            found = self._columns[about] = self._read(about)
        return found

    def _read(self, about: About) -> Sequence[Any]:
        match about:
            case About.KEY:
                return self._body.read_keys()
            case About.TIME:
                return self._body.read_times(self._header.timestamp_ns)
            case About.EXPIRES:
                return self._body.read_expiries()
            case _:
                return self._body.read_deleted()


def texts_of(values: Sequence[bytes | None]) -> list[str | None]:
    """Return keys, or the values of a property, as texts; None: it lacks one, or it is no text."""
    try:
        return [None if value is None else value.decode() for value in values]
    except UnicodeDecodeError:
        return [None if value is None else text_of(value) for value in values]


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

    - payloads: those of the whole batch; empty if the filter needs none.
    - numbers: the number of each message of the batch; None: they are consecutive.
    """
    reader = reader_of(form, where.members)
    messages = BatchMessages(header, payloads, body, reader, numbers)
    chosen = where.passing(messages, range(first - header.first, last - header.first + 1))
    where.undecoded += messages.undecoded
    return chosen
