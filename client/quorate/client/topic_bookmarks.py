"""A bookmark store on a topic: for subscribers whose machine keeps no files.

The topic has keys (`keys = "$key"` at its stores), and a row for each name. A source of its own
writes the row, with a session ID that follows from the name. So who claims a name fences the one
before, as any source that takes over.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from quorate.client.blocking import Client
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import (
    BookmarksTakenOver,
    BookmarkStoreFailed,
    Fenced,
    InvalidArgument,
    QuorateError,
    TakenOver,
)
from quorate.protocol.identity import check_topic
from quorate.source.blocking import Source

_SAVE_SECONDS = 10.0
"""The longest time, in seconds, that one saving waits to be stable."""
_OWNER = b"owner of "
"""Before the name in the key of the row that says who has claimed it."""


@dataclass(slots=True)
class _Claim:
    """A name that was claimed here, and by nobody here since."""

    owner: str
    source: Source
    newest: Bookmark | None = None
    """The last message that was written."""

    def publish(self, key: bytes, row: bytes) -> None:
        """Write a row, and return once it is stable. Raises what the source raises."""
        receipt = self.source.publish(row, key, timeout=_SAVE_SECONDS)
        self.newest = receipt.bookmark


class TopicBookmarkStore:
    """A bookmark store on a topic with keys. Several processes may use the topic at a time."""

    def __init__(self, client: Client, topic: str) -> None:
        """Remember the topic; nothing is called before the first use.

        client: made by `connect_blocking`. It may be of other stores than the subscriber's. It must
        be open for as long as the subscribers are. Raises InvalidArgument.
        """
        self._client = client
        self._topic = check_topic(topic)
        self._lock = threading.Lock()
        self._claims: dict[str, _Claim] = {}

    def claim(self, name: str, owner: str) -> Position | None:
        """Give a name to an owner, and return the position that was saved last.

        None: there is none. A former owner, on whatever machine, can no longer save. Raises
        BookmarkStoreFailed.
        """
        with self._failing():
            self._leave(name)
            claim = _Claim(owner, self._opened(name))
            with self._lock:
                self._claims[name] = claim
            # Everything that the former owner saved is before this message.
            claim.publish(_OWNER + name.encode(), _row(name, owner))
            return self._read(name, claim.newest)

    def save(self, name: str, owner: str, position: Position) -> None:
        """Keep the position, and return once it is stable.

        Raises BookmarksTakenOver, BookmarkStoreFailed.
        """
        with self._lock:
            claim = self._claims.get(name)
        if claim is None or claim.owner != owner:
            raise BookmarksTakenOver(name)
        with self._failing():
            try:
                claim.publish(name.encode(), _row(name, owner, position))
            except (Fenced, TakenOver) as error:
                raise BookmarksTakenOver(name) from error

    def most_recent(self, name: str) -> Position | None:
        """Return the position that was saved last. Raises BookmarkStoreFailed."""
        with self._lock:
            claim = self._claims.get(name)
        with self._failing():
            return self._read(name, claim.newest if claim is not None else None)

    def purge(self, name: str) -> None:
        """Forget a name: its owner can no longer save. Raises BookmarkStoreFailed."""
        with self._failing():
            self._leave(name)
            with self._opened(name) as source:
                source.delete(name.encode())
                source.delete(_OWNER + name.encode())

    def _leave(self, name: str) -> None:
        """Close the source of a name that was claimed here."""
        with self._lock:
            claim = self._claims.pop(name, None)
        if claim is not None:
            claim.source.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Raise BookmarkStoreFailed with the text of the error, if the client raises one."""
        try:
            yield
        except (BookmarksTakenOver, BookmarkStoreFailed):
            raise
        except QuorateError as error:
            raise BookmarkStoreFailed(self._topic, str(error)) from error

    def _opened(self, name: str) -> Source:
        """Return the source of a name. The one before is fenced, wherever it is."""
        return self._client.source(self._topic, session_id=_session_of(name), take_over=True)

    def _read(self, name: str, at_least: Bookmark | None) -> Position | None:
        row = self._client.state(self._topic).get(name.encode(), at_least=at_least)
        if row is None:
            return None
        try:
            return Position.parse(json.loads(row.payload)["position"])
        except (ValueError, KeyError, TypeError, InvalidArgument) as error:
            detail = f"the row of {name!r} is none of a bookmark store"
            raise BookmarkStoreFailed(self._topic, detail) from error


def _session_of(name: str) -> int:
    """Return the session ID of a name. It is never 0, which is none."""
    digest = hashlib.sha256(f"bookmarks of {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") or 1


def _row(name: str, owner: str, position: Position | None = None) -> bytes:
    """Return the payload of a row, which people can read, too."""
    row = {"name": name, "owner": owner, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}
    return json.dumps(row if position is None else {**row, "position": str(position)}).encode()
