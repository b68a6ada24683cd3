"""Findings about queues: for each one, reports that cause it and reports that do not."""

from __future__ import annotations

import pytest

from quorate.console.group.rules.findings import Bounds, Finding, Kind, Severity
from quorate.console.group.rules.queue_findings import of_queues
from quorate.console.group.rules.queue_reports import Answers
from quorate.console.group.status import compare
from quorate.protocol.errors import Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.v1.queue_pb2 import ConsumerStatus, QueueStatus

A, B = StoreAddress("a", "a:1"), StoreAddress("b", "b:1")
ONE = (ConsumerStatus(name="w1"),)


def told(*, consumers: tuple[ConsumerStatus, ...] = ONE, **fields: object) -> Answers:
    """Return what two stores report of a queue that the first one dispatches."""
    status = QueueStatus(name="work", dispatches=True, consumers=consumers, **fields)  # type: ignore[arg-type]
    return {A: [status], B: [QueueStatus(name="work")]}


def found(answers: Answers, backlog_max: int = 10_000) -> list[Finding]:
    return list(of_queues(answers, Bounds(queue_backlog_max=backlog_max)))


def only(answers: Answers, backlog_max: int = 10_000) -> Finding:
    (finding,) = found(answers, backlog_max)
    assert (finding.kind, finding.subject) == (Kind.QUEUE, "work")
    assert finding.what.endswith(".")
    assert finding.means.endswith(".")
    assert finding.next.endswith(".")
    return finding


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {A: []},
        {A: Unreachable("a:1", "refused")},
        told(),
        told(consumers=()),
        told(ready=6_000, waiting=4_000, leased=10_000, done=7, retried=3),
    ],
)
def test_nothing_is_wrong(answers: Answers) -> None:
    assert found(answers) == []


def test_a_queue_that_no_store_dispatches_is_a_problem_of_the_status_too() -> None:
    answers: Answers = {
        A: Unreachable("a:1", "refused"),
        B: [QueueStatus(name="work", trouble="It has no quorum.")],
    }
    finding = only(answers)
    assert finding.severity is Severity.CRITICAL
    assert (
        finding.what == "No store that answers dispatches the queue work now (b: It has no quorum)."
    )
    assert compare({}, 0, queues=answers).problems == [str(finding)]
    assert compare({}, 0, queues=told(dead=1, repeated=1)).healthy, "it stops no update"


def test_a_queue_without_a_consumer() -> None:
    finding = only(told(consumers=(), ready=20_000, full=True))
    assert finding.severity is Severity.WARNING
    assert finding.what.endswith("no consumer, and 20,000 or more messages wait for one.")


def test_a_backlog_over_its_bound() -> None:
    assert "a backlog of 10,001 messages" in only(told(ready=10_001)).what
    assert "a backlog of 5 messages" in only(told(ready=2, waiting=3), backlog_max=4).what
    large = only(told(ready=900, full=True))
    assert "a backlog of 900 or more messages" in large.what, "they are large"


def test_messages_that_fail_again_and_again() -> None:
    finding = only(told(repeated=3, most_tries=4, tries_max=5))
    assert finding.severity is Severity.WARNING
    assert finding.what.startswith("3 messages of the queue work were handed out in vain")
    assert finding.means == "A message becomes a dead letter after 5 tries."


@pytest.mark.parametrize(
    ("seconds", "severity"), [(3599.0, Severity.WARNING), (3601.0, Severity.NOTE)]
)
def test_dead_letters_are_a_note_after_an_hour(seconds: float, severity: Severity) -> None:
    finding = only(told(dead=2, dead_seconds_ago=seconds))
    assert finding.severity is severity
    assert finding.what.startswith("2 messages of the queue work became dead letters")
