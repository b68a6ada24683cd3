"""Stores that lost what they had, or are not who they were: real ones, on this machine."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests import seams
from tests.store.group import NAMES, Group, rounds
from tests.store.support import (
    FIRST_LINEAGE,
    ORDERS,
    TRADES,
    Client,
    Stream,
    World,
    batch,
    free_addresses,
    payload,
    vouches,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import InLimbo, NotRegistered
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Decision, Promise, decide
from quorate.protocol.wire import (
    begun_epoch,
    held_from_wire,
    lineage_from_wire,
    source_to_wire,
)
from quorate.source import Source, SourceOptions
from quorate.store.engine import Engine
from quorate.store.rpc.inventory import inventory
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_identity import Standing
from quorate.store.storage.records import StoreRecord
from quorate.store.tasks.fetcher import Filler
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.readmission import Vouching
from quorate.store.tasks.repair import Repair
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1

THREE = Policy.majority_of(NAMES)
MEMBERSHIP = Membership((THREE,), (THREE,))


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path)
    await group.found()
    yield group
    await group.stop(*group.nodes)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.READMISSION_FOUND_OUT_SECONDS.replace(monkeypatch, 0.05)


async def stream(client: Client, upto: int, stable_upto: int = -1) -> Stream:
    """Epoch 1 of a source, with messages up to a number."""
    await client.promise()
    await client.begin(membership=MEMBERSHIP)
    opened = await client.open()
    if upto >= 0:
        await opened.batch(batch(0, upto), stable_upto)
        await opened.durable(upto)
    return opened


async def filled(group: Group, **upto: int) -> None:
    """A source that left, and had so much at each store."""
    for name, last in upto.items():
        async with group.client(name) as client:
            await (await stream(client, last)).close()


@pytest.mark.expects_log("is in limbo as a whole: these are in limbo themselves")
async def test_a_wiped_store_is_refilled_and_only_then_vouches(group: Group) -> None:
    # What a holds above 3 may be stable with what c held: nobody was told yet.
    await filled(group, a=9, b=3, c=9)
    await group.wipe("c")
    await group.stop("b")
    await group.start("c")
    await group.rounds("c", 3)
    async with group.client("c") as client:
        assert (await client.promise(3, b"other")).limbo
        with pytest.raises(InLimbo, match="has not heard enough of its peers"):
            await client.begin()
        await group.start("b")
        await group.vouching("c")
        fetched = await client.fetch()
        assert fetched.messages == {n: payload(n) for n in range(10)}
        status = await client.status()
        assert not status.limbo
        assert not status.sources[0].limbo
        assert status.sources[0].promised_epoch == 1


@pytest.mark.expects_log("these are in limbo themselves")  # A slow peer has just started, too.
@pytest.mark.parametrize("busy", [True, False])
async def test_it_is_refilled_at_the_pace_of_a_busy_store_while_its_peers_are_busy(
    group: Group, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    """No source streams to a store in limbo, so that it sees of none how busy the group is."""
    seen: list[bool] = []
    real = seams.FILLER_REST.real()

    async def rest(filler: Filler) -> None:
        await real(filler)
        core = filler._engine.core
        if core.store == "c" and core.in_limbo:
            seen.append(filler.pace.is_busy())

    async def stream_on() -> None:
        for first in itertools.count(10, 10):
            await opened.append(first, first + 9)
            await asyncio.sleep(0.01)

    await filled(group, b=9)
    await group.wipe("c")
    await group.stop("b")  # c stays in limbo without it
    seams.FILLER_REST.replace(monkeypatch, rest)
    async with group.client("a") as client, asyncio.timeout(60):
        opened = await stream(client, 9)
        streaming = asyncio.create_task(stream_on()) if busy else None
        await group.start("c")
        peers = group.peers("c")
        await peers.next_round()
        while any(each.busy for each in peers.answering().values()) != busy:
            await peers.next_round()
        await group.start("b")
        while group.nodes["c"].in_limbo:
            await peers.next_round()
        if streaming is not None:
            streaming.cancel()
            await asyncio.gather(streaming, return_exceptions=True)
    assert seen
    assert set(seen) == {busy}


@pytest.mark.expects_log(r"accepted by an operator: \[4, 5\]")
async def test_what_is_behind_an_accepted_loss_is_kept_by_who_took_it_over(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """6 to 9 are stable on a and c, which know that nobody has 4 and 5. c is wiped, and vouches
    again; then a is gone. Without that knowledge b and c would take what is behind for a tail."""

    async def not_yet(_: Repair) -> None:
        """So that c knows only what it took over as it left limbo."""

    await filled(group, a=3, b=3, c=3)
    lineage = FIRST_LINEAGE.extended(5, 2)
    for name in "ac":
        async with group.client(name) as client:
            await client.promise(2, b"new")
            losses = [HeldRange(4, 5, 1)]
            await client.begin(lineage, instance=b"new", membership=MEMBERSHIP, losses=losses)
            opened = await client.open(2, b"new", retained_from=6, stable_upto=3)
            await opened.append(6, 9, 2)
            await opened.close()
    seams.REPAIR_ADOPT_ALL.replace(monkeypatch, not_yet)
    await group.wipe("c")
    await group.start("c")
    await group.vouching("c")
    await group.stop("a")
    promises = {}
    for name in "bc":
        async with group.client(name) as client:
            promises[name] = await client.promise(3, b"next")
    assert not promises["c"].limbo
    assert held_from_wire(promises["c"].accepted_losses) == (HeldRange(4, 5, 1),)
    decision = decide(THREE, {name: promise_of(each) for name, each in promises.items()})
    assert isinstance(decision, Decision)
    assert (decision.floor, decision.kept_upto) == (9, 9)


async def test_a_stream_that_nobody_tells_is_ended_is_asked_for(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have adopted the end, and a has the stream from an old disk: b tells only if asked."""
    await filled(group, a=9, b=9, c=9)
    engine = group.nodes["b"]._engine
    assert engine is not None
    identities, source = engine.core.identities, engine.core.sources[ORDERS]
    membership, incarnation = (
        source.registration.begun.membership,
        engine.core.standing.record.incarnation,
    )
    assert membership is not None
    promise = engine.core.promise_end(ORDERS, 2, b"ends")
    change = engine.core.begin_end(ORDERS, 2, membership, b"ends", incarnation)
    await engine.writer.durable(engine.writer.submit((*promise.writes, *change.writes)))
    identities.ended[ORDERS].unlisted = True
    real, asked = seams.PEERS_ASK_ABOUT.real(), list[Collection[str]]()

    async def silent(_: Peers, __: SourceName, addresses: Collection[str]) -> list[PeerAnswer]:
        asked.append(addresses)
        return []

    seams.PEERS_ASK_ABOUT.replace(monkeypatch, silent)
    await group.wipe("c")
    await group.start("c")
    await group.rounds("c", 3)
    async with group.client("c") as client:
        assert (await client.promise(3, b"other")).limbo
        assert asked[0] == {group.addresses["b"]}
        seams.PEERS_ASK_ABOUT.replace(monkeypatch, real)
        await group.vouching("c")
        told = await client.promise(3, b"other")
        assert (begun_epoch(told.begun), told.begun.generation, told.limbo) == (2, 2, False)
    assert ORDERS not in group.peers("c").inventories()["b"].answer.sources


