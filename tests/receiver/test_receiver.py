"""The receiver against a scripted group: recovery, order, gaps, sources that move."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from tests import seams
from tests.beats import QUICK
from tests.protocol.broken_answers import BREACHES, Breach, name_of
from tests.receiver.fakes import NAME, Group, frame
from tests.receiver.support import nothing_above, numbers, opened, position_is, take, told

from quorate.protocol.errors import LiveStreamOver, StoreStopping, Unreachable
from quorate.receiver import (
    Answer,
    Gap,
    Receiver,
    SourceAttached,
    SourceDetached,
    SourceGone,
    Stalled,
    StoreReturned,
    StoreUnresponsive,
    Withdrawn,
)
from quorate.receiver.events import Event
from quorate.transport.connections import Connections
from quorate.v1 import messages_pb2 as v1

# Recovery and the live stream.


async def test_recovers_in_order_then_goes_on_live(group: Group) -> None:
    await group.announce()
    group.store(99)
    async with await opened(group, delivery="live") as receiver:
        messages = await take(receiver, 100)
        assert numbers(messages) == list(range(100))
        assert all(message.retransmitted for message in messages)
        attached = await told(receiver, SourceAttached)
        assert attached == SourceAttached(NAME, group.source.address, 1, 100)
        for first in (100, 110):  # by no store: the last answer of one must not tell of them
            group.source.say(v1.Frame(batch=frame(first, first + 9), stable_upto=99))
        messages = await take(receiver, 20)
        assert numbers(messages) == list(range(100, 120))
        assert not any(message.retransmitted for message in messages)
        one = messages[0]
        assert (one.topic, one.source, one.epoch, one.payload) == ("orders", NAME, 1, b"1:100")


async def test_a_receiver_of_a_live_source_says_nothing_twice_when_it_opens(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.FETCH_PLAN_POLL_SECONDS.replace(monkeypatch, 1000.0)
    seams.RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS.replace(monkeypatch, 1000.0)
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        await nothing_above(receiver, -1)
        for store in group.stores:
            assert store.signs_of_life == 0, "the registration was one"
            assert store.sources[NAME].fetches == [], "the live stream tells what there is"
        group.send(0)
        assert numbers(await take(receiver, 1)) == [0]


async def test_batches_are_the_same_stream(group: Group) -> None:
    await group.announce()
    group.store(24)
    async with await opened(group) as receiver:
        first = await take(receiver, 3)
        got: list[bytes] = []
        async for batch in receiver.batches():
            got += batch.payloads
            if batch.last == 24:
                break
        assert numbers(first) == [0, 1, 2]
        assert got == [f"1:{n}".encode() for n in range(3, 25)]


async def test_leaving_the_loop_loses_nothing(group: Group) -> None:
    await group.announce()
    group.store(24)
    async with await opened(group) as receiver:
        got = [(await take(receiver, 1))[0].sequence for _ in range(25)]
        assert got == list(range(25))


async def test_a_jump_in_the_live_stream_is_fetched(group: Group) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        group.send(29, live=False)
        group.send(39)
        messages = await take(receiver, 40)
        assert numbers(messages) == list(range(40))
        # A store may have told of the last ten before they came by themselves.
        assert [m.retransmitted for m in messages[:30]] == [False] * 10 + [True] * 20


async def test_a_jump_that_no_store_has_comes_from_the_source(group: Group) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        group.send(29, live=False)
        for served in group.served():
            served.held.remove(10, 29)
        group.send(39)
        assert numbers(await take(receiver, 40)) == list(range(40))
        assert group.source.served.fetches


async def test_without_the_source_the_stores_are_enough(group: Group) -> None:
    await group.announce(live=False)
    group.store(49)
    await group.source.stop()
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 50)) == list(range(50))


async def test_what_reaches_the_stores_alone_is_found(group: Group) -> None:
    await group.announce()
    await group.source.stop()
    async with await opened(group) as receiver:
        group.store(9)
        assert numbers(await take(receiver, 10)) == list(range(10))
        group.store(19)
        assert numbers(await take(receiver, 10)) == list(range(10, 20))


async def test_requests_are_spread_over_the_stores(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(monkeypatch, 20)
    await group.announce()
    group.store(599)
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 600)) == list(range(600))
    assert all(served.fetches for served in group.served())


@pytest.mark.parametrize("fault", ["dead", "hung", "refusing", "corrupt", "limbo"])
@pytest.mark.expects_log("directory of|does not register the receiver|is corrupt")
async def test_one_bad_store_costs_nothing(
    group: Group, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(monkeypatch, 20)
    await group.announce()
    group.store(299)
    bad = group.served()[0]
    match fault:
        case "dead":
            await group.stores[0].stop()
        case "hung":
            bad.hangs = True
        case "refusing":
            bad.refuses = StoreStopping("a")
        case "corrupt":
            bad.corrupt.add(0, 299)
        case "limbo":
            bad.unknown.add(0, 299)
    async with await opened(group) as receiver:
        messages = await take(receiver, 300)
        assert [m.payload for m in messages] == [f"1:{n}".encode() for n in range(300)]


@pytest.mark.parametrize("breach", BREACHES, ids=name_of)
async def test_a_store_that_breaks_off_costs_nothing_and_says_no_to_nothing(
    group: Group, monkeypatch: pytest.MonkeyPatch, breach: Breach
) -> None:
    """It alone has some of the messages, and gives them once it is sound again."""
    seams.FETCH_PLAN_CHUNK_MESSAGES_MAX.replace(monkeypatch, 40)
    await group.announce()
    group.store(299)
    bad = group.served()[0]
    bad.breach = breach
    for served in (*group.served()[1:], group.source.served):
        served.held.remove(215, 234)
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 215)) == list(range(215))
        bad.breach = None
        assert numbers(await take(receiver, 85)) == list(range(215, 300))


@pytest.mark.expects_log(r"\] is lost")
async def test_a_gap_needs_a_no_from_everyone(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    await group.announce()
    group.store(29)
    for served in (*group.served(), group.source.served):
        served.held.remove(10, 14)
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 25)) == [*range(10), *range(15, 30)]
        gap = await told(receiver, Gap)
        assert (gap.first, gap.last, gap.cause) == (10, 14, Answer.ABSENT)
        assert {peer: answer.partition(":")[0] for peer, answer in gap.evidence} == {
            "a": "absent",
            "b": "absent",
            "c": "absent",
            "the source": "absent",
        }
        await receiver.flush()
    assert (
        "[10, 14] is lost: a says absent, b says absent, c says absent, the source" in caplog.text
    )
    assert group.stores[0].receivers[NAME, 0x20][1] == 29, "a gap does not hold up what follows"


@pytest.mark.parametrize("fault", ["corrupt", "limbo", "newer"])
@pytest.mark.expects_log(r"is corrupt|is missing|\] is lost")
async def test_what_nobody_can_vouch_for_is_waited_for_until_its_loss_is_accepted(
    group: Group, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    seams.SOURCE_SESSION_HOUSEKEEPING_SECONDS.replace(monkeypatch, 0.05)
    seams.SOURCE_SESSION_STALLED_SECONDS.replace(monkeypatch, 0.1)
    seams.FETCH_PLAN_NO_SECONDS.replace(monkeypatch, 0.1)
    await group.announce(live=False)
    await group.source.stop()
    group.store(29)
    for served in group.served():
        if fault == "corrupt":
            served.corrupt.add(10, 14)
        else:
            of_a_newer_version = cast("v1.Lookup", 77)
            served.why.append(
                (10, 14, v1.LOOKUP_UNKNOWN if fault == "limbo" else of_a_newer_version)
            )
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 10)) == list(range(10))
        stalled = await told(receiver, Stalled)
        assert (stalled.first, stalled.last) == (10, 14)
        assert stalled.waiting_for == ("a", "b", "c")
        # One that is being asked again has not said so again yet.
        said_so = ("unknown", "nothing yet")
        assert all(said.startswith(said_so) for _, said in stalled.evidence)
        if fault != "corrupt":
            group.served()[2].why = []
            assert numbers(await take(receiver, 20)) == list(range(10, 30))
            return
        group.served()[1].why = [(10, 12, v1.LOOKUP_LOST)]
        group.served()[2].corrupt.remove(13, 14)
        assert numbers(await take(receiver, 17)) == list(range(13, 30))
        gap = await told(receiver, Gap)
        assert (gap.first, gap.last, gap.cause) == (10, 12, Answer.LOST)
        assert [peer for peer, _ in gap.evidence] == ["b"]


@pytest.mark.expects_log(r"\] is lost")
async def test_with_the_source_gone_the_stores_settle_what_is_lost(group: Group) -> None:
    await group.announce(live=False)
    await group.source.stop()
    group.store(29)
    for served in group.served():
        served.held.remove(10, 14)
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 25)) == [*range(10), *range(15, 30)]
        gap = await told(receiver, Gap)
        assert (gap.first, gap.last, gap.cause) == (10, 14, Answer.ABSENT)
        assert dict(gap.evidence)["the source"].startswith("away")


async def test_a_corrupt_live_batch_comes_from_elsewhere(group: Group) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        broken = bytearray(frame(10, 19))
        broken[-1] ^= 1
        group.send(19, live=False)
        group.source.say(v1.Frame(batch=bytes(broken)))
        messages = await take(receiver, 20)
        assert [m.payload for m in messages] == [f"1:{n}".encode() for n in range(20)]


@pytest.mark.expects_log("is missing")
async def test_while_one_may_have_it_there_is_no_gap(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.SOURCE_SESSION_HOUSEKEEPING_SECONDS.replace(monkeypatch, 0.05)
    seams.SOURCE_SESSION_STALLED_SECONDS.replace(monkeypatch, 0.1)
    await group.announce()
    group.store(29)
    for served in (*group.served()[:2], group.source.served):
        served.held.remove(10, 14)
    group.served()[2].hangs = True
    async with await opened(group) as receiver:
        await take(receiver, 5)
        await nothing_above(receiver, 9, 0.3)
        stalled = await told(receiver, Stalled)
        assert "c" in stalled.waiting_for
        group.served()[2].hangs = False
        assert numbers(await take(receiver, 20)) == list(range(10, 30))


@pytest.mark.timeout(20)
async def test_without_room_the_store_that_has_what_is_missing_is_waited_for(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that lack it can give only what there is no room for."""
    seams.SOURCE_SESSION_FRAME_BYTES_MAX.replace(monkeypatch, 1 << 40)
    await group.announce()
    group.store(99)
    a, *others = group.served()
    for served in (*others, group.source.served):
        served.held.remove(0, 9)
    a.refuses = StoreStopping("a")
    async with await opened(group) as receiver:
        await nothing_above(receiver, -1)
        a.refuses = None
        assert numbers(await take(receiver, 100)) == list(range(100))
    assert max(len(served.fetches) for served in others) < 50


