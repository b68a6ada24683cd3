"""The alerts of a group of stores, as rules of Prometheus: each with its condition and its words.

docs/alerts.md says for each what to do. The rules compare metrics of all stores of a group, so they
take the label `job` as the group: one Prometheus may watch several. Nothing is measured here.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DOCUMENT = "docs/alerts.md"


class Severity(enum.StrEnum):
    """How soon somebody should look."""

    CRITICAL = "critical"
    """Now: sources cannot send, or data may be lost."""
    WARNING = "warning"
    """Today: one more failure may be too many, or something becomes full."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule: an alert fires when its expression has held for some minutes."""

    name: str
    severity: Severity
    minutes: int
    """Minutes for which the expression must hold."""
    expression: str
    """A query of Prometheus. It has a result for each thing that the alert is about."""
    summary: str
    """A sentence for people, with labels of the result as `{{ $labels.name }}`."""

    @property
    def page(self) -> str:
        """The part of a document that says what to do."""
        return f"{DOCUMENT}#{self.name.lower()}"


_REACHED = "max by (job, peer) (quorate_peer_reachable)"
_AWAY = f"count by (job) ({_REACHED} == 0)"
_KNOWN = f"count by (job) ({_REACHED})"

ALERTS = (
    Alert(
        "QuorateStoreAway",
        Severity.WARNING,
        2,
        f"{_REACHED} == 0",
        "No store reaches the store {{ $labels.peer }}.",
    ),
    Alert(
        "QuorateQuorumAway",
        Severity.CRITICAL,
        1,
        f"{_AWAY} * 2 >= {_KNOWN}",
        "Half of the stores of {{ $labels.job }} are away: a quorum does not exist.",
    ),
    Alert(
        "QuorateStoresPartitioned",
        Severity.WARNING,
        2,
        f"min by (job, peer) (quorate_peer_reachable) == 0 and {_REACHED} == 1",
        "Some stores reach the store {{ $labels.peer }}, and some do not.",
    ),
    Alert(
        "QuorateNothingBecomesStable",
        Severity.CRITICAL,
        2,
        "quorate_unstable_live_messages > 0 and changes(quorate_stable_messages[2m]) == 0",
        "Messages of {{ $labels.topic }} wait at {{ $labels.instance }}, and none becomes stable.",
    ),
    Alert(
        "QuorateStoreInLimbo",
        Severity.WARNING,
        10,
        "quorate_limbo == 1",
        "The store {{ $labels.instance }} is in limbo, and does not come out by itself.",
    ),
    Alert(
        "QuorateSourcesInLimbo",
        Severity.WARNING,
        10,
        "quorate_limbo_sources > 0 unless on (job, instance) quorate_limbo == 1",
        "The store {{ $labels.instance }} is in limbo for sources of {{ $labels.topic }}.",
    ),
    Alert(
        "QuorateStoreRestarts",
        Severity.WARNING,
        0,
        "delta(quorate_starts[15m]) >= 3",
        "The store {{ $labels.instance }} was started several times in 15 minutes.",
    ),
    Alert(
        "QuorateDiskAlmostFull",
        Severity.CRITICAL,
        0,
        "quorate_disk_free_bytes < quorate_disk_free_warning_bytes",
        "The disk of {{ $labels.instance }} is almost full. The store stops when it is.",
    ),
    Alert(
        "QuorateDiskFillsUp",
        Severity.WARNING,
        30,
        "predict_linear(quorate_disk_free_bytes[1h], 4 * 3600) < quorate_disk_free_min_bytes",
        "The disk of {{ $labels.instance }} is full in four hours if it fills as in the last one.",
    ),
    Alert(
        "QuorateRetentionHeldUp",
        Severity.WARNING,
        30,
        "quorate_retention_held_up == 1",
        "Something keeps retention of {{ $labels.instance }} from freeing space.",
    ),
    Alert(
        "QuorateDiskSlow",
        Severity.WARNING,
        10,
        "histogram_quantile(0.99, rate(quorate_sync_seconds_bucket[5m])) > 0.25",
        "One of a hundred syncs of {{ $labels.instance }} takes longer than 250 ms.",
    ),
    Alert(
        "QuorateStoreOverloaded",
        Severity.WARNING,
        10,
        "histogram_quantile(0.99, rate(quorate_event_loop_lag_seconds_bucket[5m])) > 0.25",
        "The store {{ $labels.instance }} gets too little of the processor: it is late.",
    ),
    Alert(
        "QuorateMessagesLacking",
        Severity.WARNING,
        15,
        "quorate_lacking_messages > 0",
        "The store {{ $labels.instance }} lacks messages of {{ $labels.topic }}.",
    ),
    Alert(
        "QuorateMessagesUnreadable",
        Severity.CRITICAL,
        0,
        "quorate_unreadable_messages > 0",
        "The disk of {{ $labels.instance }} does not give back messages of {{ $labels.topic }}.",
    ),
    Alert(
        "QuorateStoresDiffer",
        Severity.CRITICAL,
        0,
        "quorate_conflicts > 0",
        "The store {{ $labels.instance }} has other messages of {{ $labels.topic }} than a peer.",
    ),
    Alert(
        "QuorateReceiverBehind",
        Severity.WARNING,
        10,
        "quorate_receiver_lag_messages > 100000",
        "A receiver of {{ $labels.topic }} is over 100,000 messages behind.",
    ),
    Alert(
        "QuorateRowsBehind",
        Severity.WARNING,
        10,
        "quorate_row_lag_messages > 100000 or quorate_row_lag_seconds > 60",
        "The rows of {{ $labels.topic }} at {{ $labels.instance }} are far behind what is stable.",
    ),
    Alert(
        "QuorateQueueNotDispatched",
        Severity.CRITICAL,
        2,
        "max by (job, queue) (quorate_queue_dispatches) == 0",
        "No store dispatches the queue {{ $labels.queue }}: consumers get nothing.",
    ),
    Alert(
        "QuorateQueueDeadLetters",
        Severity.WARNING,
        0,
        "increase(quorate_queue_dead_messages_total[15m]) > 0",
        "Messages of the queue {{ $labels.queue }} were given up.",
    ),
    Alert(
        "QuorateCertificateEnds",
        Severity.WARNING,
        0,
        "quorate_certificate_end_timestamp_seconds - time() < 7 * 86400",
        "The certificate of {{ $labels.instance }} ends within a week.",
    ),
    Alert(
        "QuorateCallsDenied",
        Severity.WARNING,
        0,
        "increase(quorate_denied_calls_total[10m]) > 10",
        "The store {{ $labels.instance }} denies calls: rules of access do not permit them.",
    ),
)


def rules() -> dict[str, Any]:
    """Return the alerts as Prometheus reads them from a file of rules."""
    return {"groups": [{"name": "quorate", "rules": [_rule(alert) for alert in ALERTS]}]}


def _rule(alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": f"{alert.minutes}m",
        "labels": {"severity": str(alert.severity)},
        "annotations": {"summary": alert.summary, "runbook": alert.page},
    }


def rules_of_operator() -> dict[str, Any]:
    """Return the same as a resource for the Prometheus operator on Kubernetes."""
    labels = {"app.kubernetes.io/name": "quorate", "app.kubernetes.io/component": "store"}
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "quorate", "labels": labels},
        "spec": rules(),
    }


def as_yaml(value: dict[str, Any]) -> str:
    """Return nested dicts and lists of strings as YAML: strings are quoted as in JSON."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            first, *others = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
        return
    for key, part in value.items():
        if isinstance(part, str):
            yield f"{key}: {json.dumps(part)}"
        else:
            yield f"{key}:"
            yield from (f"  {line}" for line in _lines(part))
