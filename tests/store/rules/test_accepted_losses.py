from __future__ import annotations

from typing import Any

import pytest
from tests.begun import rebegun
from tests.store.support import ORDERS, World, batch

from quorate.protocol.errors import InvalidArgument, NotLost
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store import startup
from quorate.store.engine import Engine
from quorate.store.rpc.fetch import fetch
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.large_batches import LargeRow
from quorate.store.storage.maintenance_records import Poison
from quorate.store.storage.reader import StoredBatch
from quorate.v1 import messages_pb2 as v1


class Lossy(World):
    """A world with holes [10, 19] and [30, 34] in what it holds of [0, 39]."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.losses = self.losses_now()

    def losses_now(self) -> Losses:
        records = startup.losses(self.storage)
        return Losses("s1", self.core.sources, self.storage, records)

    def with_holes(self) -> Lossy:
        stream = self.stream()
        self.append(stream, batch(0, 9))
        self.write(self.core.streams.keepalive(stream, 39))
        self.write(self.core.streams.skip(stream, 10, 19))
        self.append(stream, batch(20, 29))
        self.write(self.core.streams.skip(stream, 30, 34))
        self.append(stream, batch(35, 39))
        self.write(self.core.streams.closed(stream))
        return self

    @property
    def state(self) -> SourceState:
        return self.core.sources[ORDERS]

    def accept(self, first: int, last: int) -> None:
        self.done(self.losses.accept(ORDERS, first, last, "gone, says Ada", 7))

    def reopened(self) -> Lossy:
        self.storage.sync()
        return Lossy(self.storage.crash(), self.topics)


def test_a_loss_is_no_hole_and_is_remembered_for_ever() -> None:
    world = Lossy().with_holes()
    assert world.state.holes() == [Range(10, 19), Range(30, 34)]
    world.accept(10, 14)
    assert world.state.holes() == [Range(15, 19), Range(30, 34)]
    again = world.reopened()
    assert again.state.holes() == [Range(15, 19), Range(30, 34)]
    (record,) = again.losses.records
    assert (record.source, record.first, record.last) == (ORDERS, 10, 14)
    assert (record.reason, record.time_ns) == ("gone, says Ada", 7)
    assert record.lineage == again.state.lineage
    again.accept(15, 19)
    assert [each.first for each in again.reopened().losses.records] == [10, 15]


@pytest.mark.parametrize(("first", "last"), [(9, 12), (10, 20), (25, 25), (0, 39)])
def test_what_is_held_is_not_lost(first: int, last: int) -> None:
    world = Lossy().with_holes()
    with pytest.raises(NotLost, match="it has"):
        world.accept(first, last)
    assert world.losses.records == []


def test_what_nobody_sent_is_not_lost_and_a_loss_has_a_reason() -> None:
    world = Lossy().with_holes()
    with pytest.raises(NotLost, match="nothing above 39"):
        world.accept(40, 40)
    for reason in ("", "  ", "x" * 5000):
        with pytest.raises(InvalidArgument):
            world.losses.accept(ORDERS, 10, 19, reason, 7)


def test_what_can_not_be_read_is_given_up() -> None:
    world = Lossy().with_holes()
    world.write(world.state.found_unreadable(22, 25))
    assert world.core.doubt_of(world.state) == "it cannot read [22, 25]"
    assert list(world.state.readable().both(RangeSet([Range(20, 29)]))) == [
        Range(20, 21),
        Range(26, 29),
    ]
    world.accept(22, 25)
    assert world.core.doubt_of(world.state) == ""
    assert not world.state.held.ranges.both(RangeSet([Range(22, 25)]))
    again = world.reopened()
    assert again.core.doubt_of(again.state) == ""
    assert again.state.holes() == [Range(10, 19), Range(30, 34)]


def test_a_stream_goes_on_behind_a_loss() -> None:
    world = Lossy().with_holes()
    assert world.open(retained_from=0).expected == 10
    world.accept(10, 19)
    stream = world.open(retained_from=0)
    assert stream.expected == 30
    world.accept(30, 34)
    assert world.open(retained_from=0).expected == 40


def test_a_source_skips_a_loss_that_is_not_stable() -> None:
    world = Lossy()
    stream = world.stream()
    world.append(stream, batch(0, 29), stable_upto=4)
    world.write(world.state.found_unreadable(10, 19))
    world.accept(10, 19)
    assert world.open(retained_from=0).expected == 30
    # A store that has nothing is told what was accepted, and takes the skip.
    other = Lossy()
    stream = other.stream()
    other.append(stream, batch(0, 9), stable_upto=4)
    with pytest.raises(InvalidArgument, match="not all stable"):
        other.core.streams.skip(stream, 10, 19)
    other.write(other.losses.learn(other.state, [HeldRange(10, 19, 1)], "store s1", 8))
    other.write(other.core.streams.skip(stream, 10, 19))
    other.append(stream, batch(20, 29))
    assert other.state.holes() == []
    assert other.losses.learn(other.state, [HeldRange(10, 19, 1)], "store s3", 9) == ()


def test_a_loss_of_another_epoch_is_none() -> None:
    world = Lossy()
    stream = world.stream()
    world.append(stream, batch(0, 29), stable_upto=4)
    world.write(world.state.found_unreadable(10, 19))
    world.accept(10, 19)
    assert list(world.state.losses) == [Range(10, 19)]
    for state in (world.state, world.reopened().state):
        assert list(state.losses) == [Range(10, 19)]
    world.promise(2)
    world.begin(Lineage((Term(1, 0), Term(2, 15))))
    for state in (world.state, world.reopened().state):
        assert list(state.losses) == [Range(10, 14)]
    assert len(world.losses.records) == 1, "but it is remembered"
    assert world.losses.learn(world.state, [HeldRange(15, 19, 1)], "store s2", 9) == ()


async def test_what_was_let_go_beside_what_was_lost_is_told_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also by a store that holds nothing any more."""
    world = Lossy().with_holes()
    world.accept(10, 19)
    world.state.held.ranges.remove(0, 39)
    world.state.held.retained_from = 36
    writer: Any = None
    engine = Engine(
        world.core, world.receivers, writer, world.storage, lambda _: v1.DURABILITY_FSYNC
    )
    monkeypatch.setattr(engine, "written", _at_once)
    told = [each async for each in fetch(engine, _nothing_to_read, _no_fragment, ORDERS, 5, 39)]
    said = [
        (each.missing.first, each.missing.last, each.missing.why)
        for response in told
        for each in response.answers
        if each.HasField("missing")
    ]
    assert said == [
        (5, 9, v1.LOOKUP_RELEASED),
        (10, 19, v1.LOOKUP_LOST),
        (20, 35, v1.LOOKUP_RELEASED),
    ]


