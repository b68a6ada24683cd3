"""Guards for stores that keep state only, in scripts: the shortest way to what each is there for.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests import seams
from tests.simulation.guards import Guard
from tests.simulation.script import Script
from tests.simulation.test_scripts import A, B, C, _begin

from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.frames import Packed
from quorate.store.rules.source_state import (
    SourceState,
)


def _whoever_begins_is_a_holder(to: pytest.MonkeyPatch) -> None:
    """A source counts a store that takes no messages as having all of them."""
    real = seams.SOURCE_CORE_RELEASE.real()

    def release(self: SourceCore, packed: Packed, now: float) -> Any:
        frame = real(self, packed, now)
        for store in self.streams.state_only():
            self.tracker.rejoin(store, packed.last)
        return frame

    seams.SOURCE_CORE_RELEASE.replace(to, release)


def _one_of_three_keeps_state(script: Script) -> None:
    """C takes no messages, and B is away for a while: nothing is stable before it is back."""
    script.until_complete()
    assert script.send(A, B) == 0
    script.until(lambda: script.source.core.stable_upto == 0)
    free = script.cut("source1", B)
    assert script.send(A) == 1
    script.run(0.1)
    free()


def _says_that_it_holds_nothing(to: pytest.MonkeyPatch) -> None:
    """A store that takes no messages any more says that it has none, though it has some."""
    real = seams.SOURCE_STATE_HELD_BY_EPOCH.real()

    def held_by_epoch(self: SourceState) -> tuple[HeldRange, ...]:
        return real(self) if self.takes_data else ()

    seams.SOURCE_STATE_HELD_BY_EPOCH.replace(to, held_by_epoch)


def _stable_on_one_that_turns(script: Script, turn: Callable[[], None]) -> None:
    """1 is stable on A and B, and C lacks it. B turns to keep state only; then the source reaches B
    and C alone."""
    _begin(script)
    script.cut("source1", C)
    script.cut(C, A)
    assert script.send_stable() == 1
    script.source.kill()
    script.stores[B].state_only = True
    turn()
    script.until(lambda: script.knows(B) and not script.state(B).limbo)
    second = script.start_source(A)
    script.until_decided(second, lambda: None)
    second.kill()
    script.start_source()
    script.until_complete()


def _turns_with_what_it_has(script: Script) -> None:
    """It is started anew with what it has."""

    def turn() -> None:
        script.stores[B].crash()
        script.stores[B].start()

    _stable_on_one_that_turns(script, turn)


def _fetches_nothing_to_leave_limbo(to: pytest.MonkeyPatch) -> None:
    """A wiped store that takes no messages vouches for having none, whatever it had."""
    seams.NOT_KEPT_ELSEWHERE_IN_READMISSION_RULES.replace(to, lambda *_: RangeSet())


def _turns_and_is_wiped(script: Script) -> None:
    """It loses its disk as well."""
    _stable_on_one_that_turns(script, lambda: script.wipe(B))


GUARDS = (
    Guard(_whoever_begins_is_a_holder, _one_of_three_keeps_state, "I1", {"state_only": (C,)}),
    Guard(_says_that_it_holds_nothing, _turns_with_what_it_has, "I1"),
    Guard(_fetches_nothing_to_leave_limbo, _turns_and_is_wiped, "I1"),
)
