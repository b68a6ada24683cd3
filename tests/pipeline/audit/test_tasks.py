"""What an audit's task makes of a store that does not answer as it should."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests import seams
from tests.protocol.broken_answers import BREACHES, Breach, name_of

from quorate.pipeline.audit.facts import Finding, Kind
from quorate.pipeline.audit.holdings import Segment
from quorate.pipeline.audit.tasks import Reader
from quorate.protocol.answers import AnswerPacking
from quorate.protocol.framing import BatchHeader, encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.v1 import messages_pb2 as v1

ORDERS = SourceName("orders", 0x10)
LINEAGE = Lineage((Term(1, 0),))


def answers(last: int) -> list[v1.FetchAnswer]:
    """Of a store that has [0, last], in batches of ten."""
    packing = AnswerPacking()
    for first in range(0, last, 10):
        payloads = [b"%d" % number for number in range(first, first + 10)]
        packing.fetched(encode_batch(ORDERS, 1, first, payloads, 0), Range(first, first + 9))
    packing.end(last, last, LINEAGE)
    return [answer for response in packing.all() for answer in response.answers]


def read(
    monkeypatch: pytest.MonkeyPatch, responses: Iterator[v1.FetchResponse]
) -> tuple[list[Finding], list[Range], Reader]:
    """What is found, and what was read, of a store that answers so and was to have [0, 29]."""
    over = threading.Event()

    class Call:
        def __iter__(self) -> Iterator[v1.FetchResponse]:
            for response in responses:
                if over.is_set():
                    return
                yield response

        def cancel(self) -> None:
            over.set()

    def call(_: str, __: v1.FetchRequest) -> Call:
        return Call()

    seams.CALL_FETCH_IN_AUDIT_TASKS.replace(monkeypatch, call)
    reader = Reader(Segment(ORDERS, LINEAGE, 0, 29, ("a",)), {"a": "a:1"})
    taken: list[Range] = []

    def take(_: bytes, __: BatchHeader, part: Range) -> None:
        taken.append(part)

    return reader.served("a", Range(0, 29), take), taken, reader


@pytest.mark.parametrize("breach", BREACHES, ids=name_of)
def test_a_store_that_breaks_off_was_not_seen_and_has_no_hole(
    monkeypatch: pytest.MonkeyPatch, breach: Breach
) -> None:
    (finding,), taken, reader = read(monkeypatch, breach(answers(29)))
    assert (finding.kind, finding.first, finding.last) == (Kind.UNSEEN, 10, 29)
    assert "ends before it is whole" in finding.detail
    assert taken == [Range(0, 9)]
    assert reader.stores == (), "it is asked no more"


def test_a_store_that_says_it_has_no_more_has_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,), _, reader = read(monkeypatch, iter([v1.FetchResponse(answers=answers(19))]))
    assert (finding.kind, finding.first, finding.last) == (Kind.HOLE, 20, 29)
    assert reader.stores == ("a",)


@pytest.mark.parametrize(
    ("frame", "detail"),
    [
        (encode_batch(ORDERS, 1, 10, [b"x"] * 10, 0)[:-1] + b"y", "its checksum is"),
        (encode_batch(SourceName("bills", 1), 1, 10, [b"x"] * 10, 0), "it belongs to bills"),
        (encode_batch(ORDERS, 2, 10, [b"x"] * 10, 0), "it is of epoch 2"),
    ],
    ids=["checksum", "source", "epoch"],
)
def test_a_batch_that_can_not_be_is_unreadable_and_what_follows_is_read(
    monkeypatch: pytest.MonkeyPatch, frame: bytes, detail: str
) -> None:
    given = answers(29)
    given[1].fetched.batch = frame
    responses = iter([v1.FetchResponse(answers=given)])
    (finding,), taken, reader = read(monkeypatch, responses)
    assert (finding.kind, finding.first, finding.last) == (Kind.UNREADABLE, 10, 19)
    assert finding.detail.startswith(detail)
    assert taken == [Range(0, 9), Range(20, 29)]
    assert reader.read == 20
