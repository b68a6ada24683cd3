"""A queue as an application sees it: jobs, what becomes of them, and dispatchers that go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.request import urlopen

import pytest
from tests import seams
from tests.queue.conftest import CHANGES_OF_DISPATCHER, QueueStores, Start

from quorate.client import Client, Consumer, Job, Outgoing, SourceOptions
from quorate.client.replay import ReplayedMessage
from quorate.errors import Closed, InvalidArgument, UnknownQueue, Unreachable
from quorate.queue.protocol.decisions import Decision
from quorate.queue.protocol.dispatch import Dispatch

pytestmark = pytest.mark.expects_log(CHANGES_OF_DISPATCHER)


async def send(client: Client, payloads: Sequence[bytes | Outgoing], topic: str = "orders") -> None:
    async with client.source(topic) as source:
        await source.send_many(payloads)


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


async def take(consumer: Consumer, count: int) -> list[Job]:
    async with asyncio.timeout(30):
        return [await anext(consumer) for _ in range(count)]


async def is_empty(consumer: Consumer, seconds: float = 0.5) -> bool:
    """Return whether no job comes for a while."""
    try:
        async with asyncio.timeout(seconds):
            await anext(consumer)
    except TimeoutError:
        return True
    return False


async def dead_letters(client: Client, count: int) -> list[ReplayedMessage]:
    found: list[ReplayedMessage] = []
    async with asyncio.timeout(30), client.subscriber("orders.dead") as subscriber:
        async for item in subscriber:
            if isinstance(item, ReplayedMessage):
                found.append(item)
                if len(found) == count:
                    return found
    raise AssertionError(found)


async def test_each_message_goes_to_one_of_two_consumers(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        got: list[bytes] = []
        all_done = asyncio.Event()

        async def work(consumer: Consumer) -> int:
            jobs = 0
            async for job in consumer:
                got.append(job.payload)
                jobs += 1
                await job.done()
                if len(got) == 200:
                    all_done.set()
            return jobs

        one = await client.queue("work", max_backlog=5)
        two = await client.queue("work", max_backlog=5)
        working = [asyncio.create_task(work(each)) for each in (one, two)]
        await send(client, numbered(200))
        async with asyncio.timeout(30):
            await all_done.wait()
        await one.close()
        await two.close()
        ends = await asyncio.gather(*working, return_exceptions=True)
    assert sorted(got) == sorted(numbered(200))
    assert all(isinstance(end, Closed) for end in ends)


async def test_a_job_has_all_of_its_message(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        await send(client, [Outgoing(b"x", b"key", {"kind": b"big"})])
        async with client.queue("work") as consumer:
            [job] = await take(consumer, 1)
            assert (job.payload, job.key, job.properties) == (b"x", b"key", {"kind": b"big"})
            assert (job.topic, job.sequence, job.tries) == ("orders", 0, 1)
            assert job.message.bookmark.source == job.source
            assert not job.done().is_stable
            await consumer.flush(10)


async def test_what_is_done_stays_done_with_the_next_dispatcher(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        await send(client, numbered(10))
        async with client.queue("work", max_backlog=10) as consumer:
            jobs = await take(consumer, 10)
            for job in jobs[:6]:
                await job.done()
            await stores.stop_dispatching()
            again = await take(consumer, 4)
            assert sorted(job.payload for job in again) == numbered(10)[6:]
            # What the former dispatcher has handed out counts, too.
            for job in jobs[6:]:
                await job.done()
            assert await is_empty(consumer)
            assert len(stores.dispatching) == 1


async def test_a_snapshot_stands_for_the_stream_before_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SNAPSHOT_AFTER.replace(monkeypatch, 3)
    stores = await start()
    async with stores.connect() as client:
        await send(client, numbered(30))
        async with client.queue("work", max_backlog=1) as consumer:
            for _ in range(20):
                [job] = await take(consumer, 1)
                await job.done()
        restored: list[tuple[Dispatch, Decision]] = []
        real = seams.RESTORE.real()

        def restore(dispatch: Dispatch, decision: Decision) -> None:
            restored.append((dispatch, decision))
            real(dispatch, decision)

        seams.RESTORE.replace(monkeypatch, restore)
        await stores.stop_dispatching()
        async with client.queue("work", max_backlog=30) as consumer:
            jobs = await take(consumer, 10)
            assert [job.payload for job in jobs] == numbered(30)[20:]
    assert restored
    for dispatch, _ in restored:
        assert sum(each is dispatch for each, _ in restored) < 10


async def test_a_retry_comes_after_its_delay(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        await send(client, numbered(1))
        async with client.queue("work") as consumer:
            [job] = await take(consumer, 1)
            await job.retry(1.0)
            assert await is_empty(consumer, 0.5)
            [job] = await take(consumer, 1)
            assert (job.payload, job.tries) == (b"0", 2)
            await job.done()


async def test_dead_letters_say_where_they_come_from(start: Start) -> None:
    stores = await start(tries=2)
    async with stores.connect() as client:
        await send(client, [Outgoing(b"bad", b"key", {"own": b"property"}), b"broken"])
        async with client.queue("work", max_backlog=2) as consumer:
            bad, broken = await take(consumer, 2)
            bookmark = str(bad.message.bookmark)
            await bad.discard("unreadable")
            await broken.retry(reason="timeout")
            [broken] = await take(consumer, 1)
            await broken.retry(reason="timeout again")
            found = {each.payload: each for each in await dead_letters(client, 2)}
            assert await is_empty(consumer)
    assert found[b"bad"].key == b"key"
    assert found[b"bad"].properties == {
        "own": b"property",
        "queue": b"work",
        "queue_bookmark": bookmark.encode(),
        "queue_tries": b"1",
        "queue_reason": b"unreadable",
    }
    assert found[b"broken"].properties["queue_tries"] == b"2"
    assert found[b"broken"].properties["queue_reason"] == b"timeout again"


async def test_a_letter_that_is_too_large_loses_its_payload(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.LETTER_BYTES_MAX.replace(monkeypatch, 400)
    stores = await start(tries=1)
    async with stores.connect() as client:
        await send(client, [Outgoing(bytes(390), b"key")])
        async with client.queue("work") as consumer:
            [job] = await take(consumer, 1)
            await job.discard()
            [letter] = await dead_letters(client, 1)
    assert (letter.key, letter.payload) == (b"key", b"")
    assert letter.properties["queue_bookmark"] == str(job.message.bookmark).encode()


async def test_a_job_whose_consumer_goes_is_handed_to_another(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client, stores.connect() as other:
        await send(client, numbered(3))
        one = await client.queue("work", max_backlog=3)
        await take(one, 1)
        await one.close()
        async with other.queue("work", max_backlog=3) as two:
            tries = {job.payload: job.tries for job in await take(two, 3)}
    # The two that waited in the first consumer were given back, and not tried.
    assert tries == {b"0": 2, b"1": 1, b"2": 1}


async def test_a_lease_ends_and_a_late_done_counts(start: Start) -> None:
    stores = await start(lease_seconds=1.0)
    async with stores.connect() as client:
        await send(client, numbered(1))
        one, two = await client.queue("work"), await client.queue("work")
        first = asyncio.create_task(take(one, 1))
        second = asyncio.create_task(take(two, 1))
        async with asyncio.timeout(30):
            [slow], [again] = await asyncio.gather(first, second)
        assert (slow.payload, again.payload) == (b"0", b"0")
        assert {slow.tries, again.tries} == {1, 2}
        await slow.done()
        await again.done()
        assert await is_empty(one, 1.5)


async def test_a_consumer_has_no_more_than_its_backlog(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        await send(client, numbered(10))
        async with client.queue("work", max_backlog=3) as consumer:
            jobs = await take(consumer, 3)
            assert await is_empty(consumer)
            await jobs[1].done()
            await take(consumer, 1)
            assert await is_empty(consumer)


async def test_messages_of_one_key_come_in_order_and_one_at_a_time(start: Start) -> None:
    stores = await start(by_key=True)
    async with stores.connect() as client:
        payloads = [Outgoing(b"%d" % n, b"ab"[n % 2 : n % 2 + 1]) for n in range(6)]
        await send(client, payloads)
        async with client.queue("work", max_backlog=6) as consumer:
            one, two = await take(consumer, 2)
            assert (one.payload, two.payload) == (b"0", b"1")
            assert await is_empty(consumer)
            await one.retry()
            [again] = await take(consumer, 1)
            assert again.payload == b"0"
            await again.done()
            [following] = await take(consumer, 1)
            assert following.payload == b"2"


async def test_a_queue_has_several_topics_and_a_condition(start: Start) -> None:
    stores = await start(topics=["orders", "bills"], where="$size > 1")
    async with stores.connect() as client:
        await send(client, [b"1", b"12"])
        await send(client, [b"a", b"ab"], "bills")
        await send(client, [b"xyz"], "others")
        async with client.queue("work", max_backlog=9) as consumer:
            jobs = await take(consumer, 2)
            assert {(job.topic, job.payload) for job in jobs} == {
                ("orders", b"12"),
                ("bills", b"ab"),
            }
            assert await is_empty(consumer)


async def test_a_queue_has_the_topics_of_a_pattern(start: Start) -> None:
    """Also those that come later, and after a change of the dispatcher."""
    stores = await start(topics=[], topic_pattern="orders[.](eu|us|asia)")
    async with stores.connect() as client:
        await send(client, [b"1"], "orders.eu")
        await send(client, [b"2"], "orders")
        async with client.queue("work", max_backlog=9) as consumer:
            [job] = await take(consumer, 1)
            assert (job.topic, job.payload) == ("orders.eu", b"1")
            await job.done()
            await send(client, [b"3"], "orders.us")
            [job] = await take(consumer, 1)
            assert (job.topic, job.payload) == ("orders.us", b"3")
            await job.done()
        await stores.stop_dispatching()
        await send(client, [b"4"], "orders.asia")
        await send(client, [b"5"], "orders.eu")
        async with client.queue("work", max_backlog=9) as consumer:
            jobs = await take(consumer, 2)
            assert {job.topic for job in jobs} == {"orders.asia", "orders.eu"}
            assert await is_empty(consumer)


async def test_a_large_message_comes_whole(start: Start) -> None:
    stores = await start()
    large = bytes(range(256)) * 40_000
    async with stores.connect() as client:
        options = SourceOptions(message_bytes_max=len(large) + 100)
        async with client.source("orders", options=options) as source:
            await source.publish(large)
            await source.publish(b"small")
        async with client.queue("work", max_backlog=2) as consumer:
            jobs = await take(consumer, 2)
            assert [job.payload for job in jobs] == [large, b"small"]


async def test_a_loop_over_a_queue_opens_and_closes_it(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        await send(client, numbered(2))
        async for job in client.queue("work"):
            await job.done()
            if job.payload == b"1":
                break


async def test_bad_calls_say_what_is_wrong(start: Start) -> None:
    stores = await start()
    async with stores.connect() as client:
        with pytest.raises(UnknownQueue, match="has no queue nothing"):
            await client.queue("nothing")
        with pytest.raises(InvalidArgument, match="max_backlog"):
            await client.queue("work", max_backlog=0)
        with pytest.raises(InvalidArgument, match="is no name"):
            await client.queue("a b")
        with pytest.raises(InvalidArgument, match="no name of a consumer"):
            await client.queue("work", name="a\n")
        await send(client, numbered(1))
        consumer = await client.queue("work")
        [job] = await take(consumer, 1)
        with pytest.raises(InvalidArgument, match="delay"):
            job.retry(-1.0)
        with pytest.raises(InvalidArgument, match="delay: 'x' is not between 0 and"):
            job.retry("x")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="5 is no text"):
            job.discard(5)  # type: ignore[arg-type]
        job.done()
        with pytest.raises(InvalidArgument, match="was settled before"):
            job.retry()
        await consumer.close()
        await consumer.close()
        with pytest.raises(Closed):
            await anext(consumer)


async def test_stores_that_dispatch_no_queues_say_what_to_do(start: Start) -> None:
    stores = await start(without="abc")
    async with stores.connect() as client:
        with pytest.raises(UnknownQueue, match=r"has no queue work. Write a \[\[queue\]\] entry"):
            await client.queue("work")


async def test_a_consumer_passes_a_store_that_dispatches_no_queues(start: Start) -> None:
    stores = await start(without="a")
    async with stores.connect() as client:
        await send(client, numbered(1))
        async with client.queue("work") as consumer:
            assert [job.payload for job in await take(consumer, 1)] == [b"0"]


async def test_a_consumer_waits_while_no_store_dispatches(start: Start) -> None:
    stores: QueueStores = await start()
    async with stores.connect() as client, client.queue("work") as consumer:
        await send(client, numbered(1))
        [job] = await take(consumer, 1)
        for name in "ab":
            await stores.stop(name)
        done = asyncio.ensure_future(_awaited(job))
        await asyncio.sleep(0.5)
        assert not done.done()
        for name in "ab":
            await stores.start(name)
        async with asyncio.timeout(60):
            await done


async def test_opening_says_why_no_store_dispatches_in_time(start: Start) -> None:
    stores = await start()
    for name in "abc":
        await stores.stop(name)
    async with stores.connect() as client:
        with pytest.raises(Unreachable):
            await client.queue("work", timeout=1.0)


async def _awaited(job: Job) -> None:
    await job.done()


async def test_metrics_tell_of_a_queue(start: Start) -> None:
    stores = await start(monitor=True)
    async with stores.connect() as client:
        await send(client, numbered(3))
        async with client.queue("work") as consumer:
            [job] = await take(consumer, 1)
            await job.done()
            [name] = stores.dispatching
            address = stores.nodes[name].monitor_address
            page = await asyncio.to_thread(urlopen, f"http://{address}/metrics", timeout=30)
            with page:
                text = page.read().decode()
    assert 'quorate_queue_dispatches{queue="work"} 1.0' in text
    assert 'quorate_queue_done_messages_total{queue="work"} 1.0' in text
    assert 'quorate_queue_consumers{queue="work"} 1.0' in text
