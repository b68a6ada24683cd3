"""Going through a world's states: all of them, breadth first, or a random walk.

A state is visited once for all names of stores that are alike. What violates is told as the steps
that lead there, the fewest if everything was explored.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.brute_force.judge import Judge, Violation
from tests.brute_force.model import Model
from tests.brute_force.states import Key, Rules, Shape, State, Step

ALL_RULES = Rules()


class Found(Exception):
    """A counterexample: the steps that lead to it, and what does not hold."""

    def __init__(self, steps: list[str], reason: str) -> None:
        super().__init__("\n".join([*steps, f"=> {reason}"]))
        self.steps = steps
        self.reason = reason


@dataclass(frozen=True)
class Explored:
    """What was gone through."""

    states: int
    steps: int
    decisions: int
    whole: bool
    """Everything was; else the bound was reached."""

    def __str__(self) -> str:
        part = "all" if self.whole else "the first"
        return (
            f"{part} {self.states:,} states, {self.steps:,} steps, "
            f"{self.decisions:,} decisions compared"
        )


def explore(
    shape: Shape,
    rules: Rules = ALL_RULES,
    states_max: int = 1 << 60,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Explored:
    """Visit every state, or states_max of them, fewest steps first; raises Found."""
    judge = Judge(shape, rules)
    model = Model(shape, rules, judge)
    initial = model.initial()
    came_from: dict[Key, Key | None] = {model.key(initial): None}
    waiting = deque([initial])
    steps = 0
    while waiting:
        if len(came_from) >= states_max:
            return Explored(len(came_from), steps, judge.decisions, False)
        state = waiting.popleft()
        here = model.key(state)
        moved = False
        try:
            for _, after in model.steps(state):
                steps += 1
                moved = True
                key = model.key(after)
                if key not in came_from:
                    came_from[key] = here
                    judge.foretell(after)
                    waiting.append(after)
            if not moved:
                judge.check_end(state)
        except Violation as violation:
            raise Found(_story(model, came_from, here), str(violation)) from None
        progress(len(came_from), len(waiting))
    return Explored(len(came_from), steps, judge.decisions, True)


def _story(model: Model, came_from: dict[Key, Key | None], key: Key) -> list[str]:
    """The steps that lead to a state, told with one world's names."""
    path: list[Key] = []
    before: Key | None = key
    while before is not None:
        path.append(before)
        before = came_from[before]
    now, told = model.initial(), []
    for wanted in reversed(path[:-1]):
        step, now = next(
            (step, after) for step, after in model.steps(now) if model.key(after) == wanted
        )
        told.append(str(step))
    return [*told, "and one step more"]


def walk(shape: Shape, rules: Rules, seed: int, length: int) -> int:
    """One random walk; raises Found. Returns how many numbers were reported stable."""
    chooser = random.Random(seed)
    judge = Judge(shape, rules)
    return walk_in(Model(shape, rules, judge), judge, chooser, length)


def walk_in(model: Model, judge: Judge, chooser: random.Random, length: int) -> int:
    """The same in a model that remembers what it was asked in walks before."""
    state, told = model.initial(), []
    try:
        for _ in range(length):
            choices: list[tuple[Step, State]] = list(model.steps(state))
            if not choices:
                judge.check_end(state)
                break
            step, state = chooser.choice(choices)
            told.append(str(step))
            judge.foretell(state)
    except Violation as violation:
        raise Found(told, str(violation)) from None
    return len(state.reported)
