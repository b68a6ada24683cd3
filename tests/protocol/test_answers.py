"""Answers share responses within bounds, in order, and the largest of all fits through gRPC.

Whoever reads them takes only what is in order, and for "no more" only what says so.
"""

from __future__ import annotations

import random
import re
from itertools import chain

import pytest
from tests.protocol.broken_answers import BREACHES, Breach, name_of

from quorate.protocol.answers import (
    Answer,
    AnswerPacking,
    AnswerReading,
    Corrupt,
    LargePiece,
    Piece,
    fetch_request,
    joined,
)
from quorate.protocol.errors import BrokenAnswer
from quorate.protocol.fragments import LargeBatch, encode_large, fragments_of
from quorate.protocol.framing import check_batch, encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    BATCH_BYTES_TARGET,
    FRAGMENT_BYTES,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_USUAL,
    PROTOCOL_VERSION,
    RESPONSE_ANSWERS_MAX,
    RESPONSE_BYTES_TARGET,
)
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.ranges import Range
from quorate.v1 import messages_pb2 as v1


def kinds(response: v1.FetchResponse) -> list[str | None]:
    return [answer.WhichOneof("kind") for answer in response.answers]


def test_what_an_answer_says() -> None:
    packing = AnswerPacking()
    packing.missing(Range(0, 4), v1.LOOKUP_UNKNOWN, "in limbo")
    packing.fetched(b"batch", Range(5, 9))
    packing.end(20, 8, Lineage((Term(1, 0), Term(3, 7))), 2)
    (response,) = packing.all()
    assert list(response.answers) == [
        v1.FetchAnswer(
            missing=v1.Missing(first=0, last=4, why=v1.LOOKUP_UNKNOWN, detail="in limbo")
        ),
        v1.FetchAnswer(fetched=v1.Fetched(batch=b"batch", first=5, last=9)),
        v1.FetchAnswer(
            end=v1.FetchEnd(
                high=20,
                stable_upto=8,
                lineage=[
                    v1.LineageEntry(epoch=1, first_sequence=0),
                    v1.LineageEntry(epoch=3, first_sequence=7),
                ],
                retained_from=2,
            )
        ),
    ]
    assert packing.all() == []


def test_nothing_is_sent_before_it_is_full_and_nothing_is_kept_of_what_was_sent() -> None:
    packing = AnswerPacking()
    packing.fetched(b"batch", Range(0, 9))
    assert packing.full() == []
    (first,) = packing.all()
    packing.end(9, 9, NO_LINEAGE)
    (second,) = packing.all()
    assert (kinds(first), kinds(second)) == (["fetched"], ["end"])


def test_so_many_answers_and_no_more() -> None:
    packing = AnswerPacking()
    for number in range(RESPONSE_ANSWERS_MAX):
        assert packing.full() == []
        packing.fetched(b"", Range(number, number))
    (full,) = packing.full()
    assert len(full.answers) == RESPONSE_ANSWERS_MAX
    packing.end(9, 9, NO_LINEAGE)
    assert [kinds(response) for response in packing.all()] == [["end"]]


