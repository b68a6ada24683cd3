"""Errors of reaching another process: it is down, stopping, of another version, or no store."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import Outcome, QuorateError
from quorate.protocol.exit_codes import UNREACHABLE


@dataclass(eq=False)
class Unreachable(QuorateError):
    """A call to an address that failed without an answer of Quorate's."""

    address: str
    detail: str
    retryable = True
    outcome = Outcome.UNKNOWN
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"{self.address} cannot be reached ({self.detail}). "
            "Check that it is running, and that the address is right."
        )


@dataclass(eq=False)
class StoreStopping(QuorateError):
    """A request to a store that is shutting down."""

    store: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return f"Store {self.store} is stopping. Try another store, or this one again shortly."


@dataclass(eq=False)
class TakenForHung(QuorateError):
    """A stream that a store ended, because it no longer heard the source."""

    address: str
    who: str
    silence: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"The store at {self.address} no longer heard source {self.who}, and ended its "
            f"stream: {self.silence}. The source opens it again by itself. Check whether its "
            "process was paused, whether its event loop was blocked, and the network."
        )


@dataclass(eq=False)
class LiveStreamOver(QuorateError):
    """A live stream that its source ended, or that is of no further use."""

    address: str
    detail: str
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"The live stream from {self.address} is over: {self.detail}. The receiver looks for "
            "the source again by itself."
        )


@dataclass(eq=False)
class NotAStore(QuorateError):
    """An address where another service answers."""

    address: str
    detail: str
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"{self.address} answers, but not as a Quorate store ({self.detail}). "
            "Check the host and the port."
        )


@dataclass(eq=False)
class VersionMismatch(QuorateError):
    """A peer that speaks another version of the protocol."""

    address: str
    theirs: int
    ours: int

    def describe(self) -> str:
        return (
            f"{self.address} speaks protocol version {self.theirs}, this side {self.ours}. "
            "Upgrade the older of the two."
        )


@dataclass(eq=False)
class BrokenAnswer(QuorateError):
    """An answer to a fetch that breaks the protocol's rules."""

    address: str
    detail: str
    retryable = True

    def describe(self) -> str:
        return (
            f"The answer of {self.address} to a fetch ends before it is whole ({self.detail}). "
            "The messages that arrived count, and other stores are asked for the rest. If it "
            "happens again, check the log and the version of that process, and any proxy before it."
        )
