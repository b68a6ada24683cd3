from __future__ import annotations

from itertools import product

from quorate.protocol.ends import Position, Told, counted_upto, living
from quorate.protocol.limits import NOTHING

LIVES = {1: Position(7, epoch=1, confirmed_epoch=1)}
OVER = Told({}, {1: 1})


def test_what_was_acknowledged_before_the_end_does_not_count() -> None:
    assert counted_upto(7, 2, 0) == 7, "nothing is over"
    assert counted_upto(7, 2, 1) == 7
    assert counted_upto(7, 2, 2) == NOTHING


def test_a_store_that_was_away_does_not_keep_a_receiver_alive() -> None:
    told = {"a": OVER, "b": OVER, "c": Told(LIVES)}
    assert living(told) == {"a": {}, "b": {}, "c": {}}
    assert living({"a": Told({}), "b": Told({}), "c": Told(LIVES)})["c"] == {1: 7}


def test_of_a_receiver_that_began_anew_only_that_counts() -> None:
    anew = Told({1: Position(2, epoch=2, confirmed_epoch=2)}, {1: 1})
    not_told = Told({1: Position(7, epoch=2, confirmed_epoch=1)})
    assert living({"a": anew, "b": anew, "c": not_told}) == {
        "a": {1: 2},
        "b": {1: 2},
        "c": {1: NOTHING},
    }


def test_an_end_that_is_older_than_what_was_acknowledged_takes_nothing_away() -> None:
    for epoch, confirmed, ended in product(range(1, 5), repeat=3):
        if confirmed <= epoch:
            told = {"a": Told({1: Position(7, epoch, confirmed)}), "b": Told({}, {1: ended})}
            counts = living(told)["a"].get(1, NOTHING) == 7
            assert counts == (confirmed > ended)
