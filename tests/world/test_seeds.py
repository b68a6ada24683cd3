"""What many worlds were worth together, and when that is not enough."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pytest
from tests.world import __main__ as command
from tests.world.faults import KINDS
from tests.world.seeds import FAULTS_NEEDED, NEEDED, RARE, RARER, Tally

EACH = [(seeds, state) for seeds, states in NEEDED.items() for state in states]
ENOUGH = max(NEEDED)


def tally(seeds: int, *without: str) -> Tally:
    """Worlds that had everything but this."""
    reached = Counter(state for state in (*RARE, *RARER) if state not in without)
    faults = Counter(kind for kind in KINDS if kind not in without)
    return Tally(seeds=seeds, faults=faults, reached=reached)


def test_every_state_is_needed_from_one_number_of_seeds_on() -> None:
    assert len(set(RARE + RARER)) == len(EACH)


@pytest.mark.parametrize(("seeds", "state"), EACH)
def test_a_state_is_missed_from_so_many_seeds_on(seeds: int, state: str) -> None:
    assert tally(seeds, state).missed == [state]
    assert tally(seeds - 1, state).missed == []


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_a_kind_of_fault_is_needed_from_so_many_seeds_on(kind: str) -> None:
    assert tally(FAULTS_NEEDED, kind).spared == [kind]
    assert tally(FAULTS_NEEDED - 1, kind).spared == []


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tally], int]:
    """The exit code of the command after a run that was worth this."""

    def end(worth: Tally) -> int:
        monkeypatch.setattr(sys, "argv", ["worlds", "--seeds", str(worth.seeds)])
        monkeypatch.setattr(command, "run_all", lambda *_: worth)
        return command.main()

    return end


def test_a_run_says_how_often_what_happened_and_how_fast_it_was(
    ended: Callable[[Tally], int], capsys: pytest.CaptureFixture[str]
) -> None:
    worth = tally(ENOUGH)
    worth.seconds = ENOUGH / 12.5
    worth.faults["crash_store"] = 1_234
    worth.reached["QuorumLost"] = 56
    assert ended(worth) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{ENOUGH:,} worlds in {worth.seconds:,.1f} s (12.5/s), ")
    assert "       1,234  crash_store\n" in told
    assert "          56  QuorumLost\n" in told
    assert "FAILED" not in told


def test_a_run_that_had_too_little_is_a_failure(
    ended: Callable[[Tally], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(tally(ENOUGH, RARE[0], "crash_store")) == 1
    told = capsys.readouterr().out
    assert f"FAILED: {ENOUGH:,} worlds should have reached: {RARE[0]}\n" in told
    assert f"FAILED: {ENOUGH:,} worlds should have had: crash_store\n" in told


def test_a_run_with_a_world_that_failed_is_a_failure(
    ended: Callable[[Tally], int], capsys: pytest.CaptureFixture[str]
) -> None:
    worth = tally(ENOUGH)
    worth.add(7, "Violated: lost")
    assert ended(worth) == 1
    assert "FAILED: seed 7: Violated: lost\n" in capsys.readouterr().out
