"""Where a receiver starts, by what stores say of it and of the stream."""

from __future__ import annotations

from dataclasses import replace

from tests.receiver.fakes import NAME

from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group as PolicyGroup
from quorate.protocol.policy import IntergroupRule, Policy
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.start_position import (
    StoreAnswer,
    decide_start,
)

ONE = Lineage((Term(1, 0),))
POLICY = Policy.majority_of("abc")


def answer(acknowledged_upto: int, high: int, lineage: Lineage = ONE) -> StoreAnswer:
    return StoreAnswer(1, True, acknowledged_upto, high, high, lineage)


def test_a_new_receiver_starts_at_the_beginning() -> None:
    start = decide_start(NAME, POLICY, {"a": answer(NOTHING, 9)}, ReceiverOptions())
    assert (start.first, start.point.high) == (0, 9)


def test_an_outdated_lineage_counts_as_far_as_it_agrees() -> None:
    newest = ONE.extended(4, 2)
    answers = {"a": answer(8, 9), "b": answer(8, 9), "c": answer(2, 6, newest)}
    start = decide_start(NAME, POLICY, answers, ReceiverOptions())
    assert (start.first, start.point.high, start.stable_upto) == (5, 6, 6)
    assert start.lineage is newest


def test_a_position_ahead_of_the_stores_that_answer_holds() -> None:
    start = decide_start(NAME, POLICY, {"a": answer(9, 3), "b": answer(9, 3)}, ReceiverOptions())
    assert start.first == 10


def test_a_receiver_that_nobody_knew_starts_at_what_is_still_there() -> None:
    """A store that keeps more than the others counts; one that has nothing does not."""
    kept = StoreAnswer(1, True, -1, 99, 99, ONE, low=70, retained_from=70, is_new=True)
    policy = Policy.majority_of("abc")
    options = ReceiverOptions()

    def start(*answers: StoreAnswer) -> tuple[int, bool]:
        decided = decide_start(NAME, policy, dict(zip("abc", answers, strict=False)), options)
        return decided.first, decided.is_new

    assert start(kept, kept) == (70, True)
    assert start(kept, replace(kept, low=40)) == (40, True)
    assert start(kept, replace(kept, low=0)) == (0, False), "nothing was let go that it could have"
    assert start(kept, replace(kept, low=-1, high=-1, retained_from=0)) == (70, True)
    assert start(kept, replace(kept, low=-1)) == (70, True)
    # One that was registered is owed everything: it is told of the gap.
    assert start(kept, replace(kept, is_new=False)) == (0, False)
    # Without retention a hole at the beginning is no reason to leave anything out.
    assert start(replace(kept, retained_from=0), replace(kept, retained_from=0)) == (0, False)


def test_a_receiver_is_new_only_if_no_group_that_is_away_may_know_it() -> None:
    """What it never acknowledged may have been let go here: that is no beginning, but a gap."""
    policy = Policy(
        (PolicyGroup("g", tuple("abc")), PolicyGroup("h", tuple("xyz"))), IntergroupRule.ANY
    )
    kept = StoreAnswer(1, True, -1, 99, 99, ONE, low=70, retained_from=70, is_new=True)

    def start(stores: str, limbo: str = "") -> tuple[int, bool]:
        answers = {store: replace(kept, limbo=store in limbo) for store in stores}
        decided = decide_start(NAME, policy, answers, ReceiverOptions())
        return decided.first, decided.is_new

    assert start("abc") == (0, False)
    assert start("abcx") == (0, False)
    assert start("abxy", limbo="x") == (0, False)
    assert start("abxy") == (70, True)
