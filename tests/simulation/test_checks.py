"""What the checker of the simulated world sees of what stores hold, and in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation import written
from tests.simulation.script import Script
from tests.simulation.simulation import CHECK_SECONDS
from tests.simulation.test_scripts import NEW, OLD, A, B, C
from tests.simulation.test_upkeep import all_have_three, plant_other_content
from tests.simulation.violation import Violation
from tests.simulation.world import Event, Process

from quorate.protocol.errors import Unreachable
from quorate.source.protocol.registration import Phase

STABLE = {"lets_go": False}
SEEN = f"I2: {B} holds .* under 1, which is stable as"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Every store has three messages, and the checker has looked at them.

    That one number of an epoch has two contents is seen at once, when it is written: here it is
    not looked for.
    """
    monkeypatch.setattr(written.Written, "same", lambda *_: None)
    script = Script(0, STABLE)
    all_have_three(script)
    script.run(2 * CHECK_SECONDS)
    return script


def _diverge(script: Script, store: str) -> None:
    """It holds other content under 1 from now on."""
    writes = plant_other_content(script, store, 1)
    script.checker.written(store, writes)
    script.checker.synced(store, writes)


def _wipe(script: Script) -> None:
    script.wipe(B)


def _copy(script: Script) -> None:
    script.checker.copied(B)


def _let_go(script: Script) -> None:
    script.let_go(B)


@pytest.mark.parametrize("end", [_wipe, _copy, _let_go])
def test_other_content_is_seen_before_it_is_gone(
    script: Script, end: Callable[[Script], None]
) -> None:
    _diverge(script, B)
    with pytest.raises(Violation, match=SEEN):
        end(script)


def test_other_content_is_seen_before_one_of_two_ends(script: Script) -> None:
    double = script.double(B, script.copy(B))
    _diverge(script, B)
    with pytest.raises(Violation, match=SEEN):
        script.take_its_place(double)


@pytest.mark.expects_log("is deregistered, and its messages are deleted")
def test_other_content_is_seen_before_its_source_is_deleted(script: Script) -> None:
    _diverge(script, B)
    script.source.deregister()
    with pytest.raises(Violation, match=SEEN):
        script.until(lambda: not script.knows(B))


def test_other_content_is_seen_before_a_tail_is_set_aside(script: Script) -> None:
    """Whoever sets it aside follows the newest decision only then."""
    script.cut("source1", A, C)
    assert script.send(B) == 3
    script.source.kill()
    meet = script.cut("source2", B)
    script.start_source()
    script.until_complete()
    assert script.begun(B) == 1
    _diverge(script, B)
    meet()
    with pytest.raises(Violation, match=SEEN):
        script.until(lambda: script.begun(B) == 2)
    assert script.has(B, 3), "it was not set aside yet"


def test_a_store_that_was_away_is_looked_at_as_far_as_it_follows(script: Script) -> None:
    script.cut("source1", A, C)
    assert script.send(B) == 3
    script.source.kill()
    script.cut(B, A, C)
    script.cut("source2", B)
    script.start_source()
    script.until_complete()
    assert script.send_stable() == 3, "which B has, too, and is no offence"
    script.run(2 * CHECK_SECONDS)
    assert script.begun(B) == 1
    assert script.has(B, 3)
    _diverge(script, B)
    with pytest.raises(Violation, match=SEEN):
        script.run(2 * CHECK_SECONDS)


@pytest.mark.expects_log("enters limbo: ")
def test_a_store_that_a_copy_has_found_out_late_is_failed_meanwhile(script: Script) -> None:
    """What the copy said last arrives when its store is believed again: A knows another one now.
    Who loses C then has two stores of three that do not vouch, and it takes an operator."""
    checker, a, b = script.checker, script.stores[A], script.stores[B]
    copy = script.copy(B)
    b.process.start(b.commits_anew(5))
    script.until(lambda: a.core.standing.peers[B].commits > copy.acknowledged)
    copied = script.double(B, copy, A)
    script.until(lambda: copied.core.standing.record.limbo)
    arrive = script.cut(copied.label, A, C)
    script.run(1.0)
    script.end_copy(copied)
    script.until(lambda: B not in checker.failed)
    assert not checker.tolerates(C), "A has not heard all that the copy said"
    arrive()
    script.until(lambda: a.core.standing.peers[B].incarnation != b.core.standing.record.incarnation)
    assert not checker.tolerates(C), "B has not heard what A knows"
    script.until(lambda: b.core.standing.limbo)
    assert not checker.tolerates(C), "B does not vouch"
    script.until(lambda: not b.core.standing.limbo)
    script.run(1.0)
    assert checker.tolerates(C)


@pytest.fixture
def moving() -> Script:
    """The stream is about to move, and the new stores do not reach the old ones."""
    script = Script(0, {"setups": (OLD, NEW), "lets_go": False})
    script.until_complete()
    assert script.send_stable() == 0
    script.source.kill()
    for store in NEW.stores:
        script.cut(store, *OLD.stores)
    script.sources.change_setup(1)
    script.start_source()
    return script


def test_no_store_is_retired_before_the_disks_say_that_the_stream_has_left_it(
    moving: Script,
) -> None:
    """Whatever the source says: it has to be on the disks of so many that it lasts."""
    retires = moving.checker.retires
    registration = moving.source.core.registration
    moving.until_complete()
    assert not registration.final
    assert not retires(OLD.stores, (NEW,))
    moving.until(lambda: registration.final and registration.phase is Phase.STREAMING)
    assert retires(OLD.stores, (NEW,))
    for store in NEW.stores[1:]:
        moving.stores[store].wipe()
    assert not retires(OLD.stores, (NEW,))


def test_what_the_others_lack_would_be_lost_with_retired_stores(moving: Script) -> None:
    moving.until_complete()
    registration = moving.source.core.registration
    moving.until(lambda: registration.final and registration.phase is Phase.STREAMING)
    assert moving.checker.retires(OLD.stores, (NEW,))
    moving.checker.stable_contents[1] = b"nobody else has it"
    with pytest.raises(Violation, match=r"I1: 1 is stable, and without .* only .* have it"):
        moving.checker.retires(OLD.stores, (NEW,))


def test_a_call_of_before_a_store_was_left_says_nothing_of_the_stream_that_it_has_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In production it is cancelled."""
    script = Script(0, {"lets_go": False})
    source, call = script.source, script.network.call
    asked: list[Any] = []

    async def late(client: Process, server: str, *what: Any) -> Any:
        if (client, server) != (source.process, C) or asked:
            return await call(client, server, *what)
        asked.append(what)
        await client.sleep(1.0)
        raise Unreachable(C, "it did not answer in time")

    monkeypatch.setattr(script.network, "call", late)
    script.until_decided(source, lambda: None)
    source._news[C] = Event(source.process)
    source.process.start(source._run(C))
    script.until(lambda: C in source.core.tracker.active)
    assert script.world.now < 1.0
    script.run(1.0)
    assert C in source.core.tracker.active
