"""The messages that a driver leaves out because no store has them, and how it says so."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest
from tests.pipeline.read.test_read_part import LINEAGE, ORDERS, LossyStores, known

from quorate.pipeline.errors import MessagesGone
from quorate.pipeline.options import read_options
from quorate.pipeline.read.left_out import LeftOut, warn_of
from quorate.pipeline.read.stream_reader import LEFT_OUT, StreamReader
from quorate.pipeline.rules.planning import SourceRange
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.client import Catalogue
from quorate.protocol.answers import Piece
from quorate.protocol.errors import MissingMessages
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import Range

WHOLE = SourceRange(ORDERS, 0, 40, LINEAGE)
pytestmark = pytest.mark.expects_log("failOnDataLoss is false")


class CountingStores(LossyStores):
    """Note which numbers they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[int, int]] = []

    def fetch(
        self, source: SourceName, lineage: Lineage, first: int, last: int, turn: int = 0
    ) -> Generator[Piece, None, None]:
        self.asked.append((first, last))
        return super().fetch(source, lineage, first, last, turn)


def spans(ranges: list[SourceRange]) -> list[tuple[int, int]]:
    return [(each.first, each.until) for each in ranges]


def test_stores_that_hold_everything_are_asked_for_nothing() -> None:
    stores = CountingStores()
    assert LeftOut(stores).rest([(known(Range(0, 99)), WHOLE)]) == [WHOLE]
    assert stores.asked == []


def test_a_message_that_no_store_has_is_left_out_counted_and_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stores = CountingStores()
    left_out = LeftOut(stores)
    holding = known(Range(0, 9), Range(20, 99))
    assert spans(left_out.rest([(holding, WHOLE)])) == [(0, 10), (20, 40)]
    assert spans(left_out.rest([(holding, WHOLE)])) == [(0, 10), (20, 40)]
    assert left_out.messages == 10
    assert stores.asked == [(10, 19)]
    assert [each.getMessage() for each in caplog.records] == [
        "failOnDataLoss is false, so 10 messages are left out that no store has: "
        "[10, 19] of orders/0x10 (a:1: it lacks it)"
    ]


def test_a_message_that_a_store_has_which_did_not_answer_before_is_read() -> None:
    stores = CountingStores()
    left_out = LeftOut(stores)
    # The tasks find what is behind the first number that a store has.
    assert spans(left_out.rest([(known(Range(30, 99)), WHOLE)])) == [(0, 40)]
    assert stores.asked == [(0, 29)]
    assert left_out.messages == 0


def test_a_driver_that_gets_no_answer_once_lets_the_tasks_ask() -> None:
    class Silent(CountingStores):
        def fetch(
            self, source: SourceName, lineage: Lineage, first: int, last: int, turn: int = 0
        ) -> Generator[Piece, None, None]:
            del lineage, turn
            self.asked.append((first, last))
            raise MissingMessages(str(source), first, last, "a:1")

    stores = Silent()
    holding = known(Range(0, 9), Range(20, 29))
    assert LeftOut(stores).rest([(holding, WHOLE), (holding, WHOLE)]) == [WHOLE, WHOLE]
    assert stores.asked == [(10, 19)]


def test_a_range_of_the_archive_is_not_asked_for() -> None:
    stores = CountingStores()
    archived = replace(WHOLE, archived=True)
    assert LeftOut(stores).rest([(known(), archived)]) == [archived]
    assert stores.asked == []


def test_a_stream_shows_the_number_with_the_micro_batch_that_leaves_messages_out() -> None:
    given = {"stores": "a:1", "failOnDataLoss": "false"}
    reader = StreamReader(read_options(given), ARROW)
    catalogue = Catalogue({ORDERS: known(Range(0, 9), Range(20, 99))}, ("a:1",), {}, ())

    class Answering(CountingStores):
        def sources_within(self, grace: float) -> Catalogue:
            del grace
            return catalogue

    reader._stores = Answering()
    reader._left_out = LeftOut(reader._stores)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert end == {"orders/0x10": 100}
    assert reader.reportLatestOffset() == {"orders/0x10": 100, LEFT_OUT: 10}
    parts = [part for each in reader.partitions(start, end) for part in each.part.ranges]
    assert spans(parts) == [(0, 10), (20, 100)]
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    assert reader.reportLatestOffset() == {"orders/0x10": 100, LEFT_OUT: 10}


def test_a_warning_of_many_ranges_names_some(caplog: pytest.LogCaptureFixture) -> None:
    warn_of(MessagesGone("t/0x1", 2 * at, 2 * at, "a:1: no.") for at in range(7))
    warn_of([])
    [said] = [each.getMessage() for each in caplog.records]
    assert "so 7 messages are left out" in said
    assert "[8, 8] of t/0x1 (a:1: no.); and 2 more ranges" in said
    assert "[10, 10]" not in said
    caplog.clear()
    warn_of([MessagesGone("t/0x1", 3, 3, "a:1: no")])
    assert "so 1 message is left out" in caplog.text
