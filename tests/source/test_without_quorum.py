"""Sending goes on without a quorum if the application wants it so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.source.fake_store import FakeStore
from tests.source.support import QUICK, event_of, open_source

from quorate.protocol.errors import Fenced, NoQuorum, SendTimedOut
from quorate.source import FilePublishStore, Source, SourceOptions, events
from quorate.source.blocking import Source as BlockingSource

KEEP = replace(QUICK, without_quorum="keep")

pytestmark = pytest.mark.expects_log("lost its quorum|does not take|waits for")


async def keeping(stores: Sequence[FakeStore], **changes: Any) -> Source:
    return await open_source(stores, **({"options": KEEP} | changes))


async def stop(stores: Sequence[FakeStore]) -> None:
    for store in stores:
        await store.stop()


async def start(stores: Sequence[FakeStore]) -> None:
    for store in stores:
        await store.start()


def stable(stores: Sequence[FakeStore]) -> dict[int, bytes]:
    """What a majority of the stores has, with one content."""
    held: dict[int, list[bytes]] = {}
    for store in stores:
        for number, payload in store.messages.items():
            held.setdefault(number, []).append(payload)
    assert all(len(set(each)) == 1 for each in held.values())
    return {number: each[0] for number, each in sorted(held.items()) if len(each) > 1}


async def test_a_send_goes_on_while_the_quorum_is_lost(stores: list[FakeStore]) -> None:
    async with await keeping(stores) as source:
        await source.publish(b"0")
        await stop(stores)
        await event_of(source, events.QuorumLost)
        assert not source.registered
        assert [await source.send(b"1"), await source.send(b"2", key=b"k")] == [1, 2]
        assert await source.send_many([b"3", b"4"]) == range(3, 5)
        await start(stores)
        await source.flush(60)
        assert stable(stores) == {number: b"%d" % number for number in range(5)}


async def test_a_full_flight_window_bounds_what_is_kept(stores: list[FakeStore]) -> None:
    async with await keeping(stores, options=replace(KEEP, flight_messages=3)) as source:
        await stop(stores)
        await event_of(source, events.QuorumLost)
        for _ in range(3):
            await source.send(b"kept", timeout=30)
        with pytest.raises(SendTimedOut, match="too few stores take the stream"):
            await source.send(b"refused", timeout=0)
        await start(stores)
        await source.flush(60)
        assert await source.send(b"goes on", timeout=30) == 3


async def prepared(stores: Sequence[FakeStore], path: Path, count: int = 2) -> None:
    """A publish store that knows its stream, and stores that are away."""
    async with await open_source(stores, publish_store=FilePublishStore(path)) as source:
        for number in range(count):
            await source.publish(b"%d" % number)
    await stop(stores)


async def test_a_source_opens_without_stores_and_sends_later(
    stores: list[FakeStore], tmp_path: Path
) -> None:
    await prepared(stores, tmp_path)
    store = FilePublishStore(tmp_path)
    async with await keeping(stores, publish_store=store, timeout=0.1) as source:
        assert not source.registered
        assert (await event_of(source, events.QuorumLost)).active == ()
        assert [await source.send(b"2"), await source.send(b"3")] == [2, 3]
        await start(stores)
        assert (await event_of(source, events.RegistrationComplete)).first_sequence == 4
        assert await source.send(b"4") == 4
        await source.flush(60)
    assert stable(stores) == {number: b"%d" % number for number in range(5)}


async def test_more_than_a_batch_gathers_before_the_registration(
    stores: list[FakeStore], tmp_path: Path
) -> None:
    await prepared(stores, tmp_path)
    store = FilePublishStore(tmp_path)
    async with await keeping(stores, publish_store=store, timeout=0) as source:
        for number in range(2, 10_000):
            assert await source.send(b"%d" % number, timeout=30) == number
        await start(stores)
        await source.flush(60)
    assert stable(stores) == {number: b"%d" % number for number in range(10_000)}


async def test_messages_of_two_lives_without_stores_are_sent_in_order(
    stores: list[FakeStore], tmp_path: Path
) -> None:
    await prepared(stores, tmp_path)
    for number in (2, 3):
        publish_store = FilePublishStore(tmp_path)
        source = await keeping(stores, publish_store=publish_store, timeout=0)
        assert source.next_sequence == number
        assert await source.send(b"%d" % number) == number
        await source.close(0)
    await start(stores)
    async with await keeping(stores, publish_store=FilePublishStore(tmp_path)) as source:
        await source.flush(60)
    assert stable(stores) == {number: b"%d" % number for number in range(4)}


@pytest.mark.expects_log("lost its quorum|does not take|waits for|cannot go on")
async def test_a_source_that_another_one_went_past_says_so(
    stores: list[FakeStore], tmp_path: Path
) -> None:
    await prepared(stores, tmp_path)
    await start(stores)
    async with await open_source(stores, take_over=True) as other:
        await other.publish(b"other")
    for store in stores:
        store.answering.clear()
    source = await keeping(stores, publish_store=FilePublishStore(tmp_path), timeout=0)
    assert await source.send(b"2") == 2
    for store in stores:
        store.answering.set()
    with pytest.raises(Fenced):
        await source.flush(60)
    with pytest.raises(Fenced):
        await source.send(b"3")
    with pytest.raises(Fenced):
        await source.close(0)


async def test_a_source_that_gave_out_no_number_goes_on_where_the_stream_is(
    stores: list[FakeStore], tmp_path: Path
) -> None:
    await prepared(stores, tmp_path)
    await start(stores)
    async with await open_source(stores, take_over=True) as other:
        await other.publish(b"other")
    for store in stores:
        store.answering.clear()
    async with await keeping(stores, publish_store=FilePublishStore(tmp_path), timeout=0) as source:
        assert source.next_sequence == 2
        for store in stores:
            store.answering.set()
        await event_of(source, events.RegistrationComplete)
        assert await source.send(b"3") == 3
        await source.flush(60)
    assert list(stable(stores).values()) == [b"0", b"1", b"other", b"3"]


@pytest.mark.parametrize("option", ["keep", "refuse"])
async def test_the_first_open_of_a_stream_needs_a_quorum(tmp_path: Path, option: str) -> None:
    if option == "refuse":
        stores = [FakeStore() for _ in range(3)]
        await start(stores)
        await prepared(stores, tmp_path)
    else:
        stores = [FakeStore()]
        stores[0].address = "127.0.0.1:1"
    with pytest.raises(NoQuorum):
        await open_source(
            stores,
            options=replace(KEEP, without_quorum=option),
            publish_store=FilePublishStore(tmp_path),
            timeout=0,
        )


async def test_threads_send_without_a_quorum(stores: list[FakeStore], tmp_path: Path) -> None:
    await prepared(stores, tmp_path)

    def send() -> BlockingSource:
        source = BlockingSource.open(
            "orders",
            session_id=0x10,
            stores=",".join(store.address for store in stores),
            publish_store=FilePublishStore(tmp_path),
            options=KEEP,
            timeout=0,
        )
        for number in range(2, 10_000):
            assert source.send(b"%d" % number) == number
        return source

    source = await asyncio.to_thread(send)
    await start(stores)
    await asyncio.to_thread(source.flush, 60)
    await asyncio.to_thread(source.close)
    assert stable(stores) == {number: b"%d" % number for number in range(10_000)}


def test_the_option_is_read_from_text() -> None:
    assert SourceOptions(without_quorum="keep").without_quorum is not None
