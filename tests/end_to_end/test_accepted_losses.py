"""A loss that an operator accepts: the source goes on, the receiver is told, stores remember."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.store.support import ORDERS, Client, batch, running

from quorate.protocol.errors import MissingMessages, NotLost, QuorateError
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.wire import source_to_wire
from quorate.receiver import Gap, Receiver, ReceiverOptions
from quorate.receiver.protocol.fetch_plan import Answer
from quorate.source import Source, SourceOptions
from quorate.store.configuration import StoreConfiguration
from quorate.store.node import StoreNode
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_COMPLAINTS = (
    "can ?not( be)? read|accepted by an operator|lacks .* no peer could give it|is lost|"
    "does not take|lost its quorum"
)
QUICK = SourceOptions(registration_interval=0.5)


class Group:
    """Three stores, all of which found: whoever is wiped comes back as if it were new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._listen = ["127.0.0.1:0"] * 3
        self.nodes: list[StoreNode] = []
        self.are_peers = False

    async def start(self, at: int) -> None:
        node = StoreNode(
            StoreConfiguration(
                name=f"s{at}",
                data_directory=self._path / f"s{at}",
                listen=self._listen[at],
                peers=tuple(each for each in self._listen if each != self._listen[at])
                if self.are_peers
                else (),
            )
        )
        await node.start()
        self.nodes[at:] = [node, *self.nodes[at + 1 :]]
        self._listen[at] = node.address

    async def wipe(self, at: int) -> None:
        await self.nodes[at].stop()
        shutil.rmtree(self._path / f"s{at}")
        await self.start(at)

    @property
    def addresses(self) -> str:
        return ",".join(f"s{at}={address}" for at, address in enumerate(self._listen))

    async def open(self, timeout: float = 20.0) -> Source:
        return await Source.open(
            ORDERS.topic,
            session_id=ORDERS.session_id,
            stores=self.addresses,
            options=QUICK,
            timeout=timeout,
        )

    def client(self, at: int) -> Client:
        return Client(self._listen[at])


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    for at in range(3):
        await made.start(at)
    yield made
    for node in made.nodes:
        await node.stop()


async def accept(client: Client, first: int, last: int, reason: str) -> list[str]:
    request = store_v1.AcceptLossRequest(
        source=source_to_wire(ORDERS),
        first=first,
        last=last,
        reason=reason,
        protocol_version=PROTOCOL_VERSION,
    )
    response: store_v1.AcceptLossResponse = await client.call("AcceptLoss", request)
    return list(response.records)


async def damage(node: StoreNode, position: int) -> None:
    """Spoil one batch of a store's journal behind its back."""
    engine = node._engine
    assert engine is not None
    rows = engine.reads.scan(Table.JOURNAL, b"", b"\xff" * 8, 1000)
    key, value = rows[position]
    number = engine.writer.submit([Write(Table.JOURNAL, key, value[:-3] + b"???")])
    await engine.writer.durable(number)


async def sent(source: Source, count: int) -> None:
    """Ten messages at a time, so that there are several batches."""
    for at in range(0, count, 10):
        for number in range(at, at + 10):
            await source.send(f"message {number}".encode())
        await source.flush()


