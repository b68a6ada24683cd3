"""The events of a subscription. They are told beside the messages, and have no effect on them.

Completed is one, too: the item is also told as an event.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.bookmarks import Position
from quorate.protocol.errors import BookmarkStoreFailed, QuorateError, UnknownBookmark
from quorate.subscriber.begin import Epoch, Now
from quorate.subscriber.items import Completed


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A store gives the subscription from a position on."""

    store: str
    position: Position


@dataclass(frozen=True, slots=True)
class StoreLeft:
    """The subscription goes on at another store, or at this one again."""

    store: str
    reason: QuorateError
    position: Position | None
    """The position where it goes on; None: it had not begun."""


@dataclass(frozen=True, slots=True)
class BeganElsewhere:
    """The subscription begins elsewhere, because the stores do not have its bookmark."""

    store: str
    """The store that was asked last."""
    reason: UnknownBookmark
    begin: Epoch | Now
    """Where it begins instead, as `unknown_bookmark` asked for."""


@dataclass(frozen=True, slots=True)
class ArchiveEntered:
    """The archive gives the subscription from a position on, before the stores do."""

    archive: str
    position: Position


@dataclass(frozen=True, slots=True)
class NotSaved:
    """The bookmark store did not take the position. The subscription goes on, and tries again."""

    name: str
    reason: BookmarkStoreFailed


Event = Subscribed | StoreLeft | BeganElsewhere | ArchiveEntered | NotSaved | Completed
"""An event of a subscription."""
