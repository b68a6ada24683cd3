"""Bookmark stores: where a subscription keeps how far its application has come.

A subscription has a name in its bookmark store. One subscriber has a name at a time: who claims it
last has it. Applications may write a bookmark store of their own.
"""

from __future__ import annotations

import sqlite3
import threading
import uuid
from pathlib import Path
from typing import Protocol

from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import BookmarksTakenOver, BookmarkStoreFailed


class BookmarkStore(Protocol):
    """The calls that a subscriber makes to a bookmark store, from any thread, one at a time."""

    def claim(self, name: str, owner: str) -> Position | None:
        """Give a name to an owner, and return the position that was saved last.

        None: there is none. A former owner can no longer save. Raises BookmarkStoreFailed.
        """
        ...

    def save(self, name: str, owner: str, position: Position) -> None:
        """Keep the position. Raises BookmarksTakenOver, BookmarkStoreFailed."""
        ...

    def most_recent(self, name: str) -> Position | None:
        """Return the position that was saved last. Raises BookmarkStoreFailed."""
        ...

    def purge(self, name: str) -> None:
        """Forget a name. Raises BookmarkStoreFailed."""
        ...


class MemoryBookmarkStore:
    """A bookmark store that lasts as long as the process."""

    def __init__(self) -> None:
        """Begin without names."""
        self._rows: dict[str, tuple[str, Position | None]] = {}

    def claim(self, name: str, owner: str) -> Position | None:
        position = self.most_recent(name)
        self._rows[name] = (owner, position)
        return position

    def save(self, name: str, owner: str, position: Position) -> None:
        if self._rows.get(name, (owner, None))[0] != owner:
            raise BookmarksTakenOver(name)
        self._rows[name] = (owner, position)

    def most_recent(self, name: str) -> Position | None:
        return self._rows.get(name, ("", None))[1]

    def purge(self, name: str) -> None:
        self._rows.pop(name, None)


_TABLE = """CREATE TABLE IF NOT EXISTS bookmarks (
    name TEXT PRIMARY KEY, owner TEXT NOT NULL, position TEXT
) STRICT"""


class FileBookmarkStore:
    """A bookmark store in a file of SQLite. Several processes may use the file at a time."""

    def __init__(self, path: str | Path) -> None:
        """Remember the file; it is made at the first use."""
        self.path = str(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def claim(self, name: str, owner: str) -> Position | None:
        self._run(
            "INSERT INTO bookmarks (name, owner) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET owner = excluded.owner",
            (name, owner),
        )
        return self.most_recent(name)

    def save(self, name: str, owner: str, position: Position) -> None:
        changed, _ = self._run(
            "UPDATE bookmarks SET position = ? WHERE name = ? AND owner = ?",
            (str(position), name, owner),
        )
        if not changed:
            raise BookmarksTakenOver(name)

    def most_recent(self, name: str) -> Position | None:
        _, rows = self._run("SELECT position FROM bookmarks WHERE name = ?", (name,))
        return Position.parse(rows[0][0]) if rows and rows[0][0] is not None else None

    def purge(self, name: str) -> None:
        self._run("DELETE FROM bookmarks WHERE name = ?", (name,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def __del__(self) -> None:
        """Close the file, quietly: all that was saved is on the disk already."""
        self.close()

    def _run(self, statement: str, values: tuple[str, ...]) -> tuple[int, list[tuple[str | None]]]:
        with self._lock:
            try:
                connection = self._connection or self._opened()
                with connection:
                    cursor = connection.execute(statement, values)
                    rows = cursor.fetchall()
                    return cursor.rowcount, rows
            except sqlite3.Error as error:
                raise BookmarkStoreFailed(self.path, str(error)) from error

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=10.0, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        # A position that was saved outlives a power failure.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(_TABLE)
        connection.commit()
        self._connection = connection
        return connection


def new_owner() -> str:
    """Return an owner that nobody else is."""
    return uuid.uuid4().hex