async def test_who_does_not_say_when_asked_counts_as_silent(group: Group) -> None:
    """It is another one than before, or not there."""
    await filled(group, a=9, b=9, c=9)
    peers = group.peers("c")
    (answer,) = await peers.ask_about(ORDERS, [group.addresses["b"]])
    assert (answer.store, list(answer.sources)) == ("b", [ORDERS])
    engine, nothing = group.nodes["c"]._engine, cast(Any, None)
    assert engine is not None
    one = Vouching(engine, peers, nothing, nothing, group.addresses["c"])
    known = [each.answer for each in peers.inventories().values()]
    addresses = [group.addresses["b"]]
    told = await one._ask_about(ORDERS, known, addresses)
    assert sorted(each.store for each in told) == ["a", "b"]
    former = [replace(each, incarnation=b"former") for each in known]
    assert [each.store for each in await one._ask_about(ORDERS, former, addresses)] == ["a"]
    await group.stop("b")
    assert [each.store for each in await one._ask_about(ORDERS, known, addresses)] == ["a"]


async def test_what_was_promised_before_the_wipe_is_still_promised(group: Group) -> None:
    await filled(group, a=0, b=0, c=0)
    for name in "ab":
        async with group.client(name) as client:
            await client.promise(5, b"new")
    await group.wipe("c")
    await group.start("c")
    await group.vouching("c")
    async with group.client("c") as client:
        status = await client.status()
        assert status.sources[0].promised_epoch == 5
        # Who was promised it by the former store must hear first what this one has.
        with pytest.raises(NotRegistered):
            await client.begin(FIRST_LINEAGE.extended(0, 5), instance=b"new")
        promised = await client.promise(5, b"new")
        assert [(held.first, held.last) for held in promised.held] == [(0, 0)]
        await client.begin(FIRST_LINEAGE.extended(0, 5), instance=b"new")


