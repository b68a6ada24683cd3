"""The source against the real store: registration, restarts, failures, repeats."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.real_stores import answers
from tests.source.support import QUICK, event_of
from tests.store.support import free_addresses, vouches

from quorate.protocol.errors import (
    ContentConflict,
    Fenced,
    InvalidArgument,
    RegIdInUse,
    SourceActive,
    TopicRefused,
)
from quorate.protocol.framing import check_batch, encode_batch, read_payloads
from quorate.protocol.identity import SourceName
from quorate.source import (
    Durability,
    FilePublishStore,
    QuorumLost,
    RegistrationComplete,
    RegistrationSucceeded,
    Source,
    SourceFailed,
    SourceOptions,
)
from quorate.store.configuration import StoreConfiguration
from quorate.store.node import StoreNode
from quorate.transport.channels import open_channel
from quorate.v1 import messages_pb2 as m
from quorate.v1.store_pb2_grpc import StoreStub


class Group:
    """Three real stores that can be stopped and started again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: list[StoreNode] = []
        self.listen = free_addresses(3)

    async def start(self) -> None:
        for at in range(3):
            self.nodes.append(self._node(at))
            await self.nodes[at].start()
        for node in self.nodes:
            await vouches(node)

    def _node(self, at: int) -> StoreNode:
        return StoreNode(
            StoreConfiguration(
                name=f"s{at}",
                data_directory=self.path / f"s{at}",
                listen=self.listen[at],
                peers=tuple(each for each in self.listen if each != self.listen[at]),
                topics=("orders.*",),
            )
        )

    async def restart(self, at: int) -> None:
        self.nodes[at] = self._node(at)
        await self.nodes[at].start()

    @property
    def addresses(self) -> str:
        return ",".join(self.listen)

    async def open(self, **changes: object) -> Source:
        settings = {"session_id": 0x10, "options": QUICK, "timeout": 60.0, **changes}
        return await Source.open("orders", stores=self.addresses, **settings)  # type: ignore[arg-type]

    async def held(self, at: int, upto: int) -> dict[int, bytes]:
        """What this store serves of the stream, once it has it up to there."""
        async with open_channel(self.listen[at]) as channel:
            messages: dict[int, bytes] = {}
            while upto not in messages:
                request = m.FetchRequest(
                    source=m.SourceName(topic="orders", session_id=0x10),
                    first=0,
                    last=2**62,
                    protocol_version=1,
                )
                async for answer in answers(StoreStub(channel).Fetch(request)):
                    if answer.HasField("fetched"):
                        header = check_batch(answer.fetched.batch)
                        for number, payload in enumerate(
                            read_payloads(answer.fetched.batch, header), header.first
                        ):
                            if answer.fetched.first <= number <= answer.fetched.last:
                                messages[number] = payload
                await asyncio.sleep(0.01)
            return messages


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    await made.start()
    yield made
    for node in made.nodes:
        await node.stop()


def numbered(first: int, last: int) -> dict[int, bytes]:
    return {number: b"%d" % number for number in range(first, last + 1)}


async def test_messages_reach_all_stores_and_the_receipt_says_synced(group: Group) -> None:
    async with await group.open() as source:
        await source.send_many(numbered(0, 9999).values())
        receipt = await source.publish(b"10000")
        assert set(receipt.durability.values()) == {Durability.FSYNC}
        for at in range(3):
            assert await group.held(at, 10_000) == numbered(0, 10_000)


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_restart_and_a_store_that_was_away(group: Group) -> None:
    async with await group.open() as source:
        await source.send_many(numbered(0, 99).values())
    await group.nodes[2].stop()
    async with await group.open() as source:
        assert source.next_sequence == 100
        assert source.epoch == 2
        await source.send_many(numbered(100, 199).values())
        await source.flush(60)
        await group.restart(2)
        # From the source or from its peers, whoever is faster.
        assert await group.held(2, 199) == numbered(0, 199)
        await source.publish(b"200")
        assert await group.held(2, 200) == numbered(0, 200)


@pytest.mark.expects_log("came back without its data|is in limbo for")
@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_store_that_lost_its_disk(group: Group) -> None:
    options = SourceOptions(registration_interval=0.3, retention_bytes_max=0)
    async with await group.open(options=options) as source:
        await source.send_many(numbered(0, 99).values())
        await source.flush(60)
        await group.nodes[2].stop()
        shutil.rmtree(group.path / "s2")
        await source.publish(b"100")
        await group.restart(2)
        await source.publish(b"101")
        await event_of(source, RegistrationSucceeded, nth=4)
        # What the source no longer has, the store gets from its peers; and then it counts again.
        await asyncio.wait_for(group.held(2, 99), 20)
        await group.nodes[1].stop()
        await source.publish(b"102")
        assert (await group.held(2, 102))[102] == b"102"


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_quorum_lost_and_back(group: Group) -> None:
    async with await group.open() as source:
        await source.publish(b"0")
        for at in (1, 2):
            await group.nodes[at].stop()
        await event_of(source, QuorumLost)
        for at in (1, 2):
            await group.restart(at)
        again = await event_of(source, RegistrationComplete, nth=2)
        assert (again.first_sequence, again.epoch) == (1, 1)
        await source.publish(b"1")


