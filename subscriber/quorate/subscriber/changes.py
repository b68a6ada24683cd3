"""The changes of rows that a watch yields. No I/O."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from quorate.protocol.bookmarks import Bookmark
from quorate.subscriber.items import Completed, ReplayedMessage
from quorate.subscriber.protocol.held_rows import RowKey


@dataclass(frozen=True, slots=True)
class Updated:
    """A key has a new row, or its first one."""

    key: RowKey
    """The key, as `State.get` takes it."""
    row: ReplayedMessage
    """The row: the last stable message of the key."""


class LeftReason(enum.Enum):
    """The reason why a key has no row any more that the application asked for."""

    NO_MATCH = "no_match"
    """The new row does not pass `where`."""
    DELETED = "deleted"
    """The key was deleted."""
    EXPIRED = "expired"
    """The row has expired."""
    ENDED = "ended"
    """The source of the row has ended."""


@dataclass(frozen=True, slots=True)
class Left:
    """A key of which the application had the row has none any more that it asked for."""

    key: RowKey
    """The key, as `State.get` takes it."""
    reason: LeftReason
    bookmark: Bookmark
    """The message that did it: the new row, or the deletion. Otherwise the row that is gone."""


Change = Updated | Left | Completed
"""An item that a watch yields."""
