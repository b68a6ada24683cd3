"""What a store does for a source that waits for its receivers: it tells of them, and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import ORDERS, Client, Stream, batch, running
from tests.store.tasks.test_retention import (
    FIRST,
    RECORD,
    until,
)

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

PACED = v1.ReceiverPacing(messages=10, bytes=1000)
SOURCE = source_to_wire(ORDERS)


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.RETENTION_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.STORE_APPEND_RECEIVERS_SECONDS.replace(monkeypatch, 0.001)


async def register(client: Client, session_id: int, epoch: int = 1, **fields: Any) -> None:
    request = store_v1.RegisterReceiverRequest(
        source=SOURCE,
        session_id=session_id,
        instance=b"r",
        epoch=epoch,
        protocol_version=PROTOCOL_VERSION,
        **fields,
    )
    await client.call("RegisterReceiver", request)


async def acknowledge(client: Client, session_id: int, upto: int, epoch: int = 1) -> None:
    one = store_v1.Acknowledgement(
        source=SOURCE, instance=b"r", epoch=epoch, upto=upto, source_epoch=1
    )
    request = store_v1.AcknowledgeRequest(session_id=session_id, acknowledgements=[one])
    await client.call("Acknowledge", request)


async def deregister(client: Client, session_id: int) -> None:
    request = store_v1.DeregisterRequest(
        source=SOURCE, receiver_session_id=session_id, epoch=1, protocol_version=PROTOCOL_VERSION
    )
    await client.call("Deregister", request)


async def stream_of(client: Client, pacing: v1.ReceiverPacing | None = PACED) -> Stream:
    await client.promise()
    await client.begin(FIRST, membership=RECORD)
    return await client.open(pacing=pacing)


def positions(said: store_v1.WaitedFor) -> dict[int, int]:
    return {each.session_id: each.acknowledged_upto for each in said.receivers}


async def told(stream: Stream) -> dict[int, int]:
    """What the store tells next of receivers."""
    while not (response := await stream.read()).HasField("waited_for"):
        pass
    return positions(response.waited_for)


async def test_a_source_that_asks_is_told_of_its_receivers_as_they_change(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await stream_of(client)
        assert stream.opened.HasField("waited_for")
        assert positions(stream.opened.waited_for) == {}
        await stream.append(0, 9)
        await register(client, 7)
        assert await told(stream) == {7: -1}
        await register(client, 8)
        assert await told(stream) == {7: -1, 8: -1}
        await acknowledge(client, 7, 5)
        assert await told(stream) == {7: 5, 8: -1}
        await deregister(client, 8)
        assert await told(stream) == {7: 5}
        # Who does not want to be waited for any more is not named.
        await register(client, 7, epoch=2, not_waited_for=True)
        assert await told(stream) == {}
        await stream.close()


async def test_what_was_told_outlives_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await stream_of(client)
        await stream.append(0, 9)
        await register(client, 7)
        await register(client, 8, not_waited_for=True)
        await acknowledge(client, 7, 5)
        await stream.close()
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.open(pacing=PACED)
        assert positions(stream.opened.waited_for) == {7: 5}
        await stream.close()


async def test_a_source_that_does_not_ask_is_told_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await stream_of(client, None)
        assert not stream.opened.HasField("waited_for")
        await register(client, 7)
        for first in range(0, 100, 10):
            await stream.batch(batch(first, first + 9))
            while not (response := await stream.read()).HasField("durable"):
                assert not response.HasField("waited_for")
            await acknowledge(client, 7, first + 5)
        await stream.close()


async def test_an_impossible_bound_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        with pytest.raises(InvalidArgument, match="receiver_pacing"):
            await stream_of(client, v1.ReceiverPacing(messages=0, bytes=1))
        stream = await client.open(pacing=PACED)
        await stream.append(0, 9)
        await stream.close()


async def filled(client: Client, pacing: v1.ReceiverPacing | None) -> None:
    """A hundred messages that are all stable, and a receiver that has acknowledged half of them."""
    stream = await stream_of(client, pacing)
    await register(client, 7)
    for at in range(0, 100, 10):
        await stream.batch(batch(at, at + 9), at - 1)
    await stream.durable(99)
    await acknowledge(client, 7, 49)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=99))
    await stream.close()


async def test_retention_keeps_what_a_paced_source_waits_for(tmp_path: Path) -> None:
    async with running(tmp_path, retention_messages=10) as node, Client(node.address) as client:
        await filled(client, PACED)
        source = await until(client, lambda source: source.retained_from == 50)
        assert "receiver 0x7 has acknowledged up to 49 only" in source.kept_because
    async with running(tmp_path, retention_messages=10) as node, Client(node.address) as client:
        source = await until(client, lambda source: source.kept_because != "")
        assert source.retained_from == 50, "also while the source is away"
        # One that nobody is to wait for keeps nothing.
        await register(client, 7, epoch=2, not_waited_for=True)
        await until(client, lambda source: source.retained_from == 90)


@pytest.mark.parametrize(
    ("pacing", "settings"),
    [(None, {}), (PACED, {"retain_until": ()})],
    ids=["it is not paced", "the store says otherwise"],
)
async def test_retention_waits_for_nobody(
    tmp_path: Path, pacing: v1.ReceiverPacing | None, settings: dict[str, Any]
) -> None:
    configured = {"retention_messages": 10, **settings}
    async with running(tmp_path, **configured) as node, Client(node.address) as client:
        await filled(client, pacing)
        await until(client, lambda source: source.retained_from == 90)
