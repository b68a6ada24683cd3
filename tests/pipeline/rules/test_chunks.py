"""Rows are cut into chunks that fit one batch, in order, and none is lost."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.pipeline.rules.chunks import Chunks, Rows
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.limits import (
    ATTRIBUTE_BYTES_MORE,
    BATCH_BYTES_TARGET,
    BATCH_MESSAGES_MAX,
)


def rows(*payloads: bytes) -> Rows:
    return Rows(list(payloads))


def chunks_of(parts: Sequence[Rows]) -> list[Rows]:
    chunks = Chunks()
    whole = [chunk for part in parts for chunk in chunks.add(part)]
    return [*whole, chunks.rest()]


@given(
    parts=st.lists(
        st.lists(
            st.integers(0, BATCH_BYTES_TARGET * 2).map(lambda size: b"x" * size),
            min_size=1,
            max_size=9,
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60)
def test_chunks_have_every_row_in_order_and_fit(parts: list[list[bytes]]) -> None:
    cut = chunks_of([Rows(part) for part in parts])
    assert [p for chunk in cut for p in chunk.payloads] == [p for part in parts for p in part]
    for chunk in cut:
        assert len(chunk) == 1 or sum(chunk.sizes()) <= BATCH_BYTES_TARGET


def test_small_rows_are_cut_by_number() -> None:
    cut = chunks_of([Rows([b""] * (2 * BATCH_MESSAGES_MAX + 1))])
    assert [len(chunk) for chunk in cut] == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 1]


def test_attributes_count_and_stay_with_their_rows() -> None:
    half = Attributes(b"k" * (BATCH_BYTES_TARGET // 2 - ATTRIBUTE_BYTES_MORE))
    cut = chunks_of([Rows([b"0"]), Rows([b"1", b"2"], [half, half]), Rows([b"3"])])
    assert [(chunk.payloads, chunk.attributes) for chunk in cut] == [
        ([b"0", b"1"], [NO_ATTRIBUTES, half]),
        ([b"2", b"3"], [half, NO_ATTRIBUTES]),
    ]


def test_what_waits_is_known_and_can_be_had() -> None:
    chunks = Chunks()
    assert len(chunks.rest()) == 0
    assert list(chunks.add(rows(b"1", b"22"))) == []
    assert chunks.bytes == 3
    assert chunks.rest() == rows(b"1", b"22")
    assert chunks.bytes == 0


def test_rows_are_picked_with_what_belongs_to_them() -> None:
    some = Rows([b"0", b"1", b"2"], [Attributes(b"a"), NO_ATTRIBUTES, Attributes(b"c")])
    assert some.picked([2, 1]) == Rows([b"2", b"1"], [Attributes(b"c"), NO_ATTRIBUTES])
    assert rows(b"0", b"1").picked([1]) == rows(b"1")
