"""Counting what was consumed: the contiguous part and nothing else."""

import random
import threading

import pytest

from quorate.protocol.ranges import Range
from quorate.receiver.protocol.consumed import (
    Acknowledgements,
    Consumption,
)


def test_nothing_consumed_is_nothing_to_acknowledge() -> None:
    assert Acknowledgements(0).position(stable_upto=10) is None


def test_only_the_contiguous_part_counts() -> None:
    progress = Consumption(0)
    for sequence in (0, 1, 5, 2, 4):
        progress.consumed(sequence)
    assert progress.upto() == 2
    progress.consumed(3)
    assert progress.upto() == 5


def test_through_takes_everything_before_along() -> None:
    progress = Consumption(10)
    progress.consumed(13)
    progress.consumed_through(12)
    assert progress.upto() == 13


def test_a_gap_is_passed_over() -> None:
    progress = Consumption(0)
    progress.skip(2, 1_000_000_000)
    progress.consumed(0)
    assert progress.upto() == 0
    progress.consumed(1)
    assert progress.upto() == 1_000_000_000


def test_only_what_is_stable_is_acknowledged() -> None:
    acknowledgements = Acknowledgements(0)
    acknowledgements.progress.consumed_through(9)
    assert acknowledgements.position(stable_upto=4) == 4
    assert acknowledgements.position(stable_upto=20) == 9


def test_positions_never_move_back_in_a_stream() -> None:
    acknowledgements = Acknowledgements(0)
    acknowledgements.progress.consumed_through(12)
    assert acknowledgements.position(stable_upto=9) == 9
    acknowledgements.withdraw(10)
    assert acknowledgements.position(stable_upto=4) == 9
    assert acknowledgements.began_anew == 0


def test_consuming_what_was_withdrawn_counts_for_nothing() -> None:
    acknowledgements = Acknowledgements(0)
    old = acknowledgements.progress
    old.consumed_through(7)
    acknowledgements.withdraw(5)
    old.consumed(8)
    assert acknowledgements.consumed_upto() == 4
    acknowledgements.progress.consumed(5)
    assert acknowledgements.consumed_upto() == 5


def test_what_came_before_the_withdrawn_still_has_to_be_consumed() -> None:
    acknowledgements = Acknowledgements(0)
    old = acknowledgements.progress
    old.consumed(0)
    acknowledgements.withdraw(3)
    acknowledgements.progress.consumed_through(6)
    assert acknowledgements.consumed_upto() == 0
    old.consumed(2)
    old.consumed(1)
    assert acknowledgements.consumed_upto() == 6


def test_positions_begin_anew_with_a_stream_that_does() -> None:
    """All of it is withdrawn if the source was deregistered, and began another stream."""
    acknowledgements = Acknowledgements(10)
    acknowledgements.progress.consumed_through(20)
    assert acknowledgements.position(stable_upto=30) == 20
    acknowledgements.withdraw(0)
    assert acknowledgements.began_anew == 1
    assert acknowledgements.position(stable_upto=30) is None
    acknowledgements.progress.consumed_through(3)
    assert acknowledgements.position(stable_upto=2) == 2


def test_the_start_of_a_stream_that_is_over_is_no_bound_in_the_next() -> None:
    """A source that waits for this receiver has to hear of each message, however often it is said
    that the start is acknowledged, too."""
    acknowledgements = Acknowledgements(10)
    acknowledgements.say_start()
    assert acknowledgements.position(stable_upto=30) == 9
    acknowledgements.withdraw(0)
    acknowledgements.say_start()
    acknowledgements.progress.consumed_through(3)
    assert acknowledgements.position(stable_upto=5) == 3
    assert acknowledgements.start == 0
    acknowledgements.withdraw(2)
    assert acknowledgements.start == 0, "that is the same stream"


def test_a_second_withdrawal_may_begin_before_the_first() -> None:
    acknowledgements = Acknowledgements(0)
    acknowledgements.progress.consumed_through(60)
    acknowledgements.withdraw(51)
    acknowledgements.progress.consumed_through(55)
    acknowledgements.withdraw(40)
    assert acknowledgements.consumed_upto() == 39
    acknowledgements.progress.consumed(40)
    assert acknowledgements.consumed_upto() == 40


@pytest.mark.parametrize("seed", range(50))
def test_any_order_gives_what_the_plain_count_gives(seed: int) -> None:
    rng = random.Random(seed)
    progress = Consumption(5)
    gap = (20, 29)
    progress.skip(*gap)
    numbers = [n for n in range(5, 60) if not gap[0] <= n <= gap[1]]
    rng.shuffle(numbers)
    consumed = set(range(gap[0], gap[1] + 1))
    for number in numbers:
        progress.consumed(number)
        consumed.add(number)
        if rng.random() < 0.3:
            expected = 4
            while expected + 1 in consumed:
                expected += 1
            # A gap is passed once everything before it is consumed, not earlier.
            assert progress.upto() == expected
    assert progress.upto() == 59


def test_many_threads_may_consume() -> None:
    progress = Consumption(0)
    threads = [
        threading.Thread(target=lambda part=part: [*map(progress.consumed, range(part, 4000, 4))])
        for part in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        progress.upto()
    for thread in threads:
        thread.join()
    assert progress.upto() == 3999


def test_numbers_that_were_delivered_and_withdrawn_are_remembered() -> None:
    acknowledgements = Acknowledgements(10)
    before = acknowledgements.progress
    acknowledgements.withdraw(15, delivered_upto=17)
    assert not list(before.replaced)
    assert list(acknowledgements.progress.replaced) == [Range(15, 17)]


def test_a_withdrawal_below_the_start_counts_only_what_was_delivered() -> None:
    acknowledgements = Acknowledgements(10)
    acknowledgements.withdraw(3, delivered_upto=12)
    assert list(acknowledgements.progress.replaced) == [Range(10, 12)]
    acknowledgements.withdraw(3, delivered_upto=5)
    assert list(acknowledgements.progress.replaced) == [Range(3, 5), Range(10, 12)]


def test_a_withdrawal_of_what_was_not_delivered_keeps_the_earlier_ones() -> None:
    acknowledgements = Acknowledgements(0)
    acknowledgements.withdraw(5, delivered_upto=9)
    acknowledgements.withdraw(7, delivered_upto=4)
    assert list(acknowledgements.progress.replaced) == [Range(5, 9)]


def test_a_message_is_lacked_until_it_is_consumed_or_withdrawn() -> None:
    progress = Consumption(10)
    for sequence in (10, 12):
        progress.consumed(sequence)
    progress.cut(14)
    assert [n for n in range(10, 20) if progress.lacks(n)] == [11, 13, 14]


def test_what_is_consumed_behind_a_held_message_takes_little_memory() -> None:
    progress = Consumption(0)
    for sequence in range(1, 100_000):
        progress.consumed(sequence)
    assert progress.upto() == -1
    assert len(progress._ahead) == 1
