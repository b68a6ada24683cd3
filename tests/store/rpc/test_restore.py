"""A source's history given back to real stores, over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from tests import seams
from tests.store.group import Group
from tests.store.support import ORDERS, Client, batch, payload, running

from quorate.protocol.errors import (
    ContentConflict,
    InvalidArgument,
    OtherHistory,
    QuorateError,
    RestoreRefused,
)
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import Range
from quorate.protocol.wire import begun_epoch, lineage_to_wire, membership_to_wire, source_to_wire
from quorate.source import Source
from quorate.transport.failures import error_from_call, failure_from_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

LINEAGE = Lineage((Term(1, 0), Term(4, 50)))
FRAMES = [batch(first, first + 9, LINEAGE.epoch_at(first)) for first in range(0, 100, 10)]
MESSAGES = {n: payload(n) for n in range(100)}


def opening(*stores: str, **fields: Any) -> store_v1.RestoreOpen:
    policy = Policy.majority_of(stores or ("s1",))
    values: dict[str, Any] = {
        "source": source_to_wire(ORDERS),
        "lineage": lineage_to_wire(LINEAGE),
        "membership": membership_to_wire(Membership((policy,), (policy,))),
        "first": 0,
        "last": 99,
        "protocol_version": PROTOCOL_VERSION,
    }
    return store_v1.RestoreOpen(**(values | fields))


class Restored:
    """What a store answered."""

    def __init__(self) -> None:
        self.opened = store_v1.RestoreOpened()
        self.progress: list[int] = []
        self.done = store_v1.RestoreDone()


async def restore(
    client: Client, frames: Iterable[bytes], request: store_v1.RestoreOpen | None = None
) -> Restored:
    async def requests() -> AsyncIterator[store_v1.RestoreRequest]:
        yield store_v1.RestoreRequest(open=request or opening())
        for frame in frames:
            yield store_v1.RestoreRequest(batch=frame)

    restored = Restored()
    try:
        async for response in client.stub.Restore(requests()):
            match response.WhichOneof("kind"):
                case "opened":
                    restored.opened = response.opened
                case "progress":
                    restored.progress.append(response.progress.next_sequence)
                case "done":
                    restored.done = response.done
                case "failed":
                    raise failure_from_wire(response.failed, client.address)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(client.address, error) from error
    return restored


def ranges(held: Iterable[v1.HeldRange]) -> list[tuple[int, int, int]]:
    return [(each.first, each.last, each.epoch) for each in held]


async def test_a_history_is_read_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.STORE_RESTORE_STEP_BYTES.replace(monkeypatch, len(FRAMES[0]) * 3)
    async with running(tmp_path) as node, Client(node.address) as client:
        restored = await restore(client, FRAMES)
        assert ranges(restored.opened.lacking) == [(0, 49, 1), (50, 99, 4)]
        assert restored.progress == sorted(restored.progress)
        assert len(restored.progress) > 1
        done = restored.done
        assert (done.written, done.held_already, ranges(done.lacking), done.limbo) == (
            100,
            0,
            [],
            False,
        )
        again = (await restore(client, FRAMES)).done
        assert (again.written, again.held_already) == (0, 100)
    async with running(tmp_path) as node, Client(node.address) as client:
        fetched = await client.fetch()
        assert (fetched.messages, fetched.stable_upto) == (MESSAGES, 99)
        promised = await client.promise(5)
        assert ranges(promised.held) == [(0, 49, 1), (50, 99, 4)]
        assert (begun_epoch(promised.begun), promised.stable_upto) == (4, 99)


@pytest.mark.expects_log("cannot be read: a bit flipped")
async def test_messages_that_are_mended_count_as_written(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await restore(client, FRAMES)
        engine = node._engine
        assert engine is not None
        assert engine.found_unreadable(engine.core.sources[ORDERS], Range(20, 39), "a bit flipped")
        mended = await restore(client, FRAMES)
        assert ranges(mended.opened.lacking) == [(20, 39, 1)]
        done = mended.done
        assert (done.written, done.held_already, ranges(done.lacking)) == (20, 80, [])
        assert (await client.fetch()).messages == MESSAGES


async def test_several_calls_at_the_same_time_complete_each_other(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        done = await asyncio.gather(
            restore(client, FRAMES[0::2]), restore(client, FRAMES[1::2]), restore(client, ())
        )
        assert sum(each.done.written for each in done) == 100
        last = (await restore(client, ())).done
        assert (ranges(last.lacking), last.limbo) == ([], False)
        assert (await client.fetch()).messages == MESSAGES


async def test_what_is_still_to_come_is_unknown_not_absent(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        done = (await restore(client, FRAMES[:5])).done
        assert (ranges(done.lacking), done.limbo) == ([(50, 99, 4)], True)
    async with running(tmp_path) as node, Client(node.address) as client:
        assert (await client.promise(5)).limbo
        fetched = await client.fetch(0, 99)
        assert list(fetched.messages) == list(range(50))
        assert fetched.missing == [(50, 99, v1.LOOKUP_UNKNOWN)]
        assert not (await restore(client, FRAMES)).done.limbo
        assert not (await client.promise(5)).limbo


@pytest.mark.expects_log("ContentConflict")
async def test_other_content_is_a_conflict_on_both_sides(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await restore(client, FRAMES)
        with pytest.raises(ContentConflict) as caught:
            await restore(client, [FRAMES[0], batch(10, 19, 1, salt="other ")])
        assert (caught.value.first, caught.value.last) == (10, 19)
        assert (await client.fetch()).messages == MESSAGES


async def test_a_store_in_limbo_says_what_to_do(tmp_path: Path) -> None:
    group = Group(tmp_path, ("s1", "s2"))
    await group.start("s1")  # it waits for the other
    try:
        async with group.client("s1") as client:
            with pytest.raises(
                RestoreRefused, match=r"fill it by themselves.*found the group anew"
            ):
                await restore(client, FRAMES)
    finally:
        await group.stop("s1")


async def test_another_history_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        await (await client.stream(6)).close()
        with pytest.raises(OtherHistory):
            await restore(client, FRAMES)
        assert not (await client.fetch()).messages


async def test_what_is_not_in_order_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        with pytest.raises(InvalidArgument, match="batches must ascend"):
            await restore(client, [FRAMES[1], FRAMES[0]])

        async def no_opening() -> AsyncIterator[store_v1.RestoreRequest]:
            yield store_v1.RestoreRequest(batch=FRAMES[0])

        answers = aiter(client.stub.Restore(no_opening()))
        assert (await anext(answers)).failed.kind == "InvalidArgument"


async def test_an_archive_that_begins_later_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        done = (await restore(client, FRAMES[3:], opening(first=30))).done
        assert (done.written, done.limbo) == (70, False)
        promised = await client.promise(5)
        assert promised.retained_from == 30


@pytest.mark.expects_log("no peer could give it")
async def test_a_wiped_group_goes_on_where_its_archive_ends(tmp_path: Path) -> None:
    """One store is given the history; the others take it from that, or are given it, too."""
    group = Group(tmp_path)
    await group.found()
    names = tuple(group.addresses)
    stores = ",".join(f"{name}={address}" for name, address in group.addresses.items())
    policy = Policy.majority_of(names)
    addresses = tuple(group.addresses.items())
    request = opening(
        membership=membership_to_wire(Membership((policy,), (policy,), addresses)),
        information=v1.SourceInformation(
            source=source_to_wire(ORDERS),
            address="127.0.0.1:9",
            epoch=4,
            version=1,
            stores=[v1.StoreEntry(name=name, address=at) for name, at in addresses],
        ),
    )
    try:
        for name in names[:2]:
            async with group.client(name) as client:
                assert not (await restore(client, FRAMES, request)).done.limbo
        async with await Source.open("orders", session_id=0x10, stores=stores) as source:
            assert source.epoch > 4
            receipt = await source.publish(b"goes on")
            assert receipt.sequence == 100
        async with group.client("c") as client:
            async with asyncio.timeout(60):
                while len(found := (await client.fetch()).messages) <= 100:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        assert found == MESSAGES | {100: b"goes on"}
    finally:
        await group.stop(*names)


@pytest.mark.expects_log("is being restored from an archive|no peer could give it")
async def test_a_source_can_not_start_over_while_one_store_is_being_restored(
    tmp_path: Path,
) -> None:
    """The other two were founded anew, and vouch for having nothing."""
    group = Group(tmp_path)
    await group.found()
    stores = ",".join(f"{name}={address}" for name, address in group.addresses.items())
    try:
        async with group.client("a") as client:
            await restore(client, FRAMES[:3], opening(*group.addresses))
            with pytest.raises(QuorateError, match=r"\[30, 99\]"):
                await Source.open("orders", session_id=0x10, stores=stores, timeout=5)
            await restore(client, FRAMES, opening(*group.addresses))
        async with await Source.open("orders", session_id=0x10, stores=stores) as source:
            assert (await source.publish(b"goes on")).sequence == 100
    finally:
        await group.stop(*group.addresses)
