"""Answers share responses within bounds, in order, and the largest of all fits through gRPC."""

from __future__ import annotations

import random

import pytest

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.limits import (
    BATCH_BYTES_TARGET,
    FRAME_BYTES_MAX,
    MESSAGE_BYTES_MAX,
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
    largest = bytes(BATCH_BYTES_TARGET + MESSAGE_BYTES_MAX)
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
