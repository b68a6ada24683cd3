"""Findings about queues: nobody dispatches one, nobody takes its jobs, or jobs fail.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.console.group.rules.findings import Bounds, Finding, Kind, Severity
from quorate.console.group.rules.queue_reports import Answers, by_queue, nobody_dispatches
from quorate.v1.queue_pb2 import QueueStatus

_DEAD_RECENTLY_SECONDS = 3600.0


def undispatched(answers: Answers) -> Iterator[Finding]:
    """Yield each queue that no store dispatches, of those that answered."""
    for name, by_store in by_queue(answers).items():
        if not any(status.dispatches for status in by_store.values()):
            yield Finding(
                Severity.CRITICAL, Kind.QUEUE, name,
                nobody_dispatches(name, by_store.items()),
                "Consumers get no jobs. Nothing is lost, and producers go on.",
                "Start the stores that are away, and name all of them to this command. If all are "
                "there, the log of each store says what it waits for.",
            )  # fmt: skip


def of_queues(answers: Answers, bounds: Bounds) -> Iterator[Finding]:
    """Yield everything that is wrong with the queues that these stores report."""
    yield from undispatched(answers)
    for by_store in by_queue(answers).values():
        for status in by_store.values():
            if status.dispatches:
                yield from _backlog(status, bounds)
                yield from _repeated(status)
                yield from _dead(status)


def _backlog(status: QueueStatus, bounds: Bounds) -> Iterator[Finding]:
    """Yield that a queue has no consumer for its jobs, or too many jobs for its consumers."""
    name, backlog = status.name, status.ready + status.waiting
    more = " or more" if status.full else ""
    if status.ready and not status.consumers:
        yield Finding(
            Severity.WARNING, Kind.QUEUE, name,
            f"The queue {name} has no consumer, and {status.ready:,}{more} messages wait for one.",
            "They stay in their topics as long as retention keeps them.",
            f"Start the consumers of the queue. `quorate queue show {name}` names those that the "
            "dispatcher sees.",
        )  # fmt: skip
    elif backlog > bounds.queue_backlog_max or status.full:
        yield Finding(
            Severity.WARNING, Kind.QUEUE, name,
            f"The queue {name} has a backlog of {backlog:,}{more} messages, and "
            f"{len(status.consumers)} consumers.",
            "The consumers are slower than the producers, or were so for a while.",
            "Look at it again. If it grows, start more consumers, or raise their max_backlog.",
        )  # fmt: skip


def _repeated(status: QueueStatus) -> Iterator[Finding]:
    if status.repeated:
        yield Finding(
            Severity.WARNING, Kind.QUEUE, status.name,
            f"{status.repeated:,} messages of the queue {status.name} were handed out in vain "
            f"again and again, one of them {status.most_tries} times.",
            f"A message becomes a dead letter after {status.tries_max} tries.",
            "Look at the logs of the consumers: they fail, go away, or need longer than "
            "lease_seconds.",
        )  # fmt: skip


def _dead(status: QueueStatus) -> Iterator[Finding]:
    if status.dead:
        is_recent = status.dead_seconds_ago < _DEAD_RECENTLY_SECONDS
        minutes = int(status.dead_seconds_ago / 60)
        yield Finding(
            Severity.WARNING if is_recent else Severity.NOTE, Kind.QUEUE, status.name,
            f"{status.dead:,} messages of the queue {status.name} became dead letters since its "
            f"dispatcher began, the last one {minutes:,} minutes ago.",
            "No consumer gets them any more.",
            "Read them in the queue's topic of dead letters: each has its reason. Without such a "
            "topic, the log of the dispatcher names them.",
        )  # fmt: skip
