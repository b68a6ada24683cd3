"""Messages that are not known to be stable can be had back, and sent again by another source."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.support import QUICK, addresses, contents, event_of, open_source

from quorate.protocol.attributes import NO_ATTRIBUTES
from quorate.protocol.errors import (
    ContentConflict,
    Fenced,
    NotYetStable,
    PublishStoreInUse,
    QuorateError,
)
from quorate.source import (
    FilePublishStore,
    NotStable,
    Outgoing,
    QuorumLost,
    Source,
    SourceOptions,
    UnstableMessage,
    events,
)
from quorate.source.blocking import Source as BlockingSource
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.outgoing import checked_one
from quorate.source.protocol.unstable import all_unstable

pytestmark = pytest.mark.expects_log(
    "lost its quorum|does not take|cannot go on|refused by|not stable after"
)

SENT = [
    UnstableMessage(1, b"plain", None, {}),
    UnstableMessage(2, b"keyed", b"key", {}),
    UnstableMessage(3, b"rich", None, {"side": b"buy"}, datetime(2026, 1, 31, tzinfo=UTC)),
    UnstableMessage(4, b"", b"key", {}, None, True),
]


def silence(stores: list[FakeStore]) -> None:
    for store in stores:
        store.acknowledging.clear()


async def fail_with(source: Source, stores: list[FakeStore], error: QuorateError) -> None:
    """Let the stores end the source with this error, also if gRPC loses the word of some."""
    for store in stores:
        store.end_stream(error)
    async for event in source.events():
        if isinstance(event, events.SourceFailed):
            break
        if isinstance(event, events.StoreUnresponsive | events.StoreReturned):
            for store in stores:
                store.end_stream(error)


@pytest.mark.parametrize(
    "error", [Fenced("orders/0x10", 1, 7), ContentConflict("orders", 1, 3, "a")]
)
async def test_what_an_ended_source_has_left_another_one_sends(
    stores: list[FakeStore], error: QuorateError
) -> None:
    source = await open_source(stores)
    await source.publish(b"stable")
    silence(stores)
    await source.send_many(Outgoing(*each[1:]) for each in SENT)
    await fail_with(source, stores, error)
    assert source.unstable() == SENT
    with pytest.raises(type(error)):
        await source.close(0)
    assert source.unstable() == SENT

    for store in stores:
        store.acknowledge_again()
        store.forget()
    async with await open_source(stores, session_id=0x11) as other:
        await other.send_many([Outgoing(*each[1:]) for each in source.unstable()])
        await other.flush(60)
        assert other.unstable() == []
    assert contents(stores[0]) == [Outgoing(*each[1:]) for each in SENT]


def test_what_an_application_does_to_properties_changes_no_message() -> None:
    window = Window(SourceOptions())
    attributes = [checked_one(Outgoing(*each[1:]), window.limit, 0)[1] for each in SENT]
    window.next_sequence = SENT[0].sequence
    window.add([each.payload for each in SENT], attributes, 0, 0)
    for each in all_unstable((), None, window, 0):
        dict.update(each.properties, {"side": b"sell"})
    assert all_unstable((), None, window, 0) == SENT
    assert NO_ATTRIBUTES.properties == {}


async def test_what_becomes_stable_is_left_out(stores: list[FakeStore]) -> None:
    async with await open_source(stores) as source:
        assert source.unstable() == []
        await source.send_many([b"0", b"1", b"2"])
        assert [each.sequence for each in source.unstable()] == [0, 1, 2]
        await source.flush(60)
        assert source.unstable() == []


async def test_messages_that_were_kept_without_a_quorum_are_among_them(
    stores: list[FakeStore],
) -> None:
    source = await open_source(stores, options=replace(QUICK, without_quorum="keep"))
    await source.publish(b"stable")
    for store in stores:
        await store.stop()
    await event_of(source, QuorumLost)
    await source.send(b"1")
    await source.send(b"2", key=b"key")
    found = [UnstableMessage(1, b"1", None, {}), UnstableMessage(2, b"2", b"key", {})]
    assert source.unstable() == found
    with pytest.raises(NotYetStable):
        await source.close(0)
    assert source.unstable() == found


async def test_not_stable_names_messages_that_can_be_had(stores: list[FakeStore]) -> None:
    source = await open_source(stores, options=replace(QUICK, stability_lifetime=0.1))
    silence(stores)
    await source.send(b"late")
    told = await event_of(source, NotStable)
    late = [each for each in source.unstable() if told.first <= each.sequence <= told.last]
    assert late == [UnstableMessage(0, b"late", None, {})]
    with pytest.raises(NotYetStable):
        await source.close(0)


@pytest.mark.parametrize("sync", [False, True])
async def test_a_publish_store_that_was_left_over_is_read(
    stores: list[FakeStore], tmp_path: Path, sync: bool
) -> None:
    publish_store = FilePublishStore(tmp_path, sync)
    assert publish_store.unstable() == []
    source = await open_source(stores, publish_store=publish_store)
    await source.publish(b"stable")
    silence(stores)
    await source.send_many(Outgoing(*each[1:]) for each in SENT)
    with pytest.raises(PublishStoreInUse):
        publish_store.unstable()
    assert await source.send(b"as before") == 5
    await source.close(0)
    assert FilePublishStore(tmp_path).unstable() == [
        *SENT,
        UnstableMessage(5, b"as before", None, {}),
    ]
    for store in stores:
        store.acknowledge_again()
    async with await open_source(stores, publish_store=publish_store) as source:
        await source.flush(60)


async def test_threads_get_them_too(stores: list[FakeStore]) -> None:
    silence(stores)

    def send() -> None:
        source = BlockingSource.open(
            "orders", session_id=0x10, stores=addresses(stores), options=QUICK
        )
        source.send(b"0")
        source.send(b"1", key=b"key")
        found = [UnstableMessage(0, b"0", None, {}), UnstableMessage(1, b"1", b"key", {})]
        assert source.unstable() == found
        with pytest.raises(NotYetStable):
            source.close(0)
        assert source.unstable() == found

    await asyncio.to_thread(send)
