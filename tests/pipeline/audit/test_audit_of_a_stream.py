"""Auditing while a source sends: what is under way is neither lost nor different."""

from __future__ import annotations

import threading

import pytest
from tests.pipeline.archive.support import here
from tests.pipeline.group import PATIENCE_SECONDS, SESSION, Group

from quorate.pipeline.audit.facts import Weight
from quorate.pipeline.audit.verdict import AuditOutcome, SourceVerdict
from quorate.pipeline.jobs.audit import audit
from quorate.protocol.identity import SourceName

TOPIC = "sending"
ROUNDS = 4
AT_ONCE = 500
A_ROUND = 30_000
"""So many messages are sent while one audit runs, or more than one."""


class Sender:
    """A source that sends as fast as it can, as much as it may."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._may = threading.Semaphore(0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.began = threading.Event()

    def more(self) -> None:
        """Have it send what is for a round, from now on."""
        for _ in range(A_ROUND // AT_ONCE):
            self._may.release()

    def _run(self) -> None:
        with self._group.open(TOPIC) as source:
            source.send_many([b"the first"] * AT_ONCE)
            source.flush()
            self.began.set()
            while self._may.acquire() and not self._over.is_set():
                source.send_many([b"%0100d" % source.next_sequence] * AT_ONCE)

    def __enter__(self) -> Sender:
        self._thread.start()
        assert self.began.wait(PATIENCE_SECONDS)
        self._group.until_stable(SourceName(TOPIC, SESSION), AT_ONCE - 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._may.release()
        self._thread.join()


def audited(group: Group, *, thorough: bool = False) -> SourceVerdict:
    report = audit(here, group.addresses, selects=lambda each: each == TOPIC, thorough=thorough)
    (verdict,) = report.sources
    return verdict


@pytest.mark.processes
@pytest.mark.parametrize("thorough", [False, True])
def test_a_stream_that_goes_on_is_no_loss(own_group: Group, thorough: bool) -> None:
    audits = []
    with Sender(own_group) as sender:
        for _ in range(ROUNDS):
            sender.more()
            audits.append(audited(own_group, thorough=thorough))
    for each in audits:
        assert each.outcome is AuditOutcome.NO_LOSS, each.summary
        assert all(finding.kind.weight is Weight.NOTE for finding in each.findings), each.findings
    assert audits[-1].messages > audits[0].messages, "it was sent meanwhile"
    last = audited(own_group, thorough=thorough)
    assert last.summary == f"no loss: {last.messages:,} messages, 3 stores agree"


@pytest.mark.processes
@pytest.mark.expects_log("does not take")
def test_a_store_that_dies_meanwhile_is_not_vouched_for(own_group: Group) -> None:
    with Sender(own_group) as sender:
        own_group.kill(2)
        sender.more()
        verdict = audited(own_group)
    assert verdict.outcome is AuditOutcome.UNKNOWN, verdict.summary
    assert "s2" in verdict.summary or own_group.addresses[2] in verdict.summary
