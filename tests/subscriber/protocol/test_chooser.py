"""The choice of the store that gives a subscription next."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from quorate.protocol.errors import InvalidArgument, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.subscriber.protocol.chooser import Spread, StoreChooser, Tried, Turns, in_order

A, B, C = STORES = tuple(StoreAddress(name, f"{name}:1") for name in "abc")
DOWN = Unreachable("x", "it is down")


def turns_of(choose: StoreChooser, count: int) -> list[str]:
    """The stores of so many turns, of which none gives anything."""
    turns, found = Turns(STORES, choose), []
    for _ in range(count):
        found.append(turns.store.name)
        turns.left(DOWN)
    return found


def test_in_order_begins_at_the_first_and_goes_round() -> None:
    assert turns_of(in_order, 5) == ["a", "b", "c", "a", "b"]


def test_new_subscriptions_spread_over_all_stores() -> None:
    spread = Spread(1)
    assert [Turns(STORES, spread).store.name for _ in range(5)] == ["b", "c", "a", "b", "c"]


def test_a_subscription_that_is_spread_goes_round_from_where_it_began() -> None:
    assert turns_of(Spread(2), 4) == ["c", "a", "b", "c"]


def test_a_turn_lasts_until_the_store_is_left() -> None:
    turns = Turns(STORES, Spread(0))
    assert [turns.store, turns.store] == [A, A]
    turns.left(DOWN)
    assert [turns.store, turns.store] == [B, B]


def test_a_chooser_is_told_what_was_tried_since_anything_was_given() -> None:
    told: list[list[str]] = []

    def choose(_: Sequence[StoreAddress], tried: Sequence[Tried]) -> StoreAddress:
        told.append([f"{each.store.name}: {each.reason.describe()[:1]}" for each in tried])
        return (A, A, B, A, C)[len(told) - 1]

    turns = Turns(STORES, choose)
    for reason in ("x", "y", "z", "w"):
        _ = turns.store
        turns.left(Unreachable(reason, "down"))
        if reason == "z":
            turns.gave()
    assert turns.store == C
    assert told == [[], ["a: x"], ["a: y"], [], ["a: w"]]


@pytest.mark.parametrize("chosen", [StoreAddress("d", "d:1"), "a", None])
def test_a_chooser_must_return_one_of_the_stores(chosen: object) -> None:
    turns = Turns(STORES, lambda *_: chosen)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="not one of the stores"):
        _ = turns.store


def test_a_round_is_over_when_each_store_had_a_turn() -> None:
    turns, rounds, last = Turns(STORES, in_order), [], []
    for _ in range(6):
        last.append(turns.is_last)
        turns.left(DOWN)
        rounds.append(turns.rounds)
    assert rounds == [None, None, 1, None, None, 2]
    assert last == [False, False, True, True, True, True]
    turns.gave()
    assert not turns.is_last
