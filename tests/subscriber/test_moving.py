"""What a subscriber is handed is what became stable behind its place, in order, once (I7).

It holds over any number of moves between stores that lag, die, are wiped and let messages go. It
holds for a range, too: nothing behind its end is handed over, and it is over once all is.
Each guard of the rules is taken out, and the same property finds that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests import seams
from tests.subscriber.model import play

from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range

_OFTEN = (
    *("send", "record", "record", "catch_up", "catch_up", "stable", "stable"),
    *("go_on", "go_on", "go_on", "consume"),
)
_SELDOM = (
    *("move", "move", "hear", "begin", "anew", "let_go", "die", "wipe", "return", "return"),
    *("make_stable", "restart", "stutter", "stutter"),
)


NAMES = (*_OFTEN * 2, *_SELDOM)
NAMES_OF_RANGES = (*NAMES, "end", "end", "end")
SEEDS_OF_GUARDS = 2_000
"""The worlds among which one misses a guard that is taken out."""

each_number_of_seeds = pytest.mark.parametrize(
    "seeds", [1_500, pytest.param(20_000, marks=[pytest.mark.big, pytest.mark.timeout(600)])]
)


def play_world(seed: int, names: Sequence[str]) -> None:
    """Play the world of a seed, whose steps have these names. Raises AssertionError with it."""
    chance = random.Random(seed)
    steps = [
        (chance.choice(names), chance.randrange(12), chance.randrange(12))
        for _ in range(chance.randint(30, 100))
    ]
    try:
        play(steps, stable=chance.random() < 0.5, every=chance.choice((0, 2, 3)))
    except AssertionError as error:
        raise AssertionError(f"in the world of seed {seed}: {error}") from error


def play_worlds(names: Sequence[str], seeds: int) -> None:
    """Play the worlds of so many seeds. Raises AssertionError with the first that fails."""
    for seed in range(seeds):
        play_world(seed, names)


@each_number_of_seeds
def test_it_is_handed_what_became_stable_in_order_and_once(seeds: int) -> None:
    play_worlds(NAMES, seeds)


@each_number_of_seeds
def test_a_range_is_handed_over_up_to_its_end(seeds: int) -> None:
    play_worlds(NAMES_OF_RANGES, seeds)


def _as_if_all_were_stable(walk: Any, source: Any, stream: Any, batch: Any) -> Any:
    return seams_of_walk["passes"](walk, source, replace(stream, upto=batch.last), batch)


def _whatever_comes_next(walk: Any, source: Any, stream: Any, batch: Any) -> Any:
    walk.owed.discard(source)
    part = seams_of_walk["passes"](walk, source, stream, batch)
    walk.owed.discard(source)
    return part


def _only_its_place(walk: Any, source: Any, stream: Any, part: Any) -> None:
    walk._places[source] = Place(stream.lineage.epoch_at(part.last), part.last)


def _whatever_is_given(follower: Any, _: str, source: Any, epoch: int, __: int, last: int) -> None:
    follower._places[source] = Place(epoch, last)
    follower._named.add(source)


seams_of_walk = {"passes": seams.WALK_PASSES.real()}


@dataclass(frozen=True)
class Guard:
    """A guard that is taken out."""

    name: str
    seam: seams.Seam
    instead: Callable[..., Any]

    def __str__(self) -> str:
        return self.name


GUARDS = (
    Guard(
        "what is void is not given",
        seams.LINEAGE_VALID,
        lambda _, held: Range(held.first, held.last),
    ),
    Guard("what is void is taken back", seams.WALK_TAKEN_BACK, lambda *_: None),
    Guard("a place may be void", seams.PLACE_BELONGS_TO, lambda *_: True),
    Guard("only what is stable is given", seams.WALK_PASSES, _as_if_all_were_stable),
    Guard("what was passed early is owed", seams.WALK_PASSES, _whatever_comes_next),
    Guard("what was passed early is owed again", seams.WALK_GIVEN, _only_its_place),
    Guard("what was let go is said", seams.WALK_MISSING, lambda *_: None),
    Guard("a store that lags gives nothing", seams.WALK_IS_AHEAD, lambda *_: False),
    Guard("the place moves", seams.WALK_NEXT, lambda *_: 0),
    Guard("a store gives what is next", seams.FOLLOWER_CONSECUTIVE, _whatever_is_given),
    Guard("a source may begin anew", seams.FOLLOWER_BEGINS_ANEW, lambda *_: None),
    Guard("not all is consumed", seams.PROGRESS_POSITION, lambda _, given: given),
)


def _also_what_is_new(ending: Any, source: Any, lineage: Any) -> Any:
    if ending.position is not None and source not in ending.position:
        return SEQUENCE_MAX
    return real_upto(ending, source, lineage)


def _whatever_belongs_to_the_stream(ending: Any, source: Any, _: Any) -> Any:
    return ending.position.get(source, NO_PLACE).sequence


def _by_number(ending: Any, source: Any, _: Any, place: Any) -> Any:
    return place.sequence >= ending.position.get(source, NO_PLACE).sequence


real_upto = seams.ENDING_UPTO.real()

GUARDS_OF_RANGES = (
    Guard("nothing behind the end is given", seams.WALK_END, lambda *_: SEQUENCE_MAX),
    Guard("a source that is new since is not given", seams.ENDING_UPTO, _also_what_is_new),
    Guard("the end may be void", seams.ENDING_UPTO, _whatever_belongs_to_the_stream),
    Guard("it is over when all was given", seams.ENDING_IS_REACHED, lambda *_: True),
    Guard("it is over in the stream of the end", seams.ENDING_IS_REACHED, _by_number),
)


@pytest.mark.parametrize("guard", GUARDS_OF_RANGES, ids=str)
def test_without_a_guard_of_ranges_the_property_fails(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard.seam.replace(monkeypatch, guard.instead)
    with pytest.raises(AssertionError, match="in the world of seed"):
        play_worlds(NAMES_OF_RANGES, SEEDS_OF_GUARDS)


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_without_a_guard_the_property_fails(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    guard.seam.replace(monkeypatch, guard.instead)
    with pytest.raises(AssertionError, match="in the world of seed"):
        play_worlds(NAMES, SEEDS_OF_GUARDS)
