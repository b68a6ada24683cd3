"""A receiver that deals with a store beside which a copy of it runs, and has taken its place.

Scripted worlds like those of quorate's tests.simulation.test_receiver_ends. In all of them C does
not reach the others, so that it does not hear that these know the copy as C by now.
"""

from __future__ import annotations

import pytest
from tests import seams
from tests.simulation.guards import Guard
from tests.simulation.receiver_actor import ReceiverInstance
from tests.simulation.script import LOOK_SECONDS, Script, play
from tests.simulation.store_actor import StoreActor
from tests.simulation.test_receiver_ends import HIGHEST, KEPT, A, B, C, _begin


def _copy_takes_its_place(script: Script) -> StoreActor:
    """A and B know the copy as C, and it vouches; all that ask C get to C itself."""
    a, c = script.stores[A], script.stores[C]
    copy = script.copy(C)
    c.process.start(c.commits_anew(5))
    script.until(lambda: a.core.standing.peers[C].commits > copy.acknowledged)
    script.cut(C, A, B)
    copied = script.double(C, copy, A)
    script.network.lead(C, copied.label)
    script.until(lambda: copied.core.standing.record.former and not copied.core.in_limbo)
    script.run(LOOK_SECONDS)
    script.network.lead(C, C)
    return copied


def _end_at_a_and_c(script: Script, copied: StoreActor) -> ReceiverInstance:
    """The receiver is deregistered while B is down; A does not reach the copy either."""
    receiver = script.receiver(0)
    script.stores[B].crash()
    script.cut(A, copied.label)
    receiver.deregister()
    script.until(lambda: all(receiver.session_id in script.state(each).ended for each in (A, C)))
    script.run(LOOK_SECONDS)
    return receiver


def _what_a_former_one_was_told_is_known(to: pytest.MonkeyPatch) -> None:
    """Whoever answers under a store's name has told that store."""
    seams.REPLACED_IN_RECEIVER_DEREGISTRATION.replace(to, lambda _: set())


def _ended_at_a_former_one(script: Script) -> None:
    """C ends for good, and the copy goes on. The receiver begins anew with that and B, while A is
    down: B was down, and neither has heard of the end."""
    _begin(script)
    copied = _copy_takes_its_place(script)
    _end_at_a_and_c(script, copied).kill()
    script.stores[A].crash()
    script.take_its_place(copied)
    script.stores[B].start()
    again = script.start_receiver(0)
    script.until(lambda: again.registered)
    script.stores[A].start()


GUARDS = (
    Guard(
        _what_a_former_one_was_told_is_known,
        _ended_at_a_former_one,
        "I4",
        {**KEPT, **HIGHEST},
    ),
)


def test_an_end_is_told_again_until_the_one_that_took_its_place_has_heard_it() -> None:
    def begins_anew(script: Script) -> None:
        _begin(script)
        copied = _copy_takes_its_place(script)
        receiver = _end_at_a_and_c(script, copied)
        assert script.endings.receiver_forgotten_at(receiver.name) == {A}
        script.network.lead(C, copied.label)
        script.until(lambda: script.endings.receiver_forgotten_at(receiver.name) == {A, C})
        receiver.kill()
        script.stores[A].crash()
        script.take_its_place(copied)
        script.stores[B].start()
        again = script.start_receiver(0)
        script.until(lambda: again.registered)
        assert again.stream.next == 0
        script.stores[A].start()

    play(begins_anew, 0, **KEPT, **HIGHEST)


def _begins_with_a_and_c(script: Script) -> bool:
    """Whether the next instance does while B is down."""
    _begin(script).kill()
    copied = _copy_takes_its_place(script)
    script.stores[B].crash()
    again = script.start_receiver(0)
    script.run(1.0)
    assert again.registration.answers.keys() >= {A}
    begins = again.registered
    script.stores[B].start()
    script.until(lambda: again.registered)
    script.take_its_place(copied)
    return begins


def test_none_begins_with_a_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whoever does, the one that took its place does not hear: an older one, which reaches that
    and B, would not be fenced."""
    for guarded in (True, False):
        if not guarded:
            seams.REPLACED_IN_RECEIVER_REGISTRATION.replace(monkeypatch, lambda _: set())
        begins: list[bool] = []

        def look(script: Script, begins: list[bool] = begins) -> None:
            begins.append(_begins_with_a_and_c(script))

        play(look, 0, **KEPT)
        assert begins == [not guarded]
