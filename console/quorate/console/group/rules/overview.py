"""The overview of a group at one time: what moves, what waits, and what is wrong.

Pure: two looks at the stores in, rows out. The columns that matter most come first, because a
narrow terminal shows only these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quorate.console.group.rules.assessment import Look, assess
from quorate.console.group.rules.findings import Bounds, Finding
from quorate.console.group.rules.listing import (
    application_text,
    receiver_rows,
    source_rows,
    subscriber_rows,
)
from quorate.console.group.rules.queue_reports import Answers as QueueAnswers
from quorate.console.group.rules.queue_reports import listed
from quorate.console.group.rules.source_findings import tails
from quorate.console.group.rules.source_status import SourceView
from quorate.protocol.errors import QuorateError
from quorate.protocol.figures import mean, rate
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.v1.store_pb2 import StatusResponse, SubscriptionStatus

Row = dict[str, Any]

TAIL_SECONDS = 2.0
"""The time after which a tail that has not moved is a finding."""
_GIB = 1 << 30
_KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Moment:
    """A look at the stores, and its time."""

    look: Look
    at: float
    """Seconds of a clock that never jumps."""


@dataclass(frozen=True, slots=True)
class Overview:
    """The rows of each kind, those that matter most first, and everything that is wrong."""

    stores: list[Row]
    sources: list[Row]
    receivers: list[Row]
    subscribers: list[Row]
    queues: list[Row]
    findings: list[Finding]


def overview(now: Moment, before: Moment | None, bounds: Bounds) -> Overview:
    """Return the overview of a moment. before: an earlier one, for rates; None: there are none."""
    views = now.look.views()
    seconds = now.at - before.at if before is not None else 0.0
    earlier = before.look if before is not None and seconds > 0 else None
    stalled = tails(earlier.views()) if earlier is not None and seconds >= TAIL_SECONDS else {}
    return Overview(
        [
            _store(store, answer, views, _answer(earlier, store), seconds)
            for store, answer in now.look.answers.items()
        ],
        _sources(views, {} if earlier is None else _newest(earlier), seconds),
        _receivers(views),
        _subscribers(now.look, {} if earlier is None else _read(earlier), seconds),
        _queues(now.look.queues, {} if earlier is None else _settled(earlier.queues), seconds),
        assess(now.look, bounds, stalled),
    )


def _answer(look: Look | None, store: StoreAddress) -> StatusResponse | None:
    answer = None if look is None else look.answers.get(store)
    return answer if isinstance(answer, StatusResponse) else None


def _newest(look: Look) -> dict[SourceName, int]:
    return {view.name: view.held_upto for view in look.views()}


def _store(
    store: StoreAddress,
    answer: StatusResponse | QuorateError,
    views: list[SourceView],
    before: StatusResponse | None,
    seconds: float,
) -> Row:
    if isinstance(answer, QuorateError):
        row: Row = dict.fromkeys(_store(store, StatusResponse(), [], None, 0.0))
        return {**row, "store": store.name, "state": type(answer).__name__}
    name = answer.store_name
    of_store = [view for view in views if name not in view.state_only]
    relied_on = [view for view in of_store if view.counts(name)]
    return {
        "store": name or store.name,
        "state": _state(answer),
        "messages/s": _rate(_taken(answer), None if before is None else _taken(before), seconds),
        "KiB/s": _rate(
            answer.bytes / _KIB, None if before is None else before.bytes / _KIB, seconds
        ),
        "lag": max((view.lag.get(name, 0) for view in of_store), default=0),
        "lacking": sum(view.lacking.get(name, 0) for view in relied_on),
        "holes": sum(len(view.at[name].holes) for view in of_store if name in view.at),
        "free_GiB": answer.disk_free_bytes / _GIB,
        "sources": answer.source_count,
        "messages": answer.messages,
        "sync_ms": 1000 * mean(answer.sync_seconds, answer.syncs),
        "repair": answer.repair.now or None,
    }


def _state(answer: StatusResponse) -> str:
    if answer.limbo:
        return "limbo"
    doubted = sum(source.limbo for source in answer.sources)
    return f"limbo for {doubted}" if doubted else "ok"


def _taken(answer: StatusResponse) -> int:
    """Return the messages that a store has, and those that retention let go since its start."""
    return answer.messages + answer.retention.messages


def _rate(now: float, before: float | None, seconds: float) -> float | None:
    """Return how much came each second; None: it is unknown."""
    return None if before is None or seconds <= 0 else rate(now, before, seconds)


def _sources(
    views: list[SourceView], before: Mapping[SourceName, int], seconds: float
) -> list[Row]:
    rows: list[Row] = []
    for view, row in zip(views, source_rows(views), strict=True):
        rows.append(
            {
                "topic": row["topic"],
                "session_id": row["session_id"],
                "state": row["state"],
                "messages/s": _rate(row["newest"], before.get(view.name), seconds),
                "unstable": row["unstable"],
                "lag": max(row["lag"].values(), default=0),
                "stores": len(row["stores"]),
                "receivers": row["receivers"],
                "application": application_text(row["application"]) or None,
                "idle_s": row["idle_seconds"],
                "newest": row["newest"],
            }
        )
    return sorted(rows, key=lambda row: (-(row["messages/s"] or 0.0), -row["unstable"]))


def _receivers(views: list[SourceView]) -> list[Row]:
    rows = [
        {
            "topic": row["topic"],
            "source": row["source"],
            "session_id": row["session_id"],
            "lag": row["lag"],
            "application": application_text(row["application"]) or None,
            "idle_s": row["idle_seconds"],
            "acknowledged_upto": row["acknowledged_upto"],
        }
        for row in receiver_rows(views)
    ]
    return sorted(rows, key=lambda row: -row["lag"])


def _key(store: str, each: SubscriptionStatus) -> tuple[str, str, int]:
    """Return what tells a subscription from all others, also after its store started anew."""
    return store, each.client, each.number


def _read(look: Look) -> dict[tuple[str, str, int], int]:
    """Return how many messages each subscription had read."""
    return {
        _key(store, each): each.read
        for store, subscriptions in look.subscriptions.items()
        for each in subscriptions
    }


def _subscribers(
    look: Look, before: Mapping[tuple[str, str, int], int], seconds: float
) -> list[Row]:
    told = [(store, each) for store, some in look.subscriptions.items() for each in some]
    rows = [
        {
            "topics": row["topics"],
            "store": row["store"],
            "messages/s": _rate(each.read, before.get(_key(store, each)), seconds),
            "lag": row["behind"],
            "application": application_text(row["application"]) or None,
            "delivered": row["delivered"],
            "seconds": row["seconds"],
            "where": row["where"],
        }
        for store, each in told
        for row in subscriber_rows({store: [each]})
    ]
    return sorted(rows, key=lambda row: -row["lag"])


def _settled(answers: QueueAnswers) -> dict[tuple[Any, Any], int]:
    """Return how many messages of each queue its dispatcher had settled."""
    return {_dispatched(row): row["done"] + row["dead"] for row in listed(answers).rows}


def _dispatched(row: Row) -> tuple[Any, Any]:
    """Return a queue with its dispatcher. The counts begin anew with each dispatcher."""
    return row["queue"], row["dispatcher"]


def _queues(
    answers: QueueAnswers, before: Mapping[tuple[Any, Any], int], seconds: float
) -> list[Row]:
    rows = [
        {
            "queue": row["queue"],
            "dispatcher": row["dispatcher"],
            "messages/s": _rate(row["done"] + row["dead"], before.get(_dispatched(row)), seconds),
            "ready": row["ready"],
            "leased": row["leased"],
            "waiting": row["waiting"],
            "dead": row["dead"],
            "consumers": row["consumers"],
        }
        for row in listed(answers).rows
    ]
    return sorted(rows, key=lambda row: (row["dispatcher"] is not None, -row["ready"]))
