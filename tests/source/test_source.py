"""The source as applications use it, against stores in this process that do as they are told."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.source.support import Stores, event_of, numbered, open_source

from quorate.protocol.errors import (
    Closed,
    ContentConflict,
    InvalidArgument,
    MessageTooLarge,
    MissingMessages,
    NotRegistered,
    NotYetStable,
    SendTimedOut,
    StorageFailed,
)
from quorate.protocol.fragments import Batch
from quorate.protocol.limits import BATCH_MESSAGES_MAX, MESSAGE_BYTES_USUAL
from quorate.source import (
    Durability,
    FilePublishStore,
    FlightBehaviour,
    FlightExceeded,
    FlightRelieved,
    MemoryPublishStore,
    NotStable,
    NotStableCause,
    QuorumLost,
    SourceFailed,
    SourceOptions,
    StoreCaughtUp,
)

# -- sending --------------------------------------------------------------------------------


async def test_a_receipt_says_who_had_it_and_how(stores: Stores) -> None:
    stores[2].acknowledging.clear()
    async with await open_source(stores) as source:
        receipt = await source.publish(b"x")
        two = {store.address for store in stores[:2]}
        assert (receipt.sequence, receipt.epoch, set(receipt.stores)) == (0, 1, two)
        assert receipt.durability == dict.fromkeys(two, Durability.FSYNC)
        assert 0 < receipt.seconds < 5
        stores[2].acknowledge_again()


async def test_many_publishes_at_once(stores: Stores) -> None:
    async with await open_source(stores) as source:
        receipts = await asyncio.gather(*(source.publish(b"x") for _ in range(500)))
        assert [receipt.sequence for receipt in receipts] == list(range(500))


async def test_what_can_not_be_sent_is_refused_before_anything_is(stores: Stores) -> None:
    options = SourceOptions(message_bytes_max=10)
    async with await open_source(stores, options=options) as source:
        with pytest.raises(MessageTooLarge):
            await source.send(b"x" * 11)
        with pytest.raises(MessageTooLarge):
            await source.send_many([b"x", b"x" * 11])
        with pytest.raises(InvalidArgument):
            await source.send("text")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            await source.send_many([b"x", 5])  # type: ignore[list-item]
        assert source.next_sequence == 0
        buffer = bytearray(b"before")
        await source.send(buffer)  # type: ignore[arg-type]
        buffer[:] = b"after!"
        await source.flush(60)
        assert stores[0].messages == {0: b"before"} or stores[1].messages == {0: b"before"}


async def test_the_largest_message_goes_through(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.send_many([b"x" * 1024 * 1024] * 3)
        await source.send(b"y" * 1024 * 1024)
        await source.flush(60)


async def test_a_full_flight_window_blocks_until_something_is_stable(stores: Stores) -> None:
    options = SourceOptions(flight_messages=10)
    for store in stores:
        store.acknowledging.clear()
    async with await open_source(stores, options=options) as source:
        await source.send_many(numbered(0, 9))
        blocked = asyncio.create_task(source.send(b"10"))
        many = asyncio.create_task(source.send_many(numbered(11, 40)))
        after = asyncio.create_task(source.send(b"41"))
        for store in stores:
            await store.until_held(9)
        assert source.next_sequence == 10
        assert not blocked.done()
        for store in stores:
            store.acknowledge_again()
        assert await blocked == 10
        assert await many == range(11, 41)
        assert await after == 41
        await source.flush(60)
    assert stores[0].messages == dict(enumerate(numbered(0, 41)))


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_blocked_sender_hears_of_the_lost_quorum(stores: Stores) -> None:
    source = await open_source(stores, options=SourceOptions(flight_messages=1))
    for store in stores:
        store.acknowledging.clear()
    await source.send(b"0")
    blocked = asyncio.create_task(source.send(b"1"))
    await asyncio.sleep(0)
    for store in stores:
        await store.stop()
    with pytest.raises(NotRegistered):
        await blocked
    with pytest.raises(NotYetStable):
        await source.close(timeout=0)


async def test_with_notify_sending_goes_on_and_the_application_is_told(stores: Stores) -> None:
    options = SourceOptions(flight_messages=10, flight_behaviour=FlightBehaviour.NOTIFY)
    for store in stores:
        store.acknowledging.clear()
    async with await open_source(stores, options=options) as source:
        await source.send_many(numbered(0, 19))
        await source.send(b"20")
        assert (await event_of(source, FlightExceeded)).unstable_messages >= 10
        for store in stores:
            await store.until_held(20)
            store.acknowledge_again()
        await event_of(source, FlightRelieved)


async def test_senders_side_by_side_get_numbers_of_their_own(stores: Stores) -> None:
    async with await open_source(stores) as source:

        async def singles(name: bytes) -> list[int]:
            return [await source.send(name) for _ in range(3000)]

        async def ranges() -> list[range]:
            return [await source.send_many([b"m"] * 3000) for _ in range(3)]

        one, two, many = await asyncio.gather(singles(b"1"), singles(b"2"), ranges())
        await source.flush(60)
        stored = stores[0].messages if len(stores[0].messages) == 15000 else stores[1].messages
        assert {number for number, payload in stored.items() if payload == b"1"} == set(one)
        assert {number for number, payload in stored.items() if payload == b"2"} == set(two)
        inside = {number for numbers in many for number in numbers}
        assert {number for number, payload in stored.items() if payload == b"m"} == inside


async def test_a_store_that_stops_reading_slows_nobody_and_memory_stays_bounded(
    stores: Stores,
) -> None:
    options = SourceOptions(
        registration_interval=0.3, retention_bytes_max=4 * 1024 * 1024, flight_bytes=2 * 1024 * 1024
    )
    async with await open_source(stores, options=options) as source:
        stores[2].reading.clear()
        for _ in range(40):
            await source.send_many([b"x" * 10_000] * 100)
        await source.flush(60)
        retention = source._core.retention
        assert retention._settled_memory <= options.retention_bytes_max
        stores[2].reading.set()
        caught_up = await event_of(source, StoreCaughtUp) if stores[2].skips else None
        await stores[2].until_held(3999)
        assert caught_up is None or caught_up.store == stores[2].address
        assert stores[2].skips


async def test_with_a_quorum_that_hangs_what_gathered_still_goes_out(stores: Stores) -> None:
    async with await open_source(stores) as source:
        await source.publish(b"0")
        for store in stores[1:]:
            await store.until_held(0)
            store.reading.clear()
        # Enough to fill the streams of the two, so that they are no longer idle.
        for _ in range(10):
            await source.send_many([b"x" * 100_000] * 10)
        last = await source.send(b"last")
        await stores[0].until_held(last)
        for store in stores[1:]:
            store.reading.set()


@pytest.mark.expects_log("not stable after its lifetime")
async def test_what_is_not_stable_in_time_is_reported(stores: Stores) -> None:
    for store in stores:
        store.acknowledging.clear()
    options = SourceOptions(registration_interval=0.3, stability_lifetime=0.05)
    async with await open_source(stores, options=options) as source:
        await source.send(b"0")
        assert await event_of(source, NotStable) == NotStable(0, 0, NotStableCause.TIMEOUT)
        with pytest.raises(NotYetStable):
            await source.flush(timeout=0.01)
        for store in stores:
            store.acknowledge_again()


@pytest.mark.expects_log("cannot go on|does not take|lost its quorum|refused by")
async def test_other_content_is_reported_and_ends_the_source(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    source = await open_source(stores)
    for store in stores:
        store.acknowledging.clear()
        store.messages[0] = b"other"
    with pytest.raises(ContentConflict):
        await source.publish(b"mine")
    failed = await event_of(source, SourceFailed)
    assert isinstance(failed.error, ContentConflict)
    assert "holds other content" in caplog.text
    with pytest.raises(ContentConflict):
        await source.send(b"more")
    with pytest.raises(ContentConflict):
        await source.close()


# -- closing --------------------------------------------------------------------------------


async def test_after_close_nothing_is_accepted(stores: Stores) -> None:
    source = await open_source(stores)
    await source.close()
    await source.close()
    for call in (source.send(b"x"), source.send_many([b"x"]), source.publish(b"x")):
        with pytest.raises(Closed):
            await call


async def test_a_close_that_can_not_flush_says_what_is_unknown(stores: Stores) -> None:
    for store in stores:
        store.acknowledging.clear()
    source = await open_source(stores)
    waiting = asyncio.create_task(source.publish(b"0"))
    await stores[0].until_held(0)
    with pytest.raises(NotYetStable) as raised:
        await source.close(timeout=0.1)
    assert (raised.value.first, raised.value.last) == (0, 0)
    with pytest.raises(NotYetStable):
        await waiting


async def test_an_error_inside_is_not_hidden_by_closing(stores: Stores) -> None:
    for store in stores:
        store.acknowledging.clear()

    async def fail_inside() -> None:
        async with await open_source(stores) as source:
            await source.send(b"0")
            for store in stores:
                asyncio.get_running_loop().call_later(0.1, store.acknowledge_again)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail_inside()


@pytest.mark.parametrize("timeout", [0, 0.1])
async def test_a_call_waits_no_longer_than_it_is_told(stores: Stores, timeout: float) -> None:
    source = await open_source(stores, options=SourceOptions(flight_messages=10))
    for store in stores:
        store.acknowledging.clear()
    assert await source.send_many([b"x"] * 10, timeout=timeout) == range(10)
    for call in (
        source.send(b"y", timeout=timeout),
        source.send(b"y", b"key", timeout=timeout),
        source.send_many([b"y"], timeout=timeout),
        source.commit([b"y"], b"mark", timeout=timeout),
        source.publish(b"y", timeout=timeout),
    ):
        with pytest.raises(SendTimedOut, match="flight window is full"):
            await call
    assert source.next_sequence == 10
    for store in stores:
        store.acknowledge_again()
    assert await source.send(b"10", timeout=10) == 10
    for store in stores:
        store.acknowledging.clear()
    with pytest.raises(NotYetStable):
        await source.publish(b"11", timeout=timeout)
    with pytest.raises(NotYetStable):
        await source.close(0)


# -- send_nowait ----------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [False, True])
async def test_a_plain_function_sends_without_a_wait(
    stores: Stores, tmp_path: Path, kept: bool
) -> None:
    publish_store = FilePublishStore(tmp_path) if kept else None
    async with await open_source(stores, publish_store=publish_store) as source:
        # More than a batch, without a turn of the loop in between.
        count = 2 * BATCH_MESSAGES_MAX + 1
        assert [source.send_nowait(b"%d" % n) for n in range(count)] == list(range(count))
        assert source.send_nowait(b"keyed", b"key", {"p": b"v"}, 60) == count
        assert await source.send(b"last") == count + 1
        await source.flush(60)
    expected = {n: b"%d" % n for n in range(count)} | {count: b"keyed", count + 1: b"last"}
    assert stores[0].messages == expected


@pytest.mark.parametrize("kept", [False, True])
async def test_without_a_wait_a_full_window_is_an_error(
    stores: Stores, tmp_path: Path, kept: bool
) -> None:
    options = SourceOptions(flight_messages=10)
    publish_store = FilePublishStore(tmp_path) if kept else None
    source = await open_source(stores, options=options, publish_store=publish_store)
    for store in stores:
        store.acknowledging.clear()
    for number in range(10):
        assert source.send_nowait(b"x") == number
    for key in (None, b"key"):
        with pytest.raises(SendTimedOut, match="flight window is full"):
            source.send_nowait(b"y", key)
    waiting = asyncio.create_task(source.send(b"10"))
    await asyncio.sleep(0)
    with pytest.raises(SendTimedOut):
        source.send_nowait(b"y")
    for store in stores:
        store.acknowledge_again()
    assert await waiting == 10
    await source.flush(60)
    assert source.send_nowait(b"11") == 11
    await source.close()
    with pytest.raises(Closed):
        source.send_nowait(b"12")


async def test_without_a_wait_what_may_need_one_is_refused(stores: Stores, tmp_path: Path) -> None:
    options = SourceOptions(message_bytes_max=2 * MESSAGE_BYTES_USUAL)
    async with await open_source(stores, options=options) as source:
        for key in (None, b"key"):
            with pytest.raises(InvalidArgument, match="use send"):
                source.send_nowait(bytes(MESSAGE_BYTES_USUAL + 1), key)
        with pytest.raises(MessageTooLarge):
            source.send_nowait(bytes(2 * MESSAGE_BYTES_USUAL + 1))
        with pytest.raises(InvalidArgument):
            source.send_nowait("text")  # type: ignore[arg-type]
        assert source.next_sequence == 0
    synced = FilePublishStore(tmp_path, sync=True)
    async with await open_source(stores, publish_store=synced) as source:
        with pytest.raises(InvalidArgument, match="sync"):
            source.send_nowait(b"0")


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_a_call_waits_for_a_quorum_if_it_is_told(stores: Stores) -> None:
    async with await open_source(stores) as source:
        for store in stores[1:]:
            await store.stop()
        await event_of(source, QuorumLost)
        with pytest.raises(SendTimedOut, match="too few stores"):
            await source.send(b"x", timeout=0.1, wait_quorum=True)
        sending = asyncio.create_task(source.send(b"0", wait_quorum=True))
        for store in stores[1:]:
            await store.start()
        assert await asyncio.wait_for(sending, 30) == 0


# -- publish stores -------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
async def test_what_was_not_stable_is_sent_again_under_its_own_numbers(
    stores: Stores, tmp_path: Path, sync: bool
) -> None:
    source = await open_source(stores, publish_store=FilePublishStore(tmp_path, sync))
    await source.send_many(numbered(0, 9))
    await source.flush(60)
    for store in stores:
        await store.until_held(9)
        store.deaf = True
    await source.send_many(numbered(10, 19))
    # No error: the publish store has it.
    await source.close(timeout=0.2)
    for store in stores:
        store.deaf = False
    again = await open_source(
        stores, session_id=None, publish_store=FilePublishStore(tmp_path, sync)
    )
    async with again as source:
        assert source.name.session_id == 0x10
        assert source.next_sequence == 20
        assert await source.send(b"20") == 20
        await source.flush(60)
    for store in stores:
        await store.until_held(20)
        assert store.messages == dict(enumerate(numbered(0, 20)))


async def test_a_publish_store_belongs_to_one_source(stores: Stores, tmp_path: Path) -> None:
    async with await open_source(stores, publish_store=FilePublishStore(tmp_path)):
        pass
    with pytest.raises(InvalidArgument, match="publish store"):
        await open_source(stores, session_id=0x99, publish_store=FilePublishStore(tmp_path))


@pytest.mark.expects_log("cannot go on|refused by")
async def test_stores_that_forgot_what_was_stable_are_not_written_over(
    stores: Stores, tmp_path: Path
) -> None:
    async with await open_source(stores, publish_store=FilePublishStore(tmp_path)) as source:
        await source.send_many(numbered(0, 9))
    for store in stores:
        store.forget()
    with pytest.raises(MissingMessages) as raised:
        await open_source(stores, publish_store=FilePublishStore(tmp_path), timeout=5)
    assert (raised.value.first, raised.value.last) == (0, 9)


class BrokenPublishStore(MemoryPublishStore):
    """Fails when a batch is to be kept, or at the sync behind that."""

    def packed(self, batch: Batch) -> None:
        if not self.slow:
            raise StorageFailed("/disk", f"no space for {len(batch)} bytes")

    def syncing(self) -> Callable[[], None]:
        def fail() -> None:
            raise StorageFailed("/disk", "it is gone")

        return fail


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.expects_log("cannot go on|refused by")
async def test_a_publish_store_that_fails_ends_the_source_before_the_wire(
    stores: Stores, slow: bool
) -> None:
    broken = BrokenPublishStore()
    broken.slow = slow
    source = await open_source(stores, publish_store=broken)
    with pytest.raises(StorageFailed):
        await source.publish(b"x")
    with pytest.raises(StorageFailed):
        await source.send(b"y")
    with pytest.raises(StorageFailed):
        await source.close()
    assert all(not store.messages for store in stores)


@pytest.mark.expects_log("lost its quorum")
async def test_what_was_not_packed_outlives_the_source_too(stores: Stores, tmp_path: Path) -> None:
    source = await open_source(stores, publish_store=FilePublishStore(tmp_path))
    await source.send(b"gathered")
    # It registers anew before the batch is packed.
    source._core.registration.start(asyncio.get_running_loop().time(), 2)
    await source.close(timeout=0.0)
    async with await open_source(stores, publish_store=FilePublishStore(tmp_path)) as source:
        assert source.next_sequence == 1
        await source.flush(60)
    assert stores[0].messages == {0: b"gathered"}


@pytest.mark.parametrize("durable", [False, True])
async def test_a_close_in_vain_says_where_the_messages_are(
    stores: Stores, tmp_path: Path, durable: bool
) -> None:
    kept = FilePublishStore(tmp_path) if durable else None
    source = await open_source(stores, publish_store=kept)
    for store in stores:
        store.acknowledging.clear()
    await source.send(b"0")
    advice = f"store {tmp_path} has them. Open" if durable else "below its next_sequence; send the"
    with pytest.raises(NotYetStable, match=advice):
        await source.flush(0.1)
    with contextlib.suppress(NotYetStable):
        await source.close(0.1)


async def test_a_flush_that_is_overtaken_by_close_does_not_hang(stores: Stores) -> None:
    for store in stores:
        store.acknowledging.clear()
    source = await open_source(stores)
    await source.send(b"0")
    flushing = asyncio.create_task(source.flush())
    await stores[0].until_held(0)
    with pytest.raises(NotYetStable):
        await source.close(timeout=0.1)
    with pytest.raises(NotYetStable):
        await flushing
    with pytest.raises(NotYetStable):
        await source.flush()