# Sources that end, move, and begin new epochs.


async def test_a_source_that_moved_is_found_again(group: Group) -> None:
    await group.announce()
    group.store(9)
    async with await opened(group) as receiver:
        assert numbers(await take(receiver, 10)) == list(range(10))
        await group.restart_source(kept_upto=9)
        await group.source.until_attached()
        group.send(19)
        messages = await take(receiver, 10)
        assert [m.payload for m in messages] == [f"2:{n}".encode() for n in range(10, 20)]


@pytest.mark.expects_log("is withdrawn")
async def test_what_a_new_epoch_did_not_keep_is_withdrawn(group: Group) -> None:
    await group.announce()
    async with await opened(group, delivery="live") as receiver:
        await told(receiver, SourceAttached)
        group.send(5)
        group.send(9, stable=False)
        assert numbers(await take(receiver, 10)) == list(range(10))
        await group.restart_source(kept_upto=7)
        group.store(12)
        messages = await take(receiver, 5)
        assert [m.payload for m in messages] == [f"2:{n}".encode() for n in range(8, 13)]
        withdrawn = await told(receiver, Withdrawn)
        assert (withdrawn.first, withdrawn.last, withdrawn.epoch) == (8, 9, 2)
        assert [m.sequence for m in messages if m.replaces_withdrawn] == [8, 9]
    assert max(store.receivers[NAME, 0x20][1] for store in group.stores) == 12


