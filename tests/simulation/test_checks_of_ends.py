"""What the checker of the simulated world makes of a stream that is over, and who may say so."""

from __future__ import annotations

import pytest
from tests.simulation.endings import Mortality
from tests.simulation.rules import Party, Setup
from tests.simulation.script import Script
from tests.simulation.test_scripts import ALL, A, B, C
from tests.simulation.test_scripts_of_ends import MORTAL, _until_ended

from quorate.store.rules.lifetimes import (
    Lifetimes,
)

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
    _until_ended(script)
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
    _until_ended(script)
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
    script.run(1.0)
    assert script.checker.is_over() == (len(fencing) < 2)
