"""How far an application has consumed: the position is before the first message that it has not."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.identity import SourceName
from quorate.subscriber.protocol.progress import Progress

ORDERS, TRADES = SourceName("orders", 1), SourceName("trades", 1)


def test_nothing_is_consumed_at_first() -> None:
    progress = Progress()
    progress.handed(ORDERS, range(0, 3), NO_PLACE, Place(1, 2))
    assert progress.position(Position({ORDERS: Place(1, 2)})) == {}


def test_out_of_order() -> None:
    progress, given = Progress(), Position({ORDERS: Place(1, 9), TRADES: Place(2, 4)})
    batch = progress.handed(ORDERS, range(5, 10), Place(1, 4), Place(1, 9))
    for row in (4, 2, 1, 1):
        batch.note(row)
    assert progress.position(given) == {ORDERS: Place(1, 4), TRADES: Place(2, 4)}
    batch.note(0)
    assert progress.position(given)[ORDERS] == Place(1, 7)
    batch.note(3)
    assert progress.position(given) == given


def test_what_does_not_pass_a_filter_counts_as_consumed() -> None:
    progress = Progress()
    batch = progress.handed(ORDERS, [3, 7], NO_PLACE, Place(1, 20))
    batch.note(0)
    assert progress.position(Position({ORDERS: Place(1, 30)}))[ORDERS] == Place(1, 3)
    batch.note(1)
    assert progress.position(Position({ORDERS: Place(1, 30)}))[ORDERS] == Place(1, 30)


def test_what_is_void_is_not_waited_for() -> None:
    progress = Progress()
    progress.handed(ORDERS, range(5, 10), Place(1, 4), Place(1, 9))
    progress.withdrawn(ORDERS, 5)
    assert progress.position(Position({ORDERS: Place(1, 4)})) == {ORDERS: Place(1, 4)}


def test_of_a_batch_that_is_void_in_part_the_rest_is_waited_for() -> None:
    progress = Progress()
    batch = progress.handed(ORDERS, range(5, 10), Place(1, 4), Place(1, 9))
    batch.note(1)
    progress.withdrawn(ORDERS, 8)
    assert progress.position(Position({ORDERS: Place(1, 7)})) == {ORDERS: Place(1, 4)}
    for row in (0, 2, 4):  # the last one is void
        batch.note(row)
    assert progress.position(Position({ORDERS: Place(1, 7)})) == {ORDERS: Place(1, 7)}


@given(st.lists(st.integers(1, 5), max_size=8), st.randoms(use_true_random=False))
def test_the_position_is_before_the_first_that_is_not_consumed(
    sizes: list[int], chooser: Random
) -> None:
    progress, at = Progress(), 0
    rows = []
    for size in sizes:
        before = Place(1, at - 1) if at else NO_PLACE
        batch = progress.handed(ORDERS, range(at, at + size), before, Place(1, at + size - 1))
        rows += [(batch, row, at + row) for row in range(size)]
        at += size
    given_upto = Position({ORDERS: Place(1, at - 1)}) if at else Position()
    left = {number for _, _, number in rows}
    chooser.shuffle(rows)
    for batch, row, number in rows:
        batch.note(row)
        left.discard(number)
        expected = min(left, default=at) - 1
        place = progress.position(given_upto).get(ORDERS, NO_PLACE)
        assert place.sequence == expected
