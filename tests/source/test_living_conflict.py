"""Two sources with one identity, both alive, on real stores: one goes on, the other never again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.end_to_end.proxy import Proxy
from tests.source.real_stores import RealStores, numbered
from tests.source.support import event_of

from quorate.protocol.errors import Fenced, QuorateError, SourceActive
from quorate.protocol.identity import StoreAddress
from quorate.source import Layout, RegistrationRefused, Source, SourceFailed

pytestmark = pytest.mark.expects_log("does not take|lost its quorum|cannot go on")


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    made = RealStores(tmp_path)
    await made.start("abc")
    yield made
    await made.stop_all()


async def every_call_fails(source: Source) -> None:
    """At once, and with why."""
    for call in (
        source.send(b"no"),
        source.send_many([b"no"]),
        source.publish(b"no"),
        source.wait_stable(source.next_sequence, 5),
    ):
        with pytest.raises(Fenced):
            await asyncio.wait_for(call, 1)


async def test_a_second_one_is_refused_and_the_first_hears_nothing_of_it(
    stores: RealStores,
) -> None:
    refused: list[object] = []
    async with await stores.open("abc") as first:
        await first.publish(b"0")
        with pytest.raises(SourceActive):
            await stores.open("abc", on_event=refused.append)
        told = [event for event in refused if isinstance(event, RegistrationRefused)]
        assert {event.store for event in told} == set("abc")
        assert all(isinstance(event.reason, SourceActive) for event in told)
        await first.publish(b"1")
        assert first.epoch == 1


async def test_taking_over_ends_the_first_at_once_and_for_good(stores: RealStores) -> None:
    first = await stores.open("abc")
    await first.publish(b"0")
    async with await stores.open("abc", take_over=True) as second:
        assert second.next_sequence == 1
        assert isinstance((await event_of(first, SourceFailed)).error, Fenced)
        await every_call_fails(first)
        await second.publish(b"1")
        assert first.stable_upto == 0
        await first.close()
        await stores.until_held("abc", numbered(0, 1))


async def test_one_that_was_cut_off_during_the_take_over_never_has_anything_made_stable(
    stores: RealStores,
) -> None:
    async with AsyncExitStack() as stack:
        proxies = {}
        for name in "abc":
            proxy = Proxy(int(stores.address(name).rpartition(":")[2]))
            proxies[name] = await stack.enter_async_context(proxy.running())
        paths = [StoreAddress(name, f"127.0.0.1:{proxies[name].port}") for name in "abc"]
        first = await stores.open(Layout.plain(paths))
        await first.publish(b"0")
        for proxy in proxies.values():
            proxy.stall("there")
            proxy.stall("back")
        # What it sends now waits in the connections, as in a process that was paused.
        pending = asyncio.create_task(first.publish(b"never"))
        await asyncio.sleep(0)
        async with await stores.open("abc", take_over=True) as second:
            assert second.next_sequence == 1
            await second.publish(b"1")
            for proxy in proxies.values():
                proxy.heal()
            assert isinstance((await event_of(first, SourceFailed)).error, Fenced)
            with pytest.raises(Fenced):
                await pending
            await every_call_fails(first)
            assert first.stable_upto == 0
            await second.publish(b"2")
            await stores.until_held("abc", numbered(0, 2))
        with pytest.raises(QuorateError):
            await first.close()


async def test_one_that_was_replaced_does_not_deregister_its_successor(stores: RealStores) -> None:
    """It hears of that from one store, and has asked for an epoch that is higher still."""
    async with AsyncExitStack() as stack:
        proxies = [Proxy(int(stores.address(name).rpartition(":")[2])) for name in "abc"]
        for proxy in proxies:
            await stack.enter_async_context(proxy.running())
        paths = [
            StoreAddress(n, f"127.0.0.1:{p.port}") for n, p in zip("abc", proxies, strict=True)
        ]
        first = await stores.open(Layout.plain(paths), take_over=True)
        await first.publish(b"0")
        for proxy in proxies[1:]:
            proxy.stall("there")
            proxy.stall("back")
        async with await stores.open("abc", take_over=True) as second:
            assert isinstance((await event_of(first, SourceFailed)).error, Fenced)
            for proxy in proxies:
                proxy.heal()
            with pytest.raises(Fenced):
                await first.deregister(5)
            await second.publish(b"1")
            await stores.until_held("abc", numbered(0, 1))
        await first.close()


async def test_the_fenced_one_stays_fenced_when_the_second_has_gone(stores: RealStores) -> None:
    first = await stores.open("abc")
    await first.publish(b"0")
    async with await stores.open("abc", take_over=True):
        await event_of(first, SourceFailed)
    await every_call_fails(first)
    async with await stores.open("abc") as third:
        assert third.next_sequence == 1
    await first.close()
