"""Requests with which the fuzzer broke a store: each has its answer or its typed refusal now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.support import ORDERS, Client, running

from quorate.protocol.errors import InvalidArgument, SourceActive
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.wire import position_from_wire, source_to_wire
from quorate.transport.failures import errors_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a store that has ten messages of `orders`, none of them stable."""
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.append(0, 9)
        await stream.close()
        yield client


async def test_a_replay_up_to_a_time_ends_where_nothing_is_stable(client: Client) -> None:
    request = store_v1.SubscribeRequest(
        topic="orders",
        position=store_v1.Position(),
        delivered=store_v1.DELIVERED_STABLE,
        end_before_ns=1000,
        protocol_version=PROTOCOL_VERSION,
    )
    with errors_of(client.address):
        responses = [each async for each in client.stub.Subscribe(request, timeout=20)]
    assert responses[-1].completed
    assert not any(each.given for each in responses)


@pytest.mark.expects_log("refused InvalidArgument")
@pytest.mark.parametrize(("first", "last"), [(-(2**63), 5), (-2, 5), (50, -2)])
@pytest.mark.parametrize("poison", [store_v1.POISON_UNSPECIFIED, store_v1.POISON_MARKED])
async def test_a_loss_of_numbers_that_none_has_is_refused(
    client: Client, first: int, last: int, poison: store_v1.Poison
) -> None:
    request = store_v1.AcceptLossRequest(
        source=source_to_wire(ORDERS),
        first=first,
        last=last,
        reason="a test",
        poison=poison,
        protocol_version=PROTOCOL_VERSION,
    )
    with pytest.raises(InvalidArgument, match="is no range"):
        await client.call("AcceptLoss", request)


@pytest.mark.expects_log("refused InvalidArgument")
async def test_a_stream_cannot_say_that_more_is_stable_than_there_can_be(client: Client) -> None:
    with pytest.raises(InvalidArgument, match="stable_upto"):
        await client.open(stable_upto=SEQUENCE_MAX + 1)
    stream = await client.open()
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=SEQUENCE_MAX + 1))
    assert isinstance(await stream.ended(), InvalidArgument)
    status = await client.status()
    assert [each.stable_upto for each in status.sources] == [NOTHING]


@pytest.mark.expects_log("refused InvalidArgument")
async def test_a_history_has_room_for_the_number_behind_it(client: Client) -> None:
    opening = store_v1.RestoreOpen(
        source=source_to_wire(ORDERS),
        lineage=[v1.LineageEntry(epoch=1)],
        last=2**63 - 1,
        protocol_version=PROTOCOL_VERSION,
    )
    with pytest.raises(InvalidArgument), errors_of(client.address):
        async for _ in client.stub.Restore(iter([store_v1.RestoreRequest(open=opening)])):
            pass
    assert (await client.fetch(0, 9)).messages.keys() == set(range(10))


@pytest.mark.parametrize("sequence", [-2, -(2**63), SEQUENCE_MAX + 1])
def test_a_position_names_numbers_that_messages_have(sequence: int) -> None:
    place = store_v1.Place(source=source_to_wire(ORDERS), epoch=1, sequence=sequence)
    with pytest.raises(InvalidArgument, match="is not a sequence number"):
        position_from_wire(store_v1.Position(places=[place]))


@pytest.mark.expects_log("refused InvalidArgument")
async def test_no_source_is_noted_as_archived_if_one_is_no_source(client: Client) -> None:
    """A refusal leaves no call behind that began and never ends. Python would warn of one."""
    archived = [store_v1.ArchivedSource(source=source_to_wire(ORDERS), upto=3)]
    archived.append(store_v1.ArchivedSource(upto=3))
    request = store_v1.ArchivedRequest(sources=archived, protocol_version=PROTOCOL_VERSION)
    with pytest.raises(InvalidArgument):
        await client.call("Archived", request)


@pytest.mark.expects_log("refused SourceActive")
async def test_a_source_may_be_protected_for_longer_than_there_are_milliseconds(
    client: Client,
) -> None:
    lifetimes = v1.Lifetimes(activity_timeout_seconds=1.7e308)
    await (await client.open(lifetimes=lifetimes)).close()
    with pytest.raises(SourceActive):
        await client.promise(2, instance=b"other")
