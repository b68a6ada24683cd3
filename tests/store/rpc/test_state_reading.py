"""The rows of a query: all as of one moment, in bounded steps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests import seams
from tests.store.state import TOPIC, Maker, Message

from quorate.protocol.bookmarks import Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.framing import read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import position_from_wire
from quorate.store.rpc.state import StateQueries
from quorate.v1 import store_pb2 as store_v1

A, B = SourceName(TOPIC, 1), SourceName(TOPIC, 2)


async def filled(count: int) -> tuple[Maker, StateQueries]:
    """A store with so many rows."""
    maker = Maker()
    maker.begins(A, 1)
    messages = [
        Message(b"%04d" % number, json.dumps({"n": number}).encode(), 1) for number in range(count)
    ]
    maker.sends(A, 1, 0, messages)
    maker.stable(A, count - 1)
    await maker.all()
    return maker, maker.queries


def asked(**fields: Any) -> store_v1.QueryStateRequest:
    return store_v1.QueryStateRequest(topic=TOPIC, **fields)


async def numbers(responses: AsyncIterator[store_v1.QueryStateResponse]) -> list[int]:
    return [number async for response in responses for number in numbers_of(response)]


def numbers_of(response: store_v1.QueryStateResponse) -> list[int]:
    payloads = [read_payloads(row, read_header(row))[0] for row in response.rows]
    return [json.loads(payload)["n"] for payload in payloads]


def gives_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query gives the rows of each step at once."""
    seams.STATE_QUERIES_READ_SECONDS.replace(monkeypatch, -1.0)
    seams.STATE_QUERIES_GIVE_SECONDS.replace(monkeypatch, -1.0)


async def test_what_comes_meanwhile_is_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    gives_each_step(monkeypatch)
    maker, queries = await filled(100)
    responses = queries.query(asked(), lambda: None)
    first = await anext(responses)
    assert position_from_wire(first.position) == Position({A: Place(1, 99)})
    given = numbers_of(first)
    assert 0 < len(given) < 100
    later = [Message(b"%04d" % number, b'{"n": -1}', 2) for number in range(100)]
    maker.sends(A, 1, 100, later)
    maker.stable(A, 199)
    await maker.all()
    assert given + await numbers(responses) == list(range(100))
    monkeypatch.undo()
    assert await numbers(queries.query(asked(), lambda: None)) == [-1] * 100


async def test_all_rows_come_whatever_the_steps_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.STATE_READING_STEP_ROWS_MAX.replace(monkeypatch, 3)
    _, queries = await filled(100)
    assert await numbers(queries.query(asked(), lambda: None)) == list(range(100))
    assert await numbers(queries.query(asked(limit=7), lambda: None)) == list(range(7))
    ordered = queries.query(asked(order_by=["-n"], limit=40), lambda: None)
    assert await numbers(ordered) == list(range(99, 59, -1))


async def test_a_store_sorts_so_many_rows_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.STATE_READING_SORTED_MAX.replace(monkeypatch, 10)
    _, queries = await filled(50)
    with pytest.raises(InvalidArgument, match="50 rows would have to be sorted, more than 10"):
        await numbers(queries.query(asked(order_by=["n"]), lambda: None))
    few = queries.query(asked(order_by=["n"], where="n < 10"), lambda: None)
    assert await numbers(few) == list(range(10))
    best = queries.query(asked(order_by=["-n"], limit=5), lambda: None)
    assert await numbers(best) == [49, 48, 47, 46, 45]


async def test_a_store_that_stops_ends_its_queries() -> None:
    _, queries = await filled(5)

    def stopping() -> None:
        raise InvalidArgument("store", "stops")

    with pytest.raises(InvalidArgument):
        await numbers(queries.query(asked(), stopping))


async def test_a_key_is_found_beside_what_an_ended_source_left() -> None:
    maker, queries = await filled(10)
    maker.begins(B, 1)
    maker.sends(B, 1, 0, [Message(b"0001", b'{"n": 100}', 2)])
    maker.stable(B, 0)
    await maker.all()
    maker.ends(A)
    key = store_v1.StateKey(raw=b"0001")
    assert await numbers(queries.query(asked(keys=[key]), lambda: None)) == [100]


async def test_the_first_rows_do_not_wait_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    gives_each_step(monkeypatch)
    _, queries = await filled(100)
    responses = [each async for each in queries.query(asked(), lambda: None)]
    assert 0 < len(responses[0].rows) < 100
    assert sum(len(each.rows) for each in responses) == 100


async def test_the_first_rows_that_pass_are_given_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.STATE_QUERIES_READ_SECONDS.replace(monkeypatch, -1.0)
    seams.STATE_QUERIES_GIVE_SECONDS.replace(monkeypatch, 3600.0)
    seams.STATE_READING_STEP_ROWS_MAX.replace(monkeypatch, 10)
    _, queries = await filled(100)
    first, rest = [each async for each in queries.query(asked(where="n >= 0"), lambda: None)]
    assert 0 < len(first.rows) < len(rest.rows)
    assert numbers_of(first) + numbers_of(rest) == list(range(100))


async def test_few_rows_come_in_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.STATE_QUERIES_READ_SECONDS.replace(monkeypatch, 3600.0)
    _, queries = await filled(100)
    key = store_v1.StateKey(raw=b"0007")
    (answer,) = [each async for each in queries.query(asked(keys=[key]), lambda: None)]
    assert position_from_wire(answer.position) == Position({A: Place(1, 99)})
    assert numbers_of(answer) == [7]
    assert answer.HasField("end")