def test_so_many_bytes_and_no_more() -> None:
    packing = AnswerPacking()
    third = bytes(RESPONSE_BYTES_TARGET // 3 - 100)
    for number in range(7):
        packing.fetched(third, Range(number, number))
    responses = packing.all()
    assert [len(response.answers) for response in responses] == [3, 3, 1]
    assert all(response.ByteSize() <= RESPONSE_BYTES_TARGET for response in responses)


def test_a_large_batch_goes_alone_and_at_once() -> None:
    packing = AnswerPacking()
    packing.fetched(b"small", Range(0, 0))
    packing.fetched(bytes(RESPONSE_BYTES_TARGET), Range(1, 1))
    assert [kinds(response) for response in packing.full()] == [["fetched"], ["fetched"]]
    packing.fetched(b"small", Range(2, 2))
    packing.end(2, 2, NO_LINEAGE)
    assert [kinds(response) for response in packing.all()] == [["fetched", "end"]]


def test_the_largest_batch_of_a_source_makes_no_response_that_is_too_large() -> None:
    packing = AnswerPacking()
    largest = bytes(BATCH_BYTES_TARGET + MESSAGE_BYTES_USUAL)
    packing.fetched(bytes(RESPONSE_BYTES_TARGET // 2), Range(0, 0))
    packing.fetched(largest, Range(1, 1))
    packing.end(1, 1, Lineage(tuple(Term(epoch, epoch) for epoch in range(1, 10_000))))
    responses = packing.all()
    assert [kinds(response) for response in responses] == [["fetched"], ["fetched"], ["end"]]
    assert all(response.ByteSize() < FRAME_BYTES_MAX for response in responses)


def test_what_people_wrote_is_cut_short() -> None:
    packing = AnswerPacking()
    packing.missing(Range(0, 4), v1.LOOKUP_LOST, "é" * RESPONSE_BYTES_TARGET)
    (response,) = packing.all()
    assert response.answers[0].missing.detail == "é" * 999 + "…"


@pytest.mark.parametrize("seed", range(20))
def test_all_of_it_in_order_within_the_bounds(seed: int) -> None:
    chooser = random.Random(seed)
    packing, responses, given = AnswerPacking(), [], []
    for number in range(chooser.randrange(1, 500)):
        size = chooser.choice((0, 100, 1000, 50_000, RESPONSE_BYTES_TARGET * 2))
        if chooser.random() < 0.1:
            packing.missing(Range(number, number), v1.LOOKUP_ABSENT, "x" * min(size, 100))
        else:
            packing.fetched(bytes(size), Range(number, number))
        given.append(number)
        responses += chooser.choice((packing.full, packing.full, packing.all))()
    packing.end(given[-1], given[-1], NO_LINEAGE)
    responses += packing.all()
    for response in responses:
        assert 1 <= len(response.answers) <= RESPONSE_ANSWERS_MAX
        assert len(response.answers) == 1 or response.ByteSize() <= RESPONSE_BYTES_TARGET
    *answers, end = (answer for response in responses for answer in response.answers)
    assert end.HasField("end")
    assert [
        answer.missing.first if answer.HasField("missing") else answer.fetched.first
        for answer in answers
    ] == given


# Reading.

ORDERS = SourceName("orders", 0x10)
KINDS = {
    Piece: "fetched",
    LargePiece: "large",
    Corrupt: "corrupt",
    v1.Missing: "missing",
    v1.FetchEnd: "end",
}


def batch(first: int, last: int, source: SourceName = ORDERS) -> bytes:
    return encode_batch(source, 1, first, [b"%d" % n for n in range(first, last + 1)], 0)


def served(frame: bytes, first: int, last: int) -> v1.FetchResponse:
    fetched = v1.Fetched(batch=frame, first=first, last=last)
    return v1.FetchResponse(answers=[v1.FetchAnswer(fetched=fetched)])


def reading_of(first: int, last: int) -> AnswerReading:
    return AnswerReading("peer:1", ORDERS, Range(first, last))


def answers() -> list[v1.FetchAnswer]:
    """A store's answers that has [0, 9] of what was asked for, lacks [10, 14], and has [15, 19]."""
    packing = AnswerPacking()
    packing.fetched(batch(0, 9), Range(0, 9))
    packing.missing(Range(10, 14), v1.LOOKUP_ABSENT, "")
    packing.fetched(batch(15, 19), Range(15, 19))
    packing.end(19, 19, NO_LINEAGE)
    return [answer for response in packing.all() for answer in response.answers]


def kind_of(answer: Answer) -> str:
    return KINDS[type(answer)]


def test_a_request_names_the_source_the_range_and_the_version() -> None:
    request = fetch_request(ORDERS, Range(5, 9))
    assert request == v1.FetchRequest(
        source=v1.SourceName(topic="orders", session_id=0x10),
        first=5,
        last=9,
        protocol_version=PROTOCOL_VERSION,
    )


@pytest.mark.parametrize("together", [1, 2, 3, 4])
def test_answers_that_follow_the_rule_are_read_to_their_end(together: int) -> None:
    given = answers()
    reading = reading_of(0, 99)
    read: list[Answer] = []
    for at in range(0, 4, together):
        assert not reading.is_over
        read += reading.answers(v1.FetchResponse(answers=given[at : at + together]))
    one, two = batch(0, 9), batch(15, 19)
    assert read == [
        Piece(one, check_batch(one), 0, 9),
        given[1].missing,
        Piece(two, check_batch(two), 15, 19),
        given[3].end,
    ]
    assert reading.is_over


def test_what_was_let_go_may_go_on_past_what_was_asked_for() -> None:
    packing = AnswerPacking()
    packing.missing(Range(5, 99), v1.LOOKUP_RELEASED, "")
    packing.end(-1, 99, NO_LINEAGE, 100)
    (response,) = packing.all()
    missing, end = reading_of(5, 9).answers(response)
    assert isinstance(missing, v1.Missing)
    assert (missing.first, missing.last, kind_of(end)) == (5, 99, "end")


@pytest.mark.parametrize("part", [(4, 12), (4, 19)], ids=["exact", "more"])
def test_a_batch_counts_as_far_as_it_was_asked_for(part: tuple[int, int]) -> None:
    frame = batch(0, 19)
    (piece,) = reading_of(4, 12).answers(served(frame, *part))
    assert piece == Piece(frame, check_batch(frame), 4, 12)


@pytest.mark.parametrize("breach", BREACHES, ids=name_of)
def test_what_breaks_the_rule_is_an_error_of_who_answers(breach: Breach) -> None:
    reading = reading_of(0, 99)
    read: list[str] = []

    def read_on() -> None:
        for response in chain(breach(answers()), [None]):
            for answer in reading.answers(response):
                read.append(kind_of(answer))

    with pytest.raises(BrokenAnswer) as caught:
        read_on()
    assert read == ["fetched"], "what came before it counts"
    assert not reading.is_over
    assert caught.value.address == "peer:1"
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("first", "last"), [(1, 9), (-1, 9), (0, -1), (20, 29)], ids=["late", "early", "none", "more"]
)
def test_answers_begin_where_they_were_asked_to(first: int, last: int) -> None:
    with pytest.raises(BrokenAnswer):
        list(reading_of(0, 19).answers(served(b"batch", first, last)))


def test_more_than_was_asked_for_breaks_the_rule() -> None:
    with pytest.raises(BrokenAnswer):
        list(reading_of(0, 9).answers(v1.FetchResponse(answers=answers()[:2])))


def test_nothing_comes_after_the_end() -> None:
    reading = reading_of(0, 99)
    list(reading.answers(v1.FetchResponse(answers=answers())))
    with pytest.raises(BrokenAnswer, match="after its end"):
        list(reading.answers(v1.FetchResponse(answers=answers()[-1:])))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        pytest.param(batch(0, 9)[:-1] + b"x", "its checksum is", id="checksum"),
        pytest.param(b"rubbish", "too few for a header", id="rubbish"),
        pytest.param(batch(0, 9, SourceName("bills", 0x10)), "belongs to bills", id="topic"),
        pytest.param(batch(0, 9, SourceName("orders", 0x11)), "belongs to orders", id="session"),
        pytest.param(batch(1, 9), r"it has \[1, 9\], not \[0, 9\]", id="begins-later"),
        pytest.param(batch(0, 8), r"it has \[0, 8\], not \[0, 9\]", id="ends-earlier"),
    ],
)
def test_what_is_not_the_batch_that_was_asked_for_is_a_corrupt_copy(frame: bytes, why: str) -> None:
    reading = reading_of(0, 19)
    (corrupt,) = reading.answers(served(frame, 0, 9))
    assert isinstance(corrupt, Corrupt)
    assert (corrupt.first, corrupt.last) == (0, 9)
    assert re.match(f"(?s).*from peer:1.*({why})", str(corrupt.error))
    (behind,) = reading.answers(served(batch(10, 19), 10, 19))
    assert kind_of(behind) == "fetched", "others may have it, so the fetch goes on"


