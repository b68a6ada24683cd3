"""The turns of stores to dispatch."""

from quorate.queue.protocol.turns import Turns, order_of

STORES = ["a", "b", "c"]


def test_each_queue_has_an_order_of_its_own() -> None:
    firsts = {order_of(f"queue-{number}", STORES)[0] for number in range(50)}
    assert firsts == set(STORES)
    assert order_of("work", STORES) == order_of("work", reversed(STORES))


def test_the_first_store_tries_at_once_and_the_next_ones_later() -> None:
    first, second, third = order_of("work", STORES)
    others = set(STORES)
    assert Turns("work", first, STORES).is_due(others, False, 10.0)
    turns = Turns("work", third, STORES)
    assert not turns.is_due({first, second}, False, 10.0)
    assert not turns.is_due({first, second}, False, 15.9)
    assert turns.is_due({first, second}, False, 16.0)


def test_a_store_that_does_not_answer_has_no_turn() -> None:
    first, second, third = order_of("work", STORES)
    turns = Turns("work", second, STORES)
    assert not turns.is_due({first, third}, False, 0.0)
    assert turns.is_due({third}, False, 0.5)


def test_a_store_that_hears_few_others_tries_late() -> None:
    first, *_ = order_of("work", STORES)
    turns = Turns("work", first, STORES)
    assert not turns.is_due(set(), False, 0.0)
    assert not turns.is_due(set(), False, 8.9)
    assert turns.is_due(set(), False, 9.0)


def test_the_wait_begins_anew_when_somebody_dispatched() -> None:
    first, second, _ = order_of("work", STORES)
    turns = Turns("work", second, STORES)
    assert not turns.is_due({first}, False, 0.0)
    assert not turns.is_due({first}, True, 2.0)
    assert not turns.is_due({first}, False, 4.0)
    assert turns.is_due({first}, False, 7.0)
