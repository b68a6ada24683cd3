"""Errors of sending: messages that were not accepted, and publish stores that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import Outcome, QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, OUTCOME_UNKNOWN, UNREACHABLE


@dataclass(eq=False)
class NotYetStable(QuorateError):
    """Messages that were sent, and that too few stores have acknowledged in time."""

    source: str
    first: int
    last: int
    detail: str
    publish_store: str = ""
    """The place of the publish store that has them; empty: they do not outlive the process."""
    outcome = Outcome.UNKNOWN
    exit_code = OUTCOME_UNKNOWN

    def describe(self) -> str:
        sent = (
            f"[{self.first}, {self.last}] of {self.source} were sent but are not known to be "
            f"stable ({self.detail}). An open source goes on with them, and `flush` waits for "
            "them. "
        )
        if self.publish_store:
            return (
                f"{sent}The publish store {self.publish_store} has them. Open the source again "
                "with it after its end: it sends them again, under the same numbers."
            )
        return (
            f"{sent}After its end they may or may not survive. Check the stores and open the "
            "source again: what survived is below its next_sequence; send the rest again. A "
            "FilePublishStore would do that by itself."
        )


@dataclass(eq=False)
class NotYetOnDisk(NotYetStable):
    """Messages that were accepted, and that the publish store's disk has not taken in time."""

    outcome = Outcome.UNKNOWN
    exit_code = OUTCOME_UNKNOWN

    def describe(self) -> str:
        return (
            f"[{self.first}, {self.last}] of {self.source} were accepted, and are not on the disk "
            f"yet: the publish store {self.publish_store} did not sync them ({self.detail}). They "
            "may or may not survive. An open source goes on with them, and `flush` tells when they "
            "are stable. Once it is opened again, what survived is below its next_sequence."
        )


@dataclass(eq=False)
class SendTimedOut(QuorateError):
    """A call that had no room for its messages within its timeout."""

    source: str
    waited: str
    """The timeout, for people."""
    reason: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"{self.source} had no room for the message within {self.waited}: {self.reason}. The "
            "message was not accepted. Send it again later, or give the call more time."
        )


@dataclass(eq=False)
class NotKept(QuorateError):
    """A message for which the publish store has no room."""

    path: str
    detail: str
    retryable = True

    def describe(self) -> str:
        return (
            f"The publish store {self.path} cannot keep another message ({self.detail}). The "
            "message was not accepted; earlier ones are safe. Make room on the disk, then send it "
            "again."
        )


@dataclass(eq=False)
class PublishStoreInUse(QuorateError):
    """A publish store that another source has open."""

    path: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"The publish store {self.path} is in use by another source, perhaps of another "
            "process. Close that source first, or give this one a publish store of its own."
        )


@dataclass(eq=False)
class PublishStoreDamaged(QuorateError):
    """A publish store with a file that is not as it was written."""

    path: str
    file: str
    detail: str

    def describe(self) -> str:
        return (
            f"The publish store {self.path} is damaged: its file {self.file} {self.detail}. "
            "Nothing was changed. It may have messages that no store has: keep a copy of it for "
            "inspection. Then open the source with an empty publish store; it goes on where its "
            "stores say."
        )