def promise_of(response: store_v1.PromiseResponse) -> Promise:
    """What a source decides from."""
    return Promise(
        BeginRecord(lineage_from_wire(response.begun.lineage), Membership((THREE,), (THREE,))),
        held_from_wire(response.held),
        response.stable_upto,
        response.limbo,
        losses=held_from_wire(response.accepted_losses),
    )


def receiver(epoch: int, reg_id: int = 0) -> store_v1.RegisterReceiverRequest:
    return store_v1.RegisterReceiverRequest(
        source=source_to_wire(ORDERS),
        session_id=7,
        reg_id=reg_id,
        instance=b"r",
        epoch=epoch,
        protocol_version=PROTOCOL_VERSION,
    )


async def test_receivers_are_not_thrown_back(group: Group) -> None:
    await filled(group, a=9, b=9, c=9)
    async with group.client("a") as client:
        await client.call("RegisterReceiver", receiver(1))
        acknowledgement = store_v1.Acknowledgement(
            source=source_to_wire(ORDERS), instance=b"r", epoch=1, upto=4
        )
        await client.call(
            "Acknowledge",
            store_v1.AcknowledgeRequest(session_id=7, acknowledgements=[acknowledgement]),
        )
    await group.wipe("c")
    await group.start("c")
    await group.vouching("c")
    async with group.client("c") as client:
        registered = await client.call("RegisterReceiver", receiver(2))
        assert (registered.known, registered.limbo, registered.acknowledged_upto) == (
            True,
            False,
            4,
        )


@pytest.mark.parametrize("how", ["wiped", "away"])
async def test_a_reg_id_that_was_chosen_is_kept_where_it_was_never_heard_of(
    group: Group, how: str
) -> None:
    """It is the one that all stores were asked for."""
    await group.stop("c")
    for name in "ab":
        async with group.client(name) as client:
            await client.promise(reg_id=77)
            await client.begin(membership=MEMBERSHIP)
            await client.call("RegisterReceiver", receiver(1, reg_id=78))
    if how == "wiped":
        shutil.rmtree(group.directory / "c")
    await group.start("c")
    async with group.client("c") as client, asyncio.timeout(60):
        while not (await client.status()).sources:
            await group.rounds("c", 1)
        await group.vouching("c")
        assert (await client.promise(2, b"other", reg_id=77)).reg_id == 77
        assert (await client.call("RegisterReceiver", receiver(2, reg_id=78))).reg_id == 78


@pytest.mark.expects_log("does not take|is in limbo")
@pytest.mark.parametrize("how", ["wiped", "away"])
async def test_reg_ids_that_differ_by_store_lock_nobody_out(group: Group, how: str) -> None:
    """What a source wants of a store that is away it says; of a receiver nobody else knows."""
    await group.stop("c")
    stores = ",".join(
        f"{name}={address}#{reg_id}"
        for (name, address), reg_id in zip(group.addresses.items(), (77, 78, 79), strict=True)
    )
    options = SourceOptions(registration_interval=0.2)
    async with await Source.open("orders", stores=stores, session_id=0x10, options=options):
        for name, reg_id in (("a", 87), ("b", 88)):
            async with group.client(name) as client:
                await client.call("RegisterReceiver", receiver(1, reg_id=reg_id))
    if how == "wiped":
        shutil.rmtree(group.directory / "c")
    await group.start("c")
    async with group.client("c") as client, asyncio.timeout(20):
        while not (await client.status()).sources:
            await group.rounds("c", 1)
        await group.vouching("c")
        assert (await client.status()).sources[0].reg_id == 79
        registered = await client.call("RegisterReceiver", receiver(2, reg_id=89))
        assert registered.reg_id == (87 if how == "wiped" else 89)
    source = await Source.open("orders", stores=stores, session_id=0x10, options=options)
    async with source:
        assert await source.publish(b"0")


