"""Errors of disks and data directories: failed writes and reads, a directory of another store."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import Outcome, QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, FAILED


@dataclass(eq=False)
class StorageFailed(QuorateError):
    """A write or a sync that failed."""

    path: str
    detail: str
    outcome = Outcome.UNKNOWN
    exit_code = FAILED

    def describe(self) -> str:
        return (
            f"Writing to {self.path} failed ({self.detail}). After a failed write or sync no later "
            "write can be trusted, so the store or source stops here. Check the path, make room or "
            "replace the disk, then start again. Data that was synced before is on the disk."
        )


@dataclass(eq=False)
class StorageUnreadable(StorageFailed):
    """A read that failed. The content counts as unknown, never as absent."""

    outcome = Outcome.KNOWN

    def describe(self) -> str:
        return (
            f"Reading from {self.path} failed ({self.detail}). The content counts as unknown, not "
            "as absent, and nothing was changed. If it happens again, check the disk, and replace "
            "the store. Stop it, move its data directory away and start it: its peers give it "
            "their messages."
        )


@dataclass(eq=False)
class DataDirectoryInUse(QuorateError):
    """A data directory that another process has open."""

    path: str
    holder: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Data directory {self.path} is in use by {self.holder}. "
            "Stop that process first, or use another directory."
        )


@dataclass(eq=False)
class DataDirectoryOfAnother(QuorateError):
    """A data directory that was made for a store of another name."""

    path: str
    owner: str
    store: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Data directory {self.path} belongs to store {self.owner!r}, not to {self.store!r}. "
            "Nothing was changed. Give this store a directory of its own. If other stores have "
            "the content too, the directory may be removed instead."
        )


@dataclass(eq=False)
class DataDirectoryUsed(QuorateError):
    """A data directory that is to be initialised, and is not blank."""

    path: str
    store: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Data directory {self.path} has been used by store {self.store!r} already. Nothing "
            "was changed. The store can be started with it as it is. To begin anew, remove the "
            "directory first, if other stores have its content too."
        )


@dataclass(eq=False)
class DataDirectoryNewer(QuorateError):
    """A data directory in a format that a newer version wrote."""

    path: str
    theirs: int
    ours: int
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Data directory {self.path} has format {self.theirs}, written by a newer version; "
            f"this one reads up to {self.ours}. Nothing was changed. "
            "Start it with the newer version."
        )


@dataclass(eq=False)
class DataDirectoryOlder(QuorateError):
    """A data directory in a format that this version no longer reads."""

    path: str
    theirs: int
    ours: int
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Data directory {self.path} has format {self.theirs}, of a version before the first "
            f"release; this one reads format {self.ours} only. Nothing was changed. Move it away, "
            "one store after the other: each is refilled from its peers."
        )


@dataclass(eq=False)
class DataDirectoryCorrupt(QuorateError):
    """A data directory whose own records cannot be read."""

    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"Data directory {self.path} is damaged: {self.detail}. Nothing was changed. Keep a "
            "copy for inspection, then start the store on an empty directory: its peers fill it."
        )
