"""Errors of archives: one that cannot be used, is damaged, or is not that of these stores."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError


@dataclass(eq=False)
class ArchiveUnusable(QuorateError):
    """An archive path that cannot be read or written."""

    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"The archive path {self.path} cannot be used: {self.detail}. Nothing that is "
            "archived was changed. Check the path, who may write there, and whether there is room."
        )


@dataclass(eq=False)
class ArchiveInvalid(QuorateError):
    """A file of an archive that is damaged, or contradicts another one."""

    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"{self.path} is not what an archive should have: {self.detail}. Nothing was changed. "
            "Check the path. Keep a copy of a damaged file for inspection, then put it back from a "
            "backup. Do not remove a file of the table's log: files that only it names would no "
            "longer be read."
        )


@dataclass(eq=False)
class ArchiveNewer(QuorateError):
    """An archive in a format of a newer version."""

    path: str
    theirs: int
    ours: int

    def describe(self) -> str:
        return (
            f"The archive's {self.path} has format {self.theirs}, written by a newer version; this "
            f"one reads up to {self.ours}. Nothing was changed. Use the newer version."
        )


@dataclass(eq=False)
class ArchiveChanged(QuorateError):
    """An archive to which two jobs have written one version."""

    path: str
    version: int
    retryable = True

    def describe(self) -> str:
        return (
            f"Another job has meanwhile written version {self.version} of the archive {self.path}. "
            "The files that this job wrote are not part of the archive, and nothing is broken. Run "
            "it again: it goes on from what the other job did."
        )


@dataclass(eq=False)
class ArchiveDiffers(QuorateError):
    """An archive and stores with different histories of a source."""

    source: str
    first: int
    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"The archive {self.path} and the stores have different histories of {self.source}, "
            f"from {self.first} on: {self.detail}. Nothing of it was used. If the stores lost "
            "it, restore them; if its stream was begun anew, archive that to another path."
        )
