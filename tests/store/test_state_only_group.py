"""Real stores of a group, one of which keeps registrations and positions, and no messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests import seams
from tests.store.group import Group
from tests.store.support import ORDERS, batch

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import PROTOCOL_VERSION, SEQUENCE_MAX
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.wire import begun_epoch, source_to_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

POLICY = Policy.majority_of("abc")
RECORD = Membership((POLICY,), (POLICY,))


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    made.overrides["c"] = {"durability": "state-only"}
    await made.found()
    yield made
    await made.stop(*list(made.nodes))


async def begin(group: Group, *names: str) -> None:
    for name in names:
        async with group.client(name) as client:
            await client.promise()
            await client.begin(membership=RECORD)


async def hold(group: Group, name: str, upto: int) -> None:
    """Have it hold everything up to there, and know that it is stable."""
    async with group.client(name) as client:
        stream = await client.open()
        await stream.append(0, upto)
        await stream.send(v1.Frame(keepalive=v1.Keepalive(), stable_upto=upto))
        while (await client.status()).sources[0].stable_upto < upto:
            pass
        await stream.call.done_writing()


def of(status: store_v1.StatusResponse) -> store_v1.SourceStatus:
    (source,) = status.sources
    return source


async def test_it_says_what_it_is_wherever_it_is_asked(group: Group) -> None:
    async with group.client("c") as client:
        promised = await client.promise()
        assert promised.durability == v1.DURABILITY_STATE_ONLY
        await client.begin(membership=RECORD)
        stream = await client.open()
        assert stream.durability == v1.DURABILITY_STATE_ONLY
        status = await client.status()
        assert status.durability == of(status).durability == v1.DURABILITY_STATE_ONLY
        assert of(status).live
        await stream.batch(batch(0, 9))
        with pytest.raises(InvalidArgument, match="keeps no messages of topic orders"):
            await stream.durable(9)
        assert not of(await client.status()).held


async def test_only_of_topics_that_are_configured_so(tmp_path: Path) -> None:
    group = Group(tmp_path, ("a",))
    group.overrides["a"] = {"topic": ({"pattern": "tr.*", "durability": "state-only"},)}
    await group.found()
    async with group.client("a") as client:
        stream = await client.stream()
        await stream.append(0, 9)
        assert stream.durability == v1.DURABILITY_FSYNC
        assert len((await client.fetch()).messages) == 10
    await group.stop("a")


async def test_it_says_honestly_that_it_will_never_have_what_it_is_asked_for(group: Group) -> None:
    await begin(group, "c")
    async with group.client("c") as client:
        request = v1.FetchRequest(
            source=source_to_wire(ORDERS), first=5, last=9, protocol_version=PROTOCOL_VERSION
        )
        (response,) = [each async for each in client.stub.Fetch(request)]
        missing, end = response.answers
        assert (missing.missing.first, missing.missing.last) == (5, SEQUENCE_MAX)
        assert missing.missing.why == v1.LOOKUP_ABSENT
        assert missing.missing.detail == "store c keeps no messages of this topic"
        assert (end.end.high, end.end.lineage[0].epoch) == (-1, 1)


async def test_peers_repair_nothing_into_it_and_it_says_so(group: Group) -> None:
    await begin(group, "a", "b")
    for name in "ab":
        await hold(group, name, 99)
    await group.rounds("c", 1)
    async with group.client("c") as client:
        request = store_v1.RepairRequest(protocol_version=PROTOCOL_VERSION, thorough=True)
        (*_, last) = [progress async for progress in client.stub.Repair(request)]
        assert (last.complete, last.lacking, last.filled_messages) == (True, 0, 0)
        assert last.verdict == "keeps no messages of it (durability = state-only)"
        source = of(await client.status())
        # The begin that it missed it takes over, and what is stable it has heard.
        assert (begun_epoch(source.begun), source.stable_upto) == (1, 99)
        assert (list(source.held), list(source.holes)) == ([], [])


async def test_wiped_it_learns_the_promise_before_it_answers_for_it(group: Group) -> None:
    await begin(group, "a", "b", "c")
    for name in "ab":
        await hold(group, name, 99)
    async with group.client("a") as client:
        await client.promise(7, b"later", take_over=True)
    await group.greeted("a", "c")
    await group.wipe("c")
    await group.start("c")
    await group.vouching("c")
    async with group.client("c") as client:
        source = of(await client.status())
        assert (source.promised_epoch, begun_epoch(source.begun), source.stable_upto) == (7, 1, 99)
        assert (list(source.held), list(source.holes), source.limbo) == ([], [], False)


async def test_one_that_turns_and_is_wiped_fetches_what_would_be_lost(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only b and the former c have may be stable: c may not vouch for not having it."""

    async def mend_nothing(*_: object) -> bool:
        return True

    # Once a has it, too, there is nothing to fetch.
    seams.REPAIR_MEND.replace(monkeypatch, mend_nothing)
    await begin(group, "a", "b")
    await hold(group, "b", 99)
    async with group.client("b") as client:
        stream = await client.open(retained_from=100, stable_upto=99)
        await stream.append(100, 109)
    await group.wipe("c")
    await group.start("c")
    await group.vouching("c")
    async with group.client("c") as client:
        held = of(await client.status()).held
        assert [(each.first, each.last) for each in held] == [(0, 109)]
        assert len((await client.fetch()).messages) == 110
