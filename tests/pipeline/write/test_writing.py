"""Attempts of tasks at writing, with real stores and without Spark."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests import seams
from tests.source.real_stores import RealStores

from quorate.pipeline.errors import AttemptSuperseded, MessagesGone, RowsDiffer, WriteNotOurs
from quorate.pipeline.rules.chunks import Rows
from quorate.pipeline.rules.resuming import (
    WriteBatch,
    session_id,
)
from quorate.pipeline.write.options import (
    WriteOptions,
    write_options,
)
from quorate.pipeline.write.writing import (
    Attempt,
    Written,
    write_partition,
)
from quorate.protocol.answers import Piece
from quorate.protocol.attributes import NO_ATTRIBUTES, checked_attributes
from quorate.protocol.errors import NoQuorum, NotRegistered, NotYetStable
from quorate.protocol.identity import SourceName
from quorate.source import Source

WRITE = WriteBatch("a-write", 0)
PAYLOADS = [b"%0100d" % number for number in range(30_000)]


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[RealStores]:
    stores = RealStores(tmp_path)
    await stores.start("abc")
    yield stores
    await stores.stop_all()


def options_for(stores: RealStores, **more: str) -> WriteOptions:
    return write_options({"stores": stores.named("abc"), **more}, streaming=False)


def batches(payloads: list[bytes], topic: str = "orders") -> Iterator[list[tuple[str, Rows]]]:
    for at in range(0, len(payloads), 10_000):
        yield [(topic, Rows(payloads[at : at + 10_000]))]


async def write(
    stores: RealStores,
    rows: Iterator[list[tuple[str, Rows]]],
    *,
    batch: int = 0,
    number: int = 0,
    **more: str,
) -> list[Written]:
    attempt = Attempt(WriteBatch("a-write", batch), 2, number)
    return await asyncio.to_thread(write_partition, rows, attempt, options_for(stores, **more))


async def held(stores: RealStores, topic: str = "orders") -> list[bytes]:
    """What is in the topic from the partition that the tests write, by its numbers."""
    source = SourceName(topic, session_id("a-write", 2))
    messages = await stores.held("a", source)
    assert sorted(messages) == list(range(len(messages)))
    return [messages[number] for number in sorted(messages)]


async def test_rows_are_stable_when_the_task_returns(stores: RealStores) -> None:
    [written] = await write(stores, batches(PAYLOADS))
    assert await held(stores) == PAYLOADS
    assert (written.rows, written.already, written.last) == (30_000, 0, 29_999)
    assert len(written.stores) >= 2
    assert written.source == SourceName("orders", session_id("a-write", 2))


async def test_topics_have_sources_of_their_own(stores: RealStores) -> None:
    parts = [("orders", Rows([b"1"])), ("trades", Rows([b"2"]))]
    written = await write(stores, iter([parts, [("orders", Rows([b"3"]))]]))
    assert await held(stores) == [b"1", b"3"]
    assert await held(stores, "trades") == [b"2"]
    assert sorted((each.source.topic, each.rows) for each in written) == [
        ("orders", 2),
        ("trades", 1),
    ]


async def test_keys_and_properties_are_written(stores: RealStores) -> None:
    attributes = [checked_attributes(b"k", {"n": b"v"}), NO_ATTRIBUTES]
    await write(stores, iter([[("orders", Rows([b"1", b"2"], attributes))]]))
    contents = await stores.contents("a", SourceName("orders", session_id("a-write", 2)))
    assert contents == {0: (b"1", attributes[0]), 1: (b"2", NO_ATTRIBUTES)}


async def test_a_task_without_rows_opens_nothing(stores: RealStores) -> None:
    assert await write(stores, iter([])) == []
    assert await held(stores) == []


class Died(Exception):
    """Spark's side broke off."""


def breaking_off(payloads: list[bytes], after: int) -> Iterator[list[tuple[str, Rows]]]:
    yield from batches(payloads[:after])
    raise Died


@pytest.mark.parametrize("after", [1, 9_999, 10_000, 25_000])
async def test_a_retry_goes_on_where_the_last_attempt_was(stores: RealStores, after: int) -> None:
    with pytest.raises(Died):
        await write(stores, breaking_off(PAYLOADS, after))
    there = len(await held(stores))
    [written] = await write(stores, batches(PAYLOADS), number=1)
    assert await held(stores) == PAYLOADS
    assert (written.rows, written.already) == (30_000, there)
    assert written.last == 29_999


async def test_a_retry_of_a_whole_batch_writes_nothing(stores: RealStores) -> None:
    await write(stores, batches(PAYLOADS))
    [written] = await write(stores, batches(PAYLOADS), number=1)
    assert (written.already, written.last, len(await held(stores))) == (30_000, 29_999, 30_000)


async def test_batches_of_one_write_share_a_source(stores: RealStores) -> None:
    for batch in (3, 4):
        await write(stores, batches([b"%d" % batch]), batch=batch)
    [again] = await write(stores, batches([b"whatever"]), batch=3)
    assert await held(stores) == [b"3", b"4"]
    assert (again.rows, again.already) == (0, 0)


async def test_other_rows_are_refused(stores: RealStores) -> None:
    with pytest.raises(Died):
        await write(stores, breaking_off(PAYLOADS, 20_000))
    there = await held(stores)
    with pytest.raises(RowsDiffer, match=r"20,000 of its rows|1 of them did not come again"):
        await write(stores, batches(PAYLOADS[1:]), number=1)
    assert await held(stores) == there


