"""Small micro-batches that wait, by a clock of the test."""

from __future__ import annotations

from quorate.pipeline.read.trigger import Trigger


def test_a_micro_batch_waits_until_it_is_large_enough() -> None:
    trigger = Trigger(10, 60.0)
    assert not trigger.waits(3, 1000.0), "the first one begins"
    assert trigger.waits(9, 1001.0)
    assert not trigger.waits(10, 1002.0)


def test_no_micro_batch_waits_longer_than_the_delay() -> None:
    trigger = Trigger(10, 60.0)
    trigger.waits(10, 1000.0)
    assert trigger.waits(1, 1059.0)
    assert not trigger.waits(1, 1060.0)
    assert trigger.waits(1, 1061.0), "the delay counts from the last one"


def test_that_there_is_nothing_to_read_does_not_count_as_a_micro_batch() -> None:
    trigger = Trigger(10, 60.0)
    trigger.waits(10, 1000.0)
    trigger.waits(0, 1070.0)
    assert not trigger.waits(1, 1071.0)


def test_without_a_least_size_none_waits() -> None:
    trigger = Trigger(0, 60.0)
    assert not any(trigger.waits(1, 1000.0) for _ in range(3))
