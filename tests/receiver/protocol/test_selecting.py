"""The filter of a receiver, applied to a part of a batch."""

from __future__ import annotations

from quorate.protocol.attributes import Attributes
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.framing import body_of, encode_batch, read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.ranges import Range
from quorate.receiver.protocol.selecting import select
from quorate.receiver.protocol.stream import BatchPart

PAYLOADS = [b'{"price": %d}' % n for n in range(5)] + [b"no JSON", b"\xff", b""]


def part(first: int = 10, last: int = 17, attributes: tuple[Attributes, ...] = ()) -> BatchPart:
    """Messages [first, last] of a batch that begins with number 10."""
    frame = encode_batch(SourceName("orders", 0x10), 3, 10, PAYLOADS, 7, b"", attributes)
    return BatchPart(first, last, read_header(frame), frame, True)


def numbers(parts: list[BatchPart]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in parts]


def test_consecutive_messages_that_pass_stay_together() -> None:
    chosen = select(Filter("price <> 2"), PayloadFormat.JSON, part())
    assert numbers(chosen.kept) == [(10, 11), (13, 14)]
    assert chosen.left_out == [Range(12, 12), Range(15, 17)]
    assert [each.retransmitted for each in chosen.kept] == [True, True]
    second = chosen.kept[1]
    assert isinstance(second.frame, bytes)
    assert read_payloads(second.frame, second.header) == PAYLOADS[3:5]
    assert (second.header.epoch, second.header.timestamp_ns) == (3, 7)


def test_nothing_but_the_part_is_evaluated() -> None:
    chosen = select(Filter("price >= 0"), PayloadFormat.JSON, part(12, 15))
    assert numbers(chosen.kept) == [(12, 14)]
    assert chosen.left_out == [Range(15, 15)]


def test_if_nothing_passes_all_is_left_out() -> None:
    chosen = select(Filter("price > 100"), PayloadFormat.JSON, part())
    assert (chosen.kept, chosen.left_out) == ([], [Range(10, 17)])


def test_a_part_that_passes_as_a_whole_is_not_copied() -> None:
    whole = part()
    chosen = select(Filter("$sequence >= 10"), PayloadFormat.JSON, whole)
    assert chosen.kept == [whole]
    assert chosen.kept[0] is whole
    assert chosen.left_out == []


def test_a_part_keeps_no_payload_that_was_left_out() -> None:
    (one,) = select(Filter("price = 2"), PayloadFormat.JSON, part()).kept
    assert isinstance(one.frame, bytes)
    assert PAYLOADS[2] in one.frame
    assert PAYLOADS[3] not in one.frame


def test_keys_and_properties_stay_with_their_messages() -> None:
    attributes = tuple(Attributes(b"k%d" % n, {"n": b"%d" % n}) for n in range(8))
    (one,) = select(Filter("$key = 'k3'"), PayloadFormat.JSON, part(attributes=attributes)).kept
    assert isinstance(one.frame, bytes)
    assert (one.first, one.last) == (13, 13)
    assert body_of(one.frame, one.header).read_attributes() == [attributes[3]]
