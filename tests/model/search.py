"""The search of worlds: every state of small ones, and random walks through larger ones."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import NamedTuple

from tests.model.checks import check
from tests.model.rules import Model
from tests.model.state import (
    Attempt,
    Broken,
    Move,
    Row,
    State,
    Store,
    World,
)


class Violation(NamedTuple):
    """A rule that is broken, and the moves that led there."""

    what: str
    moves: tuple[Move, ...]

    def __str__(self) -> str:
        return "\n".join([self.what, *("  " + " ".join(map(str, move)) for move in self.moves)])


class Explored(NamedTuple):
    """How many states there are, whether these are all, and what was found."""

    states: int
    whole: bool
    violation: Violation | None


def step(model: Model, state: State, move: Move) -> State:
    """Return the next state. Raise `Broken` if it, or the move, breaks what must hold."""
    after = model.apply(state, move)
    check(model, after)
    return after


def _renamed(names: frozenset[int], place: list[int]) -> frozenset[int]:
    return frozenset(place[name] for name in names) if names else names


def canonical(state: State) -> State:
    """Return the state with its stores in one of the orders that tell least apart.

    All stores are alike, so states that differ in the names of stores are the same. Two stores that
    look alike by themselves keep their order. Such a state may count twice, which harms nothing.
    """

    def look(name: int) -> int:
        (source, receiver), known, limbo, _, heard = state.stores[name]
        told = tuple([(attempt.told[name], attempt.seen[name]) for attempt in state.attempts])
        return hash((source[:3], receiver[:3], known[name], limbo, heard, told))

    names = list(range(len(state.stores)))
    order = sorted(names, key=look)
    if order == names:
        return state
    place = [order.index(name) for name in range(len(order))]

    def row(old: Row) -> Row:
        return old._replace(adopted_by=_renamed(old.adopted_by, place)) if old.adopted_by else old

    def store(name: int) -> Store:
        old = state.stores[name]
        return old._replace(
            rows=(row(old.rows[0]), row(old.rows[1])),
            known=tuple(old.known[name] for name in order),
            asked=_renamed(old.asked, place),
        )

    def attempt(old: Attempt) -> Attempt:
        return old._replace(
            told=tuple(old.told[name] for name in order),
            seen=tuple(old.seen[name] for name in order),
        )

    return state._replace(
        stores=tuple(map(store, order)), attempts=tuple(map(attempt, state.attempts))
    )


def explore(world: World, left_out: frozenset[str] = frozenset(), limit: int = 10**7) -> Explored:
    """Go through every state, the nearest first, until one is broken or the limit is reached."""
    model = Model(world, left_out)
    first = model.first()
    came: dict[State, tuple[State, Move] | None] = {first: None}
    level = [first]
    while level:
        following = []
        for state in level:
            for move in model.moves(state):
                try:
                    after = canonical(model.apply(state, move))
                    if after in came:
                        continue
                    check(model, after)
                except Broken as broken:
                    moves = (*_way(came, state), move)
                    return Explored(len(came), False, Violation(str(broken), moves))
                came[after] = (state, move)
                following.append(after)
            if len(came) > limit:
                return Explored(len(came), False, None)
        level = following
    return Explored(len(came), True, None)


def _way(came: dict[State, tuple[State, Move] | None], state: State) -> tuple[Move, ...]:
    """Return the moves to a state. Stores may change names between two of them."""
    moves = []
    step = came[state]
    while step:
        state, move = step
        moves.append(move)
        step = came[state]
    return tuple(reversed(moves))


def walk(model: Model, seed: int, length: int = 200) -> Violation | None:
    """Make random moves until a state is broken, nothing can move, or the walk is long enough.

    Each walk prefers some kinds of moves of some parties, so that walks differ more.
    """
    chooser = random.Random(seed)
    weights = defaultdict[Move, int](lambda: chooser.choice((1, 4, 16, 64)))
    state, moves = model.first(), list[Move]()
    for _ in range(length):
        possible = list(model.moves(state))
        if not possible:
            break
        (move,) = chooser.choices(possible, [weights[move[:2]] for move in possible])
        moves.append(move)
        try:
            state = step(model, state, move)
        except Broken as broken:
            return Violation(str(broken), tuple(moves))
    return None


def walks(
    world: World, left_out: frozenset[str] = frozenset(), seeds: range = range(1000)
) -> Violation | None:
    """Return what the first walk finds that finds something."""
    model = Model(world, left_out)
    found = (walk(model, seed) for seed in seeds)
    return next((violation for violation in found if violation), None)


def shortened(world: World, left_out: frozenset[str], violation: Violation) -> Violation:
    """Return the violation without the moves that it does not need."""
    moves = list(violation.moves)
    size = len(moves)
    while size:
        start = 0
        while start < len(moves):
            fewer = moves[:start] + moves[start + size :]
            found = _replayed(Model(world, left_out), fewer)
            if found and found.what == violation.what:
                moves = list(found.moves)
            else:
                start += size
        size //= 2
    return violation._replace(moves=tuple(moves))


def _replayed(model: Model, moves: list[Move]) -> Violation | None:
    """Return what these moves break, if each of them is possible."""
    state = model.first()
    for count, move in enumerate(moves, 1):
        if move not in set(model.moves(state)):
            return None
        try:
            state = step(model, state, move)
        except Broken as broken:
            return Violation(str(broken), tuple(moves[:count]))
    return None
