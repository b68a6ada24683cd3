"""The topics, sources, receivers and subscribers of a group: one row each, over all stores.

Pure: the answers of the stores in, rows out, chosen and sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quorate.console.group.rules.source_status import SourceView
from quorate.protocol.application import Application
from quorate.protocol.choices import did_you_mean
from quorate.protocol.errors import InvalidArgument
from quorate.v1 import messages_pb2 as v1
from quorate.v1.store_pb2 import (
    DELIVERED_DURABLE,
    DELIVERED_LIVE,
    DELIVERED_STABLE,
    SubscriptionStatus,
)

_DELIVERED = {
    DELIVERED_STABLE: "stable",
    DELIVERED_DURABLE: "durable",
    DELIVERED_LIVE: "live",
}

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Choice:
    """The rows that are wanted, and their order."""

    session_id: int | None = None
    """Only rows of this session; None: of all."""
    idle_seconds: float = 0.0
    """Only rows without a sign of life for so long."""
    application: str = ""
    """Only rows whose application has this text in its name, program or host."""
    state: str = ""
    """Only rows in this state; empty: in any."""
    sort: str = ""
    """The column to sort by, the lowest first; with a - before it the highest first. Empty: as they
    come."""
    limit: int = 0
    """The most rows; 0: all."""

    def check(self, columns: Sequence[str]) -> None:
        """Raise InvalidArgument if there is no such column to sort by."""
        column = self.sort.removeprefix("-")
        if column and column not in columns:
            hint = did_you_mean(column, columns)
            raise InvalidArgument("--sort", f"{column!r} is none of {', '.join(columns)}{hint}")

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that are wanted, in their order. `check` was called before."""
        found = [row for row in rows if self._wants(row)]
        if not self.sort:
            return found
        column = self.sort.removeprefix("-")
        known = [row for row in found if row[column] is not None]
        known.sort(key=lambda row: _order(row[column]), reverse=self.sort.startswith("-"))
        return known + [row for row in found if row[column] is None]

    def _wants(self, row: Mapping[str, Any]) -> bool:
        return (
            (self.session_id is None or row["session_id"] == f"{self.session_id:#x}")
            and (not self.idle_seconds or row["idle_seconds"] >= self.idle_seconds)
            and (not self.state or row["state"] == self.state)
            and self.application.lower() in application_text(row.get("application")).lower()
        )


def _order(value: Any) -> Any:
    """Return what a value is sorted by: a dictionary by its highest value, a list by its length."""
    match value:
        case {"process_id": _}:
            return application_text(value)
        case dict():
            return max(value.values(), default=0)
        case list():
            return len(value)
        case _:
            return value


def application_text(row: Mapping[str, Any] | None) -> str:
    """Return an application of a row as people see it; empty: it is unknown."""
    return str(Application(**row)) if row else ""


def _application(told: Iterable[v1.Application]) -> Row | None:
    """Return the application that stores were told of; None: none was. It may be new to some."""
    for each in told:
        if each.ByteSize():
            return {
                "name": each.name,
                "program": each.program,
                "host": each.host,
                "process_id": each.process_id,
            }
    return None


TOPIC_COLUMNS = (
    "topic", "sources", "live", "receivers", "messages", "bytes", "unstable", "idle_seconds",
)  # fmt: skip
SOURCE_COLUMNS = (
    "topic", "session_id", "application", "state", "epoch", "first", "newest", "stable_upto",
    "unstable", "stores", "lag", "receivers", "idle_seconds", "bytes",
)  # fmt: skip
RECEIVER_COLUMNS = (
    "topic", "source", "session_id", "application", "acknowledged_upto", "lag", "waited_for",
    "stores", "idle_seconds",
)  # fmt: skip
SUBSCRIBER_COLUMNS = (
    "topics", "pattern", "store", "client", "application", "delivered", "where", "seconds",
    "behind",
)  # fmt: skip


def topic_rows(views: Iterable[SourceView]) -> list[Row]:
    """Return a row for each topic, by name."""
    by_topic: dict[str, list[Row]] = {}
    for row in source_rows(views):
        by_topic.setdefault(row["topic"], []).append(row)
    return [
        {
            "topic": topic,
            "sources": len(rows),
            "live": sum(row["state"] == "live" for row in rows),
            "receivers": sum(row["receivers"] for row in rows),
            "messages": sum(row["newest"] + 1 - row["first"] for row in rows),
            "bytes": sum(row["bytes"] for row in rows),
            "unstable": sum(row["unstable"] for row in rows),
            "idle_seconds": min(row["idle_seconds"] for row in rows),
        }
        for topic, rows in by_topic.items()
    ]


def source_rows(views: Iterable[SourceView]) -> list[Row]:
    """Return a row for each source, by name. Of what stores differ in, the most counts."""
    return [_source_row(view) for view in views]


def _source_row(view: SourceView) -> Row:
    row = view.row()
    newest_first = sorted(view.at.values(), key=lambda each: each.inactive_seconds)
    return {
        "topic": row["topic"],
        "session_id": row["session_id"],
        "application": _application(each.application for each in newest_first),
        "state": row["state"],
        "epoch": row["epoch"],
        "first": row["first"],
        "newest": row["newest"],
        "stable_upto": row["stable_upto"],
        "unstable": view.tail,
        "stores": row["stores"],
        "lag": row["lag"],
        "receivers": len(view.receiver_rows()),
        "idle_seconds": row["silent_seconds"],
        "bytes": max(row["journal_bytes"].values()),
    }


def receiver_rows(views: Iterable[SourceView]) -> list[Row]:
    """Return a row for each receiver of each source."""
    found: list[Row] = []
    for view in views:
        for row in view.receiver_rows():
            told = sorted(
                (
                    each
                    for source in view.at.values()
                    for each in source.receivers
                    if f"{each.session_id:#x}" == row["session_id"]
                ),
                key=lambda each: each.inactive_seconds,
            )
            found.append(
                {
                    "topic": row["topic"],
                    "source": row["source"],
                    "session_id": row["session_id"],
                    "application": _application(each.application for each in told),
                    "acknowledged_upto": row["acknowledged_upto"],
                    "lag": row["lag"],
                    "waited_for": row["waited_for"],
                    "stores": sorted(row["stores"]),
                    "idle_seconds": round(told[0].inactive_seconds, 1),
                }
            )
    return found


def subscriber_rows(told: Mapping[str, Iterable[SubscriptionStatus]]) -> list[Row]:
    """Return a row for each subscription that runs. told: by the store that serves it."""
    found: list[Row] = []
    for store, subscriptions in told.items():
        for each in subscriptions:
            row = {**subscription_row(store, each), "application": _application([each.application])}
            found.append({column: row[column] for column in SUBSCRIBER_COLUMNS})
    return found


def subscription_row(store: str, each: SubscriptionStatus) -> Row:
    """Return what is shown of a subscription at a store, without its application."""
    return {
        "store": store,
        "client": each.client,
        "topics": each.topic or each.pattern,
        "pattern": each.HasField("pattern"),
        "delivered": _DELIVERED.get(each.delivered, "?"),
        "where": each.where or None,
        "seconds": round(each.seconds, 1),
        "behind": each.behind,
        "undecoded": each.undecoded,
    }
