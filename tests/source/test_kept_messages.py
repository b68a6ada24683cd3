import pytest

from quorate.protocol.errors import CorruptBatch
from quorate.protocol.framing import check_batch, encode_batch, read_contents, read_payloads
from quorate.protocol.identity import SourceName
from quorate.source.kept_messages import clipped
from quorate.source.survivors import Kept
from quorate.v1.messages_pb2 import Fetched

NAME = SourceName("orders", 0x10)
BATCH = encode_batch(NAME, 3, 10, [b"10", b"11", b"12", b"13"], 99)


def test_a_whole_batch_stays_as_it_is() -> None:
    fetched = Fetched(batch=BATCH, first=10, last=13)
    assert clipped(NAME, fetched, 10, 20, "a") == Kept(10, 13, BATCH, "a")


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
    item = clipped(NAME, Fetched(batch=BATCH, first=valid[0], last=valid[1]), *wanted, "a")
    assert (item.first, item.last) == expected
    header = check_batch(item.batch)
    assert (header.first, header.last, header.epoch, header.timestamp_ns) == (*expected, 3, 99)
    numbers = range(expected[0], expected[1] + 1)
    assert read_payloads(item.batch, header) == [b"%d" % number for number in numbers]


def test_a_part_keeps_its_attributes() -> None:
    whole = encode_batch(
        NAME, 3, 10, [b"10", b"11", b"12"], 99, attributes=[b"ten", b"", b"twelve"]
    )
    item = clipped(NAME, Fetched(batch=whole, first=11, last=12), 10, 20, "a")
    contents = read_contents(item.batch, check_batch(item.batch), 11, 12)
    assert contents == [(b"11", b""), (b"12", b"twelve")]


def test_what_can_not_be_is_refused() -> None:
    with pytest.raises(CorruptBatch):
        clipped(SourceName("other", 1), Fetched(batch=BATCH, first=10, last=13), 10, 20, "a")
    with pytest.raises(CorruptBatch):
        clipped(NAME, Fetched(batch=BATCH, first=10, last=11), 12, 20, "a")
    with pytest.raises(CorruptBatch):
        clipped(NAME, Fetched(batch=BATCH[:-1] + b"x", first=10, last=13), 10, 20, "a")
