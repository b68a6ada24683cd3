from __future__ import annotations

import pytest
from tests.store.support import (
    FIRST_LINEAGE,
    ORDERS,
    TRADES,
    World,
    batch,
    held,
    information,
    stored,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    CorruptBatch,
    Fenced,
    InvalidArgument,
    NotRegistered,
    OutOfOrder,
)
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.source_state import Change
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.reader import read


@pytest.fixture
def world() -> World:
    return World()


# Streams.


def test_a_stream_needs_a_known_source_and_a_begun_epoch(world: World) -> None:
    with pytest.raises(NotRegistered, match="does not know"):
        world.open(1)
    world.promise(1)
    with pytest.raises(NotRegistered, match="not begun"):
        world.open(1)
    world.begin(FIRST_LINEAGE)
    world.open(1)
    world.promise(2)
    with pytest.raises(Fenced):
        world.open(1)
    with pytest.raises(NotRegistered):
        world.open(2)


def test_batches_in_order_are_held_and_indexed(world: World) -> None:
    stream = world.stream()
    for first in range(0, 12, 4):
        assert world.append(stream, batch(first, first + 3))
    assert held(world) == [(0, 11, 1)]
    assert [item[:2] for item in stored(world, 2, 9)] == [(2, 3), (4, 7), (8, 9)]
    assert world.core.streams.position == 3


def test_a_gap_is_refused_and_nothing_is_taken(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3))
    with pytest.raises(OutOfOrder) as caught:
        world.append(stream, batch(5, 6))
    assert (caught.value.expected, caught.value.first) == (4, 5)
    assert held(world) == [(0, 3, 1)]


@pytest.mark.parametrize("flip", [0, 5, 20, 45, 60])
def test_a_flipped_bit_is_refused_and_nothing_is_taken(world: World, flip: int) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3))
    frame = bytearray(batch(4, 7))
    frame[flip] ^= 0x10
    with pytest.raises(CorruptBatch):
        world.append(stream, bytes(frame))
    assert held(world) == [(0, 3, 1)]
    assert world.append(stream, batch(4, 7))


def test_a_cut_batch_is_refused(world: World) -> None:
    stream = world.stream()
    for length in (0, 10, len(batch(0, 3)) - 1):
        with pytest.raises(CorruptBatch):
            world.append(stream, batch(0, 3)[:length])
    assert held(world) == []


def test_a_batch_of_another_source_or_epoch_is_refused(world: World) -> None:
    stream = world.stream()
    with pytest.raises(InvalidArgument, match="trades"):
        world.append(stream, batch(0, 3, source=TRADES))
    with pytest.raises(InvalidArgument, match="epoch 2"):
        world.append(stream, batch(0, 3, epoch=2))
    assert held(world) == []


def test_a_batch_across_two_epochs_is_refused(world: World) -> None:
    world.promise(2)
    world.begin(Lineage((Term(1, 0), Term(2, 5))))
    stream = world.open(2)
    with pytest.raises(InvalidArgument, match="lineage names 2"):
        world.append(stream, batch(0, 9, 1))
    assert world.append(stream, batch(0, 4, 1))
    assert world.append(stream, batch(5, 9, 2))
    assert held(world) == [(0, 4, 1), (5, 9, 2)]


def test_duplicates_are_acknowledged_and_not_written(world: World) -> None:
    stream = world.stream()
    for first in (0, 4, 8):
        world.append(stream, batch(first, first + 3))
    assert not world.append(stream, batch(4, 7))
    assert not world.append(stream, batch(2, 9)), "the same content in other batches"
    assert stream.expected == 12
    assert world.core.streams.position == 3


def test_an_overlap_is_taken_where_it_is_new(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 7))
    assert world.append(stream, batch(4, 11))
    assert held(world) == [(0, 11, 1)]
    assert stored(world, 0, 11) == [(0, 7, batch(0, 7)), (8, 11, batch(4, 11))]
    assert [item[:2] for item in stored(world, 5, 9)] == [(5, 7), (8, 9)]


def test_another_key_is_other_content(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 7, key=b"key"))
    assert world.append(stream, batch(4, 11, key=b"key"))
    for key in (None, b"", b"other"):
        with pytest.raises(ContentConflict):
            world.append(world.stream(), batch(10, 12, key=key))
    assert held(world) == [(0, 11, 1)]


