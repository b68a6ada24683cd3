"""The rows of the state of the world, as filters and orders look at them. Pure.

One object stands for each row in turn. A part of a row is decoded when a filter asks for it, and at
most once. For the messages of a batch see quorate.protocol.filters.messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from pydantic_core import SchemaValidator, core_schema, from_json

from quorate.protocol.columns import Body, key_of_one
from quorate.protocol.filters.messages import text_of, texts_of
from quorate.protocol.payloads import PayloadFormat, document_of
from quorate.store.storage.large_rows import is_large, payload_bytes
from quorate.store.storage.state_records import NEVER, Candidate

_UNREAD: Any = object()


class ShownRow:
    """A row. It is moved on from one to the next."""

    __slots__ = ("_document", "_read", "_row", "_whole", "deleted", "topic")

    def __init__(
        self,
        topic: str,
        form: PayloadFormat = PayloadFormat.JSON,
        members: Collection[str] | None = None,
        whole: Callable[[Candidate], Candidate] | None = None,
    ) -> None:
        """Stand for no row yet.

        - members: the names of the members of an object that anyone asks for; None: of all.
        - whole: returns a row with its payload, if that is beside the row; None: there is no such
          row.
        """
        self._whole = whole
        self.topic = topic
        self._read = document_reader(form, members)
        self.deleted = False
        """No row is a deletion."""

    def at(self, row: Candidate) -> ShownRow:
        """Go to a row, and return this object."""
        self._row = row
        self._document = _UNREAD
        return self

    @property
    def session(self) -> int:
        """The session ID of its source."""
        return self._row.session_id

    @property
    def epoch(self) -> int:
        """The epoch in which it was sent."""
        return self._row.epoch

    @property
    def sequence(self) -> int:
        """Its sequence number."""
        return self._row.sequence

    @property
    def time(self) -> float:
        """The time at which it was sent: seconds since 1970 UTC."""
        return self._row.time_ns / 1e9

    @property
    def expires(self) -> float | None:
        """The time at which it expires: seconds since 1970 UTC; None: never."""
        expires_ns = self._row.expires_ns
        return None if expires_ns == NEVER else expires_ns / 1e9

    @property
    def size(self) -> int:
        """The bytes of the payload."""
        return payload_bytes(self._row)

    @property
    def key(self) -> str | None:
        """The key as text; None: none, or it is no text."""
        key = key_of_one(self._row.body)
        return None if key is None else text_of(key)

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that are text."""
        (properties,) = self._body.read_properties()
        return texts_of(properties)

    @property
    def document(self) -> Any:
        """The decoded payload; None: it is not of its format."""
        if self._document is _UNREAD:
            row = self._row
            if self._whole is not None and is_large(row):
                row = self._whole(row)
            self._document = self._read(row.body[row.payload_at :])
        return self._document

    @property
    def _body(self) -> Body:
        return Body(self._row.body, 0, 1)


def document_reader(form: PayloadFormat, members: Collection[str] | None) -> Callable[[bytes], Any]:
    """Return what reads payloads as `quick_document_of` does.

    members: the names of the members that an object keeps; None: it keeps all. The parser passes
    over the others without a value in Python, in less than half of the time.
    """
    if form is not PayloadFormat.JSON or not members:
        return partial(quick_document_of, form=form)
    kept = core_schema.typed_dict_field(core_schema.any_schema(), required=False)
    of_object = SchemaValidator(core_schema.typed_dict_schema(dict.fromkeys(members, kept)))
    read = of_object.validate_json

    def document(payload: bytes) -> Any:
        try:
            return read(payload)
        except ValueError:
            return quick_document_of(payload)  # it may be no object

    return document


def quick_document_of(payload: bytes, form: PayloadFormat = PayloadFormat.JSON) -> Any:
    """Return what `document_of` returns, and of JSON in about a quarter of the time.

    The quick parser reads less: no other encodings, no lone surrogates, no deep nesting.
    """
    if form is not PayloadFormat.JSON:
        return document_of(payload, form)
    try:
        return from_json(payload)
    except ValueError:
        return document_of(payload)
