"""The cost of sources that are gone or say nothing: no tasks, no calls and no log lines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests import seams
from tests.receiver.fakes import NAME, Group, Served
from tests.receiver.support import numbers, opened, position_is, take, told

from quorate.client import receiver_events as event
from quorate.protocol.delays import Delays
from quorate.protocol.identity import SourceName
from quorate.receiver import Receiver
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

DEAD = "127.0.0.1:1"
"""Nothing answers there."""


async def until(what: Callable[[], object]) -> None:
    """Wait until something of this process is true."""
    async with asyncio.timeout(60):
        while not what():  # noqa: ASYNC110, nothing tells when a session parks
            await asyncio.sleep(0.01)


async def dead_sources(group: Group, count: int) -> None:
    """Let the stores have so many sources that are gone, of one message each."""
    await group.announce(live=False)
    for store in group.stores:
        del store.sources[NAME]
        for number in range(1, count + 1):
            source = SourceName(NAME.topic, number)
            served = store.sources[source] = Served(source)
            served.information = v1.SourceInformation()
            served.information.CopyFrom(group.source.served.information)
            served.information.source.session_id = number
            served.information.address = DEAD
            served.held.add(0, 0)
            served.stable_upto = 0


def parked(receiver: Receiver) -> int:
    return sum(session.is_parked for session in receiver._sessions.values())


@contextlib.asynccontextmanager
async def one_parked(group: Group, **options: Any) -> AsyncIterator[Receiver]:
    """Open a receiver that has taken the ten messages of its source, whose session has parked."""
    async with await opened(group, **options) as receiver:
        await take(receiver, 10)
        assert await receiver.receive(timeout=0) is None
        await until(lambda: parked(receiver) == 1)
        yield receiver


def tasks() -> Counter[str]:
    return Counter(task.get_coro().__qualname__ for task in asyncio.all_tasks())  # type: ignore[union-attr]


@pytest.mark.expects_log("is missing; waiting")
async def test_a_session_whose_source_is_gone_has_no_tasks(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.FETCH_PLAN_POLL_SECONDS_QUIET.replace(monkeypatch, 1000.0)
    await dead_sources(group, 60)
    before = tasks()
    async with await opened(group, options={"request_timeout": 60.0}) as receiver:
        assert len(await take(receiver, 60)) == 60
        assert await receiver.receive(timeout=0) is None
        await until(lambda: parked(receiver) == 60)
        await until(lambda: not {"fetch_from", "follow"} & (tasks() - before).keys())
        more = tasks() - before
        assert more.pop("Receiver._follow") == 60, "one for each session"
        assert more.total() < 60, "the others do not depend on the number of sources"
        assert all(DEAD not in session.peers._by_address for session in receiver._sessions.values())
        asked = [len(one.fetches) for store in group.stores for one in store.sources.values()]
        assert max(asked) <= 2, "what stores say is not asked for again and again"


async def test_an_attached_session_has_no_tasks_that_fetch_or_acknowledge(group: Group) -> None:
    """Each would sleep until the next loss, and a process may have thousands of receivers."""
    await group.announce(live=True)
    before = tasks()
    async with await opened(group) as receiver:
        await told(receiver, event.SourceAttached)
        await group.source.until_attached()
        group.send(9)
        assert len(await take(receiver, 10)) == 10
        await position_is(group, 8)  # the last message was not asked past yet
        await until(lambda: (tasks() - before)["fetch_from"] == 0)
        await until(lambda: (tasks() - before)["Acknowledger._tell"] == 0)
        group.send(19)
        assert numbers(await take(receiver, 10)) == list(range(10, 20))
        await position_is(group, 18)


async def test_a_parked_session_wakes_for_what_a_store_has(group: Group) -> None:
    await group.announce(live=False)
    group.store(9)
    async with one_parked(group) as receiver:
        group.store(14)
        await group.stores[1].tell()
        assert numbers(await take(receiver, 5)) == list(range(10, 15))
        assert await receiver.receive(timeout=0) is None
        await position_is(group, 14)
        await until(lambda: parked(receiver) == 1)


async def test_a_parked_session_wakes_when_its_source_is_back(group: Group) -> None:
    await group.announce(live=False)
    group.store(9)
    async with one_parked(group) as receiver:
        await group.announce(live=True)
        await told(receiver, event.SourceAttached)
        group.send(19)
        assert numbers(await take(receiver, 10)) == list(range(10, 20))


async def test_a_parked_session_moves_to_the_epoch_of_a_new_instance(group: Group) -> None:
    await group.announce(live=False)
    group.store(9)
    async with one_parked(group) as receiver:
        await group.restart_source(kept_upto=9)
        await group.source.until_attached()
        group.send(12)
        assert [one.epoch for one in await take(receiver, 3)] == [2, 2, 2]


@pytest.mark.expects_log("directory of|does not register")
async def test_a_store_that_comes_back_finds_a_parked_session(group: Group) -> None:
    """It has never registered the receiver, and has what the others lack."""
    await group.announce(live=False)
    await group.source.stop()  # a session that attached to it would wait for its messages
    group.store(9)
    away = group.stores[2]
    await away.stop()
    async with one_parked(group, options={"registration_interval": 0.1}) as receiver:
        away.sources[NAME].held.add(10, 11)
        away.sources[NAME].stable_upto = 11
        await away.start()
        assert numbers(await take(receiver, 2)) == [10, 11]
        await away.until(lambda: (NAME, 0x20) in away.receivers)
        group.store(11)  # repair: the others have it, too
        for served in group.served():
            served.held.add(10, 11)


@pytest.mark.parametrize("delivery", ["live", "stable"])
async def test_a_session_with_work_left_does_not_park(group: Group, delivery: str) -> None:
    await group.announce(live=False)
    group.store(9)
    async with await opened(group, acknowledge="explicit", delivery=delivery) as receiver:
        messages = await take(receiver, 10)
        for message in messages[:9]:
            message.acknowledge()
        await position_is(group, 8)
        assert parked(receiver) == 0, "a message is not acknowledged"
        messages[9].acknowledge()
        await until(lambda: parked(receiver) == 1)
        assert group.stores[0].receivers[NAME, 0x20][1] == 9


async def test_a_parked_session_gives_signs_of_life(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.02)
    await group.announce(live=False)
    group.store(9)
    store = group.stores[0]
    async with one_parked(group):
        said = len(store.acknowledgements)
        await store.until(lambda: len(store.acknowledgements) >= said + 3)


@pytest.mark.expects_log("refused an acknowledgement")
async def test_a_store_that_forgot_a_parked_session_registers_it_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.02)
    seams.JOINING_REJOIN.replace(monkeypatch, Delays(first=0.02, longest=0.16))
    await group.announce(live=False)
    group.store(9)
    async with one_parked(group):
        forgetful = group.stores[0]
        forgetful.receivers.clear()
        await forgetful.until(lambda: forgetful.receivers.get((NAME, 0x20), [0, -1])[1] == 9)


async def test_a_refusal_of_what_was_not_asked_is_left_out(group: Group) -> None:
    stranger = v1.SourceName(topic="strange", session_id=1)
    group.stores[0].refuses_too = [store_v1.RefusedAcknowledgement(source=stranger)]
    await group.announce()
    async with await opened(group) as receiver:
        group.send(9)
        await take(receiver, 10)
        assert await receiver.receive(timeout=0) is None
        await position_is(group, 9)


async def test_an_idle_receiver_looks_at_nothing(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its source lives and says nothing."""
    looks: list[None] = []
    count = seams.RECEIVER_CURSOR_COUNT.real()

    def counted(cursor: object, **arguments: bool) -> None:
        looks.append(None)
        count(cursor, **arguments)

    seams.RECEIVER_CURSOR_COUNT.replace(monkeypatch, counted)
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, event.SourceAttached)
        group.send(9)
        await take(receiver, 10)
        assert await receiver.receive(timeout=0) is None
        await position_is(group, 9)
        await asyncio.sleep(0.1)  # ten intervals
        looked = len(looks)
        await asyncio.sleep(0.3)
        assert len(looks) == looked
        group.send(10)
        await take(receiver, 1)
        assert await receiver.receive(timeout=0) is None
        await position_is(group, 10)