async def _at_once(_: SourceState) -> None: ...


async def _no_fragment(_: LargeRow, number: int) -> bytes:
    raise AssertionError(f"fragment {number} of no batch")


async def _nothing_to_read(_: SourceState, piece: Range, count: int) -> list[StoredBatch]:
    raise AssertionError(f"{piece} is not held, nor are {count} batches")


def test_the_latest_decision_about_poison_counts_and_is_remembered() -> None:
    world = Lossy().with_holes()
    world.done(world.losses.mark(ORDERS, Range(2, 8), Poison.MARKED, "why; Ada", 10))
    with pytest.raises(InvalidArgument, match="not later"):
        world.losses.mark(ORDERS, Range(2, 2), Poison.REMOVED, "why", 10)
    with pytest.raises(InvalidArgument, match="no message"):
        world.losses.mark(ORDERS, Range(39, 40), Poison.MARKED, "why", 11)
    world.done(world.losses.mark(ORDERS, Range(4, 5), Poison.REMOVED, "fixed", 12))
    expected = RangeSet([Range(2, 3), Range(6, 8)])
    assert world.state.poisoned == expected
    assert (world.state.accepted, world.state.losses) == ((), RangeSet()), "nothing is lost"
    assert world.reopened().state.poisoned == expected
    other = Lossy().with_holes()
    told = [world.losses.records[1], world.losses.records[0]]
    other.write(other.losses.learn_poison(other.state, told))
    assert other.state.poisoned == expected, "in whichever order it is told"
    assert other.losses.learn_poison(other.state, told) == ()
    assert other.reopened().state.poisoned == expected


def test_a_mark_counts_only_for_the_messages_that_were_marked() -> None:
    world = Lossy().with_holes()
    world.done(world.losses.mark(ORDERS, Range(30, 39), Poison.MARKED, "why", 10))
    state = world.state
    state.registration = rebegun(state.registration, lineage=Lineage((Term(1, 0), Term(2, 35))))
    state.renew_losses()
    assert state.poisoned == RangeSet([Range(30, 34)])
