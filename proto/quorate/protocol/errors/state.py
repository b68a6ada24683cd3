"""Errors of queries of the state of the world."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import UNREACHABLE


@dataclass(eq=False)
class TopicHasNoKeys(QuorateError):
    """A query of a topic of which a store makes no rows."""

    topic: str
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} keeps no state of {self.topic}: its configuration names no keys. "
            f"Write a [[topic]] entry with pattern = {self.topic!r} and keys = '$key', or fields "
            "of the payload, into the configuration of every store, and restart the stores."
        )


@dataclass(eq=False)
class PastUnavailable(QuorateError):
    """A query of a past state that the journal of a store no longer reaches."""

    topic: str
    store: str
    as_of: str
    detail: str

    def describe(self) -> str:
        return (
            f"Store {self.store} no longer knows the state of {self.topic} as of {self.as_of}: "
            f"{self.detail}. Ask for a later time, or for one key; let the stores keep messages "
            "for longer (retention_seconds), or let queries ask for earlier times "
            "(history_seconds)."
        )


@dataclass(eq=False)
class StateUnavailable(QuorateError):
    """A query that a store cannot answer now."""

    topic: str
    store: str
    detail: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} cannot answer for the state of {self.topic}: {self.detail}. Ask "
            "another store, or wait longer. `quorate status` says how far a store has come."
        )