@pytest.mark.expects_log("is withdrawn")
async def test_consuming_the_withdrawn_acknowledges_nothing_new(group: Group) -> None:
    await group.announce()
    async with await opened(group, delivery="live") as receiver:
        await told(receiver, SourceAttached)
        group.send(9, stable=False)
        await take(receiver, 10)
        await group.restart_source(kept_upto=5)
        group.store(12)
        await told(receiver, Withdrawn)
        await receiver.flush()
        await position_is(group, 5)


async def test_what_was_not_handed_over_needs_no_withdrawal(group: Group) -> None:
    await group.announce()
    async with await opened(group, delivery="live") as receiver:
        await told(receiver, SourceAttached)
        group.send(9, stable=False)
        (first,) = await take(receiver, 1)
        assert first.sequence == 0
        group.send(19, stable=False)
        await asyncio.sleep(0.05)
        await group.restart_source(kept_upto=12)
        async for event in receiver.events():
            if isinstance(event, SourceAttached) and event.epoch == 2:
                # Another instance of the source, elsewhere, which goes on behind what was kept.
                assert (event.address, event.next_sequence) == (group.source.address, 13)
                break
        group.send(20)
        messages = await take(receiver, 20)
        epochs = [1] * 12 + [2] * 8
        assert [m.payload for m in messages] == [
            f"{epoch}:{n}".encode() for epoch, n in zip(epochs, range(1, 21), strict=True)
        ]
        assert not [e for e in receiver._events.kept() if isinstance(e, Withdrawn)]
        assert not any(message.replaces_withdrawn for message in messages)


