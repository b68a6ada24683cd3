import pytest

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import check_batch, encode_batch, read_contents, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.source.kept_messages import clipped
from quorate.source.survivors import Kept
from quorate.v1.messages_pb2 import Fetched

NAME = SourceName("orders", 0x10)
LINEAGE = Lineage((Term(3, 0),))
BATCH = encode_batch(NAME, 3, 10, [b"10", b"11", b"12", b"13"], 99)


def test_a_whole_batch_stays_as_it_is() -> None:
    fetched = Fetched(batch=BATCH, first=10, last=13)
    assert clipped(NAME, LINEAGE, fetched, Range(10, 20), "a") == Kept(10, 13, BATCH, "a")


@pytest.mark.parametrize(
    ("valid", "wanted", "expected"),
    [
        ((10, 11), (10, 20), (10, 11)),
        ((10, 13), (12, 20), (12, 13)),
        ((11, 13), (10, 12), (11, 12)),
    ],
)
def test_of_a_batch_only_what_is_valid_and_wanted_is_kept(
    valid: tuple[int, int], wanted: tuple[int, int], expected: tuple[int, int]
) -> None:
    fetched = Fetched(batch=BATCH, first=valid[0], last=valid[1])
    item = clipped(NAME, LINEAGE, fetched, Range(*wanted), "a")
    assert (item.first, item.last) == expected
    header = check_batch(item.batch)
    assert (header.first, header.last, header.epoch, header.timestamp_ns) == (*expected, 3, 99)
    numbers = range(expected[0], expected[1] + 1)
    assert read_payloads(item.batch, header) == [b"%d" % number for number in numbers]


def test_a_part_keeps_its_attributes() -> None:
    whole = encode_batch(
        NAME, 3, 10, [b"10", b"11", b"12"], 99, attributes=[b"ten", b"", b"twelve"]
    )
    item = clipped(NAME, LINEAGE, Fetched(batch=whole, first=11, last=12), Range(10, 20), "a")
    contents = read_contents(item.batch, check_batch(item.batch), 11, 12)
    assert contents == [(b"11", b""), (b"12", b"twelve")]


def test_what_a_later_epoch_voided_is_not_kept() -> None:
    """A store that has not begun yet serves as valid what is not so any more."""
    fetched = Fetched(batch=BATCH, first=10, last=13)
    voided = Lineage((Term(3, 0), Term(4, 12)))
    item = clipped(NAME, voided, fetched, Range(10, 20), "a")
    assert (item.first, item.last) == (10, 11)
    with pytest.raises(CorruptBatch):
        clipped(NAME, voided, fetched, Range(12, 20), "a")
    with pytest.raises(CorruptBatch):
        clipped(NAME, Lineage((Term(4, 0),)), fetched, Range(10, 20), "a")


@pytest.mark.parametrize(
    ("source", "batch", "last", "first_wanted"),
    [
        (SourceName("other", 1), BATCH, 13, 10),
        (NAME, BATCH, 11, 12),
        (NAME, BATCH[:-1] + b"x", 13, 10),
    ],
)
def test_what_can_not_be_is_refused(
    source: SourceName, batch: bytes, last: int, first_wanted: int
) -> None:
    fetched = Fetched(batch=batch, first=10, last=last)
    with pytest.raises(CorruptBatch):
        clipped(source, LINEAGE, fetched, Range(first_wanted, 20), "a")
