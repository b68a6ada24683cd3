"""The walk of a subscription: each source's messages in order, each once, whatever happens."""

from __future__ import annotations

import random

import pytest

from quorate.protocol.bookmarks import NO_PLACE, Place, Position
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.walk import Missing, Stream, Walk

ORDERS, TRADES = SourceName("orders", 1), SourceName("trades", 1)
FIRST = Lineage((Term(1, 0),))


def walk(position: Position | None = None) -> Walk:
    return Walk(position or Position(), 0, lambda topic: topic == "orders")


def held(*ranges: tuple[int, int]) -> RangeSet:
    return RangeSet(Range(*each) for each in ranges)


def test_it_wants_the_topics_that_were_asked_for() -> None:
    assert walk().wants(ORDERS)
    assert not walk().wants(TRADES)


def test_a_batch_is_given_as_far_as_it_may_be() -> None:
    going, stream = walk(), Stream(FIRST, 5, held=held((0, 9)))
    assert going.passes(ORDERS, stream, HeldRange(0, 9, 1)) == Range(0, 5)
    going.given(ORDERS, stream, Range(0, 5))
    assert going.owed == {ORDERS}
    assert going.owes(ORDERS, stream) is None
    later = Stream(FIRST, 9, held=held((0, 9)))
    assert going.owes(ORDERS, later) == Range(6, 9)
    assert going.position[ORDERS] == Place(1, 5)


def test_what_was_given_is_not_given_again() -> None:
    going, stream = walk(Position({ORDERS: Place(1, 5)})), Stream(FIRST, 9, held=held((0, 9)))
    assert going.passes(ORDERS, stream, HeldRange(0, 5, 1)) is None
    assert going.passes(ORDERS, stream, HeldRange(4, 9, 1)) == Range(6, 9)
    assert going.owed == set()


def test_a_batch_behind_a_hole_waits() -> None:
    going, stream = walk(), Stream(FIRST, 9, held=held((0, 3), (7, 9)))
    going.given(ORDERS, stream, Range(0, 3))
    assert going.passes(ORDERS, stream, HeldRange(7, 9, 1)) is None
    assert going.owed == {ORDERS}
    assert going.missing(ORDERS, stream) is None


def test_poison_is_not_given_and_is_said() -> None:
    going, stream = walk(), Stream(FIRST, 9, held=held((0, 9)), poisoned=held((3, 4), (9, 9)))
    assert going.missing(ORDERS, stream) is None
    assert going.passes(ORDERS, stream, HeldRange(0, 9, 1)) == Range(0, 2)
    going.given(ORDERS, stream, Range(0, 2))
    assert going.owes(ORDERS, stream) is None
    poison = Missing(Range(3, 4), lost=False, poisoned=True)
    assert going.missing(ORDERS, stream) == poison
    assert going.owes(ORDERS, stream) == Range(5, 8)
    going.given(ORDERS, stream, Range(5, 8))
    assert going.missing(ORDERS, stream) == Missing(Range(9, 9), lost=False, poisoned=True)
    assert going.passes(ORDERS, stream, HeldRange(9, 9, 1)) is None


def test_a_void_batch_is_not_given() -> None:
    stream = Stream(Lineage((Term(1, 0), Term(4, 5))), 9, held=held((0, 9)))
    going = walk()
    assert going.passes(ORDERS, stream, HeldRange(0, 9, 1)) == Range(0, 4)
    assert going.passes(ORDERS, stream, HeldRange(5, 9, 2)) is None


def test_a_replay_begins_with_the_first_message_that_is_left() -> None:
    going, stream = walk(), Stream(FIRST, 9, retained_from=4, held=held((4, 9)))
    assert going.missing(ORDERS, stream) is None
    assert going.passes(ORDERS, stream, HeldRange(4, 9, 1)) == Range(4, 9)


def test_what_was_let_go_behind_a_position_is_said() -> None:
    going = walk(Position({ORDERS: Place(1, 1)}))
    stream = Stream(FIRST, 9, retained_from=4, held=held((4, 9)))
    assert going.missing(ORDERS, stream) == Missing(Range(2, 3), lost=False)
    assert going.missing(ORDERS, stream) is None
    assert going.passes(ORDERS, stream, HeldRange(4, 9, 1)) == Range(4, 9)


def test_an_accepted_loss_is_said() -> None:
    going = walk(Position({ORDERS: Place(1, 1)}))
    stream = Stream(FIRST, 9, held=held((0, 1), (4, 9)), losses=held((2, 3)))
    assert going.missing(ORDERS, stream) == Missing(Range(2, 3), lost=True)
    assert going.passes(ORDERS, stream, HeldRange(4, 9, 1)) == Range(4, 9)


def test_what_a_later_epoch_did_not_keep_is_taken_back() -> None:
    going = walk(Position({ORDERS: Place(1, 9)}))
    stream = Stream(Lineage((Term(1, 0), Term(2, 5))), 4, held=held((0, 4)))
    assert going.taken_back(ORDERS, stream) == Range(5, 9)
    assert going.position[ORDERS] == Place(1, 4)
    assert going.taken_back(ORDERS, stream) is None


