"""Errors of replays: of bookmarks, of bookmark stores, and of stores with too many replays."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import UNREACHABLE


@dataclass(eq=False)
class UnknownBookmark(QuorateError):
    """A bookmark of a message that a store does not have."""

    bookmark: str
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} has no message {self.bookmark}: it was let go, a later epoch did "
            "not keep it, or it is of another group. Name a time instead. To begin elsewhere, say "
            "where with unknown_bookmark."
        )


@dataclass(eq=False)
class TooManySubscriptions(QuorateError):
    """A subscription at a store that serves as many as it may."""

    store: str
    most: int
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} serves {self.most:,} subscriptions, and may serve no more. The "
            "subscriber tries the other stores, and then this one again. Close subscriptions that "
            "nobody needs (`quorate journal` lists them), name more stores, or raise "
            "subscriptions_max at the store."
        )


@dataclass(eq=False)
class BookmarkStoreFailed(QuorateError):
    """A bookmark store that cannot be read or written."""

    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"The bookmark store {self.path} cannot be used: {self.detail}. Messages behind the "
            "last position that was saved come again after a restart. Check the path, its "
            "permissions and the room on the disk."
        )


@dataclass(eq=False)
class BookmarksTakenOver(QuorateError):
    """A subscription whose name another subscriber has claimed since."""

    name: str

    def describe(self) -> str:
        return (
            f"Another subscriber has claimed the name {self.name!r} in the bookmark store, so this "
            "one can no longer save its position. Give each subscriber a name of its own."
        )
