"""Errors of replays: bookmarks that mean nothing here, and bookmark stores that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError


@dataclass(eq=False)
class UnknownBookmark(QuorateError):
    """A bookmark of a message that a store does not have."""

    bookmark: str
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} has no message {self.bookmark}: it was let go, a later epoch did "
            "not keep it, or it is of another group. Begin at a time or at EPOCH, or say what to "
            "do with unknown_bookmark."
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