@pytest.mark.expects_log(_COMPLAINTS)
async def test_a_source_goes_on_and_receivers_are_told_of_the_gap(group: Group) -> None:
    async with await group.open() as source:
        await sent(source, 40)
    # Two of three stores are lost with everything, and one batch of the third.
    await group.wipe(1)
    await group.wipe(2)
    await damage(group.nodes[0], 1)
    async with group.client(0) as client:
        ((first, last, why),) = (await client.fetch()).missing
        assert why == v1.LOOKUP_UNKNOWN
        assert 0 < first <= last < 39

        with pytest.raises(QuorateError) as refused:
            await (await group.open(timeout=5.0)).close()
        assert isinstance(refused.value, MissingMessages), refused.value
        assert (refused.value.first, refused.value.last) == (first, last)

        # What the store has is not lost.
        with pytest.raises(NotLost, match=f"it has .{first - 1}, {first - 1}."):
            await accept(client, first - 1, last, "no")
        (record,) = await accept(client, first, last, "the disks are gone, says Ada")
        assert record.endswith(
            f"[{first}, {last}] of {ORDERS} is lost: the disks are gone, says Ada"
        )

        async with await group.open() as source:
            assert source.next_sequence == 40
            await sent(source, 10)
        status = await client.status()
        assert [(each.first, each.last) for each in status.sources[0].accepted_losses] == [
            (first, last)
        ]
        assert not status.sources[0].unreadable
        assert [each.reason for each in status.accepted_losses] == ["the disks are gone, says Ada"]
        fetched = await client.fetch()
        assert fetched.missing == [(first, last, v1.LOOKUP_LOST)]

    options = ReceiverOptions(registration_interval=3.0)
    gaps: list[Gap] = []
    received: list[int] = []
    told = asyncio.Event()
    async with await Receiver.open(
        ORDERS.topic, session_id=0x20, stores=group.addresses, options=options, timeout=60.0
    ) as receiver:

        async def watch() -> None:
            async for event in receiver.events():
                if isinstance(event, Gap):
                    gaps.append(event)
                    told.set()

        watching = asyncio.create_task(watch())
        async with asyncio.timeout(60):
            async for message in receiver:
                received.append(message.sequence)
                if message.sequence == 49:
                    break
            await told.wait()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert received == [number for number in range(50) if not first <= number <= last]
    (gap,) = gaps
    assert (gap.first, gap.last, gap.cause) == (first, last, Answer.LOST)
    assert any("an operator accepted its loss" in detail for _, detail in gap.evidence)


@pytest.mark.expects_log(_COMPLAINTS)
async def test_a_loss_above_what_was_known_to_be_stable(group: Group) -> None:
    """The store knows only what it was told: what may be stable goes further."""
    clients = [group.client(at) for at in range(3)]
    policy = Policy.majority_of(("s0", "s1", "s2"))
    await clients[0].promise()
    await clients[0].begin(membership=Membership((policy,), (policy,)))
    stream = await clients[0].open()
    for first in range(0, 50, 10):
        await stream.batch(batch(first, first + 9), 19)
    await stream.durable(49)
    await stream.close()
    await damage(group.nodes[0], 3)
    assert (await clients[0].fetch()).missing == [(30, 39, v1.LOOKUP_UNKNOWN)]
    await accept(clients[0], 30, 39, "gone")
    # A store that does not answer may hold everything: so all of it may be stable.
    await group.nodes[2].stop()
    async with await group.open() as source:
        assert source.next_sequence == 50
        await sent(source, 10)
        for client in clients[:2]:
            async with asyncio.timeout(60):
                while len((await client.fetch()).messages) < 30:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            fetched = await client.fetch(20)
            assert fetched.missing == [(30, 39, v1.LOOKUP_LOST)]
            assert sorted(fetched.messages) == [*range(20, 30), *range(40, 60)]
            (known,) = (await client.status()).accepted_losses
            assert (known.first, known.last) == (30, 39)
    for client in clients:
        await client.__aexit__()


@pytest.mark.expects_log("accepted by an operator|lacks .* no peer could give it")
async def test_what_may_be_accepted(tmp_path: Path) -> None:
    async with running(tmp_path / "s1") as node, Client(node.address) as client:
        with pytest.raises(NotLost, match="does not know that source"):
            await accept(client, 0, 1, "gone")
        stream = await client.stream()
        await stream.append(0, 9)
        with pytest.raises(NotLost, match="nothing above 9"):
            await accept(client, 10, 19, "gone")
        with pytest.raises(QuorateError, match="is no range"):
            await accept(client, 5, 4, "gone")
        await stream.close()
        stream = await client.open(retained_from=20, stable_upto=19)
        with pytest.raises(QuorateError, match="is empty"):
            await accept(client, 10, 19, " ")
        await accept(client, 12, 15, "gone")
        (source,) = (await client.status()).sources
        assert [(hole.first, hole.last) for hole in source.holes] == [(10, 11), (16, 19)]
        await stream.close()
    async with running(tmp_path / "s1") as node, Client(node.address) as client:
        status = await client.status()
        assert [(each.first, each.last) for each in status.accepted_losses] == [(12, 15)]
        assert [(each.first, each.last) for each in status.sources[0].accepted_losses] == [(12, 15)]
