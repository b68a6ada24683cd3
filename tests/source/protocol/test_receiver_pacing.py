"""A source that is paced by its receivers: what it may send, and what it tells of the slow ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import seams
from tests.source.core_support import (
    DOWN,
    FSYNC,
    NAME,
    POLICY,
    STORES,
    begin,
    earlier,
    opened,
    positions,
    promise,
    registered,
    resumed,
    send,
    the,
)
from tests.source.fake_store import FakeStore
from tests.source.support import open_source

from quorate.protocol.ends import Position, Told
from quorate.protocol.errors import NoQuorum
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.policy import Group, IntergroupRule, Policy
from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.protocol.recovery import Promise
from quorate.protocol.wire import pacing_from_wire
from quorate.source import (
    FlightBehaviour,
    LaggingReceiver,
    ReceiverPacing,
    ReceiversCaughtUp,
    ReceiversLag,
    SourceOptions,
)
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.receiver_pacing import Pacing

TEN = SourceOptions(receiver_pacing=ReceiverPacing(messages=10))


def paced(options: SourceOptions = TEN, **receivers: int) -> SourceCore:
    core = registered(options)
    told(core, **receivers)
    return core


def told(core: SourceCore, **receivers: int) -> None:
    """All stores say that they know these receivers, r1 and so on."""
    for store in "abc":
        said = {int(name[1:]): upto for name, upto in receivers.items()}
        core.receivers_told(store, positions(said))


def is_held(core: SourceCore) -> bool:
    return core.window.blocked


def fill(core: SourceCore, size: int = 1) -> int:
    """Send as sends do, until the window lets nothing pass; returns the last number."""
    window = core.window
    while core.can_take or not window.blocked:
        if window.full or (window.blocked and core.can_take):
            core.release(core.take(), 0.0)
            continue
        core.note_exceeded()
        window.gather()
        while window.next_sequence < window.pause_at and window.sent_bytes < window.pause_at_bytes:
            window.add([b"x" * size], [], size, 0)
    core.note_lag()
    for store in "abc":
        core.acknowledged(store, core.packed_upto, 0.0)
    return window.next_sequence - 1


def test_without_the_option_nothing_of_it_runs() -> None:
    core = registered()
    assert not core.pacing.waits
    told(core, r1=-1)
    assert (core.window.paced_upto, core.window.paced_bytes) == (SEQUENCE_MAX, sys.maxsize)
    assert not core.information().HasField("receiver_pacing")


def test_the_slowest_receiver_bounds_what_is_sent() -> None:
    core = paced(r1=-1, r2=4)
    assert fill(core) == 9
    assert core.stable_upto == 9, "nothing is unstable: it is the receivers that are waited for"
    assert the(core, ReceiversLag) == [ReceiversLag((LaggingReceiver(1, -1),), 10, 10)]
    told(core, r1=3, r2=4)
    assert fill(core) == 13
    told(core, r1=9, r2=4)
    assert fill(core) == 14, "now the other one is the slowest"
    assert pacing_from_wire(core.information()) == ReceiverPacing(messages=10)


def test_bytes_bound_it_too() -> None:
    core = paced(SourceOptions(receiver_pacing=ReceiverPacing(bytes=100)), r1=-1)
    assert fill(core, size=40) == 2
    assert the(core, ReceiversLag)[-1].unacknowledged_bytes == 120
    told(core, r1=1)
    assert fill(core, size=40) == 2, "it ends within a batch: as far as a whole one is acknowledged"
    told(core, r1=2)
    assert fill(core, size=40) == 5


def test_without_receivers_there_is_no_bound() -> None:
    core = paced(r1=-1)
    fill(core)
    assert is_held(core)
    told(core)
    assert not is_held(core)
    assert core.window.paced_upto == SEQUENCE_MAX
    core.tick(10.0)
    core.tick(14.9)
    assert the(core, ReceiversCaughtUp) == []
    core.tick(15.0)
    assert the(core, ReceiversCaughtUp) == [ReceiversCaughtUp(None)]


def test_a_receiver_that_comes_holds_back_what_was_free() -> None:
    core = paced()
    for _ in range(30):
        send(core, b"x")
    assert not is_held(core)
    told(core, r1=-1)
    assert is_held(core)
    told(core, r1=25)
    assert not is_held(core)


def test_it_may_not_send_before_it_knows_whom_to_wait_for() -> None:
    """Opening a stream comes with what the store knows; before that nothing is accepted."""
    core = resumed(dict.fromkeys("abc", earlier(20, 20)), options=TEN)
    for store in "ab":
        assert not core.complete
        core.receivers_told(store, positions({1: 3}))
        opened(core, store, core.epoch, 21, FSYNC, 0.0)
    core.tick(9.0)
    assert core.complete
    assert is_held(core), "it had sent 20, and the receiver has 3"


def test_under_any_stores_of_every_group_must_have_told_of_receivers() -> None:
    """One group is a stable set. A receiver that has registered with the other one only is known
    to nobody in it."""
    groups = Group("here", tuple("abc")), Group("there", tuple("xyz"))
    policy = Policy(groups, IntergroupRule.ANY)
    stores = [StoreAddress(name, f"{name}:1") for name in "abcxyz"]
    core = SourceCore(NAME, stores, policy, TEN, b"me")
    core.start(0.0)
    promise(core, dict.fromkeys("abcxyz", Promise()))
    begin(core, "abcxyz")
    for store, known in zip("abcxy", ({}, {}, {}, {}, {1: -1}), strict=True):
        core.tick(9.0)
        assert not core.complete
        core.receivers_told(store, positions(known))
        opened(core, store, core.epoch, 0, FSYNC, 9.0)
    assert core.complete
    core.tick(9.1)
    assert core.window.paced_upto == 9
    # What was told stays known when a whole group is away.
    for store in "xyz":
        core.failed(store, DOWN, 9.2)
    core.tick(9.3)
    assert core.complete
    assert core.window.paced_upto == 9


def test_a_new_epoch_counts_from_what_it_keeps() -> None:
    core = resumed({"a": earlier(20, 20), "b": earlier(20, 20)}, options=TEN)
    for store in "ab":
        core.receivers_told(store, positions({1: 15}))
        opened(core, store, core.epoch, 21, FSYNC, 5.0)
    core.tick(9.0)
    assert fill(core) == 25


def test_what_was_accepted_as_lost_nobody_has_to_acknowledge() -> None:
    held = (HeldRange(0, 15, 1), HeldRange(19, 20, 1))
    known = replace(earlier(20, 20), held=held, losses=(HeldRange(16, 18, 1),))
    core = resumed({"a": known, "b": known}, options=TEN)
    for store in "ab":
        core.receivers_told(store, positions({1: 15}))
        opened(core, store, core.epoch, 21, FSYNC, 5.0)
    core.tick(9.0)
    assert fill(core) == 28


def test_a_store_that_leaves_says_nothing_any_more() -> None:
    pacing, window = Pacing(ReceiverPacing(messages=1), 0.0), Window(TEN)
    pacing.heard("a", positions({1: 4}))
    pacing.heard("b", positions({}))
    pacing.apply(window, (POLICY,), {"a", "b"}, RangeSet())
    assert window.paced_upto == 5
    pacing.left("a")
    pacing.apply(window, (POLICY,), {"b"}, RangeSet())
    assert window.paced_upto == SEQUENCE_MAX


def test_who_was_deregistered_holds_it_up_no_more_whatever_an_old_row_says() -> None:
    """c was away then, and says so before it hears of it; then its stream is down. Meanwhile the
    others have forgotten the end, and the receiver has begun anew."""
    core = registered(TEN)
    old = Told({1: Position(900)})
    new = Position(3, epoch=2, confirmed_epoch=2)
    core.receivers_told("c", old)
    for store in "ab":
        core.receivers_told(store, Told({1: new}, {1: 1}))
    assert core.window.paced_upto == 13, "not 910: it has acknowledged 3"
    core.streams.cursors["c"].close()
    for store in "ab":
        core.receivers_told(store, Told({1: new}))
    assert core.window.paced_upto == 13
    core.receivers_told("c", Told({}))
    for store in "ab":
        core.receivers_told(store, Told({}))
    assert core.window.paced_upto == SEQUENCE_MAX


def test_a_store_that_may_miss_receivers_frees_nobody() -> None:
    """An operator had it leave limbo: it says of no receiver that it is gone."""
    core = paced(r1=5)
    gone = Told({})
    core.receivers_told("a", gone)
    core.receivers_told("b", replace(gone, may_miss=True))
    assert core.window.paced_upto == 15
    core.receivers_told("b", gone)
    assert core.window.paced_upto == SEQUENCE_MAX


def test_of_a_store_that_is_not_dealt_with_nothing_counts() -> None:
    core = registered(TEN)
    core.receivers_told("x", positions({1: -1}))
    assert core.window.paced_upto == SEQUENCE_MAX


def test_streams_that_end_free_nobody() -> None:
    core = paced(r1=-1)
    core.receivers_told("c", positions({}))
    fill(core)
    for store in "ab":
        core.streams.cursors[store].close()
        core.tick(1.0)
        assert is_held(core)


def test_each_that_lags_is_told_of_once_until_all_are_near() -> None:
    core = paced(r1=0, r2=0)
    fill(core)
    assert [len(event.receivers) for event in the(core, ReceiversLag)] == [2]
    told(core, r1=2, r2=1)
    fill(core)
    told(core, r1=3, r2=4)
    fill(core)
    core.tick(1.0)
    assert len(the(core, ReceiversLag)) == 1, "both are known to lag"
    told(core, r1=3, r2=4, r3=2)
    core.tick(2.0)
    assert [len(event.receivers) for event in the(core, ReceiversLag)] == [2, 2], "r3 is news"
    # That they come close is not the end of it while the source comes to the bound again.
    for now in range(3, 13):
        upto = core.window.next_sequence - 1
        told(core, r1=upto, r2=upto, r3=upto)
        core.tick(now)
        fill(core)
    assert len(the(core, ReceiversLag)) == 2
    upto = core.window.next_sequence - 1
    told(core, r1=upto, r2=upto, r3=upto - 6)
    core.tick(13.0)
    core.tick(19.0)
    assert the(core, ReceiversCaughtUp) == [], "more than half of ten"
    told(core, r1=upto, r2=upto, r3=upto - 5)
    core.tick(20.0)
    core.tick(25.0)
    assert the(core, ReceiversCaughtUp) == [ReceiversCaughtUp(upto - 5)]
    fill(core)
    assert [each.session_id for each in the(core, ReceiversLag)[-1].receivers] == [3]
    assert len(the(core, ReceiversLag)) == 3


def test_with_notify_it_goes_on_and_says_so() -> None:
    core = paced(
        SourceOptions(
            receiver_pacing=ReceiverPacing(messages=10),
            flight_behaviour=FlightBehaviour.NOTIFY,
        ),
        r1=-1,
    )
    window = core.window
    for _ in range(30):
        if window.next_sequence >= window.pause_at:
            assert not window.blocked
            core.note_exceeded()
            window.gather()
        window.add([b"x"], [], 1, 0)
    assert [event.unacknowledged_messages for event in the(core, ReceiversLag)] == [10]
    told(core, r1=29)
    core.tick(1.0)
    assert the(core, ReceiversCaughtUp) == [ReceiversCaughtUp(29)]


def test_what_is_too_long_ago_is_counted_in_messages_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seams.RECEIVER_PACING_SIZES_MAX.replace(monkeypatch, 4)
    pacing, window = Pacing(ReceiverPacing(bytes=100), 0.0), Window(TEN)
    pacing.heard("a", positions({1: -1}))
    for number in range(100):
        pacing.sent(number, 10 * (number + 1))
    pacing.apply(window, (POLICY,), {"a"}, RangeSet())
    assert 950 <= window.paced_bytes - 100 <= 1000
    assert len(pacing._lasts) <= 4
    pacing.heard("a", positions({1: 99}))
    pacing.apply(window, (POLICY,), {"a"}, RangeSet())
    assert window.paced_bytes == 1100


@given(
    st.lists(
        st.one_of(
            st.integers(1, 5),
            st.tuples(
                st.sampled_from([store.name for store in STORES]),
                st.dictionaries(st.integers(1, 3), st.integers(0, 60)),
            ),
        ),
        max_size=40,
    )
)
def test_never_is_more_sent_than_is_allowed_by_what_was_told(
    steps: list[int | tuple[str, Mapping[int, int]]],
) -> None:
    """All that happens is that receivers' positions come and go, and that something is sent."""
    core = registered(TEN)
    known: dict[str, Mapping[int, int]] = {}
    for step in steps:
        if isinstance(step, tuple):
            known[step[0]] = step[1]
            core.receivers_told(step[0], positions(step[1]))
            continue
        for _ in range(step):
            registered_ones = [
                max(said[receiver] for said in known.values() if receiver in said)
                for receiver in (1, 2, 3)
                if sum(receiver in said for said in known.values()) >= 2
            ]
            number = core.window.next_sequence
            if not core.window.blocked:
                assert all(number <= upto + 10 for upto in registered_ones)
                send(core, b"x")
                core.acknowledged("a", number, 0.0)
                core.acknowledged("b", number, 0.0)
    told(core)
    assert not is_held(core), "with no receiver there is no bound"


@pytest.mark.expects_log("cannot report the positions of receivers")
async def test_a_store_that_can_not_tell_of_receivers_is_not_streamed_to(
    stores: list[FakeStore], caplog: pytest.LogCaptureFixture
) -> None:
    """It is older than this source, which would take it for one that knows of no receiver."""
    with pytest.raises(NoQuorum, match="which receiver_pacing needs; upgrade the store"):
        await open_source(stores, options=TEN, timeout=5.0)
    assert "cannot report the positions of receivers" in caplog.text
