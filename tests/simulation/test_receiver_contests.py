"""Who goes on: a receiver that was deregistered while it was frozen, or one that has begun since.

Scripted worlds like those of quorate's tests.simulation.test_receiver_ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

import pytest
from tests import seams
from tests.simulation.guards import Guard
from tests.simulation.receiver_actor import REPEAT_SECONDS, ReceiverInstance
from tests.simulation.script import Script, play
from tests.simulation.test_receiver_ends import (
    ALL,
    HIGHEST,
    KEPT,
    A,
    B,
    C,
    _frozen,
    _frozen_and_forgotten,
)

from quorate.receiver.protocol.registration import Registration
from quorate.receiver.protocol.start_position import StoreAnswer


def _old_answers_count_as_taking_it(to: pytest.MonkeyPatch) -> None:
    """Whoever has taken a receiver takes it still, however long ago it said so."""

    def took_last(self: Registration) -> Set[str]:
        return self._joining

    seams.RECEIVER_REGISTRATION_TOOK_LAST.replace(to, took_last)


def _one_begins_while_another_contests_its_epoch(script: Script) -> None:
    """It finds its epoch over, and takes the next; A has that long before B hears of it. Meanwhile
    a new one, which had asked before, begins with A and C, and is gone before it has acknowledged
    anything."""
    frozen = _frozen(script)
    script.deregister_receiver(frozen)
    script.until(lambda: script.endings.receiver_forgotten_at(frozen.name) == {*ALL})
    new = script.start_second_receiver(0)
    registers = script.asked_long_ago(new)
    script.stores[C].crash()
    free = script.mute(frozen.name, B)
    frozen.process.wake()
    script.until(lambda: frozen.epoch == 2 and frozen.registration.answers.keys() == {A})
    arrives = script.withhold(frozen.name, B)
    script.stores[C].start()
    registers()
    script.until(lambda: new.registered)
    new.kill()
    script.withhold(frozen.name, B)
    free()
    arrives()
    script.until(lambda: frozen.over)
    script.until_handed(script.start_receiver(0), 1)


def _only_the_epoch_that_is_left_is_over(to: pytest.MonkeyPatch) -> None:
    """Who comes to a higher epoch than any that was over ends none below it."""
    real = seams.RECEIVER_REGISTRATION_OVER_BEFORE.real()

    def over_before(epoch: int, ended_epoch: int, answers: Mapping[str, StoreAnswer]) -> int:
        is_new = all(each.is_new for each in answers.values())
        return real(epoch, ended_epoch, answers) if is_new else ended_epoch

    seams.RECEIVER_REGISTRATION_OVER_BEFORE.replace(to, over_before)


def _comes_and_goes(script: Script, frozen: ReceiverInstance) -> None:
    """The next instance, which had asked before, registers everywhere in the epoch that is over,
    and is gone before it hears so of enough stores."""
    brief = script.start_second_receiver(0)
    registers = script.asked_long_ago(brief)
    free = script.mute(B, frozen.name)
    registers()
    script.until(lambda: len(brief.registration.answers) == 2)
    brief.kill()
    free()
    assert {script.state(each).receivers[frozen.session_id].epoch for each in ALL} == {1}


def _one_begins_and_goes_before_it_wakes(script: Script, frozen: ReceiverInstance) -> None:
    """A new one begins with A and B, and is gone before it has acknowledged anything. The frozen
    one reaches C alone, which was down. Then comes the next."""
    script.stores[C].crash()
    new = script.start_second_receiver(0)
    script.until(lambda: new.registered)
    new.kill()
    script.stores[C].start()
    script.run(1.0)
    heal = script.cut(frozen.name, A, B)
    frozen.process.wake()
    script.run(2 * REPEAT_SECONDS)
    heal()
    script.until_handed(script.start_receiver(0), 1)


def _one_store_is_enough_to_go_on(to: pytest.MonkeyPatch) -> None:
    """A receiver acknowledges to whoever registers it, whether the others still know it or not."""

    def takers(self: Registration) -> Set[str]:
        return self.stores.keys()

    seams.RECEIVER_REGISTRATION_TAKERS.replace(to, takers)


def _wakes_where_nobody_knows_its_successor(script: Script) -> None:
    """C alone has not heard of the new one, and does not know the frozen one any more either."""
    frozen = _frozen_and_forgotten(script)
    _one_begins_and_goes_before_it_wakes(script, frozen)


def _wakes_where_an_instance_came_in_its_epoch(script: Script) -> None:
    """C, which it reaches alone, does not know any more who has come in its epoch."""
    frozen = _frozen_and_forgotten(script)
    _comes_and_goes(script, frozen)
    _one_begins_and_goes_before_it_wakes(script, frozen)


GUARDS = (
    Guard(
        _one_store_is_enough_to_go_on,
        _wakes_where_nobody_knows_its_successor,
        "I4",
        {**KEPT, **HIGHEST},
    ),
    Guard(
        _old_answers_count_as_taking_it,
        _one_begins_while_another_contests_its_epoch,
        "I4",
        {**KEPT, **HIGHEST},
        seeds=20,
    ),
    Guard(
        _only_the_epoch_that_is_left_is_over,
        _wakes_where_an_instance_came_in_its_epoch,
        "I4",
        {**KEPT, **HIGHEST},
    ),
)


def test_one_goes_on_that_was_deregistered_while_it_was_frozen_as_nobody_has_begun_since() -> None:
    """It reaches C alone, which does not know any more who has come in its epoch."""

    def goes_on(script: Script) -> None:
        frozen = _frozen_and_forgotten(script)
        _comes_and_goes(script, frozen)
        script.stores[C].crash()
        script.stores[C].start()
        script.cut(frozen.name, A, B)
        frozen.process.wake()
        script.until(lambda: script.acknowledged(C, 0) == 1)
        script.network.heal()
        script.until(lambda: frozen.over)
        again = script.start_receiver(0)
        script.until(lambda: again.registered)
        assert again.stream.next == 2
        assert script.world.reached["receiver goes on where one did that was deregistered"]

    play(goes_on, 0, **KEPT, **HIGHEST)
