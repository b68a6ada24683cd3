"""A subscriber takes messages only behind its place, from any store."""

from __future__ import annotations

import pytest

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.errors import BrokenAnswer
from quorate.protocol.identity import SourceName
from quorate.subscriber.protocol.follower import Follower

ORDERS = SourceName("orders", 1)


def test_it_goes_on_behind_a_position() -> None:
    follower = Follower(Position({ORDERS: Place(1, 4)}))
    follower.consecutive("a", ORDERS, 1, 5, 9)
    follower.moved("a", ORDERS, Place(2, 12))
    assert follower.position == {ORDERS: Place(2, 12)}


@pytest.mark.parametrize(("first", "last"), [(4, 9), (0, 3), (6, 9)])
def test_nothing_twice_and_nothing_left_out(first: int, last: int) -> None:
    follower = Follower(Position({ORDERS: Place(1, 4)}))
    with pytest.raises(BrokenAnswer):
        follower.consecutive("a", ORDERS, 1, first, last)
    assert follower.place(ORDERS) == Place(1, 4)


def test_a_new_source_may_begin_where_retention_has_come_to() -> None:
    follower = Follower(Position())
    follower.consecutive("a", ORDERS, 1, 100, 109)
    with pytest.raises(BrokenAnswer):
        follower.consecutive("a", ORDERS, 1, 111, 119)


@pytest.mark.parametrize("place", [Place(1, 10), Place(2, 5)])
def test_nothing_behind_the_end(place: Place) -> None:
    follower = Follower(Position(), Position({ORDERS: Place(1, 9)}))
    follower.consecutive("a", ORDERS, 1, 0, 4)
    with pytest.raises(BrokenAnswer, match="behind the end"):
        follower.moved("a", ORDERS, place)
    with pytest.raises(BrokenAnswer, match="behind the end"):
        follower.consecutive("a", SourceName("orders", 2), 1, 0, 0)
    assert not follower.is_at_end
    follower.moved("a", ORDERS, Place(1, 9))
    assert follower.is_at_end


def test_a_range_that_is_over_names_every_source_of_its_end() -> None:
    other = SourceName("orders", 2)
    follower = Follower(Position(), Position({ORDERS: Place(1, 9), other: Place(1, 3)}))
    follower.consecutive("a", ORDERS, 1, 0, 4)
    follower.finish()
    assert follower.position == {ORDERS: Place(1, 4), other: Place(1, 3)}


def test_a_subscription_without_an_end_is_never_there() -> None:
    assert not Follower(Position()).is_at_end


def test_it_goes_back_only_for_what_is_void() -> None:
    follower = Follower(Position({ORDERS: Place(1, 9)}))
    with pytest.raises(BrokenAnswer):
        follower.moved("a", ORDERS, Place(1, 9))
    with pytest.raises(BrokenAnswer):
        follower.taken_back("a", ORDERS, 10, 1)
    assert follower.taken_back("a", ORDERS, 5, 1) == Place(1, 4)
    follower.consecutive("a", ORDERS, 2, 5, 5)
    assert follower.taken_back("a", ORDERS, 0, 0) == NO_PLACE


def test_a_stream_that_begins_anew_is_given_from_its_first_message() -> None:
    follower = Follower(Position({ORDERS: Place(1, 9)}))
    follower.consecutive("a", ORDERS, 2, 0, 4)
    assert follower.place(ORDERS) == Place(2, 4)
    with pytest.raises(BrokenAnswer):
        follower.consecutive("b", ORDERS, 1, 0, 9)
    follower.moved("a", ORDERS, Place(3, 2))
    assert follower.place(ORDERS) == Place(3, 2)