def test_other_content_is_a_conflict_and_nothing_is_taken(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3))
    world.append(stream, batch(4, 7))
    with pytest.raises(ContentConflict) as caught:
        world.append(stream, batch(2, 9, salt="other "))
    assert (caught.value.first, caught.value.last) == (2, 3)
    assert held(world) == [(0, 7, 1)]
    assert stored(world, 0, 7) == [(0, 3, batch(0, 3)), (4, 7, batch(4, 7))]


def test_a_reopened_stream_goes_on_where_the_store_lacks(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    assert world.open(retained_from=3).expected == 10
    assert world.restarted().open(retained_from=3).expected == 10


def test_what_the_source_no_longer_has_is_a_hole_if_it_is_stable(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    with pytest.raises(OutOfOrder):
        world.open(retained_from=20, stable_upto=18)
    stream = world.open(retained_from=20, stable_upto=19)
    assert stream.expected == 20
    world.append(stream, batch(20, 29))
    state = world.restarted().core.sources[ORDERS]
    assert state.holes() == [Range(10, 19)]
    assert held(world) == [(0, 9, 1), (20, 29, 1)]


def test_a_hole_that_the_source_still_has_is_filled_by_its_stream(world: World) -> None:
    world.append(world.stream(), batch(0, 9))
    world.append(world.open(retained_from=20, stable_upto=19), batch(20, 29))
    stream = world.open(retained_from=5)
    assert stream.expected == 10
    assert world.append(stream, batch(10, 19))
    assert not world.append(stream, batch(20, 29))
    assert world.append(stream, batch(30, 31))
    assert held(world) == [(0, 31, 1)]
    assert world.core.sources[ORDERS].holes() == []


def test_only_what_is_stable_and_next_is_skipped(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3), stable_upto=9)
    with pytest.raises(OutOfOrder):
        world.core.streams.skip(stream, 5, 6)
    with pytest.raises(InvalidArgument, match="not all stable"):
        world.core.streams.skip(stream, 4, 10)
    world.write(world.core.streams.skip(stream, 4, 9))
    world.append(stream, batch(10, 10))
    assert world.core.sources[ORDERS].holes() == [Range(4, 9)]


def test_stable_upto_only_grows_and_is_kept(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 3), stable_upto=2)
    world.append(stream, batch(4, 7), stable_upto=1)
    world.write(world.core.streams.keepalive(stream, 5))
    assert world.core.streams.keepalive(stream, 4) == ()
    assert world.restarted().core.sources[ORDERS].held.stable_upto == 5


def test_information_only_gets_newer(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.inform(stream, information(version=3)))
    assert world.core.streams.inform(stream, information(version=2)) == ()
    with pytest.raises(InvalidArgument):
        world.core.streams.inform(stream, information(TRADES, version=9))
    with pytest.raises(InvalidArgument):
        world.core.streams.inform(stream, information(epoch=2, version=9))
    found = world.restarted().core.sources[ORDERS].registration.information
    assert found is not None
    assert found.version == 3


def test_goodbye_is_remembered_until_the_source_returns(world: World) -> None:
    stream = world.stream()
    world.write(world.core.streams.goodbye(stream))
    world.write(world.core.streams.closed(stream))
    after = world.restarted()
    assert after.core.sources[ORDERS].registration.clean
    after.open(1)
    assert not after.core.sources[ORDERS].registration.clean


# Repair.


@pytest.fixture
def holed(world: World) -> World:
    """Holds [0, 9] and [30, 39]; all is stable."""
    world.append(world.stream(), batch(0, 9))
    world.append(world.open(retained_from=30, stable_upto=39), batch(30, 39))
    return world


def test_a_hole_is_filled_from_peers_batches_as_they_are(holed: World) -> None:
    # The peers' batches begin and end elsewhere.
    for first, last in ((5, 14), (15, 31)):
        assert holed.fill(batch(first, last), Range(10, 29)) == Range(max(first, 10), min(last, 29))
    assert held(holed) == [(0, 39, 1)]
    assert [item[:2] for item in stored(holed, 0, 39)] == [(0, 9), (10, 14), (15, 29), (30, 39)]


def test_a_batch_of_another_lineage_is_not_taken(holed: World) -> None:
    assert holed.fill(batch(10, 19, epoch=2), Range(10, 29)) is None
    assert holed.core.sources[ORDERS].holes() == [Range(10, 29)]


