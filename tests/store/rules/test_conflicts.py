from __future__ import annotations

from dataclasses import replace

import pytest
from tests.begun import rebegun
from tests.store.support import ORDERS, World, batch, held

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import ContentConflict, Fenced
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store import startup
from quorate.store.rules.conflicts import Conflict, conflicts, fence, parted, settle
from quorate.store.rules.repair_plan import OwnView, PeerView
from quorate.store.rules.source_state import SourceState
from quorate.store.storage import index
from quorate.store.tasks.peer_views import own_view

FIRST = Lineage((Term(1, 0),))
SECOND = Lineage((Term(1, 0), Term(2, 10)))

OLD = OwnView("a", 1, BeginRecord(FIRST), RangeSet([Range(0, 19)]), 20, 19)
NEW = PeerView("b:1", "b", BeginRecord(SECOND), (), 14, answered=True)


def test_stores_part_where_the_older_lineage_has_stable_messages_that_the_newer_one_has_not() -> (
    None
):
    assert parted(OLD, NEW) == Range(10, 19)
    assert parted(replace(OLD, stable_upto=10), NEW) == Range(10, 10)
    assert parted(replace(OLD, stable_upto=9), NEW) is None, "it has only missed a begin"


def test_both_sides_see_that_they_part() -> None:
    own = OwnView("b", 2, BeginRecord(SECOND), stable_upto=14)
    peer = PeerView("a:1", "a", BeginRecord(FIRST), (), 19, answered=True)
    assert parted(own, peer) == Range(10, 19)


def test_a_stream_that_was_ended_does_not_part_from_its_successor() -> None:
    anew = Lineage((Term(2, 0),))
    assert parted(OLD, rebegun(NEW, lineage=anew)) == Range(0, 19)
    assert parted(OLD, rebegun(NEW, lineage=anew, generation=2)) is None


def test_one_epoch_that_was_begun_twice_parts_too() -> None:
    other = Lineage((Term(1, 0), Term(2, 12)))
    own = OwnView("a", 2, BeginRecord(other), stable_upto=5)
    assert parted(own, NEW) == Range(10, 14)
    assert parted(own, replace(NEW, stable_upto=9)) is None


def test_a_store_that_began_nothing_parts_from_none() -> None:
    assert parted(OwnView("a"), NEW) is None
    assert parted(OLD, PeerView("b:1", "b", answered=True)) is None


def test_all_kinds_of_conflicts_are_named() -> None:
    found = conflicts(
        OLD, [NEW], {"c": RangeSet([Range(3, 4)])}, RangeSet([Range(18, 25), Range(40, 40)])
    )
    assert found == [
        Conflict("b", Range(10, 19)),
        Conflict("c", Range(3, 4)),
        Conflict("", Range(18, 19)),
    ], "and of what is no longer held nobody speaks"


class Disputed(World):
    """A world with [0, 19] of epoch 1, all stable."""

    def filled(self) -> Disputed:
        stream = self.stream()
        self.append(stream, batch(0, 7), stable_upto=-1)
        self.append(stream, batch(8, 19), stable_upto=-1)
        self.write(self.core.streams.keepalive(stream, 19))
        return self

    @property
    def state(self) -> SourceState:
        return self.core.sources[ORDERS]

    def parted_from(self, kept: PeerView) -> Range | None:
        return parted(own_view("s1", self.state), kept)

    def settle(self, kept: PeerView, *ranges: Range) -> int:
        part = self.parted_from(kept)
        if part is not None:
            self.done(fence(self.state, kept))
        change = settle(self.storage, self.state, kept, part, RangeSet(ranges))
        count: int = self.done(change)
        return count

    def aside(self) -> list[tuple[int, int, int]]:
        rows = index.aside(self.storage, self.state.reg_id)
        return [(entry.first, entry.last, entry.epoch) for _, entry in rows]

    def reopened(self) -> Disputed:
        self.storage.sync()
        return Disputed(self.storage.crash(), self.topics)


