"""The queues of a group, as its stores report them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.protocol.errors import QuorateError, UnknownQueue
from quorate.protocol.identity import StoreAddress
from quorate.transport.failures import errors_of
from quorate.v1.queue_pb2 import QueueStatus, ShowQueuesRequest, ShowQueuesResponse
from quorate.v1.queue_pb2_grpc import QueueStub

Row = dict[str, Any]
Answers = Mapping[StoreAddress, Sequence[QueueStatus] | QuorateError]


@dataclass(slots=True)
class Queues:
    """The rows of a report."""

    rows: list[Row] = field(default_factory=list)
    consumers: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


async def ask_all(stores: Sequence[StoreAddress], queue: str, timeout: float) -> Answers:
    """Return the report of each store, or the error in its place. queue: empty: all of them."""

    async def one(store: StoreAddress) -> Sequence[QueueStatus]:
        request = ShowQueuesRequest(queue=queue)
        async with open_channel(store.address) as channel:
            with errors_of(store.address):
                response: ShowQueuesResponse = await QueueStub(channel).ShowQueues(
                    request, timeout=timeout
                )
        return list(response.queues)

    return await answers_of(stores, one)


def listed(answers: Answers) -> Queues:
    """Return one row for each queue, and one for each of its consumers."""
    found = Queues()
    reports: dict[str, dict[str, QueueStatus]] = {}
    for store, answer in answers.items():
        if isinstance(answer, QuorateError):
            found.problems.append(str(answer))
            continue
        for status in answer:
            reports.setdefault(status.name, {})[store.name] = status
    for name, by_store in sorted(reports.items()):
        dispatchers = [store for store, status in by_store.items() if status.dispatches]
        if not dispatchers:
            found.problems.append(_nobody(name, by_store.items()))
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


def _nobody(name: str, by_store: Iterable[tuple[str, QueueStatus]]) -> str:
    why = "; ".join(
        f"{store}: {status.trouble.removesuffix('.')}"
        for store, status in by_store
        if status.trouble
    )
    return f"No store dispatches the queue {name} now" + (f" ({why})." if why else ".")
