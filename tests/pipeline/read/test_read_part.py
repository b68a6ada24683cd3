"""What of a part is read when messages are gone."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.options import EARLIEST, LATEST, BoundKind, ReadBound
from quorate.pipeline.read.ranges import (
    begins_at,
    ends_at,
    read_part,
)
from quorate.pipeline.rules.known_source import KnownSource
from quorate.pipeline.rules.planning import (
    Part,
    SourceRange,
)
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.client import Stores
from quorate.protocol.answers import Piece
from quorate.protocol.framing import encode_batch, read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range, RangeSet
from quorate.v1.messages_pb2 import Membership, SourceInformation

ORDERS = SourceName("orders", 0x10)
LINEAGE = Lineage((Term(1, 0),))
PART = Part((SourceRange(ORDERS, 0, 40, LINEAGE),), 0)


class LossyStores(Stores):
    """Have everything but [10, 19]; times are what they are told."""

    def __init__(self, time_at: int = 0) -> None:
        super().__init__(["a:1"])
        self._time_at = time_at

    def fetch(
        self, source: SourceName, lineage: Lineage, first: int, last: int, turn: int = 0
    ) -> Generator[Piece, None, None]:
        del lineage, turn
        while first <= last:
            if 10 <= first <= 19:
                raise MessagesGone(str(source), first, 19, "a:1: it lacks it")
            upto = min(last, 9 if first < 10 else last)
            frame = encode_batch(source, 1, first, [b"x"] * (upto - first + 1), 0)
            yield Piece(frame, read_header(frame), first, upto)
            first = upto + 1

    def first_since(self, source: SourceName, time_ns: int) -> int:
        del source, time_ns
        return self._time_at


def test_what_is_gone_ends_the_reading() -> None:
    with pytest.raises(MessagesGone, match=r"\[10, 19\] of orders/0x10 are gone: a:1: it lacks it"):
        list(read_part(LossyStores(), PART, ARROW, fail_on_data_loss=True))


@pytest.mark.expects_log("are left out")
def test_what_is_gone_is_left_out_if_so_ordered_and_said(caplog: pytest.LogCaptureFixture) -> None:
    batches = read_part(LossyStores(), PART, ARROW, fail_on_data_loss=False)
    found = [number for batch in batches for number in batch.column("sequence").to_pylist()]
    assert found == [*range(10), *range(20, 40)]
    assert "10 messages are left out that no store has: [10, 19] of orders/0x10" in caplog.text


def known(*held: Range, retained_from: int = 0) -> KnownSource:
    """Stable up to 99."""
    return KnownSource(
        name=ORDERS,
        lineage=LINEAGE,
        stable_upto=99,
        held=RangeSet(held),
        high=99,
        retained_from=retained_from,
        information=SourceInformation(),
        live=True,
        stores=("a:1",),
        membership=Membership(),
        promised_epoch=1,
        reg_id=1,
        losses=(),
    )


@pytest.mark.parametrize(
    ("bound", "held", "expected"),
    [
        (EARLIEST, Range(0, 99), (0, 0)),
        (LATEST, Range(0, 99), (100, 100)),
        (ReadBound(BoundKind.SEQUENCE, 7), Range(0, 99), (7, 7)),
        (ReadBound(BoundKind.SEQUENCE, 700), Range(0, 99), (100, 100)),
    ],
)
def test_bounds(bound: ReadBound, held: Range, expected: tuple[int, int]) -> None:
    stores = LossyStores()
    found = begins_at(stores, known(held), bound), ends_at(stores, known(held), bound)
    assert found == expected


@pytest.mark.parametrize(
    ("held", "earliest"),
    [
        ([Range(0, 99)], 0),
        ([Range(40, 99)], 40),
        # One store keeps more than the others.
        ([Range(20, 99)], 20),
        ([Range(0, 9), Range(20, 99)], 20),
        # What lacks above is no matter of retention.
        ([Range(50, 99)], 40),
        ([], 40),
    ],
)
def test_the_beginning_is_what_was_not_let_go(held: list[Range], earliest: int) -> None:
    one = known(*held, retained_from=40)
    assert begins_at(LossyStores(), one, EARLIEST) == earliest
    # A time that is older than everything.
    assert begins_at(LossyStores(0), one, ReadBound(BoundKind.TIME, 5)) == earliest


@pytest.mark.parametrize(
    ("answer", "held", "expected"),
    [
        (50, Range(0, 99), (50, 50)),
        (100, Range(0, 99), (100, 100)),
        (150, Range(0, 149), (100, 100)),
        # Those that answered have messages up to 69 only: which is the last before that time?
        (70, Range(0, 69), (70, 100)),
        (0, Range(30, 99), (0, 0)),
    ],
)
def test_a_time_where_messages_lack_begins_and_ends_so_that_nothing_is_left_out(
    answer: int, held: Range, expected: tuple[int, int]
) -> None:
    stores, bound = LossyStores(answer), ReadBound(BoundKind.TIME, 5)
    found = begins_at(stores, known(held), bound), ends_at(stores, known(held), bound)
    assert found == expected