async def test_rows_may_come_back_in_any_order(stores: RealStores) -> None:
    attributes = [checked_attributes(b"%d" % (number % 7), {"n": b"v"}) for number in range(30_000)]
    rows = Rows(PAYLOADS, attributes)

    def dying() -> Iterator[list[tuple[str, Rows]]]:
        yield [("orders", rows[:20_000])]
        raise Died

    with pytest.raises(Died):
        await write(stores, dying())
    there = len(await held(stores))
    order = random.Random(1).sample(range(30_000), 30_000)
    shuffled = [("orders", rows.picked(order[at : at + 9000])) for at in range(0, 30_000, 9000)]
    [written] = await write(stores, iter([[part] for part in shuffled]), number=1)
    assert (written.rows, written.already, written.last) == (30_000, there, 29_999)
    assert 0 < there < 30_000
    contents = await stores.contents("a", SourceName("orders", session_id("a-write", 2)))
    assert sorted(contents.values()) == sorted(zip(PAYLOADS, attributes, strict=True))


async def test_rows_that_no_store_has_any_longer_are_compared_by_their_sum(
    stores: RealStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> Iterator[Piece]:
        raise MessagesGone("orders/0x1", 0, 9, "a: released")

    await write(stores, batches(PAYLOADS))
    seams.FETCH_IN_WRITING.replace(monkeypatch, gone)
    [written] = await write(stores, batches(PAYLOADS[::-1]), number=1)
    assert (written.rows, written.already, written.last) == (30_000, 30_000, 29_999)
    with pytest.raises(RowsDiffer, match="1 more came"):
        await write(stores, batches([*PAYLOADS, b"more"]), number=2)
    assert await held(stores) == PAYLOADS


@pytest.mark.expects_log("rows may be in the topic twice.*2 of them did not come again")
async def test_who_allows_it_has_other_rows_besides(stores: RealStores) -> None:
    await write(stores, batches([b"a", b"b", b"c"]))
    [written] = await write(stores, batches([b"x", b"b"]), number=1, failOnRowsDiffer="false")
    assert (written.rows, written.already, written.last) == (2, 3, 3)
    assert await held(stores) == [b"a", b"b", b"c", b"x"]


async def test_an_identity_that_an_application_uses_is_left_alone(stores: RealStores) -> None:
    async with await Source.open(
        "orders", stores=stores.named("abc"), session_id=session_id("a-write", 2)
    ) as source:
        await source.commit([b"mine"], b"an application's marker")
    with pytest.raises(WriteNotOurs):
        await write(stores, batches(PAYLOADS))
    assert await held(stores) == [b"mine"]


@pytest.mark.expects_log("is fenced")
async def test_a_straggler_is_fenced_and_what_follows_is_whole(stores: RealStores) -> None:
    """The first attempt is in its middle when the second comes, and ends."""
    in_the_middle, second_is_done = threading.Event(), threading.Event()

    def slowly() -> Iterator[list[tuple[str, Rows]]]:
        yield from batches(PAYLOADS[:20_000])
        in_the_middle.set()
        assert second_is_done.wait(60)
        yield from batches(PAYLOADS[20_000:])

    straggler = asyncio.create_task(write(stores, slowly()))
    assert await asyncio.to_thread(in_the_middle.wait, 60)
    await write(stores, batches(PAYLOADS), number=1)
    second_is_done.set()
    with pytest.raises(AttemptSuperseded, match="Attempt 0 of partition 2 stops"):
        await straggler
    assert await held(stores) == PAYLOADS


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_too_few_stores_are_borne_with_for_a_while(stores: RealStores) -> None:
    gone, back = threading.Event(), threading.Event()

    def with_a_pause() -> Iterator[list[tuple[str, Rows]]]:
        yield from batches(PAYLOADS[:10_000])
        gone.set()
        assert back.wait(60)
        yield from batches(PAYLOADS[10_000:])

    writing = asyncio.create_task(write(stores, with_a_pause()))
    assert await asyncio.to_thread(gone.wait, 60)
    await stores.stop("bc")
    back.set()
    await asyncio.sleep(0)
    await stores.start("bc")
    [written] = await writing
    assert (written.rows, await held(stores)) == (30_000, PAYLOADS)


async def test_without_stores_a_task_fails_in_time(stores: RealStores) -> None:
    await stores.stop("bc")
    with pytest.raises(NoQuorum):
        await write(stores, batches(PAYLOADS), timeout="0.5")


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_what_is_not_stable_is_not_reported(stores: RealStores) -> None:
    async def stop() -> None:
        await stores.stop("bc")

    loop = asyncio.get_running_loop()

    def losing_the_stores() -> Iterator[list[tuple[str, Rows]]]:
        yield from batches(PAYLOADS[:10_000])
        asyncio.run_coroutine_threadsafe(stop(), loop).result()

    with pytest.raises((NotRegistered, NotYetStable)):
        await write(stores, losing_the_stores(), timeout="3")


async def test_tasks_leave_nothing_running(stores: RealStores) -> None:
    for batch in range(3):
        await write(stores, batches(PAYLOADS[:1]), batch=batch)
        with pytest.raises(Died):
            await write(stores, breaking_off([b"broken"], 1), batch=batch + 1)
    assert "quorate-write" not in [thread.name for thread in threading.enumerate()]
