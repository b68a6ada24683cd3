"""The names that a subscriber begins with, keeps and yields: see docs/replay.md.

This module only exports names.
"""

from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.subscriber.begin import EPOCH, MOST_RECENT, NOW
from quorate.subscriber.bookmarks import BookmarkStore, FileBookmarkStore, MemoryBookmarkStore
from quorate.subscriber.events import ArchiveEntered, BeganElsewhere, Event, StoreLeft, Subscribed
from quorate.subscriber.items import (
    Completed,
    Gap,
    GapCause,
    Item,
    ReplayedBatch,
    ReplayedMessage,
    Withdrawn,
)
from quorate.subscriber.options import Delivered, OnUnknownBookmark

__all__ = [
    "EPOCH",
    "MOST_RECENT",
    "NOW",
    "ArchiveEntered",
    "BeganElsewhere",
    "Bookmark",
    "BookmarkStore",
    "Completed",
    "Delivered",
    "Event",
    "FileBookmarkStore",
    "Gap",
    "GapCause",
    "Item",
    "MemoryBookmarkStore",
    "OnUnknownBookmark",
    "Place",
    "Position",
    "ReplayedBatch",
    "ReplayedMessage",
    "StoreLeft",
    "Subscribed",
    "Withdrawn",
]