def test_a_store_that_has_not_heard_of_an_epoch_takes_nothing_back() -> None:
    going = walk(Position({ORDERS: Place(2, 9)}))
    assert going.taken_back(ORDERS, Stream(FIRST, 4, held=held((0, 4)))) is None
    assert going.position[ORDERS] == Place(2, 9)


def test_a_source_that_began_anew_begins_with_its_first_message() -> None:
    going = walk(Position({ORDERS: Place(1, 9)}))
    stream = Stream(Lineage((Term(7, 0),)), 3, held=held((0, 3)))
    assert going.taken_back(ORDERS, stream) is None
    assert going.passes(ORDERS, stream, HeldRange(0, 3, 7)) == Range(0, 3)


def test_what_was_passed_too_early_is_owed_once_the_hole_is_filled() -> None:
    going, stream = walk(), Stream(FIRST, 9, held=held((0, 9)))
    assert going.passes(ORDERS, stream, HeldRange(5, 9, 1)) is None
    going.owed.clear()
    assert going.passes(ORDERS, stream, HeldRange(0, 4, 1)) == Range(0, 4)
    going.given(ORDERS, stream, Range(0, 4))
    assert going.owed == {ORDERS}
    assert going.owes(ORDERS, stream) == Range(5, 9)


def test_a_store_that_has_not_heard_of_the_place_s_epoch_gives_nothing() -> None:
    """The source began anew; what the store has behind the place is of the stream that ended."""
    going = walk(Position({ORDERS: Place(7, 3)}))
    stream = Stream(FIRST, 9, retained_from=6, held=held((0, 9)))
    assert going.missing(ORDERS, stream) is None
    assert going.passes(ORDERS, stream, HeldRange(0, 9, 1)) is None
    assert going.owes(ORDERS, stream) is None
    assert going.position[ORDERS] == Place(7, 3)


@pytest.mark.parametrize("seed", range(200))
def test_every_message_is_given_once_and_in_order(seed: int) -> None:
    """Batches come in any order, stable bit by bit, and the walk goes on at another store."""
    chooser = random.Random(seed)
    numbers, at = [], 0
    while at < 60:
        size = chooser.randint(1, 9)
        numbers.append(HeldRange(at, at + size - 1, 1))
        at += size
    chooser.shuffle(numbers)
    going, given, passed, upto = walk(), list[int](), RangeSet(), -1

    def give(part: Range | None, stream: Stream) -> None:
        if part is not None:
            given.extend(range(part.first, part.last + 1))
            going.given(ORDERS, stream, part)

    def give_owed(stream: Stream) -> None:
        wanted = going.owes(ORDERS, stream)
        if wanted is not None and (last := passed.contiguous_upto(wanted.first)) >= wanted.first:
            give(Range(wanted.first, min(last, wanted.last)), stream)

    for batch in numbers:
        passed.add(batch.first, batch.last)
        stream = Stream(FIRST, upto, held=passed)
        give(going.passes(ORDERS, stream, batch), stream)
        if chooser.random() < 0.5:
            upto = chooser.randint(upto, at - 1)
        if chooser.random() < 0.1:
            going = walk(going.position)
        give_owed(Stream(FIRST, upto, held=passed))
    give_owed(Stream(FIRST, at - 1, held=passed))
    assert given == list(range(at))


def test_no_place_is_before_the_first_message() -> None:
    assert NO_PLACE.sequence + 1 == 0


def test_what_was_let_go_since_a_source_was_met_is_said() -> None:
    going = walk()
    going.meets(ORDERS, Stream(FIRST, 9, held=held((0, 9))))
    later = Stream(FIRST, 9, retained_from=4, held=held((4, 9)))
    assert going.missing(ORDERS, later) == Missing(Range(0, 3), lost=False)
    assert going.passes(ORDERS, later, HeldRange(4, 9, 1)) == Range(4, 9)


def test_meeting_a_source_again_changes_nothing() -> None:
    going, stream = walk(), Stream(FIRST, 9, retained_from=4, held=held((4, 9)))
    going.meets(ORDERS, stream)
    assert going.position[ORDERS] == Place(1, 3)
    going.given(ORDERS, stream, Range(4, 6))
    going.meets(ORDERS, stream)
    assert going.position[ORDERS] == Place(1, 6)


def test_how_far_a_stream_was_read() -> None:
    going, stream = walk(), Stream(FIRST, 9, held=held((0, 9)))
    assert going.read_upto(ORDERS, FIRST) == -1
    going.given(ORDERS, stream, Range(0, 5))
    assert going.read_upto(ORDERS, FIRST) == 5
    going.reading = {ORDERS: 4}
    assert going.read_upto(ORDERS, FIRST) == 3, "a large batch is read when it is packed"
    going.reading = {}
    assert going.read_upto(ORDERS, Lineage((Term(1, 0), Term(2, 3)))) == 2, "the rest is void"
    assert going.read_upto(ORDERS, Lineage((Term(2, 0),))) == -1, "the source began anew"
