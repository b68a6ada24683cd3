"""The dashboard of a group of stores, as Grafana imports it: what it shows, row by row.

Each panel asks Prometheus for metrics of docs/metrics.md. Nothing is measured here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT = 24, 8
"""The columns of Grafana's grid, and the lines that a panel takes of it."""
_GROUP = 'job="$job"'


@dataclass(frozen=True, slots=True)
class Curve:
    """A query, and the name of its curves in the legend."""

    query: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture of curves over time."""

    title: str
    unit: str
    """A unit as Grafana names it."""
    curves: tuple[Curve, ...]
    description: str


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side, under a heading."""

    title: str
    panels: tuple[Panel, ...]


def _of_stores(metric: str) -> Curve:
    return Curve(f"{metric}{{{_GROUP}}}", "{{instance}}")


def _rate(metric: str, by: str) -> Curve:
    return Curve(f"sum by ({by}) (rate({metric}{{{_GROUP}}}[$__rate_interval]))", f"{{{{{by}}}}}")


def _largest(metric: str) -> Curve:
    return Curve(f"max by (topic) ({metric}{{{_GROUP}}})", "{{topic}}")


def _quantile(metric: str) -> Curve:
    buckets = f"rate({metric}_bucket{{{_GROUP}}}[$__rate_interval])"
    return Curve(f"histogram_quantile(0.99, sum by (instance, le) ({buckets}))", "{{instance}}")


ROWS = (
    Row(
        "Is all well?",
        (
            Panel(
                "Stores that serve",
                "none",
                (Curve(f"sum(quorate_ready{{{_GROUP}}})", "ready"),
                 Curve(f"sum(quorate_limbo{{{_GROUP}}})", "in limbo"),
                 Curve(f"count(max by (peer) (quorate_peer_reachable{{{_GROUP}}}) == 0)", "away")),
                "A quorum of the stores must be ready.",
            ),
            Panel(
                "Messages that are not stable",
                "short",
                (_largest("quorate_unstable_live_messages"),),
                "Some are under way while sources send. A number that stays says that too few "
                "stores take the messages.",
            ),
            Panel(
                "Messages that a store lacks",
                "short",
                (_largest("quorate_lacking_messages"),),
                "Repair fetches them from other stores.",
            ),
        ),
    ),
    Row(
        "Sending and receiving",
        (
            Panel(
                "Messages that become stable in a second",
                "short",
                (Curve(
                    "max by (topic) "
                    f"(deriv(quorate_stable_messages{{{_GROUP}}}[$__rate_interval]))",
                    "{{topic}}",
                ),),
                "By topic, as the store says that knows most.",
            ),
            Panel(
                "Bytes that come in a second",
                "Bps",
                (_rate("quorate_received_bytes_total", "instance"),),
                "Of batches that sources send to each store.",
            ),
            Panel(
                "Messages that the slowest receiver is behind",
                "short",
                (_largest("quorate_receiver_lag_messages"),),
                "By topic. A receiver that is away counts, too.",
            ),
            Panel(
                "Sources and receivers",
                "none",
                (Curve(f"max(sum by (instance) (quorate_live_sources{{{_GROUP}}}))", "sources"),
                 Curve(f"max(sum by (instance) (quorate_receivers{{{_GROUP}}}))", "receivers"),
                 Curve(f"sum(quorate_subscriptions{{{_GROUP}}})", "subscriptions")),
                "Sources that stream, receivers that are registered, subscriptions that run.",
            ),
        ),
    ),
    Row(
        "Disks",
        (
            Panel(
                "Free bytes",
                "bytes",
                (_of_stores("quorate_disk_free_bytes"),
                 Curve(f"max(quorate_disk_free_warning_bytes{{{_GROUP}}})", "warning"),
                 Curve(f"max(quorate_disk_free_min_bytes{{{_GROUP}}})", "the store stops")),
                "A store stops before its disk is full.",
            ),
            Panel(
                "Bytes of the journal",
                "bytes",
                (_largest("quorate_journal_bytes"),),
                "By topic, at the store that has most.",
            ),
            Panel(
                "Seconds of the slowest of a hundred syncs",
                "s",
                (_quantile("quorate_sync_seconds"),),
                "No message is stable before the sync of a quorum.",
            ),
            Panel(
                "Messages that retention lets go in a second",
                "short",
                (_rate("quorate_released_messages_total", "instance"),),
                "Of the journal, the oldest first.",
            ),
        ),
    ),
    Row(
        "The work of the stores",
        (
            Panel(
                "Processor",
                "percentunit",
                (_rate("process_cpu_seconds_total", "instance"),),
                "1 is a whole core.",
            ),
            Panel(
                "Memory",
                "bytes",
                (_of_stores("process_resident_memory_bytes"),),
                "Resident bytes of the process.",
            ),
            Panel(
                "Seconds by which one of a hundred turns was late",
                "s",
                (_quantile("quorate_event_loop_lag_seconds"),),
                "A store that is late has too little of the processor.",
            ),
            Panel(
                "Messages that repair fetches in a second",
                "short",
                (_rate("quorate_repaired_messages_total", "instance"),),
                "From other stores.",
            ),
        ),
    ),
    Row(
        "Strangers",
        (
            Panel(
                "Calls denied in a second",
                "short",
                (_rate("quorate_denied_calls_total", "instance"),),
                "No rule of access permits them.",
            ),
            Panel(
                "Requests refused in a second",
                "short",
                (_rate("quorate_refused_requests_total", "instance"),),
                "They were not valid, or came from a source that another one has replaced.",
            ),
            Panel(
                "Days until the certificate ends",
                "d",
                (Curve(
                    f"(quorate_certificate_end_timestamp_seconds{{{_GROUP}}} - time()) / 86400",
                    "{{instance}}",
                ),),
                "Stores without TLS have none.",
            ),
        ),
    ),
)  # fmt: skip


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    return {
        "uid": "quorate",
        "title": "Quorate",
        "tags": ["quorate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_DATA_SOURCE, _GROUPS]},
        "panels": list(_panels()),
    }


_DATA_SOURCE = {"name": "datasource", "label": "Prometheus", "type": "datasource",
                "query": "prometheus"}  # fmt: skip
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_GROUPS = {
    "name": "job",
    "label": "Group",
    "type": "query",
    "datasource": _SOURCE,
    "query": "label_values(quorate_build_info, job)",
    "refresh": 2,
    "sort": 1,
}


def _panels() -> Iterator[dict[str, Any]]:
    """Yield rows and panels, each with its place in the grid."""
    top, number = 0, 0
    for row in ROWS:
        number += 1
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "panels": [],
               "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1}}  # fmt: skip
        width = _WIDTH // len(row.panels)
        for column, panel in enumerate(row.panels):
            number += 1
            place = {"x": column * width, "y": top + 1, "w": width, "h": _HEIGHT}
            yield {"id": number, "gridPos": place, **_picture(panel)}
        top += 1 + _HEIGHT


def _picture(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"},
                    "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": curve.query,
             "legendFormat": curve.legend}
            for at, curve in enumerate(panel.curves)
        ],
    }  # fmt: skip
