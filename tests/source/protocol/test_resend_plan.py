from tests.whole import whole

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.begin import NOT_BEGUN
from quorate.protocol.fragments import header_of
from quorate.protocol.framing import encode_batch, read_contents, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.recovery import Decision
from quorate.source.protocol.resend_plan import (
    Kept,
    conflict,
    first_of,
    plan_load,
    sent_again,
)

NAME = SourceName("orders", 0x10)


def batch(first: int, *payloads: bytes) -> bytes:
    return encode_batch(NAME, 1, first, payloads, 5)


def decision(kept_upto: int, **held: tuple[int, int]) -> Decision:
    holders = {store: RangeSet([Range(*pair)]) for store, pair in held.items()}
    return Decision(kept_upto, -1, -1, NOT_BEGUN, holders)


def test_only_what_is_kept_and_not_stable_is_loaded_and_each_run_from_who_holds_it() -> None:
    load = plan_load(decision(9, a=(0, 9), b=(0, 4)), 2, ())
    assert load is not None
    assert (load.first, load.last) == (3, 9)
    assert load.holders == {3: ("a", "b"), 5: ("a",)}
    assert [load.run(first) for first in (3, 4, 5, 9)] == [
        (4, ("a", "b")),
        (4, ("a", "b")),
        (9, ("a",)),
        (9, ("a",)),
    ]
    assert plan_load(decision(9, a=(0, 9)), 9, ()) is None


def test_what_the_source_has_itself_is_compared_even_where_it_is_stable() -> None:
    load = plan_load(decision(9, a=(0, 9)), 9, [batch(8, b"8", b"9", b"10")])
    assert load is not None
    assert (load.first, load.last) == (8, 9)


def test_the_same_content_in_other_batches_is_no_conflict() -> None:
    kept = [Kept(4, 5, batch(4, b"4", b"5"), "a"), Kept(6, 6, batch(6, b"6"), "b")]
    assert conflict(NAME, kept, [batch(5, b"5", b"6", b"7")]) is None
    found = conflict(NAME, kept, [batch(5, b"5", b"other")])
    assert found is not None
    assert (found.first, found.last, found.store) == (5, 6, "b")


def test_what_no_store_kept_is_sent_again_in_the_new_epoch() -> None:
    unstable = [batch(3, b"3"), batch(4, b"4", b"5"), batch(6, b"6")]
    assert first_of(unstable) == 3
    assert first_of(()) is None
    again = list(sent_again(7, 4, unstable))
    assert [(first, last) for first, last, _ in again] == [(5, 5), (6, 6)]
    header = header_of(again[0][2])
    assert (header.epoch, header.timestamp_ns) == (7, 5)
    assert read_payloads(whole(again[0][2]), header) == [b"5"]


def test_what_is_sent_again_in_part_keeps_its_attributes() -> None:
    own = encode_batch(NAME, 1, 4, [b"4", b"5"], 5, attributes=[NO_ATTRIBUTES, Attributes(b"five")])
    ((_, _, again),) = sent_again(7, 4, [own])
    assert read_contents(whole(again), header_of(again), 5, 5) == [(b"5", Attributes(b"five"))]


def test_other_attributes_are_a_conflict() -> None:
    def keyed(key: bytes) -> bytes:
        attributes = [NO_ATTRIBUTES, Attributes(key)]
        return encode_batch(NAME, 1, 4, [b"4", b"5"], 5, attributes=attributes)

    kept = [Kept(4, 5, keyed(b"five"), "a")]
    assert conflict(NAME, kept, [keyed(b"five")]) is None
    found = conflict(NAME, kept, [keyed(b"other")])
    assert found is not None
    assert (found.first, found.last, found.store) == (4, 5, "a")
