"""What the verdict makes of an archive beside the stores."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pipeline.audit.support import FIRST, SECOND
from tests.pipeline.audit.test_verdict import ORDERS, WHOLE, copy, facts, found, ranges

from quorate.pipeline.audit.archive_comparison import archive_segments
from quorate.pipeline.audit.facts import ARCHIVE, ArchivedCopy, Finding, Kind, SourceFacts
from quorate.pipeline.audit.holdings import Segment
from quorate.pipeline.audit.verdict import AuditOutcome, judge
from quorate.protocol.ranges import Range


def archived(*has: tuple[int, int], **fields: object) -> ArchivedCopy:
    """Return an archive that has these numbers, and had them when the stores were asked."""
    first, last = has[0][0], has[-1][1]
    made = ArchivedCopy(FIRST, first, last, last, ranges(*has))
    return replace(made, **fields)  # type: ignore[arg-type]


def letting_go(first: int, *archive: tuple[int, int]) -> SourceFacts:
    """Return facts of stores that have released everything below a number."""
    copies = [copy(each.store, (first, 99)) for each in WHOLE]
    return facts(*copies, retained_from=first, archived=archived(*archive))


def test_an_archive_that_has_everything_is_no_finding() -> None:
    verdict = judge(facts(*WHOLE, archived=archived((0, 99))), [])
    assert verdict.findings == ()
    assert verdict.summary == (
        "no loss: 100 messages, 3 stores agree; the archive has 100 messages of [0, 99]"
    )


def test_what_the_archive_has_not_taken_yet_is_a_note() -> None:
    verdict = judge(facts(*WHOLE, archived=archived((0, 59))), [])
    assert found(verdict) == [(Kind.WAITING, (ARCHIVE,), 60, 99)]
    assert verdict.outcome is AuditOutcome.NO_LOSS
    nothing = judge(facts(*WHOLE, archived=ArchivedCopy()), [])
    assert found(nothing) == [(Kind.WAITING, (ARCHIVE,), 0, 99)]
    assert nothing.summary.endswith("; the archive has nothing of it")


def test_what_retention_let_go_of_is_in_the_archive() -> None:
    verdict = judge(letting_go(40, (0, 99)), [])
    assert (verdict.outcome, verdict.findings) == (AuditOutcome.NO_LOSS, ())


@pytest.mark.parametrize(
    ("has", "lost"),
    [([(0, 29)], [(30, 39)]), ([(10, 99)], [(0, 9)]), ([(0, 9), (20, 99)], [(10, 19)])],
)
def test_what_retention_let_go_of_and_the_archive_lacks_is_lost(
    has: list[tuple[int, int]], lost: list[tuple[int, int]]
) -> None:
    verdict = judge(letting_go(40, *has), [])
    gone = [each for each in found(verdict) if each[0] is Kind.NOT_ARCHIVED]
    assert gone == [(Kind.NOT_ARCHIVED, (ARCHIVE,), *each) for each in lost]
    assert verdict.outcome is AuditOutcome.LOSS
    first, last = lost[0]
    assert f"retention released [{first}, {last}], and the archive lacks it" in verdict.summary


def test_a_store_that_kept_longer_keeps_it_from_being_lost() -> None:
    copies = [copy("s0", (0, 99)), *(copy(each, (40, 99)) for each in ("s1", "s2"))]
    made = facts(*copies, retained_from=40, archived=archived((10, 99)))
    assert found(judge(made, [])) == [(Kind.WAITING, (ARCHIVE,), 0, 9)]


def test_a_store_that_is_away_may_still_have_what_the_archive_lacks() -> None:
    made = replace(letting_go(40, (0, 29)), unseen={"s3": "refused"})
    verdict = judge(made, [])
    assert verdict.outcome is AuditOutcome.UNKNOWN
    assert (Kind.UNSEEN, ("s3",), 30, 39) in found(verdict)


def test_a_hole_of_the_archive_that_stores_could_fill_is_a_difference() -> None:
    verdict = judge(facts(*WHOLE, archived=archived((0, 29), (40, 99))), [])
    assert verdict.summary == ("difference: the archive lacks [30, 39]")
    assert verdict.findings[0].detail == "held by s0, s1, s2"


def test_what_only_the_archive_has_is_no_loss_but_a_difference() -> None:
    copies = [copy(each.store, (0, 39), (60, 99)) for each in WHOLE]
    verdict = judge(facts(*copies, archived=archived((0, 49))), [])
    assert found(verdict)[:2] == [
        (Kind.MISSING, (), 50, 59),
        (Kind.ONLY_ARCHIVED, (ARCHIVE,), 40, 49),
    ]
    accepted = [copy(each.store, (0, 39), (60, 99), losses=ranges((40, 59))) for each in WHOLE]
    there = judge(facts(*accepted, archived=archived((0, 99))), [])
    assert found(there) == [(Kind.ONLY_ARCHIVED, (ARCHIVE,), 40, 59)]
    assert there.outcome is AuditOutcome.DIFFERENCE


def test_what_the_archive_has_above_the_stable_is_an_error() -> None:
    verdict = judge(facts(*WHOLE, archived=archived((0, 119))), [])
    assert found(verdict) == [(Kind.BEYOND, (ARCHIVE,), 100, 119)]
    assert verdict.outcome is AuditOutcome.DIFFERENCE
    away = judge(facts(*WHOLE, archived=archived((0, 119)), unseen={"s3": "refused"}), [])
    assert away.outcome is AuditOutcome.UNKNOWN


def test_what_was_archived_while_the_stores_were_asked_is_not_above_the_stable() -> None:
    verdict = judge(facts(*WHOLE, archived=archived((0, 119), told_upto=99)), [])
    assert verdict.findings == ()


def test_an_archive_of_another_history_is_not_compared_by_content() -> None:
    made = facts(*WHOLE, archived=archived((0, 99), lineage=SECOND))
    verdict = judge(made, [])
    assert found(verdict) == [(Kind.LINEAGE, (ARCHIVE,), 50, 99)]
    assert verdict.summary == "difference: the archive has another history from 50 on"
    assert segments_of(made) == [Segment(ORDERS, FIRST, 0, 49, ("s0", "s1", "s2"))]


def test_a_source_that_no_store_knows_leaves_the_verdict_open() -> None:
    alone = SourceFacts(ORDERS, FIRST, -1, {}, archived=archived((10, 99)))
    verdict = judge(alone, [])
    assert verdict.summary == (
        "not known: no store knows the source, of which the archive has [10, 99]"
    )
    assert segments_of(alone) == [Segment(ORDERS, FIRST, 10, 99, ())]
    broken = judge(alone, [Finding(Kind.UNREADABLE, (ARCHIVE,), 20, 29, "rot")])
    assert broken.outcome is AuditOutcome.DIFFERENCE


def test_what_the_archive_cannot_read_it_does_not_have() -> None:
    rotten = [Finding(Kind.UNREADABLE, (ARCHIVE,), 20, 49, "rot")]
    assert found(judge(letting_go(40, (0, 99)), rotten)) == [
        (Kind.NOT_ARCHIVED, (ARCHIVE,), 20, 39),
        (Kind.UNREADABLE, (ARCHIVE,), 20, 49),
        (Kind.HOLE, (ARCHIVE,), 40, 49),
    ]


def test_segments_say_who_holds_what_the_archive_has() -> None:
    copies = [copy("s0", (20, 99)), copy("s1", (40, 99)), copy("s2", (40, 99))]
    made = facts(*copies, retained_from=40, archived=archived((0, 59)))
    assert segments_of(made) == [
        Segment(ORDERS, FIRST, 0, 19, ()),
        Segment(ORDERS, FIRST, 20, 39, ("s0",)),
        Segment(ORDERS, FIRST, 40, 59, ("s0", "s1", "s2")),
    ]
    assert sum(len(Range(each.first, each.last)) for each in segments_of(made)) == 60


def segments_of(made: SourceFacts) -> list[Segment]:
    (part,) = archive_segments([made], parts=1, part_messages_min=1, part_messages_max=1_000_000)
    return list(part)
