"""What the verdict makes of what stores say, and of what is found by looking."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.pipeline.audit.support import FIRST, POLICY, SECOND

from quorate.pipeline.audit.facts import Copy, Finding, Kind, SourceFacts, StoreFacts, Weight
from quorate.pipeline.audit.holdings import Kept
from quorate.pipeline.audit.verdict import AuditOutcome, AuditReport, SourceVerdict, judge
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy
from quorate.protocol.ranges import Range, RangeSet

ORDERS = SourceName("orders", 0x10)


def ranges(*pairs: tuple[int, int]) -> RangeSet:
    return RangeSet(Range(*pair) for pair in pairs)


def copy(store: str, *held: tuple[int, int], **fields: object) -> Copy:
    made = Copy(store, FIRST, ranges(*held), stable_upto=99)
    return replace(made, **fields)  # type: ignore[arg-type]


def facts(*copies: Copy, **fields: object) -> SourceFacts:
    made = SourceFacts(ORDERS, FIRST, 99, {each.store: each for each in copies}, (POLICY,))
    return replace(made, **fields)  # type: ignore[arg-type]


WHOLE = tuple(copy(store, (0, 99)) for store in ("s0", "s1", "s2"))


def found(verdict: SourceVerdict) -> list[tuple[Kind, tuple[str, ...], int, int]]:
    return [(each.kind, each.stores, each.first, each.last) for each in verdict.findings]


def test_stores_that_all_have_everything_agree() -> None:
    verdict = judge(facts(*WHOLE), [])
    assert verdict.summary == "no loss: 100 messages, 3 stores agree"
    assert (verdict.outcome, verdict.stores) == (AuditOutcome.NO_LOSS, ("s0", "s1", "s2"))
    assert [each.kept for each in verdict.coverage] == [Kept.STABLE]


def test_one_store_does_not_agree_with_anybody() -> None:
    policy = Policy.majority_of(("s0",))
    verdict = judge(facts(WHOLE[0], policies=(policy,)), [])
    assert verdict.summary == "no loss: 100 messages, 1 store has them"


def test_a_source_of_which_nothing_is_stable_has_lost_nothing() -> None:
    verdict = judge(facts(copy("s0"), copy("s1"), copy("s2"), stable_upto=-1), [])
    assert verdict.summary == "no loss: nothing is stable yet"


def test_a_store_that_keeps_state_only_need_not_have_anything() -> None:
    policy = Policy.majority_of(("s0", "s1", "s2", "s3"))
    keeping = copy("s3", takes_data=False)
    verdict = judge(facts(*WHOLE, keeping, policies=(policy,)), [])
    assert verdict.summary == "no loss: 100 messages, 3 stores agree"
    assert verdict.findings == ()
    had = copy("s3", (0, 49), takes_data=False)
    assert judge(facts(*WHOLE, had, policies=(policy,)), []).outcome is AuditOutcome.NO_LOSS
    # It makes up for nobody, either.
    two = judge(facts(*WHOLE[:2], copy("s2"), keeping, policies=(policy,)), [])
    assert {kind for kind, *_ in found(two)} == {Kind.HOLE, Kind.FEW_COPIES}


def test_what_was_let_go_on_purpose_is_no_hole() -> None:
    copies = [copy("s0", (40, 99)), copy("s1", (60, 99)), copy("s2", (0, 99), positions={7: 29})]
    verdict = judge(facts(*copies, retained_from=60), [])
    assert verdict.summary == (
        "no loss: 40 messages, 3 stores agree; retention released numbers below 60"
    )
    assert (
        verdict.positions[0].remarks[1] == "retention released numbers below 60 before it got there"
    )
    assert found(judge(facts(*copies, retained_from=50), [])) == [(Kind.HOLE, ("s1",), 50, 59)]
    emptied = judge(facts(*copies, retained_from=100), [])
    assert emptied.summary.startswith(
        "no loss: nothing is retained; retention released numbers below 100"
    )


def test_what_an_operator_accepted_as_lost_is_never_called_whole() -> None:
    copies = [copy(each.store, (0, 39), (60, 99), losses=ranges((40, 59))) for each in WHOLE]
    verdict = judge(facts(*copies), [])
    assert verdict.outcome is AuditOutcome.LOSS
    assert verdict.summary == "loss: [40, 59] is lost, and an operator accepted it (20 messages)"


def test_a_loss_that_was_accepted_in_part_is_told_in_parts() -> None:
    copies = [copy(each.store, (0, 39), (60, 99), losses=ranges((40, 49))) for each in WHOLE]
    assert found(judge(facts(*copies), [])) == [
        (Kind.ACCEPTED, (), 40, 49),
        (Kind.MISSING, (), 50, 59),
    ]


def test_what_was_accepted_as_lost_and_is_there_is_a_hole_elsewhere() -> None:
    copies = [*WHOLE[:2], copy("s2", (0, 39), (60, 99), losses=ranges((40, 59)))]
    assert found(judge(facts(*copies), [])) == [(Kind.HOLE, ("s2",), 40, 59)]


def test_what_nobody_can_read_is_nowhere() -> None:
    copies = [copy(each.store, (0, 39), (60, 99), unreadable=ranges((40, 59))) for each in WHOLE]
    verdict = judge(facts(*copies), [])
    assert verdict.outcome is AuditOutcome.LOSS
    assert [each.kind for each in verdict.findings] == [Kind.MISSING, *3 * [Kind.UNREADABLE]]


def test_what_a_store_turns_out_not_to_have_counts_for_nothing() -> None:
    looked = [
        Finding(Kind.UNREADABLE, ("s1",), 10, 19, "rot"),
        Finding(Kind.HOLE, ("s2",), 15, 29, "gone"),
    ]
    verdict = judge(facts(*WHOLE), looked)
    assert found(verdict) == [
        (Kind.UNREADABLE, ("s1",), 10, 19),
        (Kind.HOLE, ("s2",), 15, 19),
        (Kind.FEW_COPIES, ("s0",), 15, 19),
        (Kind.HOLE, ("s2",), 20, 29),
    ]
    assert [each.detail for each in verdict.findings[:2]] == ["rot", "held by s0"]
    assert [(each.first, each.last, each.kept) for each in verdict.coverage] == [
        (0, 9, Kept.STABLE),
        (10, 14, Kept.STABLE),
        (15, 19, Kept.TOO_FEW),
        (20, 29, Kept.STABLE),
        (30, 99, Kept.STABLE),
    ]


def test_a_store_that_the_source_sends_to_may_lack_the_newest() -> None:
    verdict = judge(facts(*WHOLE[:2], copy("s2", (0, 79), live=True)), [])
    assert verdict.outcome is AuditOutcome.NO_LOSS
    assert found(verdict) == [(Kind.BEHIND, ("s2",), 80, 99)]
    assert verdict.summary == (
        "no loss: 100 messages, 2 stores agree; s2 is still taking the newest"
    )
    behind_and_holed = judge(facts(*WHOLE[:2], copy("s2", (0, 9), (20, 79), live=True)), [])
    assert found(behind_and_holed)[0] == (Kind.HOLE, ("s2",), 10, 19)


def test_a_member_that_does_not_know_the_source_lacks_all_of_it() -> None:
    verdict = judge(facts(*WHOLE[:2], Copy("s2")), [])
    assert found(verdict) == [(Kind.HOLE, ("s2",), 0, 99)]


def test_a_store_that_is_no_member_need_not_have_anything() -> None:
    verdict = judge(facts(*WHOLE, copy("old", (0, 9))), [])
    assert verdict.summary == "no loss: 100 messages, 3 stores agree"
    assert verdict.coverage[0].stores == ("old", "s0", "s1", "s2")


def test_stores_are_known_by_what_they_call_themselves() -> None:
    policy = Policy.majority_of(("h:1", "h:2", "h:3"))
    called = {"h:1": "s0", "h:2": "s1", "h:3": "s2"}
    verdict = judge(facts(*WHOLE, policies=(policy,), called=called), [])
    assert verdict.outcome is AuditOutcome.NO_LOSS


def test_what_a_store_in_limbo_lacks_is_not_known() -> None:
    limbo = copy("s2", (0, 49), limbo="it was wiped")
    verdict = judge(facts(*WHOLE[:2], limbo), [])
    assert verdict.outcome is AuditOutcome.UNKNOWN
    assert found(verdict) == [(Kind.UNSEEN, ("s2",), 50, 99)]
    assert "it lacks it, but is in limbo: it was wiped" in verdict.findings[0].detail
    alone = judge(facts(copy("s0", (0, 49)), copy("s1", (0, 49)), limbo), [])
    assert "[50, 99]" in alone.summary
    assert alone.outcome is AuditOutcome.UNKNOWN, "it may be nowhere, or only not vouched for"


def test_a_store_in_limbo_that_lacks_nothing_leaves_nothing_open() -> None:
    verdict = judge(facts(*WHOLE[:2], copy("s2", (0, 99), limbo="unclean stop")), [])
    assert verdict.outcome is AuditOutcome.NO_LOSS


def test_a_loss_counts_more_than_a_store_that_was_not_seen() -> None:
    lacking = [copy(store, (0, 39), (60, 99)) for store in ("s0", "s1")]
    seen = judge(facts(*lacking, copy("s2", (0, 39), (60, 99))), [])
    assert seen.outcome is AuditOutcome.LOSS
    unseen = judge(facts(*lacking, unseen={"s2": "it is away"}), [])
    assert unseen.outcome is AuditOutcome.UNKNOWN
    assert "s2 may have it" in unseen.findings[1].detail


def test_a_group_that_lacks_what_the_other_has_is_told_of() -> None:
    policy = Policy(
        (Group("east", ("s0",), IntragroupRule.ALL), Group("west", ("s1", "s2"))),
        IntergroupRule.ALL,
    )
    verdict = judge(facts(copy("s0", (0, 49)), *WHOLE[1:], policies=(policy,)), [])
    assert found(verdict) == [
        (Kind.HOLE, ("s0",), 50, 99),
        (Kind.FEW_COPIES, ("s1", "s2"), 50, 99),
    ]


def test_histories_that_differ_above_what_is_stable_do_not_matter() -> None:
    fine = judge(facts(*WHOLE[:2], copy("s2", (0, 99), lineage=SECOND), stable_upto=49), [])
    assert fine.outcome is AuditOutcome.NO_LOSS
    not_fine = judge(facts(*WHOLE[:2], copy("s2", (0, 99), lineage=SECOND)), [])
    assert (Kind.LINEAGE, ("s2",), 50, 99) in found(not_fine)
    assert not_fine.outcome is AuditOutcome.DIFFERENCE


def test_positions_of_receivers_are_told_with_what_is_odd_about_them() -> None:
    copies = [
        copy("s0", (0, 99), positions={1: 99, 2: 59, 3: 120}),
        copy("s1", (0, 99), positions={1: 99, 2: 49, 3: 120}),
        copy("s2", (0, 99), positions={1: 99, 3: 120}),
    ]
    verdict = judge(facts(*copies), [])
    assert verdict.outcome is AuditOutcome.NO_LOSS
    assert [(each.upto, each.behind, each.remarks) for each in verdict.positions] == [
        (99, 0, ()),
        (59, 40, ("40 behind", "stores differ")),
        (120, 0, ("above the last stable number",)),
    ]
    assert verdict.positions[1].by_store == {"s0": 59, "s1": 49, "s2": -1}


def test_neighbouring_findings_are_told_as_one() -> None:
    looked = [
        Finding(Kind.DIVERGENT, ("s0", "s1"), 10, 12, "s0 against s1"),
        Finding(Kind.DIVERGENT, ("s0", "s1"), 13, 20, "s0 against s1"),
        Finding(Kind.DIVERGENT, ("s0", "s1"), 30, 30, "s0 against s1"),
    ]
    assert [each[2:] for each in found(judge(facts(*WHOLE), looked))] == [(10, 20), (30, 30)]


def test_a_summary_names_a_few_and_counts_the_rest() -> None:
    looked = [Finding(Kind.DUPLICATE, ("s0",), at, at) for at in range(0, 20, 2)]
    verdict = judge(facts(*WHOLE), looked)
    assert verdict.summary.endswith("; and 6 more")
    assert len(verdict.findings) == 10


def test_a_report_is_as_bad_as_the_worst_in_it() -> None:
    good = judge(facts(*WHOLE), [])
    bad = judge(facts(*WHOLE), [Finding(Kind.DUPLICATE, ("s0",), 1, 1)])
    stores = [StoreFacts("s0", "h:1"), StoreFacts("s1", "h:2")]
    assert AuditReport(stores, [good]).outcome.exit_code == 0
    assert AuditReport(stores, [good, bad]).outcome.exit_code == 1
    silent = [*stores, StoreFacts("h:3", "h:3", silence="refused")]
    assert AuditReport(silent, [good]).outcome.exit_code == 10
    assert AuditReport(silent, [good, bad]).outcome.exit_code == 1
    assert "h:3 did not answer" in AuditReport(silent, [good]).summary
    assert AuditReport(stores).summary == "no loss: no source is known"


def test_a_report_can_be_told_as_json() -> None:
    looked = [Finding(Kind.DIVERGENT, ("s0", "s1"), 10, 12, "s0 against s1")]
    said = AuditReport([StoreFacts("s0", "h:1")], [judge(facts(*WHOLE), looked)]).as_object()
    assert json.loads(json.dumps(said)) == said
    assert said["sources"][0]["findings"][0]["kind"] == "divergent"


def test_every_weight_has_an_outcome() -> None:
    assert [AuditOutcome.of([weight]).weight for weight in Weight] == list(Weight)
    assert AuditOutcome.of([]) is AuditOutcome.NO_LOSS
