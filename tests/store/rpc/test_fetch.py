"""Batches out of the journal share responses; none waits for others, none is too large to go."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import ORDERS, Client, batch, payload, running

from quorate.protocol.framing import encode_batch
from quorate.protocol.lanes import lane_frame
from quorate.protocol.limits import FRAME_BYTES_MAX, PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1


async def test_many_small_batches_come_in_few_responses(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 5000, 10):
            await stream.batch(batch(first, first + 9))
        await stream.durable(4999)
        fetched = await client.fetch()
        assert fetched.messages == {number: payload(number) for number in range(5000)}
        assert fetched.high == 4999
        assert fetched.responses <= 10, "of 501 answers"
        one = await client.fetch(4990, 4999)
        assert (len(one.messages), one.high, one.responses) == (10, 4999, 1)


async def test_nothing_is_said_of_messages_that_may_come_yet(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.batch(batch(0, 9))
        await stream.durable(9)
        fetched = await client.fetch(0, 20)
        assert len(fetched.messages) == 10
        assert fetched.missing == []


async def test_what_was_read_does_not_wait_for_what_is_read_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    reads = 0
    real_read = seams.READ_IN_STORE_SERVICE.real()

    def read(*arguments: Any) -> Any:
        nonlocal reads
        reads += 1
        if reads > 1:
            go_on.wait(60)
        return real_read(*arguments)

    seams.READ_IN_STORE_SERVICE.replace(monkeypatch, read)
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 100, 10):
            await stream.batch(batch(first, first + 9))
        await stream.durable(99)
        call = client.stub.Fetch(
            v1.FetchRequest(
                source=source_to_wire(ORDERS),
                first=0,
                last=99,
                protocol_version=PROTOCOL_VERSION,
            )
        )
        try:
            async with asyncio.timeout(30):
                first_read = await call.read()
        finally:
            go_on.set()
        assert [answer.fetched.first for answer in first_read.answers] == [0, 10, 20, 30]
        *rest, end = (await call.read()).answers
        assert [answer.fetched.first for answer in rest] == [40, 50, 60, 70, 80, 90]
        assert end.end.high == 99


async def test_a_batch_that_came_in_the_largest_frame_can_be_fetched(tmp_path: Path) -> None:
    around = len(encode_batch(ORDERS, 1, 0, [bytes(FRAME_BYTES_MAX)], 0)) - FRAME_BYTES_MAX
    frame = v1.Frame(batch=bytes(FRAME_BYTES_MAX), stable_upto=-1)
    around += len(lane_frame(1, frame.SerializeToString())) - FRAME_BYTES_MAX
    largest = bytes(FRAME_BYTES_MAX + 4096 - around)
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.batch(encode_batch(ORDERS, 1, 0, [largest], 0))
        await stream.durable(0)
        assert (await client.fetch()).messages == {0: largest}
