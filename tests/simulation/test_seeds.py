"""What many worlds were worth together, and when that is not enough."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable

import pytest
from tests.simulation import __main__ as command
from tests.simulation.seeds import FAULTS, FAULTS_NEEDED, NEEDED, RARE, RARER, RAREST, Tally
from tests.simulation.simulation import Failed

STATES = RARE + RARER + RAREST
EACH = [(seeds, state) for seeds, states in NEEDED.items() for state in states]
ENOUGH = max(NEEDED)


def tally(seeds: int, *without: str) -> Tally:
    """Worlds that had everything but this."""
    reached = Counter(state for state in STATES if state not in without)
    faults = Counter(kind for kind in FAULTS if kind not in without)
    return Tally(seeds=seeds, faults=faults, reached=reached)


def test_every_state_is_needed_from_one_number_of_seeds_on() -> None:
    assert len(set(STATES)) == len(STATES) == len(EACH)


@pytest.mark.parametrize(("seeds", "state"), EACH)
def test_a_state_is_missed_from_so_many_seeds_on(seeds: int, state: str) -> None:
    assert tally(seeds, state).missed == [state]
    few = tally(seeds - 1, state)
    assert few.missed == []
    assert few.never == [state], "which is said"


@pytest.mark.parametrize("kind", FAULTS)
def test_a_kind_of_fault_is_needed_from_so_many_seeds_on(kind: str) -> None:
    assert tally(FAULTS_NEEDED, kind).spared == [kind]
    few = tally(FAULTS_NEEDED - 1, kind)
    assert few.spared == []
    assert few.uninjected == [kind], "which is said"


def test_the_rarer_a_state_the_more_seeds_it_needs() -> None:
    reached_nothing = [tally(seeds, *STATES).missed for seeds in (999, 1_000, 10_000, 100_000)]
    expected = [(), RARE, RARE + RARER, STATES]
    assert list(map(tuple, reached_nothing)) == expected


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tally], int]:
    """The exit code of the command after a run of so many seeds that was worth this."""

    def end(worth: Tally) -> int:
        monkeypatch.setattr(sys, "argv", ["simulate", "--seeds", str(worth.seeds)])
        monkeypatch.setattr(command, "run_on", lambda *_: worth)
        monkeypatch.setattr(command, "thaw", lambda: None)
        return command.main()

    return end


def test_a_run_that_reached_everything_is_a_success(
    ended: Callable[[Tally], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(tally(ENOUGH)) == 0
    told = capsys.readouterr().out
    assert "FAILED" not in told
    assert "NEVER REACHED" not in told


def test_a_run_says_how_often_what_happened_and_how_fast_it_was(
    ended: Callable[[Tally], int], capsys: pytest.CaptureFixture[str]
) -> None:
    worth = tally(ENOUGH)
    worth.seconds = ENOUGH / 12.5
    worth.faults["store crash"] = 1_234
    worth.reached["quorum lost"] = 56
    ended(worth)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("100,000 seeds in 8,000.0 s (12.5/s), ")
    faults, states = lines.index("faults injected:"), lines.index("rare states reached:")
    assert lines[faults + 1] == "       1,234  store crash"
    assert lines[states + 1] == "          56  quorum lost"


@pytest.mark.parametrize(("seeds", "states"), NEEDED.items())
def test_a_run_that_never_reached_what_it_should_have_is_a_failure(
    ended: Callable[[Tally], int],
    capsys: pytest.CaptureFixture[str],
    seeds: int,
    states: tuple[str, ...],
) -> None:
    assert ended(tally(seeds, *states[:2])) == 1
    expected = f"FAILED: {seeds:,} seeds should have reached: {states[0]}, {states[1]}\n"
    assert expected in capsys.readouterr().out
    assert ended(tally(seeds - 1, *states[:2])) == 0
    assert "!!! NEVER REACHED" in capsys.readouterr().out


def test_a_run_without_some_kinds_of_faults_is_a_failure(
    ended: Callable[[Tally], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(tally(FAULTS_NEEDED, *FAULTS[:2])) == 1
    expected = f"FAILED: {FAULTS_NEEDED:,} seeds should have had: {FAULTS[0]}, {FAULTS[1]}\n"
    assert expected in capsys.readouterr().out
    assert ended(tally(FAULTS_NEEDED - 1, *FAULTS[:2])) == 0
    assert "!!! NO SUCH FAULT" in capsys.readouterr().out


def test_a_run_with_a_world_that_failed_is_a_failure(ended: Callable[[Tally], int]) -> None:
    worth = tally(ENOUGH)
    worth.failed.append(Failed(7, "I1", "I1: lost", ""))
    assert ended(worth) == 1
