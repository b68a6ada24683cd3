"""The leases of jobs, and how a consumer has more time."""

from __future__ import annotations

from tests.queue.protocol.world import Batch, Message

from quorate.protocol.bookmarks import NO_PLACE
from quorate.protocol.identity import SourceName
from quorate.protocol.queues import QueueSettings
from quorate.protocol.ranges import Range
from quorate.queue.protocol.consumers import CONSUMER_LEFT, Consumer
from quorate.queue.protocol.decisions import Released, Tried
from quorate.queue.protocol.dispatch import RELEASED_AT_ONCE, Dispatch, Kind, Settlement

ORDERS = SourceName("orders", 1)
SETTINGS = QueueSettings(name="work", topics=("orders",), lease_seconds=10.0)


class Queue:
    """A queue of one message, which the first consumer has since 0.0."""

    def __init__(self) -> None:
        self.dispatch = Dispatch(SETTINGS)
        self.first, self.other = Consumer("first", 1), Consumer("other", 1)
        self.dispatch.join(self.first)
        self.dispatch.arrived(Batch([Message(ORDERS, 1, 0, None)], NO_PLACE), 0.0)
        assert self.handed(0.0) == ["first"]
        self.dispatch.join(self.other)
        self.number = 0

    def handed(self, now: float) -> list[str]:
        """Return who is handed the message now."""
        return [consumer.name for consumer, _ in self.dispatch.hand_out(now)]

    def say(self, consumer: Consumer, kind: Kind, now: float) -> None:
        self.number += 1
        said = Settlement(ORDERS, 1, (Range(0, 0),), kind)
        self.dispatch.settle(consumer, self.number, [said], now)


def test_a_lease_that_is_not_extended_ends() -> None:
    queue = Queue()
    assert queue.handed(9.9) == []
    assert queue.handed(10.0) == ["other"]


def test_an_extended_lease_begins_anew() -> None:
    queue = Queue()
    for now in (9.0, 18.0):
        queue.say(queue.first, Kind.EXTEND, now)
    assert queue.handed(27.9) == []
    assert queue.first.leased == 1
    assert queue.handed(28.0) == ["other"]


def test_a_consumer_that_extends_has_no_room_for_another_job() -> None:
    queue = Queue()
    queue.dispatch.leave(queue.other, 1.0)
    queue.say(queue.first, Kind.EXTEND, 1.0)
    queue.dispatch.arrived(Batch([Message(ORDERS, 1, 1, None)], NO_PLACE), 1.0)
    assert queue.handed(1.0) == []


def test_a_lease_that_is_over_is_not_extended() -> None:
    queue = Queue()
    assert queue.handed(10.0) == ["other"]
    queue.say(queue.first, Kind.EXTEND, 11.0)
    assert queue.other.leased == 1
    assert queue.first.leased == 0
    queue.say(queue.other, Kind.DONE, 12.0)
    assert queue.dispatch.unsettled == 0


def left_in_vain(queue: Queue, times: int) -> list[list[int]]:
    """Have so many consumers come, take the job and go. Return what people are told each time."""
    told = []
    queue.dispatch.leave(queue.first, 0.0)
    queue.dispatch.leave(queue.other, 0.0)
    for _ in range(times):
        told.append(queue.dispatch.tries_of_repeated)
        consumer = Consumer("a further one", 1)
        queue.dispatch.join(consumer)
        assert queue.handed(0.0)
        queue.dispatch.leave(consumer, 0.0)
    return told


def test_people_are_told_of_a_job_that_was_handed_out_twice_until_it_is_settled() -> None:
    queue = Queue()
    assert left_in_vain(queue, 3) == [[], [2], [3]]
    queue.dispatch.join(consumer := Consumer("the last one", 1))
    assert queue.handed(0.0)
    queue.say(consumer, Kind.DONE, 0.0)
    assert queue.dispatch.tries_of_repeated == []
    restored = Dispatch(SETTINGS)
    restored.restore(Released(ORDERS, 1, (Range(0, 0),), Tried(3)))
    restored.arrived(Batch([Message(ORDERS, 1, 0, None)], NO_PLACE), 0.0)
    assert restored.tries_of_repeated == [3]


def test_people_are_told_once_of_a_job_that_becomes_a_dead_letter() -> None:
    queue = Queue()
    left_in_vain(queue, SETTINGS.tries - 2)
    assert queue.dispatch.tries_of_repeated == [SETTINGS.tries - 1]
    last = Consumer("the last one", 1)
    queue.dispatch.join(last)
    assert queue.handed(0.0)
    queue.dispatch.leave(last, 0.0)
    assert queue.dispatch.tries_of_repeated == []
    queue.dispatch.buried(queue.dispatch.take_dying(), 31.0)
    assert (queue.dispatch.counts.dead, queue.dispatch.counts.dead_at) == (1, 31.0)


def test_many_jobs_of_a_consumer_that_leaves_are_released_turn_by_turn() -> None:
    dispatch, count = Dispatch(SETTINGS), 2 * RELEASED_AT_ONCE + 1
    first, other = Consumer("first", count), Consumer("other", count)
    dispatch.join(first)
    dispatch.arrived(Batch([Message(ORDERS, 1, at, None) for at in range(count)], NO_PLACE), 0.0)
    assert len(dispatch.hand_out(0.0)) == 1
    dispatch.leave(first, 1.0)
    assert (dispatch.ready, dispatch.due_at) == (RELEASED_AT_ONCE, 1.0)
    assert dispatch.hand_out(1.0) == []
    assert dispatch.ready == 2 * RELEASED_AT_ONCE
    dispatch.hand_out(1.0)
    dispatch.hand_out(1.0)
    assert (dispatch.ready, dispatch.due_at) == (count, None)
    dispatch.join(other)
    [(_, entries)] = dispatch.hand_out(2.0)
    assert [entry.sequence for entry in entries] == list(range(count))
    assert {entry.tried.reason for entry in entries} == {CONSUMER_LEFT}


def test_what_was_settled_meanwhile_is_not_released() -> None:
    queue = Queue()
    queue.say(queue.first, Kind.DONE, 9.0)
    assert queue.handed(10.0) == []
    assert queue.dispatch.due_at is None
