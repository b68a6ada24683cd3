"""The audit: the job that compares what every store has of every source, and looks for losses.

The job asks each store by itself, and reads an archive if it is given one. It compares the digests
of the ranges that these hold, for which no message is read. Where digests differ it compares the
messages. Spark schedules the ranges.
quorate.pipeline.audit.verdict decides what the findings mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from quorate.archive.reading import Archive
from quorate.pipeline.archive.tasks import Run
from quorate.pipeline.audit.answers import ask
from quorate.pipeline.audit.archive_comparison import archive_segments, compare_archive
from quorate.pipeline.audit.archived import ask_with_archive
from quorate.pipeline.audit.facts import Finding
from quorate.pipeline.audit.holdings import segments
from quorate.pipeline.audit.tasks import audit_part, finding_from_json
from quorate.pipeline.audit.verdict import AuditReport, judge
from quorate.protocol.figures import numbers_in
from quorate.protocol.identity import SourceName

_DIGEST_MESSAGES_MIN = 500_000
"""Fewest messages of a task. The digests of fewer take less time than starting the task."""
_READ_MESSAGES_MIN = 50_000
_MESSAGES_MAX = 50_000_000
"""Most messages of a task. All of them are compared again if its worker dies."""


def _quiet(_: str) -> None:
    """Drop a line about the progress of the job."""


def audit(
    run: Run,
    addresses: Sequence[str],
    *,
    selects: Callable[[str], bool] = lambda _: True,
    thorough: bool = False,
    parts: int = 2,
    archive: str | None = None,
    told: Callable[[str], None] = _quiet,
) -> AuditReport:
    """Compare the stable messages that these stores have.

    - run: runs the tasks, as quorate.pipeline.archive.tasks.on_spark does.
    - addresses: host:port of every store of the policies. A missing one counts as not seen.
    - selects: returns whether the audit includes a topic.
    - thorough: read and check every message at every store, not only digests.
    - parts: the number of tasks that run at the same time.
    - archive: the path of an archive, to be compared with the stores; None: none.
    - told: a function that gets lines about the progress.

    Raises Unreachable if no store answers, InvalidArgument if two addresses are one store, and the
    errors of reading the archive: ArchiveInvalid, ArchiveNewer, ArchiveUnusable.
    """
    began = time.monotonic()
    answers = (
        ask(addresses, selects)
        if archive is None
        else ask_with_archive(addresses, Archive(archive), selects)
    )
    report = AuditReport(list(answers.stores), thorough=thorough, archive=archive or "")
    least = _READ_MESSAGES_MIN if thorough else _DIGEST_MESSAGES_MIN
    sizes = {"parts": parts, "part_messages_min": least, "part_messages_max": _MESSAGES_MAX}
    planned = segments(answers.sources, **sizes)
    count = sum(map(numbers_in, planned))
    told(f"comparing {count:,} messages of {len(answers.sources):,} sources at each store")
    at = answers.address_of()
    task = partial(audit_part, addresses=at, thorough=thorough)
    entries = run(planned, task)
    if archive is not None:
        archived = archive_segments(answers.sources, **sizes)
        told(f"comparing {sum(map(numbers_in, archived)):,} messages of the archive")
        task = partial(compare_archive, path=archive, addresses=at, thorough=thorough)
        entries += run(archived, task)
    found: dict[SourceName, list[Finding]] = {}
    for entry in entries:
        if "kind" in entry:
            source, finding = finding_from_json(entry)
            found.setdefault(source, []).append(finding)
        else:
            report.compared += entry.get("compared", 0)
            report.archived += entry.get("archived", 0)
            report.read += entry["read"]
    report.sources = [judge(facts, found.get(facts.name, [])) for facts in answers.sources]
    report.seconds = time.monotonic() - began
    return report
