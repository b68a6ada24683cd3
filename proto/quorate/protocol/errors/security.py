"""Errors of security: a connection that does not come about, a call that is not permitted."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors.base import QuorateError
from quorate.protocol.exit_codes import CONFIGURATION, DENIED, UNREACHABLE


@dataclass(eq=False)
class TlsFailed(QuorateError):
    """A connection that the TLS settings of the two ends do not let come about."""

    address: str
    detail: str
    exit_code = CONFIGURATION

    def describe(self) -> str:
        return (
            f"No secure connection to {self.address} comes about: {self.detail}. Compare the TLS "
            "settings of the two ends: `[tls]`, the QUORATE_TLS_* variables, and the certificates "
            "that they name."
        )


@dataclass(eq=False)
class AccessDenied(QuorateError):
    """A call that no access rule permits."""

    identity: str
    """The names of the caller; empty: the caller has none."""
    verb: str
    topic: str
    """The topic or the pattern of the call; empty: the call is about all topics."""
    exit_code = DENIED

    def describe(self) -> str:
        who = self.identity or "A caller without an identity"
        what = f" topic {self.topic}" if self.topic else " all topics"
        return (
            f"{who} may not {self.verb}{what}. Nothing was done. An operator may permit it with an "
            "`[[access]]` rule in the configuration of each store, or of the source."
        )


@dataclass(eq=False)
class LimitReached(QuorateError):
    """A call of an identity that uses as much of a store as it may."""

    identity: str
    what: str
    """`connections` or `subscriptions`."""
    most: int
    retryable = True
    exit_code = UNREACHABLE

    def describe(self) -> str:
        return (
            f"{self.identity} has {self.most} {self.what} at the store, and may not have more at a "
            "time. Close some, or ask an operator to raise the limit in the `[[access]]` rules."
        )
