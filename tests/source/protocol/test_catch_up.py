"""Whether a new policy has what the old ones made stable."""

from __future__ import annotations

from itertools import product

from quorate.protocol.policy import Group, IntragroupRule, Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.source.protocol.catch_up import (
    LOOK_SECONDS,
    BringingUp,
    lacking,
)

OLD, NEW = Policy.majority_of("abc"), Policy.majority_of("cde")


def held(*ranges: tuple[int, int]) -> RangeSet:
    return RangeSet(Range(*item) for item in ranges)


def test_lacking_against_the_definition() -> None:
    numbers = range(4)
    contents = [set(), {0, 1}, {1, 2, 3}, {0, 1, 2, 3}, {0, 3}]
    for a, c, d, e in product(contents, repeat=4):
        by_store = {"a": a, "c": c, "d": d, "e": e}
        expected = {
            number
            for number in numbers
            if any(number in has for has in by_store.values())
            and sum(number in by_store[store] for store in "cde") < 2
        }
        sets = {
            store: RangeSet(Range(number, number) for number in sorted(has))
            for store, has in by_store.items()
        }
        found = {n for item in lacking(NEW, sets, 3) for n in range(item.first, item.last + 1)}
        assert found == expected


def test_only_what_is_asked_about_is_lacking() -> None:
    assert lacking(NEW, {"a": held((0, 9)), "c": held((0, 4)), "d": held((0, 4))}, 4) == []
    assert lacking(NEW, {"a": held((0, 9))}, -1) == []
    # What nobody has can not be brought up: an operator accepted it as lost, or it was let go.
    assert lacking(NEW, {"a": held((5, 9)), "c": held((5, 9)), "e": held((5, 9))}, 9) == []


def test_all_active_means_all_that_were_heard() -> None:
    policy = Policy((Group("g", tuple("cde"), IntragroupRule.ALL_ACTIVE),))
    two = {"c": held((0, 9)), "d": held((0, 9))}
    assert lacking(policy, two, 9) == []
    assert lacking(policy, {**two, "e": held((0, 3))}, 9) == [Range(4, 9)]


def test_it_is_ready_once_enough_were_heard_and_nothing_is_lacking() -> None:
    bringing = BringingUp((OLD, NEW), NEW)
    for store in "abcde":
        bringing.joined(store, 0.0)
    assert bringing.due(0.0) == list("abcde")
    assert bringing.due(0.0) == []
    for store in "cde":
        bringing.answered(store, held((0, 9)), 0.1)
    # Of the old ones only one was heard: the others may have more.
    assert not bringing.ready(9)
    bringing.answered("a", held((0, 10)), 0.1)
    assert bringing.ready(9)
    assert not bringing.ready(10)


def test_stores_are_asked_again_and_those_that_left_do_not_count() -> None:
    bringing = BringingUp((OLD, NEW), NEW)
    for store in "ac":
        bringing.joined(store, 0.0)
    bringing.due(0.0)
    bringing.answered("a", held((0, 9)), 0.1)
    bringing.answered("c", None, 0.1)
    assert not bringing.ready(-1)
    assert bringing.due(0.1) == []
    assert bringing.due(0.1 + LOOK_SECONDS) == ["a", "c"]
    bringing.left("a")
    bringing.answered("a", held((0, 9)), 1.0)
    bringing.answered("c", held((0, 9)), 1.0)
    assert not bringing.ready(-1)


def test_what_only_the_old_stores_know_was_let_go_is_to_be_known_to_the_new_ones() -> None:
    """They are switched off, and then nobody could tell it from what is missing."""
    bringing = BringingUp((OLD, NEW), NEW)
    for store in "abcde":
        bringing.joined(store, 0.0)
    bringing.answered("a", held((7, 9)), 0.1, 7)
    bringing.answered("b", held((0, 9)), 0.1)
    for store in "de":
        bringing.answered(store, held((5, 9)), 0.1)
    assert not bringing.ready(9)
    bringing.answered("d", held((5, 9)), 0.2, 5)
    assert not bringing.ready(9)
    bringing.answered("e", held((6, 9)), 0.2, 7)
    assert bringing.ready(9)
    # What is held need not have been let go.
    bringing.answered("d", held((0, 9)), 0.3)
    assert bringing.ready(9)


def test_what_was_let_go_above_what_is_to_be_had_does_not_matter() -> None:
    bringing = BringingUp((OLD, NEW), NEW)
    for store, known_from in zip("abcde", (9, 9, 4, 4, 4), strict=True):
        bringing.joined(store, 0.0)
        bringing.answered(store, held((known_from, 9)), 0.1, known_from)
    assert bringing.ready(9)


def test_a_store_that_cannot_read_what_it_had_says_nothing_of_what_it_does_not_name() -> None:
    bringing = BringingUp((OLD, NEW), NEW)
    for store in "acde":
        bringing.joined(store, 0.0)
        bringing.answered(store, held((0, 9)), 0.1, vouches=store != "a")
    assert not bringing.ready(9)
    bringing.answered("a", held((0, 9)), 0.2)
    assert bringing.ready(9)
