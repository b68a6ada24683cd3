"""The reports of stores on their queues, as one report of the group.

Pure. quorate.console.group.queues asks the stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.protocol.errors import QuorateError, UnknownQueue
from quorate.protocol.identity import StoreAddress
from quorate.v1.queue_pb2 import QueueStatus

Row = dict[str, Any]
Answers = Mapping[StoreAddress, Sequence[QueueStatus] | QuorateError]


@dataclass(slots=True)
class Queues:
    """The rows of a report."""

    rows: list[Row] = field(default_factory=list)
    consumers: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def listed(answers: Answers) -> Queues:
    """Return one row for each queue, and one for each of its consumers."""
    found = Queues()
    found.problems += [str(each) for each in answers.values() if isinstance(each, QuorateError)]
    for name, by_store in by_queue(answers).items():
        dispatchers = [store for store, status in by_store.items() if status.dispatches]
        if not dispatchers:
            found.problems.append(nobody_dispatches(name, by_store.items()))
        dispatcher = dispatchers[0] if dispatchers else None
        status = by_store[dispatcher or next(iter(by_store))]
        found.rows.append(_row(status, dispatcher))
        found.consumers += [
            {
                "queue": name,
                "consumer": each.name,
                "peer": each.peer,
                "has": each.leased,
                "max_backlog": each.max_backlog,
            }
            for each in status.consumers
        ]
    return found


def by_queue(answers: Answers) -> dict[str, dict[str, QueueStatus]]:
    """Return each queue in the order of their names, with what each store reports of it."""
    reports: dict[str, dict[str, QueueStatus]] = {}
    for store, answer in answers.items():
        if not isinstance(answer, QuorateError):
            for status in answer:
                reports.setdefault(status.name, {})[store.name] = status
    return dict(sorted(reports.items()))


def is_unknown(answers: Answers) -> UnknownQueue | None:
    """Return the error of a queue that no store knows, if the stores that answer say so."""
    unknown = [each for each in answers.values() if isinstance(each, UnknownQueue)]
    others = [each for each in answers.values() if not isinstance(each, QuorateError)]
    return unknown[0] if unknown and not others else None


def _row(status: QueueStatus, dispatcher: str | None) -> Row:
    return {
        "queue": status.name,
        "topics": list(status.topics),
        "dispatcher": dispatcher,
        "consumers": len(status.consumers),
        "ready": status.ready,
        "leased": status.leased,
        "waiting": status.waiting,
        "done": status.done,
        "retried": status.retried,
        "dead": status.dead,
    }


def nobody_dispatches(name: str, by_store: Iterable[tuple[str, QueueStatus]]) -> str:
    """Return the sentence that no store that answers dispatches a queue, and what each says."""
    why = "; ".join(
        f"{store}: {status.trouble.removesuffix('.')}"
        for store, status in by_store
        if status.trouble
    )
    return f"No store that answers dispatches the queue {name} now" + (f" ({why})." if why else ".")
