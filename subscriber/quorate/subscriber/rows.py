"""The rows of the state of the world as an application gets them, and what it asks for. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, overload

from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.projection import Projection
from quorate.protocol.framing import body_of, check_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import KeyValue
from quorate.protocol.wire import position_to_wire
from quorate.subscriber.items import ReplayedBatch, ReplayedMessage
from quorate.v1 import store_pb2 as store_v1

Key = bytes | KeyValue | Sequence[KeyValue]
"""A key to ask for: of the message, or the value of each field that makes the key."""
AtLeast = Position | Bookmark | Sequence[Bookmark] | str | None
"""A position, or bookmarks, that rows must have come to."""

AsOf = datetime | str | None
"""A time that has passed: a moment, or a text such as "2026-11-21T10:00" or "-15m"."""


class DeletingSource(Protocol):
    """The part of a source that deletions need."""

    @property
    def name(self) -> SourceName:
        """Its topic and session ID."""

    async def delete(
        self,
        key: bytes | None,
        properties: Mapping[str, bytes] | None = None,
        *,
        payload: bytes = b"",
    ) -> int:
        """Accept a message that deletes the row of a key."""

    async def flush(self) -> None:
        """Wait until all messages are stable."""


class Rows(Sequence[ReplayedMessage]):
    """Rows of the state of the world: the last stable message of each key."""

    __slots__ = ("_messages", "position")

    position: Position
    """The position at which the rows hold: everything before it counts, and nothing else."""

    def __init__(self, messages: Sequence[ReplayedMessage], position: Position) -> None:
        """Hold these rows. Applications get them from `State`."""
        self._messages = messages
        self.position = position

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[ReplayedMessage]:
        return iter(self._messages)

    @overload
    def __getitem__(self, at: int) -> ReplayedMessage: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[ReplayedMessage]: ...

    def __getitem__(self, at: int | slice) -> ReplayedMessage | Sequence[ReplayedMessage]:
        return self._messages[at]

    def __repr__(self) -> str:
        return f"<Rows {len(self)} at {self.position}>"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a statement in SQL."""

    table: Any
    """A pyarrow.Table. `to_pylist()` returns its rows as dictionaries."""
    position: Position
    """The position at which the rows hold that were asked."""


def message_of(frame: bytes, store: str) -> ReplayedMessage:
    """Return the message of a row that a store gave. Raises CorruptBatch."""
    header = check_batch(frame, store)
    batch = ReplayedBatch(header, body_of(frame, header), slice(0, 1), [header.first])
    return next(batch.messages())


def key_to_wire(key: Key) -> store_v1.StateKey:
    """Return the message of a key. Raises InvalidArgument."""
    if isinstance(key, bytes | bytearray | memoryview):
        return store_v1.StateKey(raw=bytes(key))
    values = list(key) if isinstance(key, Sequence) and not isinstance(key, str) else [key]
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        raise InvalidArgument("key", f"{key!r} is neither bytes nor values of fields")
    return store_v1.StateKey(values=json.dumps(values))


def request_of(
    topic: str,
    where: str | None = None,
    order_by: str | Sequence[str] | None = None,
    limit: int | None = None,
    select: str | Sequence[str] | None = None,
    at_least: AtLeast = None,
    as_of_ns: int | None = None,
) -> store_v1.QueryStateRequest:
    """Return the message of a query. Raises InvalidArgument, InvalidFilter."""
    if isinstance(limit, bool) or not isinstance(limit, int | None):
        raise InvalidArgument("limit", f"{limit!r} is not a whole number")
    if limit is not None and limit < 1:
        raise InvalidArgument("limit", f"{limit} rows are none; give 1 or more, or no limit")
    fields = [order_by] if isinstance(order_by, str) else order_by or ()
    if not isinstance(fields, Iterable) or not all(isinstance(each, str) for each in fields):
        raise InvalidArgument("order_by", f"{order_by!r} is neither a field nor a list of fields")
    request = store_v1.QueryStateRequest(topic=topic, order_by=fields, limit=limit or 0)
    if where is not None:
        request.where = Filter(where).text
    if select is not None:
        request.select = Projection(select).text
    request.at_least.CopyFrom(position_to_wire(_position(at_least)))
    if as_of_ns is not None:
        request.as_of_ns = as_of_ns
    return request


def check_deletes(source: SourceName, topic: str) -> None:
    """Raise InvalidArgument if a source cannot delete rows of this topic."""
    if source.topic != topic:
        raise InvalidArgument("source", f"{source} sends to another topic than {topic}")


def check_is_past(row: ReplayedMessage, now_ns: int) -> None:
    """Raise InvalidArgument if a deletion that is sent now would be older than the row."""
    if row.timestamp_ns >= now_ns:
        raise InvalidArgument(
            "key",
            f"has the row {row.bookmark} of {row.time.isoformat()}, ahead of this clock: a "
            "deletion would be older. Set the clocks right, or wait until then",
        )


def _position(at_least: AtLeast) -> Position:
    match at_least:
        case None:
            return Position()
        case Position():
            return at_least
        case Bookmark():
            return Position.of([at_least])
        case str():
            is_list = at_least.lstrip().startswith("[")
            return Position.parse(at_least) if is_list else Position.of([Bookmark.parse(at_least)])
        case _:
            return Position.of(_checked(at_least))


def _checked(bookmarks: object) -> Iterator[Bookmark]:
    for each in bookmarks if isinstance(bookmarks, Iterable) else [bookmarks]:
        if not isinstance(each, Bookmark):
            raise InvalidArgument("at_least", f"{each!r} is no bookmark")
        yield each
