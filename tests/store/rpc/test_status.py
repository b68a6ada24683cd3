"""A store's report of itself: whole, in parts, and only of some topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.store.support import Client, configuration

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import begun_epoch, source_to_wire
from quorate.store.node import StoreNode
from quorate.store.rpc.status import PART_MAX
from quorate.store.rules.source_state import SourceState
from quorate.transport.failures import error_from_call
from quorate.transport.status import read_status, status_request
from quorate.v1.store_pb2 import (
    RegisterReceiverRequest,
    SourceStatus,
    StatusResponse,
)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a store with three parts' worth of sources."""
    node = StoreNode(configuration(tmp_path))
    await node.start()
    names = [SourceName(f"t{number % 10}", number + 1) for number in range(2 * PART_MAX + 5)]
    async with Client(node.address) as client:
        await asyncio.gather(*(client.promise(source=name) for name in names))
        yield client
    await node.stop()


async def test_all_parts_together_are_the_status(client: Client) -> None:
    stream = await client.stream(2, SourceName("t0", 1))
    await stream.append(0, 4, epoch=2, source=SourceName("t0", 1))
    parts = [part async for part in client.stub.Status(status_request())]
    assert len(parts) == 1 + 2 + 1
    assert [bool(part.store_name) for part in parts] == [True, False, False, False]
    whole = await client.status()
    assert len(whole.sources) == whole.source_count == 2 * PART_MAX + 5
    assert len({each.information.source.session_id for each in whole.sources}) == len(whole.sources)
    assert (whole.messages, whole.starts, whole.store_name) == (5, 1, "s1")
    assert whole.disk_free_min_bytes < whole.disk_free_warning_bytes


async def test_only_topics_that_match_are_reported(client: Client) -> None:
    whole: StatusResponse = await read_status(client.stub.Status(status_request("t[34]")))
    assert {each.information.source.topic for each in whole.sources} == {"t3", "t4"}
    assert whole.source_count == 2 * PART_MAX + 5, "the sums are over all sources"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await read_status(client.stub.Status(status_request("(")))
    assert isinstance(error_from_call("", caught.value), InvalidArgument)


@pytest.mark.expects_log("set 5 messages aside")
async def test_a_status_says_what_has_changed_since_the_last_one(client: Client) -> None:
    """The store keeps the lasting part of a source's status, encoded, until that changes."""

    async def of_first() -> SourceStatus | None:
        status = await read_status(client.stub.Status(status_request("t0")))
        return next((s for s in status.sources if s.information.source.session_id == 1), None)

    name = SourceName("t0", 1)
    before = await of_first()
    assert before is not None
    assert (begun_epoch(before.begun), before.begun.HasField("membership")) == (0, False)
    stream = await client.stream(2, name)
    await stream.append(0, 4, epoch=2, source=name)
    begun = await of_first()
    assert begun is not None
    assert (begun_epoch(begun.begun), begun.begun.lineage[0].epoch, begun.held[0].last) == (2, 2, 4)
    assert begun.live
    await client.stream(3, name)
    again = await of_first()
    assert again is not None
    assert [(each.epoch, each.first_sequence) for each in again.begun.lineage] == [(3, 0)]
    assert (begun_epoch(again.begun), list(again.held)) == (3, [])


async def test_the_status_of_a_source_that_is_still_is_not_made_anew(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, write = list[SourceName](), seams.REPORTS_WRITE_SOURCE.real()

    def counted(self: Any, status: SourceStatus, state: SourceState) -> None:
        written.append(state.name)
        write(self, status, state)

    async def sources() -> list[SourceStatus]:
        written.clear()
        found = (await client.status()).sources
        for each in found:
            each.inactive_seconds = 0.0
        return list(found)

    seams.REPORTS_WRITE_SOURCE.replace(monkeypatch, counted)
    before = await sources()
    assert len(written) == len(before) == 2 * PART_MAX + 5
    assert await sources() == before
    assert not written
    name = SourceName("t0", 1)
    await client.promise(2, source=name)
    promised = {each.information.source.session_id: each.promised_epoch for each in await sources()}
    assert written == [name]
    assert (promised[1], promised[2]) == (2, 1)
    stream = await client.stream(3, name)
    await stream.append(0, 4, epoch=3, source=name)
    for _ in range(2):
        await sources()
        assert written == [name], "what streams may change at any time"


async def test_a_part_has_few_sources_where_these_have_many_receivers(client: Client) -> None:
    name = SourceName("t0", 1)
    await client.stream(2, name)
    requests = [
        RegisterReceiverRequest(
            source=source_to_wire(name),
            session_id=number,
            epoch=1,
            instance=b"%d" % number,
            protocol_version=PROTOCOL_VERSION,
        )
        for number in range(1, PART_MAX + 1)
    ]
    await asyncio.gather(*(client.call("RegisterReceiver", each) for each in requests))
    parts = [part async for part in client.stub.Status(status_request())]
    full = [part for part in parts if any(each.receivers for each in part.sources)]
    assert len(full) == 1
    assert len(full[0].sources[-1].receivers) == PART_MAX, "the part ends behind them"
    assert len(full[0].sources) < PART_MAX
