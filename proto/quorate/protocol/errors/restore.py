"""Errors of restoring stores from an archive."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import UNREACHABLE


@dataclass(eq=False)
class OtherHistory(QuorateError):
    """An archive whose lineage differs from the lineage at a store."""

    source: str
    first: int
    epoch: int
    archived_epoch: int
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} and the archive have different histories of {self.source}: for "
            f"{self.first} the store names epoch {self.epoch}, the archive {self.archived_epoch}. "
            "Nothing was written. The source went on without the archived messages. Restore into "
            "other stores. If its newer messages may go, run `quorate deregister` first."
        )


@dataclass(eq=False)
class BeingDeleted(QuorateError):
    """A restore into a store that still has messages of the source, whose stream has ended."""

    source: str
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} still has messages of {self.source}, whose stream has ended, and "
            "so may other stores. Nothing was written. Try again when they are gone, after "
            "deletion_grace, or restore into other stores."
        )


@dataclass(eq=False)
class RestoreRefused(QuorateError):
    """A restore into a store that cannot vouch for what it lacks."""

    source: str
    store: str
    reason: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} cannot vouch for what it lacks of {self.source} ({self.reason}). "
            "It does not know which history is in force, so it takes none from an archive. If "
            "other stores of its group have the stream, they fill it by themselves: `quorate "
            "status` names the stores that it waits for. If all of them lost it, found the group "
            "anew (`quorate store init --new`), or use `quorate store readmit`. Restore "
            "after that."
        )
