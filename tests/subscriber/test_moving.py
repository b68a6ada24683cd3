"""What a subscriber is handed is what became stable behind its place, in order, once (I7).

It holds over any number of moves between stores that lag, die, are wiped and let messages go. It
holds for a range, too: nothing behind its end is handed over, and it is over once all is.
Each guard of the rules is taken out, and the same property finds that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests import seams
from tests.subscriber.model import Step, play

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


def steps_of(*names: str) -> st.SearchStrategy[list[Step]]:
    return st.lists(
        st.tuples(st.sampled_from(names), st.integers(0, 11), st.integers(0, 11)),
        min_size=30,
        max_size=100,
    )


STEPS = steps_of(*_OFTEN * 2, *_SELDOM)
STEPS_OF_RANGES = steps_of(*_OFTEN * 2, *_SELDOM, "end", "end", "end")


def property_of(
    examples: int, *phases: Phase, steps: st.SearchStrategy[list[Step]] = STEPS
) -> Callable[[], None]:
    """Return the test of the property with so many examples."""

    @settings(
        max_examples=examples,
        derandomize=True,
        phases=phases or tuple(Phase),
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(steps, st.booleans(), st.sampled_from([0, 2, 3]))
    def holds(steps: Sequence[Step], stable: bool, every: int) -> None:
        play(steps, stable=stable, every=every)

    return holds


@pytest.mark.parametrize(
    "examples", [1_200, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
def test_it_is_handed_what_became_stable_in_order_and_once(examples: int) -> None:
    property_of(examples)()


@pytest.mark.parametrize(
    "examples", [1_200, pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.timeout(600)])]
)
def test_a_range_is_handed_over_up_to_its_end(examples: int) -> None:
    property_of(examples, steps=STEPS_OF_RANGES)()


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
    with pytest.raises(AssertionError):
        property_of(3_000, Phase.generate, steps=STEPS_OF_RANGES)()


@pytest.mark.parametrize("guard", GUARDS, ids=str)
def test_without_a_guard_the_property_fails(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    guard.seam.replace(monkeypatch, guard.instead)
    with pytest.raises(AssertionError):
        property_of(3_000, Phase.generate)()
