"""Comparing what stores have under the same numbers, and planning where to look."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from quorate.pipeline.audit.contents import (
    Batch,
    content_hash,
    divergent,
    other_batches,
    surplus,
    suspicious,
)
from quorate.pipeline.audit.facts import Copy, Kind, SourceFacts
from quorate.pipeline.audit.holdings import segments, stretches
from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.digests import Block
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range, RangeSet

numbers = st.frozensets(st.integers(0, 30))


def as_ranges(chosen: frozenset[int]) -> RangeSet:
    return RangeSet(Range(each, each) for each in sorted(chosen))


@given(st.dictionaries(st.sampled_from("abc"), numbers), st.integers(0, 10), st.integers(-1, 30))
def test_stretches_say_of_every_number_who_holds_it(
    held: dict[str, frozenset[int]], first: int, last: int
) -> None:
    found = stretches({store: as_ranges(each) for store, each in held.items()}, first, last)
    said = {number: each.holders for each in found for number in range(each.first, each.last + 1)}
    assert said == {
        number: {store for store, each in held.items() if number in each}
        for number in range(first, last + 1)
    }
    for one, other in pairwise(found):
        assert one.last + 1 == other.first
        assert one.holders != other.holders


def test_parts_have_what_is_held_once_and_name_who_holds_it() -> None:
    copies = {
        "a": Copy("a", held=RangeSet([Range(0, 999)])),
        "b": Copy("b", held=RangeSet([Range(0, 399), Range(600, 1200)])),
    }
    source = SourceFacts(SourceName("orders", 1), Lineage((Term(1, 0),)), 1099, copies)
    planned = segments([source], parts=4, part_messages_min=1, part_messages_max=10_000)
    assert [len(part) for part in planned] == [1, 2, 2, 2]
    told = [(each.first, each.last, each.stores) for part in planned for each in part]
    assert told == [
        (0, 274, ("a", "b")),
        (275, 399, ("a", "b")),
        (400, 549, ("a",)),
        (550, 599, ("a",)),
        (600, 824, ("a", "b")),
        (825, 999, ("a", "b")),
        (1000, 1099, ("b",)),
    ]


def test_blocks_are_suspicious_if_they_differ_or_are_not_full() -> None:
    full, other = Block(0, 9, 10, 1), Block(0, 9, 10, 2)
    second = Block(10, 14, 5, 7)
    assert suspicious({"a": [full, second], "b": [full, second]}) == []
    assert suspicious({"a": [full, second], "b": [other, second]}) == [Range(0, 9)]
    short = Block(10, 14, 4, 7)
    assert suspicious({"a": [full, short], "b": [full, short]}) == [Range(10, 14)]
    assert list(surplus({"a": [full, short]})) == []
    (twice,) = surplus({"a": [full], "b": [Block(0, 9, 13, 1)]})
    assert (twice.kind, twice.stores) == (Kind.DUPLICATE, ("b",))


def test_the_same_batches_need_not_be_looked_into() -> None:
    a = [Batch(0, 9, 1, 111), Batch(10, 19, 1, 222)]
    assert list(other_batches({"a": a, "b": a, "c": a}, Range(0, 19))) == []
    forged = [a[0], Batch(10, 19, 1, 333)]
    assert list(other_batches({"a": a, "b": forged}, Range(0, 19))) == [Range(10, 19)]
    epoch = [a[0], Batch(10, 19, 2, 222)]
    assert list(other_batches({"a": a, "b": epoch}, Range(0, 19))) == [Range(10, 19)]
    parted = [Batch(0, 4, 1, 444), Batch(5, 9, 1, 555), a[1]]
    assert list(other_batches({"a": a, "b": parted}, Range(0, 19))) == [Range(0, 9)]
    assert list(other_batches({"a": a, "b": a[:1]}, Range(0, 19))) == [Range(10, 19)]
    assert list(other_batches({"a": a}, Range(0, 19))) == []


def test_other_content_is_told_with_who_agrees() -> None:
    one, two, three = (content_hash(each, NO_ATTRIBUTES) for each in (b"1", b"2", b"3"))
    contents = {
        "a": {0: one, 1: one, 2: one, 3: one},
        "b": {0: one, 1: one, 2: one, 3: two},
        "c": {0: one, 1: two, 2: two, 3: three},
    }
    assert sorted((each.first, each.last, each.detail) for each in divergent(contents)) == [
        (1, 2, "a, b against c"),
        (3, 3, "a against b against c"),
    ]


def test_what_a_store_lacks_is_no_other_content() -> None:
    one = content_hash(b"1", NO_ATTRIBUTES)
    assert divergent({"a": {0: one}, "b": {}}) == []


def test_a_key_makes_another_message() -> None:
    assert content_hash(b"ab", NO_ATTRIBUTES) != content_hash(b"a", Attributes(b"b"))
    assert content_hash(b"a", Attributes(b"b")) == content_hash(b"a", Attributes(b"b"))
