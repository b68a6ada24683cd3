"""The receiver against a scripted group: where it starts, what it acknowledges, whom it finds."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from tests import seams
from tests.foreign import NOT_GRPC, answering
from tests.receiver.fakes import NAME, Group, Served
from tests.receiver.support import QUICK, numbers, opened, position_is, take, told

from quorate.protocol.delays import Delays
from quorate.protocol.errors import (
    Fenced,
    InLimbo,
    InvalidArgument,
    NoQuorum,
    NotAStore,
    RegIdInUse,
    StoreStopping,
    UnknownTopic,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.identity import SourceName
from quorate.receiver import (
    Behaviour,
    Event,
    Receiver,
    ReceiverOptions,
    RegistrationComplete,
    RegistrationWaiting,
    SourceAttached,
    StartingPoint,
    StoreRefused,
    StoreUnresponsive,
    Withdrawn,
)
from quorate.receiver.io.acknowledge import repeat_seconds, repeat_time

# Where to start.


async def acknowledged(group: Group, positions: tuple[int, int, int]) -> None:
    await group.announce()
    group.store(6)
    for store, position in zip(group.stores, positions, strict=True):
        store.receivers[NAME, 0x20] = [3, position]


@pytest.mark.parametrize(
    ("consensus", "first"),
    [(Behaviour.LOWEST, 1), (Behaviour.MAJORITY, 3), (Behaviour.HIGHEST, 5)],
)
async def test_consensus(group: Group, consensus: Behaviour, first: int) -> None:
    await acknowledged(group, (0, 2, 4))
    async with await opened(group, options={"consensus": consensus}) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert (complete.first_sequence, complete.low, complete.high) == (first, first, 6)
        assert complete.missing == ()
        assert numbers(await take(receiver, 7 - first)) == list(range(first, 7))
    assert all(store.receivers[NAME, 0x20][0] == 4 for store in group.stores)


@pytest.mark.parametrize(("answer", "first"), [(1, 4), (4, 4), (0, 0), (7, 7), (99, 7), (-5, 0)])
async def test_choosing_the_start(group: Group, answer: int, first: int) -> None:
    """Seven messages, the first acknowledged, at most two wanted: the documented example."""
    await acknowledged(group, (0, 0, 0))
    shown: list[StartingPoint] = []

    def choose(point: StartingPoint) -> int:
        shown.append(point)
        return answer

    options = {"request_maximum": 2, "choose_start": choose}
    async with await opened(group, options=options) as receiver:
        assert shown == [StartingPoint(NAME, low=1, low_by_request_maximum=4, high=6)]
        complete = await told(receiver, RegistrationComplete)
        assert complete.first_sequence == first
        await told(receiver, SourceAttached)
        group.send(8)
        assert numbers(await take(receiver, 9 - first)) == list(range(first, 9))


@pytest.mark.expects_log(r"receiver of \S+ ends")
async def test_a_failing_choice_is_an_error(group: Group) -> None:
    await acknowledged(group, (0, 0, 0))

    def choose(point: StartingPoint) -> int:
        raise ZeroDivisionError(point)

    with pytest.raises(ZeroDivisionError):
        await opened(group, options={"choose_start": choose})


async def test_a_store_in_limbo_throws_nobody_back(group: Group) -> None:
    """One was wiped; another missed the last acknowledgements."""
    await acknowledged(group, (4, 1, 0))
    del group.stores[2].receivers[NAME, 0x20]
    group.stores[2].limbo = True
    async with await opened(group) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert (complete.first_sequence, complete.limbo) == (5, ("c",))
        assert (complete.missing, complete.by_quorum) == ((), False)


@pytest.mark.expects_log("waits for more stores")
async def test_with_too_few_outside_limbo_it_waits_and_says_for_whom(group: Group) -> None:
    await acknowledged(group, (4, 4, 4))
    for store in group.stores[1:]:
        store.limbo = True
        store.receivers.clear()
    opening = asyncio.create_task(opened(group))
    for store in group.stores:
        await store.until(lambda store=store: len(store.questions) > 1)
        assert not store.registrations, "no older instance is fenced before there are enough"
    assert not opening.done()
    group.stores[1].limbo = False
    async with await opening as receiver:
        waiting = await told(receiver, RegistrationWaiting)
        assert waiting == RegistrationWaiting(NAME, ("a",), ("b", "c"), ())
        complete = await told(receiver, RegistrationComplete)
        assert (complete.stores, complete.limbo) == (("a", "b", "c"), ("c",))
        assert complete.first_sequence == 5
    assert [store.receivers[NAME, 0x20][0] for store in group.stores] == [4, 4, 4]


@pytest.mark.expects_log("does not register the receiver")
async def test_a_store_that_refuses_because_of_limbo_counts_as_one_in_limbo(group: Group) -> None:
    await acknowledged(group, (4, 1, 4))
    group.stores[2].registrations_fail = InLimbo(str(NAME), "c", "blank")
    async with await opened(group) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert (complete.missing, complete.limbo, complete.by_quorum) == (("c",), ("c",), True)
        assert complete.first_sequence == 5
        refused = await told(receiver, StoreRefused)
        assert (refused.store, type(refused.error)) == ("c", InLimbo)


# Acknowledging.


async def test_taking_the_next_acknowledges_the_one_before(group: Group) -> None:
    await group.announce()
    group.store(24)
    async with await opened(group) as receiver:
        await take(receiver, 15)
        await position_is(group, 13)
        await take(receiver, 1)
        await position_is(group, 14)
    await position_is(group, 15)


async def test_an_exception_leaves_the_last_one_unacknowledged(group: Group) -> None:
    await group.announce()
    group.store(24)
    with contextlib.suppress(ZeroDivisionError):
        async with await opened(group) as receiver:
            await take(receiver, 5)
            raise ZeroDivisionError
    await position_is(group, 3)
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 1)) == [4]


async def test_restart_goes_on_after_what_was_acknowledged(group: Group) -> None:
    await group.announce()
    group.store(24)
    for first in (0, 10, 20):
        async with await opened(group) as receiver:
            count = min(10, 25 - first)
            assert numbers(await take(receiver, count)) == list(range(first, first + count))


async def test_stores_are_told_only_the_contiguous_part(group: Group) -> None:
    await group.announce()
    group.store(6)
    async with await opened(group, acknowledge="explicit") as receiver:
        messages = await take(receiver, 7)
        for number in (0, 1, 5, 2, 4):
            messages[number].acknowledge()
        await position_is(group, 2)
    await position_is(group, 2)
    async with await opened(group, acknowledge="explicit") as receiver:
        assert numbers(await take(receiver, 4)) == [3, 4, 5, 6]


async def test_everything_before_is_acknowledged_too(group: Group) -> None:
    await group.announce()
    group.store(24)
    async with await opened(group, acknowledge="explicit") as receiver:
        messages = await take(receiver, 20)
        messages[4].acknowledge(all_before=True)
        await position_is(group, 4)
        handle = messages[9].handle()
        del messages
        handle.acknowledge(all_before=True)
        await position_is(group, 9)
    await position_is(group, 9)


async def test_a_batch_is_acknowledged_as_a_whole(group: Group) -> None:
    await group.announce()
    group.store(24)
    async with await opened(group, acknowledge="explicit") as receiver:
        batches = []
        async for batch in receiver.batches():
            batches.append(batch)
            if batch.last == 24:
                break
        assert len(batches) >= 3
        batches[1].acknowledge()
        handle = batches[0].handle()
        assert (handle.source, handle.epoch, handle.sequence) == (NAME, 1, batches[0].last)
        handle.acknowledge()
        await position_is(group, batches[1].last)
        batches[2].acknowledge(all_before=True)
        await position_is(group, batches[2].last)


async def test_only_what_is_stable_is_acknowledged(group: Group) -> None:
    await group.announce()
    async with await opened(group, delivery="live") as receiver:
        await told(receiver, SourceAttached)
        group.send(4)
        group.send(9, stable=False)
        await take(receiver, 10)
        await position_is(group, 4)
        group.stable(9)
        await receiver.flush()
        await position_is(group, 8)
    await position_is(group, 9)


async def test_positions_never_move_back(group: Group) -> None:
    await group.announce()
    group.store(24)
    options = {"choose_start": lambda _: 0}
    async with await opened(group) as receiver:
        await take(receiver, 25)
    async with await opened(group, options=options) as receiver:
        assert numbers(await take(receiver, 5)) == list(range(5))
    await position_is(group, 24)


async def test_a_flush_counts_only_what_stores_have_taken(group: Group) -> None:
    """A store takes a position no further than it holds the stream itself."""
    await group.announce()
    group.store(24)
    for served in group.served()[1:]:
        served.held.remove(20, 24)
    async with await opened(group) as receiver:
        await take(receiver, 25)
        with pytest.raises(NoQuorum):
            await receiver.flush(0.3)
        assert [store.receivers[NAME, 0x20][1] for store in group.stores] == [23, 19, 19]
        group.served()[1].held.add(20, 24)
        await receiver.flush()
        assert [store.receivers[NAME, 0x20][1] for store in group.stores] == [23, 23, 19]


@pytest.mark.expects_log("is withdrawn")
async def test_a_flush_counts_nothing_that_stores_took_of_a_stream_that_is_over(
    group: Group,
) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(24)
        await take(receiver, 25)
        await receiver.flush()
        await group.begin_anew()
        await told(receiver, Withdrawn)
        group.send(9)
        await take(receiver, 10)
        await receiver.flush()
        assert sum(store.receivers[NAME, 0x20][1] == 8 for store in group.stores) >= 2


@pytest.mark.expects_log("refused an acknowledgement")
async def test_a_store_that_lost_the_receiver_gets_to_know_it_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.JOINING_REJOIN.replace(monkeypatch, Delays(first=0.02, longest=0.16))
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.05)
    await group.announce()
    group.store(24)
    async with await opened(group) as receiver:
        await take(receiver, 10)
        await position_is(group, 8)
        group.stores[1].receivers.clear()
        await group.stores[1].until(lambda: (NAME, 0x20) in group.stores[1].receivers)
        await position_is(group, 8)


# Identity.


@pytest.mark.expects_log(r"receiver of \S+ ends")
async def test_of_two_with_one_identity_the_older_is_fenced(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 0.05)
    await group.announce()
    group.store(24)
    older = await opened(group)
    await take(older, 5)
    async with await opened(group) as newer:
        with pytest.raises(Fenced):
            await take(older, 25)
        with pytest.raises(Fenced):
            await older.flush()
        await older.close()
        assert numbers(await take(newer, 5))[-1] >= 5


@pytest.mark.expects_log(r"receiver of \S+ ends")
async def test_a_reg_id_that_is_taken(group: Group) -> None:
    await group.announce()
    for store in group.stores:
        store.registrations_fail = RegIdInUse(5, store.name, "source trades/0x1")
    with pytest.raises(RegIdInUse):
        await opened(group, reg_id=5)


@pytest.mark.expects_log("does not register the receiver")
async def test_a_silent_store_holds_up_registration_no_longer_than_the_interval(
    group: Group,
) -> None:
    await group.announce()
    group.store(9)
    group.stores[2].registrations_hang = True
    async with await opened(group, options={"registration_interval": 0.3}) as receiver:
        complete = await told(receiver, RegistrationComplete)
        assert complete.missing == ("c",)
        reason = str(Unreachable(group.stores[2].address, "it did not answer in time"))
        assert await told(receiver, StoreUnresponsive) == StoreUnresponsive(NAME, "c", reason)
        assert numbers(await take(receiver, 10)) == list(range(10))


# Finding sources and stores.


@pytest.mark.expects_log("no store has a source")
async def test_an_unknown_topic(group: Group) -> None:
    await group.announce()
    with pytest.raises(UnknownTopic, match="orders"):
        await opened(group, topic="ordesr", options={"wait_for_source": 0.05})


@pytest.mark.expects_log("no store has a source")
async def test_a_source_that_comes_later(group: Group) -> None:
    async with await opened(group) as receiver:
        assert receiver.sources == ()
        await group.announce()
        group.store(9)
        assert numbers(await take(receiver, 10)) == list(range(10))


async def test_waiting_for_a_source(group: Group) -> None:
    opening = asyncio.create_task(opened(group, options={"wait_for_source": 5.0}))
    await asyncio.sleep(0.05)
    await group.announce()
    async with await opening as receiver:
        assert receiver.sources == (NAME,)


async def test_a_pattern_takes_sources_as_they_appear(group: Group) -> None:
    others = [Group(SourceName(topic, 9)) for topic in ("orders.eu", "orders.us", "trades")]
    await group.announce()
    group.store(9)
    asked: set[SourceName] = set()

    def choose(point: StartingPoint) -> int:
        asked.add(point.source)
        return point.low

    options = {"choose_start": choose}
    async with await opened(
        group, topic=None, topic_pattern="orders.*", options=options
    ) as receiver:
        got = await take(receiver, 10)
        for other in others:
            other.stores = group.stores
            await other.source.start()
            await other.announce()
            other.store(4)
        got += await take(receiver, 10)
        group.send(11)
        got += await take(receiver, 2)
    by_source: dict[SourceName, list[int]] = {}
    for message in got:
        by_source.setdefault(message.source, []).append(message.sequence)
    assert by_source == {
        NAME: list(range(12)),
        SourceName("orders.eu", 9): list(range(5)),
        SourceName("orders.us", 9): list(range(5)),
    }
    assert asked == by_source.keys()
    for other in others:
        await other.source.stop()


@pytest.mark.expects_log("directory of|does not register the receiver")
async def test_nobody_there() -> None:
    with pytest.raises(NoQuorum, match="cannot be reached"):
        await Receiver.open("orders", stores="127.0.0.1:1", timeout=1)


@pytest.mark.expects_log("directory of|does not register the receiver|waits for more stores")
async def test_too_few_stores(group: Group) -> None:
    await group.announce()
    for store in group.stores[1:]:
        await store.stop()
    options = ReceiverOptions(**QUICK)  # type: ignore[arg-type]
    with pytest.raises(
        NoQuorum, match="can be registered with a, in limbo: none, not registered: b"
    ):
        await Receiver.open("orders", stores=group.addresses, options=options, timeout=3)


@pytest.mark.expects_log("directory of|does not register the receiver|waits for more stores")
async def test_stores_in_limbo_are_not_missing_and_stores_have_the_names_they_were_given(
    group: Group,
) -> None:
    await group.announce()
    for store in group.stores[:2]:
        store.limbo = True
    await group.stores[2].stop()
    named = ",".join(f"my-{store.name}={store.address}" for store in group.stores[1:])
    options = ReceiverOptions(**QUICK)  # type: ignore[arg-type]
    with pytest.raises(NoQuorum) as raised:
        await Receiver.open("orders", stores=named, options=options, timeout=3)
    error = raised.value
    assert (error.answered, error.silent, error.limbo) == ("my-b, a", "my-c", "my-b, a")


@pytest.mark.expects_log("directory of|does not register the receiver")
async def test_not_a_store() -> None:
    with answering(NOT_GRPC) as address, pytest.raises(NotAStore):
        await Receiver.open("orders", stores=address, timeout=5)


@pytest.mark.expects_log("directory of|does not register the receiver")
async def test_another_version(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    seams.WATCH_DIRECTORY_PROTOCOL_VERSION.replace(monkeypatch, 99)
    with pytest.raises(VersionMismatch):
        await opened(group)


@pytest.mark.parametrize(
    "arguments",
    [
        {"topic": None},
        {"topic_pattern": "x"},
        {"topic": None, "topic_pattern": "("},
        {"delivery": "soon"},
        {"acknowledge": "never"},
        {"session_id": -1},
        {"options": {"buffer_bytes": 1}},
        {"options": {"request_maximum": -1}},
        {"options": {"request_maximum": "2"}},
        {"options": {"consensus": "most"}},
        {"options": {"request_timeout": 0}},
        {"options": {"wait_for_source": -1.0}},
    ],
)
async def test_impossible_arguments(group: Group, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        await opened(group, **arguments)


# Closing.


async def test_closing_ends_iteration_and_events(group: Group) -> None:
    await group.announce()
    group.store(9)
    receiver = await opened(group)

    async def everything() -> int:
        return len([message async for message in receiver])

    taking = asyncio.create_task(everything())
    events = asyncio.create_task(_all_events(receiver))
    await position_is(group, 9)
    await receiver.close()
    await receiver.close()
    assert await taking == 10
    assert any(isinstance(event, RegistrationComplete) for event in await events)


async def _all_events(receiver: Receiver) -> list[Event]:
    return [event async for event in receiver.events()]


# What "only what is new" means.


def at_the_end(point: StartingPoint) -> int:
    return point.high + 1


@pytest.mark.expects_log("no store has a source")
async def test_a_source_that_begins_later_is_delivered_from_its_first_message(
    group: Group,
) -> None:
    """Also if the receiver hears of it late: it was cut off, or paused."""
    options = {"choose_start": at_the_end}
    async with await opened(group, session_id=None, options=options) as receiver:
        for store in group.stores:
            store.sources[NAME] = Served()
        group.store(99)
        await group.announce()
        assert numbers(await take(receiver, 100)) == list(range(100))


@pytest.mark.expects_log("does not register|registration waits")
async def test_only_what_was_there_at_the_beginning_is_old(group: Group) -> None:
    """The source's stores register the receiver late, and more was sent meanwhile."""
    await group.announce()
    group.store(9)
    for store in group.stores:
        store.registrations_fail = StoreStopping(store.name)
    options = {"choose_start": at_the_end, "registration_interval": 0.05}
    opening = asyncio.ensure_future(opened(group, session_id=None, options=options))
    for store in group.stores:
        await store.until(lambda store=store: store.snapshots)
    for store in group.stores:  # Who tries twice more has read the directory that came before.
        tries = len(store.questions) + 2
        await store.until(lambda store=store, tries=tries: len(store.questions) >= tries)
    group.store(19)
    for store in group.stores:
        store.registrations_fail = None
    async with await opening as receiver:
        assert numbers(await take(receiver, 10)) == list(range(10, 20))


@pytest.mark.parametrize(
    ("now", "seconds", "at"),
    [(100.2, 3.0, 103), (100.9, 3.0, 103), (100.0, 48.0, 148), (100.2, 0.5, 100.7)],
)
def test_receivers_of_a_client_repeat_together(now: float, seconds: float, at: float) -> None:
    assert repeat_time(now, seconds) == at
    assert now < repeat_time(now, seconds) <= now + seconds, "a lifetime is never exceeded by that"


def test_a_receiver_repeats_soon_once_and_then_rarely() -> None:
    assert [repeat_seconds(repeats) for repeats in range(4)] == [3.0, 48.0, 48.0, 48.0]
