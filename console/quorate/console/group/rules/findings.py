"""A finding: something that is wrong in a group, what it means, and the next step.

Pure. The rules that find it are in the modules beside this one; nothing here knows them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class Severity(enum.StrEnum):
    """How bad a finding is."""

    CRITICAL = "critical"
    """Messages are at risk or lost, or somebody cannot work now."""
    WARNING = "warning"
    """The group works, and somebody has to act before it fails."""
    NOTE = "note"
    """A fact that people should know. It makes no group unhealthy."""


class Kind(enum.StrEnum):
    """The kinds of findings, the worst first."""

    WRITE_ERROR = "write-error"
    CONFLICT = "conflict"
    LINEAGES = "lineages"
    ROWS = "rows"
    UNREADABLE = "unreadable"
    HOLE = "hole"
    NO_QUORUM = "no-quorum"
    POLICY = "policy"
    TAIL = "tail"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    SAME_STORE = "same-store"
    LIMBO = "limbo"
    DISK = "disk"
    RETENTION = "retention"
    HELD = "held"
    FULL = "full"
    LAG = "lag"
    ROWS_BEHIND = "rows-behind"
    PEER = "peer"
    REPLICA = "replica"
    RECEIVER = "receiver"
    SUBSCRIBER = "subscriber"
    QUEUE = "queue"
    CERTIFICATE = "certificate"
    CLOCK = "clock"
    VERSION = "version"
    CONFIGURATION = "configuration"
    DAMAGE = "damage"
    DENIED = "denied"
    LOSS = "loss"
    POISON = "poison"


_SEVERITIES = tuple(Severity)
_KINDS = tuple(Kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    severity: Severity
    kind: Kind
    subject: str
    """The store or the source that it is about; empty: the group."""
    what: str
    means: str
    next: str
    """The next step of the operator."""

    def __str__(self) -> str:
        return f"{self.what} {self.next}"

    def row(self) -> dict[str, Any]:
        """Return the finding for programs."""
        return {
            "severity": self.severity.value,
            "kind": self.kind.value,
            "subject": self.subject,
            "what": self.what,
            "means": self.means,
            "next": self.next,
        }


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds beyond which something that is normal becomes a finding."""

    lag_max: int = 100_000
    """Stable messages that a store may be behind in a source."""
    receiver_lag_max: int = 100_000
    """Messages that a receiver may be behind."""
    subscriber_lag_max: int = 1_000_000
    """Messages that a subscriber may be behind."""
    certificate_days: float = 21.0
    """Days that a certificate should still be valid."""
    clock_seconds: float = 1.0
    """Seconds that the clocks of two stores may be apart."""
    queue_backlog_max: int = 10_000
    """Messages of a queue that may wait for a consumer."""
    row_lag_max: int = 100_000
    """Stable messages that the rows of a store may be behind."""
    row_lag_seconds: float = 60.0
    """Seconds that they may be behind."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings by severity, then by kind, then by subject."""
    return sorted(
        findings,
        key=lambda each: (
            _SEVERITIES.index(each.severity),
            _KINDS.index(each.kind),
            each.subject,
        ),
    )


def is_healthy(findings: Iterable[Finding]) -> bool:
    """Return whether the findings are notes only."""
    return all(each.severity is Severity.NOTE for each in findings)