def test_a_batch_beside_the_hole_is_not_taken(holed: World) -> None:
    assert holed.fill(batch(0, 9), Range(10, 29)) is None


def test_a_peer_with_other_content_is_a_conflict(holed: World) -> None:
    with pytest.raises(ContentConflict):
        holed.fill(batch(5, 14, salt="other "), Range(10, 29))
    assert holed.core.sources[ORDERS].holes() == [Range(10, 29)]


def test_a_corrupt_batch_from_a_peer_is_not_taken(holed: World) -> None:
    with pytest.raises(CorruptBatch, match="from a peer"):
        holed.fill(batch(10, 19)[:-1] + b"?", Range(10, 29))
    with pytest.raises(InvalidArgument):
        holed.fill(batch(10, 19, source=TRADES), Range(10, 29))


def test_what_was_fetched_for_a_deleted_source_is_not_taken_for_the_one_after_it(
    holed: World,
) -> None:
    """It has the same name and may have the same epoch and numbers, but is another stream."""
    before = holed.core.sources[ORDERS]
    holed.core.remove(ORDERS, Closed("The source"))
    assert holed.core.streams.fill(before, batch(10, 19), Range(10, 29)) == Change(None)
    holed.stream()
    assert holed.core.streams.fill(before, batch(10, 19), Range(10, 29)) == Change(None)
    assert not holed.core.sources[ORDERS].held.ranges
    adoption = Adoption(1, b"a", begun=BeginRecord(before.lineage))
    assert holed.core.leave_limbo(before, adoption) == Change(False)


def test_a_batch_around_others_serves_the_numbers_between(world: World) -> None:
    world.append(world.stream(), batch(0, 1))
    world.append(world.open(retained_from=5, stable_upto=99), batch(5, 6))
    world.append(world.open(retained_from=20, stable_upto=99), batch(20, 21))
    world.fill(batch(2, 19), Range(2, 4))
    assert held(world) == [(0, 6, 1), (20, 21, 1)]
    world.fill(batch(2, 19), Range(7, 19))
    assert held(world) == [(0, 21, 1)]
    parts = [item[:2] for item in stored(world, 0, 21)]
    assert parts == [(0, 1), (2, 4), (5, 6), (7, 19), (20, 21)]
    assert [item[:2] for item in stored(world, 8, 9)] == [(8, 9)]


def test_a_good_copy_replaces_only_what_it_has(world: World) -> None:
    stream = world.stream()
    for first in (0, 10, 20):
        world.append(stream, batch(first, first + 9), stable_upto=first)
    rows = world.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 9)
    world.write(Write(Table.JOURNAL, key, b"?") for key, _ in rows)
    assert world.append(stream, batch(5, 24))
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(0, 29), 9)
    assert [(item.part, bool(item.problem)) for item in found] == [
        (Range(0, 4), True),
        (Range(5, 24), False),
        (Range(25, 29), True),
    ]


def test_an_unreadable_batch_is_replaced_by_a_good_copy(world: World) -> None:
    stream = world.stream()
    world.append(stream, batch(0, 9), stable_upto=9)
    (key, value), *_ = world.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 1)
    world.write([Write(Table.JOURNAL, key, value[:-1] + b"?")])
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(0, 9), 9)
    assert [(item.part, item.frame) for item in found] == [(Range(0, 9), b"")]
    assert "checksum" in found[0].problem
    assert world.fill(batch(0, 9), Range(0, 9)) == Range(0, 9)
    assert stored(world, 0, 9) == [(0, 9, batch(0, 9))]


def test_what_the_index_lost_is_unreadable_not_absent(world: World) -> None:
    stream = world.stream()
    for first in (0, 10, 20):
        world.append(stream, batch(first, first + 9))
    rows = world.storage.scan(Table.INDEX, b"", b"\xff" * 16, 9)
    world.write(Write(Table.INDEX, key, None) for key, _ in rows[1:])
    state = world.core.sources[ORDERS]
    found = read(world.storage, state.reg_id, ORDERS, Range(0, 29), 9)
    assert [(item.part, bool(item.problem)) for item in found] == [
        (Range(0, 9), False),
        (Range(10, 29), True),
    ]
    # The source sends it again: the good copy is taken.
    stream.expected = 30
    assert world.append(stream, batch(10, 19))
    assert world.append(stream, batch(20, 29))
    assert [item[:2] for item in stored(world, 0, 29)] == [(0, 9), (10, 19), (20, 29)]