@pytest.mark.expects_log("is withdrawn")
@pytest.mark.parametrize("delivery", ["live", "stable"])
async def test_what_a_source_sends_again_in_place_is_delivered(group: Group, delivery: str) -> None:
    """It goes to the stores only; the live stream stays, and nothing new may follow on it."""
    await group.announce()
    async with await opened(group, delivery=delivery) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        group.keepalive()
        group.send(19, stable=False)
        assert numbers(await take(receiver, 10)) == list(range(10))
        if delivery == "live":
            await take(receiver, 10)
        await group.register_anew(kept_upto=9)
        async with asyncio.timeout(60):
            await receiver._sessions[NAME].learn_lineage(2)
        group.store(19)
        group.keepalive()
        messages = await take(receiver, 10)
        assert [m.payload for m in messages] == [f"2:{n}".encode() for n in range(10, 20)]


async def test_a_live_stream_of_an_epoch_that_is_over_is_left(group: Group) -> None:
    """A source that was fenced may live on, behind the address that its successor has."""
    await group.announce()
    async with await opened(group, delivery="live") as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        assert numbers(await take(receiver, 10)) == list(range(10))
        fenced, group.source.attached = group.source.attached, []
        await group.register_anew(kept_upto=9, inform=False)
        over = "the source there is in epoch 1, and 2 was begun elsewhere"
        left = SourceDetached(NAME, str(LiveStreamOver(group.source.address, over)))
        assert await told(receiver, SourceDetached) == left
        await group.source.until_attached()
        group.send(19)
        assert numbers(await take(receiver, 10)) == list(range(10, 20))
        assert fenced


async def test_a_stale_store_is_not_believed(group: Group) -> None:
    await group.announce()
    group.store(9)
    await group.restart_source(kept_upto=4)
    group.store(9)
    stale = group.served()[0]
    stale.lineage = stale.lineage.__class__(stale.lineage.terms[:1])
    async with await opened(group) as receiver:
        messages = await take(receiver, 10)
        assert [m.payload for m in messages] == [
            *(f"1:{n}".encode() for n in range(5)),
            *(f"2:{n}".encode() for n in range(5, 10)),
        ]


async def test_a_clean_end_is_told_and_everything_is_delivered(group: Group) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.send(9)
        group.send(14, live=False)
        group.source.say(v1.Frame(goodbye=v1.Goodbye(last_sequence=14), stable_upto=14))
        group.source.say(None)
        assert numbers(await take(receiver, 15)) == list(range(15))
        assert (await told(receiver, SourceGone)).last_sequence == 14


