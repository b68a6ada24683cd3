"""Who goes on: a receiver that was deregistered while it was frozen, or one that has begun since.

Scripted worlds like those of quorate's tests.simulation.test_receiver_ends.
"""

from __future__ import annotations

from collections.abc import Set

import pytest
from tests.simulation.guards import Guard
from tests.simulation.script import Script
from tests.simulation.test_receiver_ends import ALL, HIGHEST, KEPT, A, B, C, _frozen

from quorate.receiver.registration import Registration


def _old_answers_count_as_taking_it(to: pytest.MonkeyPatch) -> None:
    """Whoever has taken a receiver takes it still, however long ago it said so."""

    def took_last(self: Registration) -> Set[str]:
        return self._joining

    to.setattr(Registration, "_took_last", took_last)


def _one_begins_while_another_contests_its_epoch(script: Script) -> None:
    """It finds its epoch over, and takes the next; A has that long before B hears of it. Meanwhile
    a new one begins with A and C, and is gone before it has acknowledged anything."""
    frozen = _frozen(script)
    script.deregister_receiver(frozen)
    script.until(lambda: script.endings.receiver_forgotten_at(frozen.name) == {*ALL})
    script.stores[C].crash()
    free = script.mute(frozen.name, B)
    frozen.process.wake()
    script.until(lambda: frozen.epoch == 2 and frozen.registration.answers.keys() == {A})
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


GUARDS = (
    Guard(
        _old_answers_count_as_taking_it,
        _one_begins_while_another_contests_its_epoch,
        "I4",
        {**KEPT, **HIGHEST},
    ),
)
