"""The job that compares what every store has of every source, and says whether anything is lost.

Each store is asked for itself. Of what they say that they hold the digests are compared, for which
no message is read; where those differ, the messages. Spark schedules the ranges. What it all means
is decided in quorate.pipeline.audit.verdict.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from quorate.pipeline.archive.tasks import Run
from quorate.pipeline.audit.answers import ask
from quorate.pipeline.audit.facts import Finding
from quorate.pipeline.audit.holdings import segments
from quorate.pipeline.audit.tasks import audit_part, finding_from_json
from quorate.pipeline.audit.verdict import AuditReport, judge
from quorate.protocol.identity import SourceName

_DIGEST_MESSAGES_MIN = 500_000
"""Of a task: for fewer the digests take less time than the task itself."""
_READ_MESSAGES_MIN = 50_000
_MESSAGES_MAX = 50_000_000
"""Of a task: what has to be done again if its worker dies."""


def _quiet(_: str) -> None:
    """For whoever does not want to be told."""


def audit(
    run: Run,
    addresses: Sequence[str],
    *,
    selects: Callable[[str], bool] = lambda _: True,
    thorough: bool = False,
    parts: int = 2,
    told: Callable[[str], None] = _quiet,
) -> AuditReport:
    """Compare what these stores have of what is stable.

    run: quorate.pipeline.archive.tasks.on_spark. addresses: host:port of every store that is to
    have it: one that is left out can not be vouched for. selects: which topics. thorough: read and
    check every message at every store, not only digests. parts: how many tasks run at the same
    time. told: is told how it goes.
    Raises Unreachable if no store answers, InvalidArgument if two addresses are one store.
    """
    began = time.monotonic()
    answers = ask(addresses, selects)
    report = AuditReport(list(answers.stores), thorough=thorough)
    planned = segments(
        answers.sources,
        parts=parts,
        part_messages_min=_READ_MESSAGES_MIN if thorough else _DIGEST_MESSAGES_MIN,
        part_messages_max=_MESSAGES_MAX,
    )
    count = sum(each.last - each.first + 1 for part in planned for each in part)
    told(f"comparing {count:,} messages of {len(answers.sources):,} sources at each store")
    task = partial(audit_part, addresses=answers.address_of(), thorough=thorough)
    found: dict[SourceName, list[Finding]] = {}
    for entry in run(planned, task):
        if "kind" in entry:
            source, finding = finding_from_json(entry)
            found.setdefault(source, []).append(finding)
        else:
            report.compared += entry["compared"]
            report.read += entry["read"]
    report.sources = [judge(facts, found.get(facts.name, [])) for facts in answers.sources]
    report.seconds = time.monotonic() - began
    return report
