"""The names that a subscriber begins with, keeps and yields: see docs/replay.md.

This module only exports names.
"""

from quorate.client.topic_bookmarks import TopicBookmarkStore
from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.subscriber.begin import EPOCH, MOST_RECENT, NOW
from quorate.subscriber.bookmarks import BookmarkStore, FileBookmarkStore, MemoryBookmarkStore
from quorate.subscriber.changes import Left, LeftReason, Updated
from quorate.subscriber.events import (
    ArchiveEntered,
    BeganElsewhere,
    Event,
    NotSaved,
    StoreLeft,
    Subscribed,
)
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
from quorate.subscriber.protocol.chooser import Spread, StoreChooser, Tried, in_order

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
    "Left",
    "LeftReason",
    "MemoryBookmarkStore",
    "NotSaved",
    "OnUnknownBookmark",
    "Place",
    "Position",
    "ReplayedBatch",
    "ReplayedMessage",
    "Spread",
    "StoreChooser",
    "StoreLeft",
    "Subscribed",
    "TopicBookmarkStore",
    "Tried",
    "Updated",
    "Withdrawn",
    "in_order",
]
