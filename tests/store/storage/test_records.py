from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.support import information

from quorate.protocol.begin import BeginRecord
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, Membership, Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.store.rules.identity_records import (
    End,
    ended_key,
    ended_of,
    pack_end,
    unpack_end,
)
from quorate.store.storage.records import (
    Held,
    Malformed,
    ReceiverRecord,
    Registration,
    index_first,
    index_key,
    marker_key,
    pack_held,
    pack_index,
    pack_marker,
    pack_receiver,
    pack_registration,
    unpack_commit,
    unpack_held,
    unpack_index,
    unpack_marker,
    unpack_receiver,
    unpack_registration,
)

u64 = st.integers(0, 2**64 - 1)
sequence = st.integers(0, 2**63 - 1)
lineages = st.lists(st.tuples(st.integers(1, 2**64 - 1), sequence), max_size=5).map(
    lambda pairs: Lineage(
        tuple(
            Term(epoch, first)
            for epoch, first in zip(
                sorted({pair[0] for pair in pairs}),
                sorted({pair[1] for pair in pairs}),
                strict=False,
            )
        )
    )
)


@given(
    topic=st.text(st.characters(codec="utf-8"), max_size=60),
    session_id=u64,
    promised=u64,
    instance=st.binary(max_size=64),
    lineage=lineages,
    clean=st.booleans(),
    ended=u64,
    spent=u64,
)
def test_a_registration_comes_back(
    topic: str,
    session_id: int,
    promised: int,
    instance: bytes,
    lineage: Lineage,
    clean: bool,
    ended: int,
    spent: int,
) -> None:
    membership = Membership((), (Policy((Group("g", ("a", "b")),)),))
    record = Registration(
        SourceName(topic, session_id),
        promised,
        instance,
        BeginRecord(lineage, membership, ended),
        information(),
        clean,
        by_take_over=clean,
        fences=not clean,
        spent_receiver_epoch=spent,
    )
    assert unpack_registration(pack_registration(record)) == record


def test_a_registration_without_its_later_parts_comes_back() -> None:
    record = Registration(SourceName("orders", 1), 1, b"a")
    assert unpack_registration(pack_registration(record)) == record


@given(
    pairs=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50)), max_size=20),
    stable=st.integers(-1, 2**62),
    taken=u64,
)
def test_what_is_held_comes_back(pairs: list[tuple[int, int]], stable: int, taken: int) -> None:
    ranges = RangeSet(Range(first, first + more) for first, more in pairs)
    held = Held(ranges, ranges.high + 1, stable, taken, 7)
    assert unpack_held(pack_held(held)) == held


@given(reg_id=u64, first=sequence, last=sequence, epoch=u64, position=u64)
def test_an_index_row_comes_back(
    reg_id: int, first: int, last: int, epoch: int, position: int
) -> None:
    key = index_key(reg_id, first)
    entry = unpack_index(key, pack_index(position, last, epoch, 0xDEADBEEF))
    assert (entry.first, entry.last, entry.epoch, entry.position) == (first, last, epoch, position)
    assert entry.checksum == 0xDEADBEEF


@given(st.lists(st.tuples(u64, sequence), min_size=2))
def test_index_keys_sort_like_their_numbers(pairs: list[tuple[int, int]]) -> None:
    assert sorted(index_key(*pair) for pair in pairs) == [
        index_key(*pair) for pair in sorted(pairs)
    ]
    assert index_first(index_key(*pairs[0])) == pairs[0][1]


def test_a_receiver_comes_back() -> None:
    for record in (
        ReceiverRecord(3, 4, -1),
        ReceiverRecord(3, 4, 9, bytes(range(16)), waited_for=False, confirmed_epoch=2),
    ):
        assert unpack_receiver(pack_receiver(record)) == record


@pytest.mark.parametrize("settled", [False, True])
def test_the_end_of_a_receiver_comes_back(settled: bool) -> None:
    end = End(7, settled=settled)
    assert unpack_end(pack_end(end)) == End(7, settled=settled, reread=True)
    assert ended_of(ended_key(3, 0x20)) == (3, 0x20)
    with pytest.raises(Malformed):
        unpack_end(b"123")


@pytest.mark.parametrize("cut", [0, 1, 10, 60, 70])
def test_a_cut_registration_is_malformed(cut: int) -> None:
    record = Registration(SourceName("orders", 1), 1, b"a", information=information())
    with pytest.raises(Malformed):
        unpack_registration(pack_registration(record)[:cut])


def test_other_cut_rows_are_malformed() -> None:
    held = pack_held(Held(RangeSet([Range(0, 5), Range(9, 9)]), 10))
    with pytest.raises(Malformed):
        unpack_held(held[:-1])
    with pytest.raises(Malformed):
        unpack_held(b"")
    with pytest.raises(Malformed):
        unpack_receiver(b"123")
    with pytest.raises(Malformed):
        unpack_commit(b"1")
    with pytest.raises(Malformed):
        unpack_index(index_key(1, 1), b"1")


def test_a_registration_of_another_version_is_malformed() -> None:
    packed = pack_registration(Registration(SourceName("orders", 1), 1, b"a"))
    with pytest.raises(Malformed, match="version 9"):
        unpack_registration(b"\x09" + packed[1:])


@given(reg_id=u64, number=sequence, epoch=u64, value=st.binary(max_size=1024))
def test_markers_come_back(reg_id: int, number: int, epoch: int, value: bytes) -> None:
    marker = Marker(number, epoch, value)
    assert unpack_marker(marker_key(reg_id, number), pack_marker(marker)) == (reg_id, marker)


def test_a_marker_that_is_cut_is_malformed() -> None:
    with pytest.raises(Malformed, match="marker"):
        unpack_marker(marker_key(1, 2), b"short")
