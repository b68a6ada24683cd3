"""Who may leave limbo, where chance finds it missing too seldom.

Scripted worlds like those of quorate's tests.simulation.test_scripts: each goes its way with a
guard and without it.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from tests.simulation.guards import Guard, violated
from tests.simulation.script import Script, play
from tests.simulation.test_scripts import A, B, C, _begin

from quorate.protocol.policy import Policy
from quorate.source.registration import Phase
from quorate.store import leaving, vouching


def _limbo_ends_by_anyone(to: pytest.MonkeyPatch) -> None:
    """A store leaves limbo whoever has answered."""
    real = leaving.leave

    def leave(*arguments: Any) -> Any:
        with (
            patch.object(Policy, "stable", lambda *_: True),
            patch.object(Policy, "blocks", lambda *_: True),
        ):
            return real(*arguments)

    to.setattr(vouching, "leave", leave)


def _only_one_that_lags_is_heard(script: Script) -> None:
    """1 is stable on A and C, and B lags. A is wiped, and hears B alone; so does the next
    source."""
    _begin(script)
    script.cut("source1", B)
    assert script.send(A, C) == 1
    script.until(lambda: script.source.core.stable_upto == 1)
    script.source.kill()
    script.cut(C, A, B)
    script.wipe(A)
    script.start_source(C)
    script.run(5.0)
    assert script.source.core.registration.phase is Phase.PROMISING


GUARDS = (Guard(_limbo_ends_by_anyone, _only_one_that_lags_is_heard, "I1"),)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_with_its_guard_everything_holds(guard: Guard, seed: int) -> None:
    play(guard.script, seed, **guard.weather)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_without_its_guard_something_is_violated(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.patch(monkeypatch)
    assert any(violated(guard, seed) == guard.rule for seed in range(guard.seeds))
