"""Identities over real stores that know each other: how they end, expire, and are answered for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.support import ORDERS, Client, configuration, free_addresses

from quorate.console.group.deregistration import deregister, find
from quorate.protocol.errors import (
    Deregistered,
    NoQuorum,
    ReceiverActive,
    RegIdInUse,
    SourceActive,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver import ProxyGone, ProxyServes, Receiver, ReceiverOptions
from quorate.source import Source, SourceFailed, SourceOptions
from quorate.store.node import StoreNode
from quorate.store.rules.lifetimes import Who
from quorate.v1 import store_pb2 as store_v1

QUICK = SourceOptions(registration_interval=0.3)
QUICK_RECEIVER = ReceiverOptions(registration_interval=3.0, acknowledge_interval=0.02)


class Group:
    """Three stores, each a peer of the others."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path = path
        self._settings = settings
        self._addresses = dict(zip("abcd", free_addresses(4), strict=True))
        self.nodes: dict[str, StoreNode] = {}

    async def start(self, name: str, **settings: Any) -> None:
        others = [each for other, each in self._addresses.items() if other not in (name, "d")]
        self.nodes[name] = StoreNode(
            configuration(
                self._path / name,
                name,
                listen=self._addresses[name],
                peers=others,
                **(self._settings | settings),
            )
        )
        await self.nodes[name].start()

    async def stop(self, name: str) -> None:
        await self.nodes.pop(name).stop()

    def address(self, name: str) -> str:
        return self._addresses[name]

    def stores(self, names: str = "abc") -> str:
        return ",".join(f"{name}={self._addresses[name]}" for name in names)

    async def source(self, **changes: Any) -> Source:
        settings = {"session_id": 0x10, "options": QUICK, "timeout": 20.0, **changes}
        return await Source.open("orders", stores=self.stores(), **settings)

    async def receiver(self, stores: str = "abc", **changes: Any) -> Receiver:
        settings = {"session_id": 0x20, "options": QUICK_RECEIVER, "timeout": 10.0, **changes}
        return await Receiver.open("orders", stores=self.stores(stores), **settings)

    async def status(self, name: str) -> store_v1.StatusResponse:
        async with Client(self._addresses[name]) as client:
            return await client.status()

    async def vouching(self, name: str) -> None:
        """Return when a store is out of limbo."""
        while (await self.status(name)).limbo:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def until(
        self, name: str, what: Callable[[list[store_v1.SourceStatus]], bool]
    ) -> list[store_v1.SourceStatus]:
        """The sources of a store, once this is so of them."""
        async with asyncio.timeout(60):
            while not what(known := list((await self.status(name)).sources)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return known


@pytest.fixture
def settings() -> dict[str, Any]:
    return {}


@pytest.fixture
async def group(
    tmp_path: Path, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Group]:
    seams.PEER_POLLING_ROUND_SECONDS.replace(monkeypatch, 0.1)
    seams.LIFECYCLE_LOOK_SECONDS.replace(monkeypatch, 0.05)
    seams.PROXY_AWAY_SECONDS.replace(monkeypatch, 0.3)
    made = Group(tmp_path, settings)
    for name in "abc":
        await made.start(name)
    async with asyncio.timeout(60):
        for name in "abc":
            await made.vouching(name)
    yield made
    for name in tuple(made.nodes):
        await made.stop(name)


def blank(sources: list[store_v1.SourceStatus]) -> bool:
    return sources == []


async def die(source: Source) -> None:
    """End a source as a crash would: without a word."""
    engine = source._engine
    engine.stop_ticking()
    tasks = list(engine._running.values())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await engine.live_server.remove(engine.live)
    source._closed = True


async def take(receiver: Receiver, last: int) -> list[int]:
    """What is handed over up to this number."""
    numbers: list[int] = []
    async with asyncio.timeout(60):
        async for message in receiver:
            numbers.append(message.sequence)
            if message.sequence == last:
                break
    return numbers


async def told(receiver: Receiver, kind: type) -> Any:
    async with asyncio.timeout(60):
        async for event in receiver.events():
            if isinstance(event, kind):
                return event
    raise AssertionError(f"no {kind}")


async def until_told(receiver: Receiver, kind: type, times: int) -> AsyncIterator[Any]:
    """Yield the first events of this kind."""
    async with asyncio.timeout(60):
        async for event in receiver.events():
            if isinstance(event, kind):
                yield event
                if not (times := times - 1):
                    return


LIMBO = "is in limbo"
pytestmark = pytest.mark.expects_log(
    f"{LIMBO}|is deregistered|does not take|lost its quorum|directory of|"
    "state lifetime is over|does not register"
)


# Deregistration.


async def test_a_deregistered_source_is_gone_and_may_begin_anew(group: Group) -> None:
    source = await group.source()
    await source.send_many([b"%d" % number for number in range(100)])
    await source.flush(60)
    await source.deregister(10)
    for name in "abc":
        await group.until(name, blank)
    async with await group.source() as anew:
        assert anew.next_sequence == 0
        assert anew.epoch > source.epoch, "what was fenced stays fenced"
        await anew.publish(b"first again")
    async with await group.receiver() as receiver:
        assert await take(receiver, 0) == [0]


async def test_a_store_that_was_away_hears_of_it_from_the_others(group: Group) -> None:
    source = await group.source()
    await source.publish(b"0")
    await group.stop("c")
    await source.deregister(10)
    await group.start("c")
    await group.until("c", blank)
    async with await group.source() as anew:
        assert anew.next_sequence == 0
        await anew.publish(b"0")


@pytest.mark.expects_log("cannot go on")
async def test_an_operator_may_end_a_living_source(group: Group) -> None:
    source = await group.source()
    await source.publish(b"0")
    stores = [StoreAddress(name, group.address(name)) for name in "abc"]
    rows, errors = await deregister(await find(stores, ORDERS, 0, 10), ORDERS, 0, 10)
    assert not errors
    assert [(row["done"], row["last_sequence"]) for row in rows] == [(True, 0)] * 3
    async for event in source.events():
        if isinstance(event, SourceFailed):
            assert isinstance(event.error, Deregistered)
            break
    with pytest.raises(Deregistered):
        await source.send(b"1")
    await source.close()


async def test_a_deregistered_receiver_starts_from_the_beginning(group: Group) -> None:
    async with await group.source() as source:
        await source.send_many([b"%d" % number for number in range(10)])
        await source.flush(60)
        async with await group.receiver() as receiver:
            assert await take(receiver, 9) == list(range(10))
        receiver = await group.receiver()
        await source.publish(b"10")
        assert await take(receiver, 10) == [10]
        await receiver.deregister(10)
        for name in "abc":
            (status,) = await group.until(name, lambda sources: not sources[0].receivers)
            assert list(status.receivers) == []
        async with await group.receiver() as receiver:
            assert await take(receiver, 10) == list(range(11))


@pytest.mark.expects_log("c did not answer|peer .* does not answer|could not")
async def test_a_store_that_was_away_when_a_receiver_ended_hears_of_it(group: Group) -> None:
    async with await group.source() as source:
        await source.send_many([b"%d" % number for number in range(10)])
        await source.flush(60)
        receiver = await group.receiver()
        assert await take(receiver, 9) == list(range(10))
        await receiver.flush()
        await group.stop("c")
        with pytest.raises(NoQuorum, match="c"):
            await receiver.deregister(0.5)
        await receiver.close()
        await group.start("c")
        await group.vouching("c")
        for name in "abc":
            (status,) = await group.until(name, lambda sources: not sources[0].receivers)
            assert [each.session_id for each in status.ended_receivers] == [0x20]
        for name in "abc":
            await group.until(
                name, lambda sources: all(each.settled for each in sources[0].ended_receivers)
            )
        async with await group.receiver() as receiver:
            assert await take(receiver, 9) == list(range(10))


@pytest.mark.expects_log("refused an acknowledgement|is fenced")
async def test_a_receiver_that_an_operator_ends_while_it_runs_ends_with_a_reason(
    group: Group,
) -> None:
    async with await group.source() as source, await group.receiver() as receiver:
        await source.send_many([b"%d" % number for number in range(10)])
        assert await take(receiver, 9) == list(range(10))
        await receiver.flush()
        for name in "ab":
            async with Client(group.address(name)) as client:
                asked = store_v1.DeregisterRequest(
                    source=source_to_wire(ORDERS),
                    receiver_session_id=0x20,
                    epoch=1,
                    protocol_version=PROTOCOL_VERSION,
                )
                await client.call("Deregister", asked)
        with pytest.raises(Deregistered):
            await receiver.receive()


async def test_a_registration_that_failed_leaves_nothing_behind(group: Group) -> None:
    await group.stop("b")
    await group.stop("c")
    with pytest.raises(NoQuorum):
        await group.source(timeout=1.0)
    await group.until("a", blank)


# Lifetimes.


@pytest.mark.parametrize("settings", [{"source_state_lifetime": 1.0}])
async def test_state_is_deleted_everywhere_and_the_source_may_begin_anew(group: Group) -> None:
    async with await group.source() as source:
        await source.publish(b"0")
        async with await group.receiver() as receiver:
            assert await take(receiver, 0) == [0]
    for name in "abc":
        await group.until(name, blank)
    async with await group.source() as anew:
        assert anew.next_sequence == 0
        await anew.publish(b"0")


async def test_a_receiver_asks_to_be_forgotten_soon(group: Group) -> None:
    async with await group.source() as source:
        await source.publish(b"0")
        options = ReceiverOptions(registration_interval=3.0, state_lifetime=1.0)
        async with await group.receiver(options=options):
            for name in "abc":
                (status,) = await group.until(name, lambda sources: bool(sources[0].receivers))
        for name in "abc":
            (status,) = await group.until(name, lambda sources: not sources[0].receivers)
            assert status.live, "the source lives on"


@pytest.mark.parametrize("settings", [{"source_state_lifetime": 1.0}])
async def test_too_few_stores_let_nothing_expire(group: Group) -> None:
    async with await group.source() as source:
        await source.publish(b"0")
        for name in "bc":
            await group.stop(name)
    alone = group.nodes["a"]
    assert alone._engine
    assert alone.keeper
    lives = alone._engine.core.identities.lives
    async with asyncio.timeout(60):
        while not lives.overdue(Who(ORDERS)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for _ in range(3):
        await alone.keeper.look(time.monotonic())
    record = alone._engine.core.sources[ORDERS].registration
    assert record.promised_epoch == record.begun.epoch, "the end was not even tried"
    await group.start("b")
    for name in "ab":
        await group.until(name, blank)


@pytest.mark.parametrize("settings", [{"source_state_lifetime": 1.0}])
async def test_two_of_three_stores_end_a_source_and_the_third_one_hears_of_it(group: Group) -> None:
    async with await group.source() as source:
        await source.publish(b"0")
    await group.stop("c")
    for name in "ab":
        await group.until(name, blank)
    async with await group.source() as anew:
        assert anew.next_sequence == 0
    await group.start("c")
    await group.until("c", lambda sources: all(each.held == [] for each in sources))


@pytest.mark.parametrize("settings", [{"source_state_lifetime": 1.0}])
async def test_a_store_that_finds_the_lifetime_over_before_it_hears_of_the_end(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await group.source() as source:
        await source.publish(b"0")
    await group.stop("c")
    for name in "ab":
        await group.until(name, blank)

    async def hears_of_no_begin(_: object) -> None:
        pass

    seams.REPAIR_ADOPT_ALL.replace(monkeypatch, hears_of_no_begin)
    await group.start("c")
    await group.until("c", blank)


# Strong RegIDs.


STRONG = SourceOptions(registration_interval=0.3, activity_timeout=3600.0)


@pytest.mark.expects_log("cannot go on")
async def test_another_instance_is_refused_until_the_activity_timeout_is_over(
    group: Group,
) -> None:
    source = await group.source(options=STRONG)
    await source.publish(b"0")
    await die(source)
    with pytest.raises(SourceActive):
        await group.source(timeout=5.0)
    for node in group.nodes.values():
        assert node.keeper is not None
        node.keeper.observed.now += 3600.0
    async with await group.source() as again:
        assert again.next_sequence == 1


async def test_taking_over_does_not_wait(group: Group) -> None:
    source = await group.source(options=STRONG)
    await source.publish(b"0")
    await die(source)
    async with await group.source(take_over=True) as again:
        assert again.next_sequence == 1


async def test_who_closed_keeps_nobody_out(group: Group) -> None:
    async with await group.source(options=STRONG) as source:
        await source.publish(b"0")
    async with await group.source() as again:
        assert again.next_sequence == 1


@pytest.mark.expects_log("ends:|does not register|refused")
@pytest.mark.parametrize("settings", [{"receiver_activity_timeout": 3600.0}])
async def test_a_receivers_identity_is_protected_too(group: Group) -> None:
    async with await group.source() as source:
        await source.publish(b"0")
        async with await group.receiver():
            with pytest.raises(ReceiverActive):
                await group.receiver(timeout=5.0)
            async with await group.receiver(take_over=True) as newer:
                assert await take(newer, 0) == [0]


# RegIDs.


@pytest.mark.expects_log("cannot go on|ends:")
async def test_two_identities_can_not_have_one_reg_id(group: Group) -> None:
    async with await group.source(reg_id=77) as source:
        await source.publish(b"0")
        with pytest.raises(RegIdInUse):
            await group.source(session_id=0x11, reg_id=77)
        with pytest.raises(RegIdInUse):
            await group.receiver(reg_id=77)
        async with await group.receiver(reg_id=78) as receiver:
            assert await take(receiver, 0) == [0]
    async with await group.source(reg_id=77) as again:
        assert again.next_sequence == 1
    async with await group.source(reg_id=79) as kept:
        assert kept.next_sequence == 1, "its session says who it is; it keeps the RegID that it has"


async def test_a_reg_id_is_free_again_once_its_holder_has_ended(group: Group) -> None:
    source = await group.source(reg_id=77)
    await source.publish(b"0")
    await source.deregister(10)
    async with await group.source(reg_id=77) as anew:
        assert anew.next_sequence == 0
        reg_ids = {store.reg_id for store in anew._core.information().stores}
        assert 77 in reg_ids
        assert reg_ids <= {0, 77}, "0: that store has not heard yet that the others forgot it, too"


async def test_a_reg_id_at_some_stores_and_none_at_others(group: Group) -> None:
    a, b, c = (f"{name}={group.address(name)}" for name in "abc")
    stores = f"{a}#77,{b},{c}#78"
    for first in (0, 1):
        async with await Source.open(
            "orders", stores=stores, session_id=0x10, options=QUICK, timeout=10.0
        ) as source:
            assert source.next_sequence == first
            reg_ids = {store.name: store.reg_id for store in source._core.information().stores}
            assert (reg_ids["a"], reg_ids["c"]) == (77, 78)
            assert reg_ids["b"] not in (0, 77, 78)
            await source.publish(b"%d" % first)


# The directory and proxies.


@pytest.mark.expects_log("no store has a source")
async def test_a_store_tells_of_sources_that_it_does_not_have(group: Group) -> None:
    await group.start("d")
    async with asyncio.timeout(60):
        await group.vouching("d")
    async with await group.source() as source:
        await source.publish(b"0")
        async with await group.receiver("d") as receiver:
            assert await take(receiver, 0) == [0]
        assert blank(list((await group.status("d")).sources))


async def test_stores_answer_for_a_source_that_is_away_and_give_way_when_it_returns(
    group: Group,
) -> None:
    source = await group.source()
    await source.send_many([b"%d" % number for number in range(100)])
    await source.flush(60)
    for name in "abc":
        await group.until(name, lambda sources: sources[0].held[0].last == 99)
    # Nobody is told any more that the last ones are stable.
    await die(source)
    async with await group.receiver(delivery="stable") as receiver:
        assert (await told(receiver, ProxyServes)).store in "abc"
        assert await take(receiver, 99) == list(range(100))
        for name in "abc":
            (status,) = await group.until(name, lambda sources: bool(sources[0].proxy))
            assert status.proxy == name
        async with await group.source(take_over=True) as again:
            assert (await told(receiver, ProxyGone)).store in "abc"
            await again.publish(b"100")
            assert await take(receiver, 100) == [100]
            for name in "abc":
                await group.until(name, lambda sources: sources[0].proxy == "")


async def test_another_store_answers_when_the_proxy_goes_away(group: Group) -> None:
    source = await group.source()
    await source.publish(b"0")
    await die(source)
    async with await group.receiver() as receiver:
        kept = (await told(receiver, ProxyServes)).store
        for name in "abc":
            await group.until(name, lambda sources: bool(sources and sources[0].proxy))
        await group.stop(kept)
        assert (await told(receiver, ProxyGone)).store == kept
        serving = [event async for event in until_told(receiver, ProxyServes, 2)]
        assert [event.store == kept for event in serving] == [True, False]


@pytest.mark.parametrize("settings", [{"proxies": False}])
async def test_no_store_answers_if_none_may(group: Group) -> None:
    source = await group.source()
    await source.publish(b"0")
    await die(source)
    await group.until("a", lambda sources: sources[0].inactive_seconds > 1)
    assert (await group.status("a")).sources[0].proxy == ""
