"""What the checker of the simulated world makes of a stream that is over, and who may say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests import seams
from tests.simulation import endings
from tests.simulation.endings import Mortality
from tests.simulation.rules import Party, Setup
from tests.simulation.script import Script
from tests.simulation.test_scripts import ALL, A, B, C
from tests.simulation.test_scripts_of_ends import MORTAL, _until_deleted

from quorate.store.rules.lifetimes import (
    Lifetimes,
    Who,
)
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.source_tombstones import GIVEN_BACK
from quorate.store.tasks.peer_answers import heard_from

ALL_ACTIVE = Setup((Party("stores", ALL, "all-active"),))

pytestmark = pytest.mark.expects_log("is deregistered, and its messages are deleted")


def test_what_is_found_stable_in_a_stream_that_is_over_says_nothing_of_the_next() -> None:
    """The first source is frozen before it hears that 1 is stable, and wakes up in the next."""
    script = Script(0, {**MORTAL, "lets_go": False})
    script.until_complete()
    assert script.send_stable() == 0
    hear = [script.mute(store, "source1") for store in ALL]
    assert script.send(*ALL) == 1
    frozen = script.source
    frozen.process.pause()
    for free in hear:
        free()
    script.start_source()
    script.until_complete()
    script.source.deregister()
    _until_deleted(script)
    script.start_source()
    script.until_complete()
    assert script.send_stable() == 0
    frozen.process.wake()
    script.until(lambda: script.world.reached["stable in a stream that is over"])
    assert len(script.checker.stable_contents) == 1
    script.complete()


def test_a_source_that_has_itself_deleted_reports_nothing_more() -> None:
    """C has begun, and never takes the stream: once it is not active any more 0 is stable by the
    rule, but by then the others have deleted it."""
    script = Script(0, {"setups": (ALL_ACTIVE,), "lets_go": False})
    source = script.source
    script.until(lambda: C in source.core.tracker.active)
    script.mute(C, "source1")
    script.until_complete()
    assert script.send(A, B) == 0
    script.until(lambda: {*source.core.tracker.holders(0)} == {A, B})
    assert source.core.stable_upto == -1
    source.deregister()
    script.until(lambda: not any(map(script.knows, (A, B))))
    script.until(lambda: not source.core.tracker.active)
    assert source.core.stable_upto == 0
    assert not script.checker.stable_contents


def test_a_promise_is_none_if_its_owner_has_ended_before_it_is_answered() -> None:
    """C has nothing but the promise, and forgets it before that is on its disk."""
    script = Script(0, {"lets_go": False})
    c = script.stores[C]
    c.crash()
    script.until_complete()
    c.start()
    c.disk.sync_seconds_max = 4.0
    script.until(lambda: script.knows(C))
    assert script.promised(C) == 1
    before = c.engine.writer.committed
    script.source.deregister()
    script.until(lambda: not script.knows(C))
    assert c.engine.writer.committed == before, "nothing is answered yet"
    script.run(10.0)
    script.checker.changes(C, 0, "begins")


def test_who_was_frozen_begins_no_stream_anew_where_every_copy_of_one_is_destroyed() -> None:
    """The second source is frozen before it hears what B has promised, and decides by that."""
    script = Script(0, {"lets_go": False})
    script.until_complete()
    script.source.kill()
    late = script.start_source(C)
    free = script.mute(B, "source2")
    script.until(lambda: late.core.registration.grant(A) and script.promised(B) == late.core.epoch)
    late.process.pause()
    free()
    script.start_source()
    script.until_complete()
    assert script.send_stable() == 0
    for store in ALL:
        script.checker.destroys(store)
    late.process.wake()
    script.until_decided(late, lambda: None)
    assert script.checker.stable_contents, "they are of the stream in force"


def test_who_was_frozen_decides_for_the_stream_that_it_has_heard_of() -> None:
    """The second source is frozen before it decides, and the third one begins another stream."""
    script = Script(0, {**MORTAL, "lets_go": False})
    script.until_complete()
    assert script.send_stable() == 0
    first = script.source
    late = script.start_source(C)
    free = script.mute(B, "source2")
    script.until(lambda: late.core.registration.grant(A) and script.promised(B) == late.core.epoch)
    late.process.pause()
    free()
    first.kill()
    third = script.start_source()
    script.until_complete()
    third.deregister()
    _until_deleted(script)
    script.start_source()
    script.until_complete()
    late.process.wake()
    script.until_decided(late, lambda: None)
    checker = script.checker
    assert checker.life_of(script.source.core.epoch).number == 1
    assert checker.life_of(late.core.epoch).number == 0


def test_what_is_said_to_a_copy_does_not_say_that_its_store_hears_it() -> None:
    """All that comes to C leads to its copy, which reaches no peer: C hears no receiver."""
    mortality = Mortality(receivers=Lifetimes(0.0, 20.0))
    script = Script(0, {"mortality": mortality, "lets_go": False})
    script.until_complete()
    receiver = script.receiver(0)
    script.until(lambda: receiver.session_id in script.state(C).receivers)
    script.cut(f"{C}, a copy", A, B)
    copied = script.double(C, script.copy(C), A)
    script.network.lead(C, copied.label)
    script.until(lambda: receiver.session_id not in script.state(C).receivers)
    assert script.world.reached["receiver deleted as its time is over"]


@pytest.mark.expects_log("state lifetime is over")
def test_an_answer_that_does_not_count_is_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source streams to A and B alone, and nothing that they say of it counts at C. C, which
    would hear them before it deletes anything, does not ask."""
    seams.MAY_EXPIRE_IN_LIFECYCLE.replace(monkeypatch, lambda *_: True)
    monkeypatch.setattr(endings, "VOTE_SECONDS", 60.0)
    script = Script(0, {**MORTAL, "lets_go": False})
    script.until_complete()
    script.cut("source1", C)
    c = script.stores[C]

    def voided(engine: Any, *asked: Any) -> Any:
        before = c.core.identities.lives.of(Who(script.checker.source)).heard
        heard = heard_from(engine, *asked)
        if engine is c.engine and isinstance(heard, Heard):
            c.core.identities.lives.of(Who(script.checker.source)).heard = before
            heard = replace(heard, counts=False)
        return heard

    monkeypatch.setattr("tests.simulation.store_upkeep.heard_from", voided)
    script.until(lambda: not script.knows(C))
    assert script.world.reached["deleted as its time is over"] == 1


