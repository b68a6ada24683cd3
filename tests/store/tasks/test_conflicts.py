"""Old directories that are put back where no store can contradict, and what settles it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests import seams
from tests.store.group import Group
from tests.store.support import ORDERS, Client, batch, payload

from quorate.protocol import delays
from quorate.protocol.errors import ContentConflict, InvalidArgument
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.wire import source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

POLICY = Policy.majority_of(("a", "b", "c"))
RECORD = Membership((POLICY,), (POLICY,))
FIRST = Lineage((Term(1, 0),))
SECOND = Lineage((Term(1, 0), Term(2, 10)))
LOGGED = "holds? other content|taking over a begin|settled by an operator|refused ContentConflict"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.DELAYS_OF_REPAIR.replace(monkeypatch, delays.with_longest(delays.REPAIR, 0.05))
    seams.REPAIR_COMPARE_SECONDS.replace(monkeypatch, 0.02)
    seams.PEER_POLLING_ROUND_SECONDS.replace(monkeypatch, 0.02)
    seams.PEER_VIEWS_KEPT_SECONDS.replace(monkeypatch, 0.0)


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    yield made
    await made.stop(*list(made.nodes))


async def write(
    client: Client, lineage: Lineage, first: int, last: int, instance: bytes = b"a", salt: str = ""
) -> None:
    """Have a store begin this lineage, and take stable messages of its last epoch."""
    epoch = lineage.epoch
    await client.promise(epoch, instance, take_over=True)
    await client.begin(lineage, instance=instance, membership=RECORD)
    stream = await client.open(epoch, instance, first)
    await stream.batch(batch(first, last, epoch, salt=salt))
    await stream.durable(last)
    await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=last))
    await stream.close()


async def parted(group: Group) -> None:
    """A group in which a has [0, 19] of epoch 1; b and c have [0, 9] of it and [10, 14] of epoch 2.

    All of it was stable: b and c had the directories that they have now put back.
    """
    await group.found()
    for name in "abc":
        async with group.client(name) as client:
            await write(client, FIRST, 0, 9)
    await group.stop("b", "c")
    async with group.client("a") as client:
        stream = await client.open(1)
        await stream.append(10, 19)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=19))
        await stream.close()
    await group.stop("a")
    await group.start("b", "c")
    for name in "bc":
        async with group.client(name) as client:
            await write(client, SECOND, 10, 14, b"b", "other ")
    await group.start("a")


async def differing(group: Group) -> None:
    """A group in which c has other content than a and b for [10, 14], of the same epoch."""
    await group.found()
    for name in "abc":
        async with group.client(name) as client:
            await write(client, FIRST, 0, 9)
            stream = await client.open(1)
            await stream.batch(batch(10, 14, salt="other " if name == "c" else ""), 9)
            await stream.batch(batch(15, 19), 9)
            await stream.durable(19)
            await stream.close()
    for name in "abc":
        async with group.client(name) as client:
            stream = await client.open(1, stable_upto=19)
            await stream.close()


Found = list[tuple[str, int, int]]


async def conflicts(client: Client) -> Found:
    (source,) = (await client.status()).sources
    return [(each.other, each.first, each.last) for each in source.conflicts]


async def until(client: Client, so: Callable[[Found], bool]) -> Found:
    async with asyncio.timeout(30):
        while not so(found := await conflicts(client)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return found


async def settle(
    client: Client, keep: str, first: int, last: int, reason: str = "an old disk, says Ada"
) -> store_v1.SettleConflictResponse:
    request = store_v1.SettleConflictRequest(
        source=source_to_wire(ORDERS),
        keep=keep,
        ranges=[v1.HeldRange(first=first, last=last)],
        reason=reason,
        protocol_version=PROTOCOL_VERSION,
    )
    response: store_v1.SettleConflictResponse = await client.call("SettleConflict", request)
    return response


async def whole(client: Client, messages: dict[int, bytes]) -> None:
    """Return when the store serves exactly these messages, and is in no conflict."""
    async with asyncio.timeout(30):
        while (await client.fetch()).messages != messages or await conflicts(client):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.expects_log(LOGGED)
async def test_stores_see_that_their_lineages_part_below_what_is_stable(group: Group) -> None:
    await parted(group)
    async with group.client("a") as a, group.client("b") as b, group.client("c") as c:
        assert set(await until(a, lambda found: len(found) == 2)) == {
            ("b", 10, 19),
            ("c", 10, 19),
        }
        assert await until(b, bool) == await until(c, bool) == [("a", 10, 19)]
        request = store_v1.RepairRequest(protocol_version=PROTOCOL_VERSION)
        last = [progress async for progress in a.stub.Repair(request)][-1]
        assert (last.divergent, last.complete) == (10, False)
        assert "has other content than store b for [10, 19]" in last.verdict
        assert (await a.fetch()).messages == {n: payload(n) for n in range(20)}
        with pytest.raises(ContentConflict):
            await write(a, SECOND, 10, 14, b"b")
        await until(a, lambda found: ("", 10, 19) in found)


@pytest.mark.expects_log(LOGGED)
async def test_the_store_with_the_older_lineage_gives_up_its_side(group: Group) -> None:
    await parted(group)
    kept = {n: payload(n, "other " if n >= 10 else "") for n in range(15)}
    async with group.client("a") as a, group.client("b") as b:
        await until(b, bool)
        assert (await settle(a, "b", 10, 19)).set_aside == 10
        await settle(b, "b", 10, 19)
        for client in (a, b):
            await whole(client, kept)
        record = (await a.status()).accepted_losses[-1]
        assert (record.kept, record.reason) == ("b", "an old disk, says Ada")
        assert (await a.status()).sources[0].set_aside == 10


@pytest.mark.expects_log(f"{LOGGED}|Fenced|was not used")
async def test_the_stores_with_the_newer_lineage_give_up_their_side(group: Group) -> None:
    await parted(group)
    async with group.client("a") as a, group.client("b") as b, group.client("c") as c:
        await until(b, bool)
        for client in (b, c):
            assert (await settle(client, "a", 10, 19)).set_aside == 5
        await settle(a, "a", 10, 19)
        for client in (a, b, c):
            await whole(client, {n: payload(n) for n in range(20)})
        # A new instance goes on from there.
        third = Lineage((Term(1, 0), Term(4, 20)))
        for client in (a, b, c):
            await write(client, third, 20, 24, b"c")
            assert len((await client.fetch()).messages) == 25


@pytest.mark.expects_log(LOGGED)
async def test_other_content_in_one_lineage_is_settled_too(group: Group) -> None:
    await differing(group)
    async with group.client("a") as a, group.client("c") as c:
        await until(a, lambda found: found == [("c", 10, 14)])
        assert (await settle(c, "a", 10, 14)).set_aside == 5
        await settle(a, "a", 10, 14)
        for client in (a, c):
            await whole(client, {n: payload(n) for n in range(20)})


@pytest.mark.expects_log(LOGGED)
async def test_a_settlement_names_a_store_a_range_and_a_reason(group: Group) -> None:
    await differing(group)
    async with group.client("c") as c:
        for keep, first, last, reason in (
            ("nobody", 10, 14, "Ada"),
            ("a", 14, 10, "Ada"),
            ("a", 10, 14, " "),
        ):
            with pytest.raises(InvalidArgument):
                await settle(c, keep, first, last, reason)
        assert (await c.status()).sources[0].set_aside == 0


@pytest.mark.expects_log(LOGGED + "|no peer could give it")
async def test_a_store_remembers_that_it_refused_a_source(group: Group) -> None:
    await group.found()
    async with group.client("a") as a:
        await write(a, FIRST, 0, 9)
        stream = await a.open(1)
        await stream.batch(batch(5, 9, salt="other "))
        assert isinstance(await stream.ended(), ContentConflict)
        assert await conflicts(a) == [("", 5, 9)]
    await group.stop("a")
    await group.start("a")
    async with group.client("a") as a:
        assert await conflicts(a) == [("", 5, 9)]
        await settle(a, "a", 5, 9)
        assert await conflicts(a) == []
