"""The rows of a query: all as of one moment, in bounded steps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests import seams
from tests.store.deleted import engine_of
from tests.store.state import TOPIC, Maker, Message

from quorate.protocol.bookmarks import Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.framing import read_header, read_payloads
from quorate.protocol.identity import SourceName
from quorate.protocol.wire import position_from_wire
from quorate.store.rpc.state import StateQueries
from quorate.v1 import store_pb2 as store_v1

A = SourceName(TOPIC, 1)


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


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
    engine = engine_of(maker.world)
    return maker, StateQueries(engine, maker.world.storage, maker.making, _at_once)


def asked(**fields: Any) -> store_v1.QueryStateRequest:
    return store_v1.QueryStateRequest(topic=TOPIC, **fields)


async def numbers(responses: AsyncIterator[store_v1.QueryStateResponse]) -> list[int]:
    found: list[int] = []
    async for response in responses:
        for row in response.rows:
            (payload,) = read_payloads(row, read_header(row))
            found.append(json.loads(payload)["n"])
    return found


async def test_what_comes_meanwhile_is_not_seen() -> None:
    maker, queries = await filled(100)
    responses = queries.query(asked(), lambda: None)
    position = position_from_wire((await anext(responses)).position)
    assert position == Position({A: Place(1, 99)})
    later = [Message(b"%04d" % number, b'{"n": -1}', 2) for number in range(100)]
    maker.sends(A, 1, 100, later)
    maker.stable(A, 199)
    await maker.all()
    assert await numbers(responses) == list(range(100))
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
