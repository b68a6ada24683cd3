"""Who goes on: a receiver that was deregistered while it was frozen, or one that has begun since.

Scripted worlds like those of quorate's tests.simulation.test_receiver_ends.
"""

from __future__ import annotations

from collections.abc import Set

import pytest
from tests import seams
from tests.simulation.guards import Guard
from tests.simulation.receiver_actor import REPEAT_SECONDS, ReceiverInstance
from tests.simulation.script import LOOK_SECONDS, Script, play
from tests.simulation.test_receiver_ends import (
    ALL,
    EXPIRING,
    HIGHEST,
    KEPT,
    A,
    B,
    C,
    _frozen,
    _frozen_and_forgotten,
)

from quorate.receiver.protocol.registration import Registration


def _old_answers_count_as_taking_it(to: pytest.MonkeyPatch) -> None:
    """Whoever has taken a receiver takes it still, however long ago it said so."""

    def took_last(self: Registration) -> Set[str]:
        return self._joining

    seams.RECEIVER_REGISTRATION_TOOK_LAST.replace(to, took_last)


def _one_begins_while_another_joins(script: Script) -> None:
    """Its time is over everywhere when it wakes. A registers it long before B does. Meanwhile a new
    one begins with A and C, and is gone before it has acknowledged anything."""
    frozen = _frozen(script)
    script.until(lambda: all(script.acknowledged(each, 0) is None for each in ALL), LOOK_SECONDS)
    for each in ALL:
        script.endings.receiver_forgotten(frozen.name, each)
    script.stores[C].crash()
    free = script.mute(frozen.name, B)
    frozen.process.wake()
    script.until(lambda: script.acknowledged(A, 0) is not None)
    arrives = script.withhold(frozen.name, B)
    script.stores[C].start()
    new = script.start_second_receiver(0)
    script.until(lambda: new.registered)
    new.kill()
    script.withhold(frozen.name, B)
    free()
    arrives()
    script.until(lambda: frozen.over)
    script.until_handed(script.start_receiver(0), 1)


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


GUARDS = (
    Guard(
        _one_store_is_enough_to_go_on,
        _wakes_where_nobody_knows_its_successor,
        "I4",
        {**KEPT, **HIGHEST},
    ),
    Guard(
        _old_answers_count_as_taking_it,
        _one_begins_while_another_joins,
        "I4",
        {**EXPIRING, **HIGHEST},
        seeds=60,
    ),
)


def test_one_goes_on_that_was_deregistered_while_it_was_frozen_as_nobody_has_begun_since() -> None:
    """Its end is forgotten when it wakes."""

    def goes_on(script: Script) -> None:
        frozen = _frozen_and_forgotten(script)
        frozen.process.wake()
        script.until(lambda: all(script.acknowledged(each, 0) == 1 for each in ALL))
        frozen.kill()
        again = script.start_receiver(0)
        script.until(lambda: again.registered)
        assert again.stream.next == 2

    play(goes_on, 0, **KEPT, **HIGHEST)