@pytest.mark.expects_log("was deleted here, but lives on elsewhere")
@pytest.mark.expects_log("state lifetime is over")
def test_stores_that_need_each_other_and_removed_a_source_wait_for_an_operator() -> None:
    """C was away, and has it still. Neither A nor B can be spared, and each wants to be told."""
    everyone = Setup((Party("stores", ALL, "all"),))
    mortality = Mortality(Lifetimes(0.0, 20.0), grace=1.0)
    script = Script(0, {"mortality": mortality, "setups": (everyone,), "lets_go": False})
    script.until_complete()
    assert script.send_stable() == 0
    script.stores[C].crash()
    script.source.kill()
    dropped = [script.stores[each].core.identities.tombstones for each in (A, B)]
    script.until(lambda: all(each and next(iter(each.values())).emptied for each in dropped))
    script.stores[C].start()
    script.start_source()
    script.until(lambda: script.knows(A) and script.knows(B))
    script.until(lambda: script.state(A).limbo == script.state(B).limbo == GIVEN_BACK)
    script.checker._begin_life(9, "another, without them")
    assert script.checker.dropped_too_much()


@pytest.mark.parametrize("fencing", [(B,), (B, C)])
def test_who_was_fenced_by_those_that_are_needed_ends_nothing(fencing: tuple[str, ...]) -> None:
    """The next source is promised its epoch by these, and the first one has not heard of it."""
    script = Script(0, {"lets_go": False})
    script.until_complete()
    assert script.send_stable() == 0
    first = script.source
    second = script.start_source(*(store for store in ALL if store not in fencing))
    asked = second.core.registration
    script.until(lambda: all(script.promised(each) > first.core.epoch for each in fencing))
    assert {script.promised(each) for each in fencing} == {asked.epoch}
    script.until(lambda: all(asked.grant(each) for each in fencing))
    assert not script.checker.is_over()
    first.deregister()
    assert script.checker.is_over() == (len(fencing) < 2)