async def test_a_store_is_asked_for_so_much_at_a_time(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hung store holds up none of the sources."""
    seams.CONNECTIONS_FETCHES_MAX.replace(monkeypatch, 2)
    await dead_sources(group, 20)
    hung = group.stores[0]
    for served in hung.sources.values():
        served.hangs = True
    async with await opened(group, options={"request_timeout": 60.0}) as receiver:
        # The first two that were asked at the hung store wait for it.
        assert len(await take(receiver, 18)) == 18
        assert sum(len(served.fetches) for served in hung.sources.values()) <= 2


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= level]


async def test_a_slow_store_whose_heartbeats_are_heard_is_no_news(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "quorate.receiver")
    await group.announce()
    group.store(9)
    hung = group.stores[0].sources[NAME]
    hung.hangs = True
    await group.source.stop()
    async with await opened(group, options={"request_timeout": 0.02}) as receiver:
        await take(receiver, 10)
        await until(lambda: len(hung.fetches) > 4)
    assert [one for one in lines(caplog, logging.INFO) if "fetching from a" in one] == []
    assert [one for one in lines(caplog, logging.DEBUG) if "fetching from a" in one] != []


@pytest.mark.expects_log("directory of")
async def test_peers_that_do_not_answer_are_logged_once(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    """The source is gone, and a store, too; the application has acknowledged nothing."""
    caplog.set_level(logging.DEBUG, "quorate.receiver")
    await group.announce()
    group.store(9)
    async with await opened(group, acknowledge="explicit") as receiver:
        messages = await take(receiver, 10)
        await group.source.stop()
        await group.stores[0].stop()
        messages[-1].acknowledge(all_before=True)
        await group.announce(live=False)

        def failures(level: int) -> Counter[str]:
            said = [one.split(": ")[0] for one in lines(caplog, level)]
            return Counter(said)

        await until(lambda: failures(logging.DEBUG)["acknowledging"] > 4)
        assert failures(logging.INFO)["acknowledging"] <= 1
        assert all(count <= 3 for count in failures(logging.WARNING).values())


@pytest.mark.expects_log("no store has a source of")
@pytest.mark.parametrize("by", ["topic", "topic_pattern"])
async def test_a_topic_that_nobody_sends_is_said_once(
    group: Group, caplog: pytest.LogCaptureFixture, by: str
) -> None:
    await group.announce()
    topic, what = (None, {"topic_pattern": "order"}) if by == "topic_pattern" else ("order", {})
    async with await opened(group, topic, **what) as receiver:
        expected = event.NoSourceYet("order", ("orders",))
        assert receiver._events.kept() == [expected]
    said = [one for one in lines(caplog, logging.WARNING) if "no store has" in one]
    assert said == ["no store has a source of order yet; waiting for one. Known topics: orders."]


async def test_a_look_at_a_store_that_was_planned_before_the_end_begins_nothing(
    group: Group,
) -> None:
    """The end cancels all tasks, then planned looks; one of these can come between."""
    await group.announce(live=True)
    async with await opened(group) as receiver:
        await told(receiver, event.SourceAttached)
        acknowledger = receiver._acknowledger
        await until(lambda: len(acknowledger._stores) == len(group.stores))
        async with asyncio.TaskGroup() as over:
            pass
        tasks, acknowledger._tasks = acknowledger._tasks, over
        for store in acknowledger._stores.values():
            store.repeat_at = 0.0
            acknowledger._look_after(store)
        acknowledger._tasks = tasks
        assert all(store.telling is None for store in acknowledger._stores.values())