@pytest.mark.expects_log("it said nothing for 0.2 s")
async def test_the_live_stream_of_a_silent_source_is_left(group: Group) -> None:
    """On a busy machine a store may be silent for as long; that is said, too."""
    await group.announce()
    connections = Connections(QUICK)
    async with await opened(group, connections=connections) as receiver:
        await told(receiver, SourceAttached)
        group.source.beating.clear()
        silent = Unreachable(group.source.address, "it said nothing for 0.2 s")
        assert await told(receiver, SourceDetached) == SourceDetached(NAME, str(silent))
        group.source.beating.set()
        await group.source.until_attached(times=2)
        group.source.attached = group.source.attached[1:]
        group.send(9)
        assert numbers(await take(receiver, 10)) == list(range(10))
    await connections.close()


async def until_told(receiver: Receiver, expected: Event) -> None:
    """Wait for this very event."""
    async with asyncio.timeout(60):
        async for event in receiver.events():
            if event == expected:
                return


@pytest.mark.expects_log("it said nothing for 0.2 s")
async def test_a_silent_store_is_told_and_watched_again_once_it_is_heard(group: Group) -> None:
    await group.announce()
    connections = Connections(QUICK)
    async with await opened(group, connections=connections) as receiver:
        await told(receiver, SourceAttached)
        (store, *_) = group.stores
        store.beating.clear()
        silent = Unreachable(store.address, "it said nothing for 0.2 s")
        # On a busy machine another store may be silent for as long.
        await until_told(receiver, StoreUnresponsive(NAME, "a", str(silent)))
        store.beating.set()
        await until_told(receiver, StoreReturned(NAME, "a"))
        await store.until(lambda: store.snapshots == 2)
    await connections.close()


async def test_the_end_of_a_live_stream_is_told_and_it_is_sought_again(group: Group) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        group.source.say(None)
        ended = LiveStreamOver(group.source.address, "the source ended it")
        assert await told(receiver, SourceDetached) == SourceDetached(NAME, str(ended))
        await group.source.until_attached(times=2)
        del group.source.attached[0]
        group.send(9)
        assert numbers(await take(receiver, 10)) == list(range(10))


# Delivery at stability.


async def test_stable_delivery_never_hands_over_above_what_is_stable(group: Group) -> None:
    await group.announce()
    async with await opened(group, delivery="stable") as receiver:
        await told(receiver, SourceAttached)
        assert group.source.requests[0].delivery == 2
        group.send(19, stable=False)
        await nothing_above(receiver, -1)
        group.stable(12)
        group.keepalive()
        assert numbers(await take(receiver, 13)) == list(range(13))
        await nothing_above(receiver, -1)
        group.stable(19)
        group.keepalive()
        messages = await take(receiver, 7)
        assert numbers(messages) == list(range(13, 20))
        assert not any(message.retransmitted for message in messages)


async def test_stable_delivery_without_the_source(group: Group) -> None:
    await group.announce()
    await group.source.stop()
    async with await opened(group, delivery="stable") as receiver:
        group.store(19, stable=False)
        group.stable(9)
        assert numbers(await take(receiver, 10)) == list(range(10))
        await nothing_above(receiver, -1)
        group.stable(19)
        assert numbers(await take(receiver, 10)) == list(range(10, 20))


# A slow application.


async def test_memory_is_bounded_and_what_overflowed_is_fetched(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    await group.announce()
    async with await opened(group) as receiver:
        await told(receiver, SourceAttached)
        bound = 2000
        receiver._inbox._bytes_max = bound
        receiver._room.live_bytes_max = receiver._room.fetched_bytes_max = bound
        seams.SOURCE_SESSION_FRAME_BYTES_MAX.replace(monkeypatch, 300)
        highest = 0
        for last in range(49, 1000, 50):
            group.send(last, live=last % 200 != 49)
            await asyncio.sleep(0.002)
            highest = max(highest, receiver._inbox._bytes + receiver._room.waiting_bytes)
        await asyncio.sleep(0.1)
        highest = max(highest, receiver._inbox._bytes + receiver._room.waiting_bytes)
        # What waits behind a hole goes on into the inbox at once, whatever is there by then.
        assert highest < 3 * bound + 1000
        assert numbers(await take(receiver, 1000)) == list(range(1000))