def test_a_corrupt_copy_counts_as_far_as_it_was_asked_for() -> None:
    (corrupt,) = reading_of(0, 5).answers(served(b"rubbish", 0, 9))
    assert isinstance(corrupt, Corrupt)
    assert (corrupt.first, corrupt.last) == (0, 5)


# Large batches.

LARGE = encode_large(ORDERS, 1, 10, bytes(9 * FRAGMENT_BYTES // 2), 0)


def told(answer: Answer) -> str:
    assert not isinstance(answer, v1.FetchEnd)
    return f"{kind_of(answer)} [{answer.first}, {answer.last}]"


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def in_fragments(packing: AnswerPacking, large: LargeBatch = LARGE) -> None:
    for at, data in fragments_of(large):
        packing.fragment(at, large.size, data, Range(large.header.first, large.header.last))


def test_each_fragment_has_a_response_of_its_own() -> None:
    packing = AnswerPacking()
    packing.fetched(batch(0, 9), Range(0, 9))
    in_fragments(packing)
    packing.fetched(batch(11, 19), Range(11, 19))
    responses = packing.all()
    assert [len(response.answers) for response in responses] == [1] * (len(responses))
    assert len(responses) == 1 + 5 + 1
    assert all(response.ByteSize() < FRAGMENT_BYTES + 1024 for response in responses)


def test_fragments_become_one_answer() -> None:
    packing = AnswerPacking()
    packing.fetched(batch(0, 9), Range(0, 9))
    in_fragments(packing)
    packing.fetched(batch(11, 19), Range(11, 19))
    reading = reading_of(0, 19)
    read: list[Answer] = []
    sizes = []
    for response in packing.all():
        read += reading.answers(response)
        sizes.append(reading.assembling)
    assert sizes == [0, *[LARGE.size] * 4, 0, 0]
    assert list(map(told, read)) == ["fetched [0, 9]", "large [10, 10]", "fetched [11, 19]"]
    large = read[1]
    assert isinstance(large, LargePiece)
    frame = LARGE.joined()
    assert joined(large) == Piece(frame, check_batch(frame), 10, 10)


def test_fragments_that_break_off_are_no_answer() -> None:
    packing = AnswerPacking()
    for at, data in list(fragments_of(LARGE))[:-1]:
        packing.fragment(at, LARGE.size, data, Range(10, 10))
    packing.missing(Range(10, 10), v1.LOOKUP_UNKNOWN, "its checksum is wrong")
    in_fragments(packing, encode_large(ORDERS, 1, 11, bytes(2 * MESSAGE_BYTES_USUAL), 0))
    reading = reading_of(10, 19)
    read = [answer for response in packing.all() for answer in reading.answers(response)]
    assert list(map(told, read)) == ["missing [10, 10]", "large [11, 11]"]


@pytest.mark.parametrize("spoilt", [0, 1, 4])
def test_a_corrupt_fragment_makes_one_corrupt_copy(spoilt: int) -> None:
    packing = AnswerPacking()
    for number, (at, data) in enumerate(fragments_of(LARGE)):
        packing.fragment(at, LARGE.size, flipped(data) if number == spoilt else data, Range(10, 10))
    packing.fetched(batch(11, 19), Range(11, 19))
    reading = reading_of(10, 19)
    read = [answer for response in packing.all() for answer in reading.answers(response)]
    assert list(map(told, read)) == ["corrupt [10, 10]", "fetched [11, 19]"]


def test_a_large_batch_of_another_source_is_a_corrupt_copy() -> None:
    packing = AnswerPacking()
    in_fragments(packing, encode_large(SourceName("bills", 1), 1, 10, bytes(LARGE.size), 0))
    reading = reading_of(10, 19)
    read = [answer for response in packing.all() for answer in reading.answers(response)]
    assert [kind_of(answer) for answer in read] == ["corrupt"]


def test_fragments_out_of_turn_break_the_rule() -> None:
    packing = AnswerPacking()
    in_fragments(packing)
    reading = reading_of(5, 19)
    with pytest.raises(BrokenAnswer):
        list(reading.answers(packing.all()[0]))