def test_a_store_gives_up_its_side_for_a_newer_lineage_and_can_begin_it() -> None:
    world = Disputed().filled()
    world.promise(2)
    with pytest.raises(ContentConflict):
        world.begin(SECOND)
    assert world.settle(NEW, Range(10, 19)) == 10
    assert held(world) == [(0, 9, 1)]
    assert world.aside() == [(10, 19, 1)]
    assert (world.state.held.stable_upto, world.state.held.next_sequence) == (9, 10)
    assert world.parted_from(NEW) is None
    again = world.reopened()
    assert (held(again), again.aside()) == ([(0, 9, 1)], [(10, 19, 1)])
    world.promise(3)
    world.begin(Lineage((Term(1, 0), Term(2, 10), Term(3, 15))))
    assert held(world) == [(0, 9, 1)]


def test_a_store_gives_up_its_side_for_an_older_lineage_and_fences_who_wrote_it() -> None:
    world = Disputed()
    stream = world.stream()
    world.append(stream, batch(0, 9))
    world.promise(2)
    world.begin(SECOND)
    stream = world.open(2)
    world.append(stream, batch(10, 14, epoch=2))
    world.write(world.core.streams.keepalive(stream, 14))
    kept = PeerView("a:1", "a", BeginRecord(FIRST), (HeldRange(0, 19, 1),), 19, answered=True)
    assert world.settle(kept, Range(10, 19)) == 5
    record = world.state.registration
    assert (record.begun.epoch, record.begun.lineage) == (1, FIRST)
    assert world.parted_from(kept) is None
    assert world.aside() == [(10, 14, 2)]
    with pytest.raises(Fenced):
        world.append(stream, batch(15, 15, epoch=2))
    with pytest.raises(Fenced):
        world.promise(2)
    with pytest.raises(Fenced):
        world.begin(SECOND)
    assert world.fill(batch(10, 19), Range(10, 19)) == Range(10, 19), "repair brings the kept ones"
    assert held(world) == [(0, 19, 1)]


def test_in_one_lineage_only_the_numbers_in_conflict_are_set_aside() -> None:
    world = Disputed().filled()
    kept = PeerView("b:1", "b", BeginRecord(FIRST), (HeldRange(0, 30, 1),), 19, answered=True)
    assert world.settle(kept, Range(5, 9)) == 5
    assert held(world) == [(0, 4, 1), (10, 19, 1)]
    assert world.aside() == [(5, 7, 1), (8, 9, 1)]
    assert world.state.held.stable_upto == 19
    assert world.state.holes() == [Range(5, 9)]
    assert world.fill(batch(5, 9, salt="kept "), Range(5, 9)) == Range(5, 9)


def test_what_the_kept_store_lacks_is_not_set_aside() -> None:
    world = Disputed().filled()
    kept = PeerView("b:1", "b", BeginRecord(FIRST), (HeldRange(0, 6, 1),), 19, answered=True)
    assert world.settle(kept, Range(5, 9)) == 2
    assert held(world) == [(0, 4, 1), (7, 19, 1)]


def test_a_refused_source_is_remembered_until_it_is_settled() -> None:
    world = Disputed().filled()
    world.write(world.state.met_conflict(5, 6))
    assert world.state.met_conflict(5, 6) == ()
    again = world.reopened()
    assert list(again.state.refused) == [Range(5, 6)]
    again.write(again.state.refusal_settled(0, 9))
    assert not again.reopened().state.refused


def test_an_instance_that_was_refused_opens_no_stream_until_it_is_settled() -> None:
    """Wherever the stream went on, its other content would count as held."""
    world = Disputed().filled()
    world.write(world.state.met_conflict(5, 6))
    world.state.refused_instance = b"a"
    with pytest.raises(ContentConflict) as caught:
        world.open()
    assert (caught.value.first, caught.value.last) == (5, 6)
    world.write(world.state.refusal_settled(5, 6))
    assert world.open().expected == 20


def test_a_settled_conflict_is_recorded_and_nothing_counts_as_lost() -> None:
    from quorate.store.rules.accepted_losses import Losses

    world = Disputed().filled()
    losses = Losses("s1", world.core.sources, world.storage)
    record = world.done(losses.settled(world.state, Range(10, 19), "b", "an old disk, Ada", 7))
    assert "the content of store b is kept: an old disk, Ada" in str(record)
    again = world.reopened()
    records = startup.losses(again.storage)
    assert records == [record]
    Losses("s1", again.core.sources, again.storage, records)
    assert (list(again.state.losses), again.state.accepted) == ([], ())
