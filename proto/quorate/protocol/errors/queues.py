"""Errors of queues."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import Outcome, QuorateError
from quorate.protocol.exit_codes import OUTCOME_UNKNOWN, UNREACHABLE


@dataclass(eq=False)
class UnknownQueue(QuorateError):
    """A call for a queue that a store is not configured with. It may dispatch none at all."""

    queue: str
    store: str

    def describe(self) -> str:
        return (
            f"Store {self.store} has no queue {self.queue}. Write a [[queue]] entry with "
            f"name = {self.queue!r} into the configuration of every store, and restart the stores. "
            "`quorate queue list` names those that there are."
        )


@dataclass(eq=False)
class QueueElsewhere(QuorateError):
    """A call for a queue to a store that is not its dispatcher now."""

    queue: str
    store: str
    detail: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"Store {self.store} does not dispatch the queue {self.queue} now ({self.detail}). "
            "Another store does, or will soon: try again there. `quorate queue list` shows which."
        )


@dataclass(eq=False)
class NotYetSettled(QuorateError):
    """A report of a consumer on its jobs that is not known to be stable."""

    queue: str
    jobs: int
    detail: str
    outcome = Outcome.UNKNOWN
    exit_code = OUTCOME_UNKNOWN

    def describe(self) -> str:
        return (
            f"The outcome of {self.jobs} jobs of the queue {self.queue} is not known to be stable "
            f"({self.detail}). The jobs whose outcome is not stable are handed out again."
        )
