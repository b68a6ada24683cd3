"""Where a receiver starts, by what stores say of it and of the stream."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.receiver.fakes import NAME
from tests.receiver.subscribed import to_all_of, to_what_was_there

from quorate.protocol.consensus import StartingPoint
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group as PolicyGroup
from quorate.protocol.policy import IntergroupRule, Policy
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.protocol.start_position import (
    StoreAnswer,
    chosen_again,
    decide_start,
    has_position,
)
from quorate.receiver.start import Start

ONE = Lineage((Term(1, 0),))
POLICY = Policy.majority_of("abc")
ALL = to_all_of(NAME)


def answer(acknowledged_upto: int, high: int, lineage: Lineage = ONE) -> StoreAnswer:
    return StoreAnswer(1, True, acknowledged_upto, high, high, lineage)


def test_a_new_receiver_starts_at_the_beginning() -> None:
    start = decide_start(NAME, POLICY, {"a": answer(NOTHING, 9)}, ReceiverOptions(), ALL)
    assert (start.first, start.point.high) == (0, 9)


def test_an_outdated_lineage_counts_as_far_as_it_agrees() -> None:
    newest = ONE.extended(4, 2)
    answers = {"a": answer(8, 9), "b": answer(8, 9), "c": answer(2, 6, newest)}
    start = decide_start(NAME, POLICY, answers, ReceiverOptions(), ALL)
    assert (start.first, start.point.high, start.stable_upto) == (5, 6, 6)
    assert start.lineage is newest


def test_a_position_ahead_of_the_stores_that_answer_holds() -> None:
    start = decide_start(
        NAME, POLICY, {"a": answer(9, 3), "b": answer(9, 3)}, ReceiverOptions(), ALL
    )
    assert start.first == 10


def test_a_receiver_that_nobody_knew_starts_at_what_is_still_there() -> None:
    """A store that keeps more than the others counts; one that has nothing does not."""
    kept = StoreAnswer(1, True, -1, 99, 99, ONE, low=70, retained_from=70, is_new=True)
    policy = Policy.majority_of("abc")
    options = ReceiverOptions()

    def start(*answers: StoreAnswer) -> tuple[int, bool]:
        decided = decide_start(NAME, policy, dict(zip("abc", answers, strict=False)), options, ALL)
        return decided.first, decided.says_start

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
        decided = decide_start(NAME, policy, answers, ReceiverOptions(), ALL)
        return decided.first, decided.says_start

    assert start("abc") == (0, False)
    assert start("abcx") == (0, False)
    assert start("abxy", limbo="x") == (0, False)
    assert start("abxy") == (70, True)


def at_the_end(point: StartingPoint) -> int:
    return point.high + 1


@pytest.mark.parametrize(
    ("options", "newest", "first"),
    [
        (ReceiverOptions(choose_start=at_the_end), 4, 5),
        (ReceiverOptions(choose_start=at_the_end), NOTHING, 0),
        (ReceiverOptions(choose_start=lambda _: 10**18), 4, 5),
        (ReceiverOptions(choose_start=lambda _: 10**18), NOTHING, 0),
        (ReceiverOptions(choose_start=lambda _: 7), NOTHING, 7),
        (ReceiverOptions(request_maximum=2), 4, 2),
        (ReceiverOptions(request_maximum=2), NOTHING, 0),
    ],
)
def test_what_came_after_the_receiver_subscribed_is_new(
    options: ReceiverOptions, newest: int, first: int
) -> None:
    answers = {store: answer(NOTHING, 9) for store in "abc"}
    seen = to_what_was_there(NAME, newest)
    start = decide_start(NAME, POLICY, answers, options, seen)
    assert (start.first, start.high) == (first, 9)


def test_a_position_above_what_was_seen_holds() -> None:
    """The stores that told of the source first were behind."""
    answers = {store: answer(6, 9) for store in "abc"}
    options = ReceiverOptions(choose_start=at_the_end)
    assert decide_start(NAME, POLICY, answers, options, to_what_was_there(NAME, 2)).first == 7


NOW = Start.since(datetime(2026, 1, 31, tzinfo=UTC))


@pytest.mark.parametrize(
    ("start", "newest", "first"),
    [
        (Start.EARLIEST, 4, 0),
        (Start.LATEST, 4, 5),
        (Start.LATEST, 9, 10),
        (Start.LATEST, NOTHING, 0),
        (Start.last(2), 9, 8),
        (Start.last(2), 4, 3),
        (Start.last(99), 9, 0),
        (Start.last(2), NOTHING, 0),
        (Start.at(7), 9, 7),
        (Start.at(7), NOTHING, 7),
        (Start.at(10), 9, 10),
        (Start.at(10**6), 9, 10),
        (Start.at(10**6), 4, 5),
        (Start.at(10**6), NOTHING, 0),
        (NOW, 9, 6),
        (NOW, NOTHING, 6),
    ],
)
def test_a_start_decides_if_no_store_has_a_position(start: Start, newest: int, first: int) -> None:
    answers = {store: answer(NOTHING, 9) for store in "abc"}
    seen = to_what_was_there(NAME, newest)
    located = {"a": 2, "b": 6}
    decided = decide_start(NAME, POLICY, answers, ReceiverOptions(), seen, start, located)
    assert decided.first == first
    assert decided.says_start is (start != Start.EARLIEST and first > 0)


@pytest.mark.parametrize("start", [Start.EARLIEST, Start.LATEST, Start.at(2), NOW])
def test_a_position_decides_before_a_start(start: Start) -> None:
    """Also if one store alone has it."""
    answers = {"a": answer(NOTHING, 9), "b": answer(6, 9), "c": answer(6, 9)}
    decided = decide_start(NAME, POLICY, answers, ReceiverOptions(), ALL, start, {"a": 5})
    assert (decided.first, decided.says_start) == (7, False)
    answers = {"a": answer(NOTHING, 9), "b": answer(6, 9)}
    assert has_position(POLICY, answers)


def test_a_group_that_is_away_may_have_a_position() -> None:
    policy = Policy(
        (PolicyGroup("g", tuple("abc")), PolicyGroup("h", tuple("xyz"))), IntergroupRule.ANY
    )
    some, rest = {store: answer(NOTHING, 9) for store in "abc"}, {"x": answer(NOTHING, 9)}
    assert has_position(policy, some)
    assert has_position(policy, some | rest)
    assert not has_position(policy, some | rest | {"y": answer(NOTHING, 9)})


def test_released_messages_are_not_waited_for_unless_a_number_names_them() -> None:
    kept = StoreAnswer(1, True, -1, 99, 99, ONE, low=70, retained_from=70, is_new=True)
    answers = dict.fromkeys("abc", kept)

    def first(start: Start) -> int:
        located = {"a": 0}
        return decide_start(NAME, POLICY, answers, ReceiverOptions(), ALL, start, located).first

    assert [first(start) for start in (Start.last(50), NOW, Start.EARLIEST)] == [70, 70, 70]
    assert first(Start.at(30)) == 30, "the receiver is told of the gap"


def test_a_store_with_an_outdated_lineage_locates_only_what_it_shares() -> None:
    newest = ONE.extended(4, 2)
    answers = {"a": answer(-1, 90), "b": answer(-1, 20, newest), "c": answer(-1, 20, newest)}
    located = {"a": 91, "b": 3}
    decided = decide_start(NAME, POLICY, answers, ReceiverOptions(), ALL, NOW, located)
    assert decided.first == 5


def test_the_request_maximum_limits_a_start() -> None:
    answers = {store: answer(NOTHING, 9) for store in "abc"}
    options = ReceiverOptions(request_maximum=2)
    assert decide_start(NAME, POLICY, answers, options, ALL, Start.at(3)).first == 7


@pytest.mark.parametrize(
    ("choice", "first"),
    [
        (None, 6),
        (2, 6),  # as it was
        (4, 4),
        (8, 8),
        (10, 10),  # only what is new
    ],
)
def test_a_choice_holds_and_an_unchanged_start_moves_with_the_positions(
    choice: int | None, first: int
) -> None:
    options = ReceiverOptions(choose_start=None if choice is None else lambda _: choice)
    before = decide_start(NAME, POLICY, dict.fromkeys("ab", answer(1, 9)), options, ALL)
    again = replace(options, choose_start=chosen_again(before))
    answers = dict.fromkeys("ab", answer(5, 9))
    assert decide_start(NAME, POLICY, answers, again, ALL).first == first


def test_a_choice_that_is_no_longer_there_means_only_what_is_new() -> None:
    options = ReceiverOptions(choose_start=lambda _: 8)
    before = decide_start(NAME, POLICY, dict.fromkeys("ab", answer(1, 9)), options, ALL)
    again = replace(options, choose_start=chosen_again(before))
    assert decide_start(NAME, POLICY, dict.fromkeys("ab", answer(1, 3)), again, ALL).first == 4
