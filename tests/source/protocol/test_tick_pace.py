"""When a source must act on the time, and when nothing but an input changes it."""

from __future__ import annotations

from tests.source.core_support import DOWN, FSYNC, frames, new, opened, registered, send

from quorate.protocol.pacing import ReceiverPacing
from quorate.source.options import SourceOptions
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.tick_pace import TickPace, tick_pace

STATE_ONLY = 4


def acknowledge(core: SourceCore, stores: str, upto: int) -> None:
    for store in stores:
        core.acknowledged(store, upto, 1.0)


def tell_stable(core: SourceCore, stores: str) -> None:
    core.streams.keepalives_due(core.stable_upto)
    for store in stores:
        frames(core, store)


def test_a_registration_needs_ticks_soon() -> None:
    assert tick_pace(new()) is TickPace.QUICK


def test_a_source_that_has_sent_nothing_needs_none() -> None:
    assert tick_pace(registered()) is TickPace.NONE


def test_a_source_needs_ticks_until_every_store_has_and_knows_everything() -> None:
    core = registered()
    core.window.add([b"0"], [], 1, 0)
    assert tick_pace(core) is TickPace.SLOW, "it has gathered a message"
    core.release(core.take(), 0.0)
    for store in "abc":
        frames(core, store)
    acknowledge(core, "ab", 0)
    assert core.stable_upto == 0
    assert tick_pace(core) is TickPace.SLOW, "c may be hung"
    acknowledge(core, "c", 0)
    assert tick_pace(core) is TickPace.SLOW, "no store knows that it is stable"
    tell_stable(core, "abc")
    assert tick_pace(core) is TickPace.NONE


def test_a_store_that_is_away_needs_ticks() -> None:
    core = registered()
    core.failed("c", DOWN, 1.0)
    assert tick_pace(core) is TickPace.SLOW, "a backup may take its place"
    core.failed("b", DOWN, 1.0)
    assert tick_pace(core) is TickPace.QUICK, "the quorum is lost"
    for store in "bc":
        opened(core, store, core.epoch, 0, FSYNC, 2.0)
    assert tick_pace(core) is TickPace.NONE


def test_a_store_that_catches_up_needs_ticks() -> None:
    core = registered()
    core.failed("c", DOWN, 1.0)
    send(core, b"0")
    for store in "ab":
        frames(core, store)
    acknowledge(core, "ab", 0)
    opened(core, "c", core.epoch, 0, FSYNC, 2.0)
    tell_stable(core, "ab")
    assert tick_pace(core) is TickPace.SLOW
    frames(core, "c")
    acknowledge(core, "c", 0)
    tell_stable(core, "c")
    assert tick_pace(core) is TickPace.NONE


def test_a_store_without_messages_is_told_soon_what_is_stable() -> None:
    core = registered()
    core.failed("c", DOWN, 1.0)
    opened(core, "c", core.epoch, 0, STATE_ONLY, 1.0)
    assert tick_pace(core) is TickPace.NONE
    send(core, b"0")
    for store in "ab":
        frames(core, store)
    acknowledge(core, "ab", 0)
    assert tick_pace(core) is TickPace.QUICK
    tell_stable(core, "abc")
    assert tick_pace(core) is TickPace.NONE


def test_receivers_that_lag_need_ticks() -> None:
    core = registered(SourceOptions(receiver_pacing=ReceiverPacing()))
    assert tick_pace(core) is TickPace.NONE
    core.window.lag_noted = True
    assert tick_pace(core) is TickPace.QUICK
