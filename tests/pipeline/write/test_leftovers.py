"""A marker that a store does not give, though it has it, is never taken for none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests import seams

from quorate.pipeline.write.leftovers import newest_markers
from quorate.protocol.answers import AnswerPacking
from quorate.protocol.delays import Delays
from quorate.protocol.errors import NoQuorum
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

ORDERS = SourceName("orders", 0x10)


class FakeStore:
    """Says that it has [0, 9], and gives what it is told to."""

    def __init__(self, answers: list[Iterator[v1.FetchResponse]]) -> None:
        self._answers = answers

    def Inventory(
        self, _: store_v1.InventoryRequest, timeout: float
    ) -> Iterator[store_v1.InventoryResponse]:
        assert timeout > 0
        response = store_v1.InventoryResponse()
        source = response.sources.add(source=source_to_wire(ORDERS))
        source.held.add(first=0, last=9, epoch=1)
        return iter([response])

    def Fetch(self, request: v1.FetchRequest, timeout: float) -> Iterator[v1.FetchResponse]:
        assert timeout > 0
        assert (request.first, request.last) == (9, 9)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def said(lookup: v1.Lookup | None) -> list[v1.FetchAnswer]:
    """What a store says of 9: that it does not give it and why, or the batch."""
    packing = AnswerPacking()
    if lookup is None:
        frame = encode_batch(ORDERS, 1, 0, [b"row"] * 10, 0, marker=b"newest")
        packing.fetched(frame, Range(9, 9))
    else:
        packing.missing(Range(9, 9), lookup, "the disk says no")
    packing.end(9, -1, Lineage((Term(1, 0),)))
    return [answer for response in packing.all() for answer in response.answers]


def markers(
    monkeypatch: pytest.MonkeyPatch, *answers: Iterator[v1.FetchResponse], timeout: float = 60.0
) -> list[bytes]:
    store = FakeStore(list(answers))
    seams.STORE_STUB_IN_LEFTOVERS.replace(monkeypatch, lambda _: store)
    seams.REPEAT_IN_LEFTOVERS.replace(monkeypatch, Delays(first=0.01, factor=1.0))
    found = newest_markers(Layout.plain("127.0.0.1:1"), lambda _: True, timeout)
    return found[ORDERS]


def test_the_marker_of_the_newest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert markers(monkeypatch, iter([v1.FetchResponse(answers=said(None))])) == [b"newest"]


@pytest.mark.parametrize(
    "lookup", [v1.LOOKUP_UNKNOWN, v1.LOOKUP_ABSENT, v1.LOOKUP_RELEASED], ids=v1.Lookup.Name
)
def test_what_the_store_does_not_give_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, lookup: v1.Lookup
) -> None:
    refused = v1.FetchResponse(answers=said(lookup))
    sound = v1.FetchResponse(answers=said(None))
    assert markers(monkeypatch, iter([refused]), iter([sound])) == [b"newest"]
    with pytest.raises(NoQuorum, match="the disk says no"):
        markers(monkeypatch, iter([refused]), iter([refused]), timeout=0.0)


@pytest.mark.parametrize(
    "responses",
    [
        [],
        [v1.FetchResponse()],
        [v1.FetchResponse(answers=said(None)[1:])],
        [v1.FetchResponse(answers=[*said(None)[1:], *said(None)])],
    ],
    ids=["nothing", "empty", "only its end", "after its end"],
)
def test_an_answer_that_breaks_off_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, responses: list[v1.FetchResponse]
) -> None:
    sound = v1.FetchResponse(answers=said(None))
    assert markers(monkeypatch, iter(responses), iter([sound])) == [b"newest"]
    with pytest.raises(NoQuorum, match="ends before it is whole"):
        markers(monkeypatch, iter(responses), timeout=0.0)
