"""No request of a source or a receiver holds up a store's event loop for more than 10 ms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.store.hostile import (
    Hostile,
    append_open,
    hold_up_nobody,
    named,
    promise,
    registers,
    slow_patterns,
)
from tests.store.support import MEMBERSHIP, Client, batch

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import ACKNOWLEDGEMENTS_MAX, LINEAGE_TERMS_MAX, RANGES_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.wire import (
    begin_to_wire,
    source_from_wire,
    source_to_wire,
)
from quorate.store.node import StoreNode
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

pytestmark = pytest.mark.long

SOURCES = 1500
RECEIVERS = 600
"""Receivers of one source. A report of a source is one message, with all of them."""
STREAMS = 4
SMALL_FRAMES = 3000
HOSTILE = SourceName("hostile", 1)


def registers_many(client: Hostile) -> None:
    """Register many sources at once, and begin them."""
    registers(client, SOURCES)


def asks_for_everything(client: Hostile) -> None:
    """Ask for all sources, by patterns as long and as slow as the store takes them."""
    for pattern in slow_patterns():
        client.read("Status", store_v1.StatusRequest(topic_pattern=pattern, protocol_version=1))
        request = store_v1.WatchRequest(topic_pattern=pattern, protocol_version=1)
        client.read("Watch", request, 1)
        inventory = store_v1.InventoryRequest(topic_pattern=pattern, protocol_version=1)
        client.read("Inventory", inventory)
    client.read("Inventory", store_v1.InventoryRequest(protocol_version=1))
    unknown = v1.SourceName(topic="unknown", session_id=1)
    fetch = v1.FetchRequest(source=unknown, first=0, last=2**62, protocol_version=1)
    for _ in range(20):
        client.read("Fetch", fetch)


def begins_with(client: Hostile, *, terms: int = 1, losses: int = 0) -> None:
    """Begin with a long lineage, or with many accepted losses."""
    source = source_to_wire(HOSTILE)
    epoch = 2 * LINEAGE_TERMS_MAX
    answer = client.calls("Promise", [promise(source, epoch)])
    lineage = Lineage(tuple(Term(epoch - terms + 1 + at, at) for at in range(terms)))
    request = store_v1.BeginRequest(
        source=source,
        begin=begin_to_wire(BeginRecord(lineage, MEMBERSHIP)),
        instance=b"a",
        incarnation=answer[0].incarnation if answer else b"",
        accepted_losses=[v1.HeldRange(first=2 * at, last=2 * at) for at in range(losses)],
        protocol_version=1,
    )
    client.call("Begin", request)


def begins_with_too_much(client: Hostile) -> None:
    """Send a lineage, losses and policies without end."""
    begins_with(client, terms=2 * LINEAGE_TERMS_MAX)
    begins_with(client, losses=2 * RANGES_MAX)
    endless = v1.Membership(stores=[v1.StoreEntry(name=f"s{at}") for at in range(20_000)])
    request = store_v1.BeginRequest(source=source_to_wire(HOSTILE), protocol_version=1)
    request.begin.lineage.add(epoch=1)
    request.begin.membership.CopyFrom(endless)
    client.call("Begin", request)
    assert [type(each) for each in client.refused] == [InvalidArgument] * 3


def begins_with_as_much_as_it_may(client: Hostile) -> None:
    """Send the longest lineage and the most losses that a store takes."""
    begins_with(client, losses=RANGES_MAX)
    begins_with(client, terms=LINEAGE_TERMS_MAX // 4)


def acknowledges_for_strangers(client: Hostile) -> None:
    """Acknowledge for very many sources in one call."""
    for count in (10 * ACKNOWLEDGEMENTS_MAX, ACKNOWLEDGEMENTS_MAX):
        request = store_v1.AcknowledgeRequest(session_id=5)
        for number in range(count):
            request.acknowledgements.add(source=named(number), epoch=1, upto=7)
        client.call("Acknowledge", request)
    assert [type(each) for each in client.refused] == [InvalidArgument]


def opens_streams(client: Hostile) -> Iterator[tuple[v1.SourceName, v1.Frame]]:
    """Register some sources, and yield each with the first frame of its stream."""
    incarnation = registers(client, STREAMS)
    for number in range(STREAMS):
        yield named(number), append_open(named(number), incarnation)


def streams_much(client: Hostile) -> None:
    """Send the largest batches, very many small frames, and a long description."""
    (large, first), (small, second), (described, third), (void, fourth) = opens_streams(client)
    named_large = source_from_wire(large)
    whole = [batch(at, at + 4095, source=named_large) for at in range(0, 40_960, 4096)]
    client.append([first, *(v1.Frame(batch=each, stable_upto=-1) for each in whole)])
    named_small = source_from_wire(small)
    single = [batch(at, at, source=named_small) for at in range(SMALL_FRAMES)]
    client.append([second, *(v1.Frame(batch=each, stable_upto=-1) for each in single)])
    third.open.information.stores.extend(
        v1.StoreEntry(name=f"s{at}", address=f"127.0.0.1:{at}") for at in range(20_000)
    )
    client.append([third])
    assert isinstance(client.refused[-1], InvalidArgument), described
    skips = [v1.Skip(first=at, last=at) for at in range(0, 2 * SMALL_FRAMES, 2)]
    client.append([fourth, *(v1.Frame(skip=each, stable_upto=-1) for each in skips)])
    client.append([append_open(void, b"x"), v1.Frame(batch=b"x" * 2_000_000)])


def registers_receivers(client: Hostile) -> None:
    """Register very many receivers of one source, and ask what each would get."""
    registers(client, 1)
    application = v1.Application(name="n" * 256, program="p" * 256, host="h" * 256)
    for asks_only in (True, False):
        requests = [
            store_v1.RegisterReceiverRequest(
                source=named(0),
                session_id=number + 1,
                epoch=1,
                instance=b"a",
                protocol_version=1,
                asks_only=asks_only,
                application=application,
            )
            for number in range(RECEIVERS)
        ]
        assert len(client.calls("RegisterReceiver", requests)) == RECEIVERS, client.refused
    client.read("Status", store_v1.StatusRequest(protocol_version=1))


async def test_streams_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, streams_much)


async def test_many_receivers_of_one_source_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, registers_receivers)


async def test_many_sources_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, registers_many, asks_for_everything, acknowledges_for_strangers)


async def test_long_requests_hold_up_nobody(tmp_path: Path) -> None:
    await hold_up_nobody(tmp_path, begins_with_too_much, begins_with_as_much_as_it_may)


async def fill_with_holes(node: StoreNode) -> None:
    """Skip every other message of a stream."""
    async with Client(node.address) as client:
        stream = await client.stream()
        for number in range(0, 1200, 2):
            skip = v1.Skip(first=number, last=number)
            await stream.send(v1.Frame(skip=skip, stable_upto=number))
            await stream.append(number + 1, number + 1)
        await stream.close()


@pytest.mark.expects_log("no peer could give it")
async def test_a_stream_full_of_holes_holds_up_nobody(tmp_path: Path) -> None:
    def reads_the_holes(hostile: Hostile) -> None:
        source = v1.SourceName(topic="orders", session_id=0x10)
        fetch = v1.FetchRequest(source=source, first=0, last=2**62, protocol_version=1)
        hostile.read("Fetch", fetch)
        locate = store_v1.LocateRequest(source=source, time_ns=2**62, protocol_version=1)
        hostile.calls("Locate", [locate] * 20)
        hostile.calls("Promise", [promise(source, 2 + at) for at in range(5)])

    await hold_up_nobody(tmp_path, reads_the_holes, prepare=fill_with_holes)