@pytest.mark.expects_log(
    "in limbo|accepted by an operator|lost its quorum|waits for|another incarnation of it"
)
async def test_who_leaves_limbo_by_hand_says_of_no_receiver_that_it_is_gone(group: Group) -> None:
    """Before it has heard of its peers which there are."""
    stores = ",".join(f"{name}={address}" for name, address in group.addresses.items())
    options = SourceOptions(registration_interval=0.2)
    async with await Source.open("orders", stores=stores, session_id=0x10, options=options) as one:
        assert await one.publish(b"0")
        for name in NAMES:
            async with group.client(name) as client:
                await client.call("RegisterReceiver", receiver(7))
    await group.stop("b", "c")
    await group.wipe("a")
    await group.start("a")
    async with group.client("a") as client, asyncio.timeout(60):
        asked = store_v1.AcceptLossRequest(
            first=-1, reason="for a test", protocol_version=PROTOCOL_VERSION
        )
        await client.call("AcceptLoss", asked)
        await client.promise(2, b"me")
        (status,) = (await client.status()).sources
        assert (list(status.receivers), status.may_miss_receivers) == ([], True)
        await group.start("b", "c")
        opening = Source.open("orders", stores=stores, session_id=0x10, options=options)
        async with await opening:
            while (status := (await client.status()).sources[0]).may_miss_receivers:
                await group.rounds("a", 1)
            assert [each.session_id for each in status.receivers] == [7]


@pytest.mark.expects_log("these are in limbo themselves")
async def test_two_wiped_stores_never_found_and_say_so(group: Group) -> None:
    await filled(group, a=9, b=9, c=9)
    await group.wipe("b", "c")
    await group.start("b")
    await group.start("c")
    for name, other in ("bc", "cb"):
        async with group.client(name) as client, asyncio.timeout(60):
            because = f"in limbo themselves: {group.addresses[other]}; and not all"
            while because not in (await client.status()).limbo_reason:
                await group.rounds(name, 1)
            promised = await client.promise(2, b"other")
            assert promised.limbo
            with pytest.raises(InLimbo):
                await client.begin(FIRST_LINEAGE.extended(9, 2), instance=b"other")


async def test_a_group_that_is_wiped_whole_is_founded_anew(group: Group) -> None:
    await filled(group, a=9, b=9, c=9)
    await group.wipe(*NAMES)
    await group.found()
    async with group.client("a") as client:
        promised = await client.promise()
        assert not promised.limbo
        assert not promised.held


async def test_streams_hear_of_a_store_that_came_back(group: Group) -> None:
    async with group.client("a") as a, group.client("c") as c:
        live = await stream(a, 4)
        await (await stream(c, 4)).close()
        before = (await c.status()).incarnation
        await group.wipe("c")
        await group.start("c")
        # What a has must stay with it, so that the store can leave: b knows nothing, and vouches.
        await group.vouching("c")
        await live.batch(batch(5, 9))
        replaced = []
        while (response := await live.read()).WhichOneof("kind") != "durable":
            replaced.append(response.replaced)
        (said,) = [each for each in replaced if each.store_name == "c"]
        assert said.incarnation not in (b"", before)
        # What it was before is certain once it says so itself.
        assert {*said.former} <= {before}
        await group.greeted("a", by="c")
        known = {each.store_name: each for each in (await a.promise()).known}
        assert list(known["c"].former) == [before]


@pytest.mark.expects_log("enters limbo|is in limbo")
@pytest.mark.parametrize("copied", ["while it was stopped", "while it ran"])
async def test_a_directory_that_was_put_back_is_found_out(group: Group, copied: str) -> None:
    """By the number of its starts; or, if it has not been started since, by that of its commits."""
    await filled(group, a=9, b=9, c=3)
    if copied == "while it was stopped":
        copy = await group.copied("c")
    else:
        copy = await group.copy("c")
    async with group.client("c") as client:
        before = (await client.status()).incarnation
        opened = await client.open()
        await opened.append(4, 9)
        await opened.close()
    await group.greeted("a", by="c")
    await group.put_back("c", copy)
    await group.start("c")
    async with group.client("c") as client:
        # Before its first word: a word from before it was put back could be believed.
        assert (await client.status()).incarnation != before
        await group.vouching("c")
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