@pytest.mark.expects_log("cannot go on|does not take|lost its quorum")
async def test_one_identity_one_source(group: Group) -> None:
    first = await group.open()
    await first.publish(b"0")
    with pytest.raises(SourceActive):
        await group.open()
    await first.publish(b"1")
    async with await group.open(take_over=True) as second:
        assert second.next_sequence == 2
        assert isinstance((await event_of(first, SourceFailed)).error, Fenced)
        await second.publish(b"2")
    await first.close()


@pytest.mark.expects_log("cannot go on|holds other content|does not take|lost its quorum")
async def test_a_publish_store_that_contradicts_the_stores(group: Group, tmp_path: Path) -> None:
    async with await group.open() as source:
        await source.send_many(numbered(0, 9).values())
    name = SourceName("orders", 0x10)
    store = FilePublishStore(tmp_path / "publish")
    store.open()
    store.claim(name)
    store.goes_on(6, [encode_batch(name, 1, 5, [b"other"], 0)])
    store.close()
    with pytest.raises(ContentConflict):
        await group.open(publish_store=FilePublishStore(tmp_path / "publish"))


async def test_a_publish_store_goes_on(group: Group, tmp_path: Path) -> None:
    async with await group.open() as source:
        await source.send_many(numbered(0, 9).values())
    name = SourceName("orders", 0x10)
    store = FilePublishStore(tmp_path / "publish")
    store.open()
    store.claim(name)
    store.goes_on(15, [encode_batch(name, 1, 8, [b"%d" % n for n in range(8, 15)], 0)])
    store.close()
    async with await group.open(publish_store=FilePublishStore(tmp_path / "publish")) as source:
        assert source.next_sequence == 15
        await source.flush(60)
        for at in range(3):
            assert await group.held(at, 14) == numbered(0, 14)


@pytest.mark.expects_log("cannot go on|does not take|lost its quorum")
async def test_what_a_real_store_refuses(group: Group) -> None:
    with pytest.raises(TopicRefused):
        await Source.open("flights", stores=group.addresses, options=QUICK, timeout=5)
    async with await group.open(reg_id=77):
        with pytest.raises(RegIdInUse):
            await group.open(session_id=0x11, reg_id=77)


@pytest.mark.expects_log("does not take")
async def test_a_commit_is_found_again_whole_with_its_marker(group: Group, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    async with await group.open() as source:
        assert source.marker == b""
        await source.send(b"0")
        assert await source.commit([b"1", b"2"], b"first") == range(1, 3)
        await source.send(b"3")
        assert source.marker == b"first"
    async with await group.open() as source:
        assert (source.marker, source.next_sequence) == (b"first", 4)
        await source.commit([b"4"], b"second")
        await source.flush()
    source = await group.open(publish_store=FilePublishStore(kept))
    assert source.marker == b"second"
    await group.nodes[1].stop()
    await source.commit([b"5", b"6"], b"third")
    # Whatever came of it: the publish store has it, and nothing says that it was not done.
    await source.close(timeout=0.0)
    await group.restart(1)
    async with await group.open(publish_store=FilePublishStore(kept)) as source:
        assert (source.marker, source.next_sequence) == (b"third", 7)
        await source.flush()
        assert await group.held(2, 6) == numbered(0, 6)


async def test_a_commit_that_is_no_batch_is_refused_whole(group: Group) -> None:
    async with await group.open() as source:
        for payloads, marker in (
            ([], b"m"),
            ([b""] * 4097, b"m"),
            ([b"x" * 200_000] * 2, b"m"),
            ([b"x"], b""),
            ([b"x"], b"m" * 1025),
        ):
            with pytest.raises(InvalidArgument):
                await source.commit(payloads, marker)
        assert (source.next_sequence, source.marker) == (0, b"")


async def test_commits_and_sends_of_many_tasks_keep_every_commit_together(group: Group) -> None:
    async with await group.open() as source:

        async def commit(name: int) -> range:
            return await source.commit([b"%d" % name] * 50, b"%d" % name)

        async def send() -> None:
            for _ in range(300):
                await source.send(b"alone")

        *ranges, _ = await asyncio.gather(*(commit(name) for name in range(20)), send())
        await source.flush()
        held = await group.held(0, source.next_sequence - 1)
        for name, numbers in enumerate(ranges):
            assert numbers is not None
            assert {held[number] for number in numbers} == {b"%d" % name}
        assert list(held.values()).count(b"alone") == 300
