"""Errors of replays: of bookmarks, bookmark stores, and stores that lag or are too busy."""

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
class StoreLags(QuorateError):
    """A call to a store that has yet to get messages that other stores have."""

    store: str
    source: str
    first: int
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} lags: it has yet to get {self.source} from {self.first} on. "
            "Subscribers and queries go on at another store. If it lasts, `quorate status` says "
            "why, and `quorate repair` fetches the messages."
        )


@dataclass(eq=False)
class PositionNotReached(QuorateError):
    """A subscription whose position is ahead of what a store has, and of what comes to it."""

    store: str
    source: str
    position: str
    """The bookmark that the position has of the source."""
    epoch: int
    """The source's epoch at the store."""
    upto: int
    """The last number of the source that the store can give."""
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} has {self.source} up to {self.upto}, in epoch {self.epoch}, and "
            f"the subscription begins behind {self.position}. The subscriber goes on at another "
            "store. It ends if no store has more: then the position is of another group, or its "
            "messages are lost. Begin at a time, or at a position of this group."
        )


@dataclass(eq=False)
class BookmarkStoreFailed(QuorateError):
    """A bookmark store that cannot be read or written."""

    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"The bookmark store {self.path} cannot be used: {self.detail}. Messages behind the "
            "last position that was saved come again after a restart."
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