@pytest.mark.expects_log("enters limbo|is in limbo")
async def test_it_is_found_out_however_long_its_peers_take_to_tell_of_all_sources(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what they say at its start passes for no inventory, though it names no source."""
    await filled(group, a=9, b=9, c=3)
    copy = await group.copied("c")
    before = await _writes_on_and_greets(group)
    await group.put_back("c", copy)
    told = asyncio.Event()

    async def slow(
        engine: Engine, me: store_v1.Greeting, request: store_v1.InventoryRequest, turn: Turn
    ) -> AsyncIterator[store_v1.InventoryResponse]:
        async for each in inventory(engine, me, request, turn):
            if each.sources:
                await told.wait()
            yield each

    with monkeypatch.context() as slowly:
        seams.INVENTORY_IN_STORE_SERVICE.replace(slowly, slow)
        seams.READMISSION_CHECK_SECONDS_MAX.replace(slowly, 20.0)
        async with asyncio.timeout(10):
            await group.start("c")
        async with group.client("c") as client:
            status = await client.status()
        assert status.limbo
        assert status.incarnation != before
        assert not group.peers("c").heard()
        told.set()
    await group.vouching("c")
    async with group.client("c") as client:
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


async def _writes_on_and_greets(group: Group) -> bytes:
    """C takes what it lacks, and its peers hear of that; answers with its incarnation."""
    async with group.client("c") as client:
        before = (await client.status()).incarnation
        opened = await client.open()
        await opened.append(4, 9)
        await opened.close()
    for peer in "ab":
        await group.greeted(peer, by="c")
    return before


@pytest.mark.expects_log("enters limbo|is in limbo")
async def test_it_is_found_out_also_if_its_start_renews_the_incarnation(group: Group) -> None:
    """The store doubts what it had only in memory. It would not doubt what it had synced."""
    await group.stop("c")
    group.overrides["c"] = {"topic": [{"pattern": "trades", "durability": "memory"}]}
    await group.start("c")
    await filled(group, a=9, b=3, c=3)
    async with group.client("c") as client:
        await client.promise(source=TRADES)
        await client.begin(source=TRADES, membership=MEMBERSHIP)
    copy = await group.copy("c")
    await _writes_on_and_greets(group)
    await group.put_back("c", copy)
    await group.start("c")
    async with group.client("c") as client:
        promised = await client.promise(2, b"other")
        held = held_from_wire(promised.held)
        assert promised.limbo or held[-1].last == 9, "it can not say that it never had the rest"
        await group.vouching("c")
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


@pytest.mark.expects_log("enters limbo|is in limbo")
async def test_an_operator_may_be_faster_than_the_peers(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(group, a=9, b=9, c=9)
    copy = await group.copied("c")
    await group.greeted("a", by="c")
    await group.put_back("c", copy)
    settled, ended = seams.STORE_ENGINE_SETTLED.real(), []

    async def settle(engine: Engine, state: SourceState) -> None:
        await settled(engine, state)
        if state.limbo:
            ended.append(state.limbo)
            state.limbo = ""

    seams.STORE_ENGINE_SETTLED.replace(monkeypatch, settle)
    await group.start("c")
    await group.vouching("c")
    assert ended


@pytest.mark.expects_log("enters limbo|is in limbo")
async def test_a_copy_that_runs_under_the_same_name_is_found_out(group: Group) -> None:
    await filled(group, a=9, b=9, c=9)
    copy = await group.copied("c")
    await group.greeted("a", by="c")
    async with group.client("c") as client:
        before = (await client.status()).incarnation
    (address,) = free_addresses(1)
    clone = group.node("c", copy, address)
    await clone.start()
    try:
        async with Client(address) as client, asyncio.timeout(60):
            while (await client.status()).incarnation == before:
                await rounds(clone, 1)
    finally:
        await clone.stop()


@pytest.mark.expects_log("its host went down")
async def test_a_host_that_went_down_under_os_durability(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.stop("c")
    group.overrides["c"] = {"topic": [{"pattern": "orders", "durability": "os"}]}
    await group.start("c")
    await filled(group, a=9, b=9, c=3)
    async with group.client("c") as client:
        before = (await client.status()).incarnation
    for boot, lost in (("", False), ("another", True)):
        await group.put_back("c", await group.copy("c"))
        if boot:
            seams.CLEAN_SHUTDOWN_BOOT_ID.replace(monkeypatch, lambda boot=boot: boot)
        await group.start("c")
        async with group.client("c") as client:
            incarnation = (await client.status()).incarnation
            assert (incarnation != before) == lost
            if lost:
                await vouches(group.nodes["c"])
                assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


@pytest.mark.expects_log("only in its memory")
async def test_what_was_only_in_memory_is_gone_with_the_process_and_comes_from_the_others(
    group: Group,
) -> None:
    await group.stop("c")
    group.overrides["c"] = {"topic": [{"pattern": "orders", "durability": "memory"}]}
    await group.start("c")
    await filled(group, a=9, b=9, c=3)
    async with group.client("c") as client:
        before = (await client.status()).incarnation
    await group.stop("c")
    await group.start("c")
    async with group.client("c") as client:
        assert (await client.status()).incarnation == before, "a clean stop writes everything"
        assert (await client.fetch()).messages == {n: payload(n) for n in range(4)}
    await group.put_back("c", await group.copy("c"))
    await group.start("c")
    async with group.client("c") as client:
        assert (await client.status()).incarnation != before
        await vouches(group.nodes["c"])
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


async def test_a_source_of_a_synced_topic_outlives_its_host(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(group, a=9, b=9, c=9)
    await group.put_back("c", await group.copy("c"))
    seams.CLEAN_SHUTDOWN_BOOT_ID.replace(monkeypatch, lambda: "another")
    await group.start("c")
    assert not group.nodes["c"].in_limbo


async def test_a_power_failure_is_no_roll_back(group: Group) -> None:
    """Everything that was synced is there, but the mark of how much that was is an older one."""
    await filled(group, a=9, b=9, c=9)
    await group.rounds("c", 1)
    async with group.client("c") as client:
        before = (await client.status()).incarnation
    await group.stop("c")
    (group.directory / "c" / "acknowledged").write_bytes((1).to_bytes(8, "little"))
    await group.start("c")
    await group.rounds("c", 2)
    async with group.client("c") as client:
        assert (await client.status()).incarnation == before
    assert not group.nodes["c"].in_limbo


async def test_with_all_peers_away_a_store_serves_as_before(group: Group) -> None:
    await filled(group, a=9, b=9, c=9)
    await group.stop(*NAMES)
    await group.start("a")
    async with group.client("a") as client:
        promised = await client.promise(2, b"other")
        assert not promised.limbo
        await client.begin(FIRST_LINEAGE.extended(9, 2), instance=b"other", membership=MEMBERSHIP)
        opened = await client.open(2, b"other", 10)
        await opened.append(10, 19, 2)


async def test_a_store_that_just_started_does_not_wait_long_for_a_peer_that_hangs(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(group, a=9, b=9, c=9)
    seams.READMISSION_CHECK_SECONDS_MAX.replace(monkeypatch, 0.05)
    held = asyncio.Event()

    async def hang(*_: object, **__: object) -> None:
        await held.wait()

    await group.stop("c")
    seams.PEERS_QUESTION.replace(monkeypatch, hang)
    async with asyncio.timeout(60):
        await group.start("c")
    async with group.client("c") as client:
        assert (await client.fetch()).messages == {n: payload(n) for n in range(10)}


def test_until_its_peers_were_heard_a_store_that_started_vouches_for_nothing() -> None:
    standing = Standing("a", StoreRecord(b"x" * 16), {})
    standing.begin_check(())
    assert not standing.limbo
    standing.begin_check(("b:1",))
    assert "peers" in standing.limbo
    standing.unchecked = ""
    assert not standing.limbo


def test_a_store_in_limbo_as_a_whole_is_checked_for_the_sources_that_it_vouches_for() -> None:
    """It may have been put back to when it had not heard from everybody, but knew these again."""
    world = World()
    world.promise(1)
    standing = world.standing
    standing.record = replace(standing.record, limbo="a peer was away")
    assert not world.core.limbo_of(world.core.sources[ORDERS])
    standing.begin_check(("b:1",))
    assert world.core.limbo_of(world.core.sources[ORDERS])
    standing.unchecked = ""
    standing.record = replace(standing.record, blank=True)
    standing.begin_check(("b:1",))
    assert not standing.unchecked, "it has nothing that could have been put back"
