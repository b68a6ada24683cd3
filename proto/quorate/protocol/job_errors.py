"""Errors of reading with Spark, of archives and of the pipeline's jobs.

They are a part of quorate.protocol.errors, where everybody else gets them from.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, INTERRUPTED


@dataclass(eq=False)
class JavaNotFound(QuorateError):
    tried: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"Spark needs Java 17 or newer, and none was found ({self.tried}). Install one, set "
            "JAVA_HOME, or `pip install 'quorate[spark]'`, which brings one."
        )


@dataclass(eq=False)
class MessagesGone(QuorateError):
    source: str
    first: int
    last: int
    evidence: str
    """What each store said."""

    def describe(self) -> str:
        return (
            f"[{self.first}, {self.last}] of {self.source} are gone: {self.evidence}. Nothing of "
            "them was read. If they were archived, name the archive; to go on without them, set "
            "failOnDataLoss to false."
        )


@dataclass(eq=False)
class OffsetsBehind(QuorateError):
    source: str
    start: int
    end: int

    def describe(self) -> str:
        return (
            f"Reading of {self.source} has come to {self.start}, but its end is now said to be "
            f"{self.end}: its stream was begun anew, or the stores are others. Nothing was read. "
            "Check the stores; to start over, use a new checkpoint and a new cursorName."
        )


@dataclass(eq=False)
class ArchiveUnusable(QuorateError):
    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"The archive path {self.path} can not be used: {self.detail}. Nothing that is "
            "archived was changed. Check the path, who may write there, and whether there is room."
        )


@dataclass(eq=False)
class NotArchived(QuorateError):
    topic: str
    path: str
    archived: str

    def describe(self) -> str:
        return (
            f"The archive {self.path} has nothing of topic {self.topic!r}. Archived topics: "
            f"{self.archived or 'none'}. Check the spelling."
        )


@dataclass(eq=False)
class ArchiveInvalid(QuorateError):
    path: str
    detail: str

    def describe(self) -> str:
        return (
            f"{self.path} is not what an archive should have: {self.detail}. Nothing was changed. "
            "Check the path. What is damaged, put back from a backup, and keep a copy of it for "
            "inspection. A manifest that can not be put back: `quorate archive PATH "
            "--rebuild` makes one. Remove none: what only that one names would be read no more."
        )


@dataclass(eq=False)
class ArchiveNewer(QuorateError):
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
    path: str
    version: int
    retryable = True

    def describe(self) -> str:
        return (
            f"Another job has written version {self.version} of the archive {self.path} meanwhile. "
            "What this one wrote is not part of it, and nothing is broken. Run it again; it goes "
            "on from what the other one did."
        )


@dataclass(eq=False)
class ArchiveDiffers(QuorateError):
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


@dataclass(eq=False)
class TaskFailed(QuorateError):
    detail: str
    retryable = True

    def describe(self) -> str:
        return (
            f"A task of the job failed as often as Spark tries one ({self.detail}). What it had "
            "written counts for nothing, and nothing is broken. Remove the cause (a full disk, a "
            "directory that not all workers reach), then run the job again."
        )


@dataclass(eq=False)
class FunctionFailed(QuorateError):
    function: str
    bookmark: str
    """The message that it was given: source and sequence number."""
    time: str
    """Of that message, as --since takes it."""
    error: str
    trace: str
    """Where it was raised, the innermost place last; empty: within what has no lines."""

    def describe(self) -> str:
        return (
            f"The function {self.function} failed at the message {self.bookmark}: {self.error}. "
            f"What came before was handed over. Once it is mended, --since {self.time} goes on "
            "from there.\n"
            f"{self.trace}"
        ).rstrip()


@dataclass(eq=False)
class Interrupted(QuorateError):
    signal: str
    remains: str
    exit_code = INTERRUPTED

    def describe(self) -> str:
        return f"Interrupted ({self.signal}). {self.remains}"
