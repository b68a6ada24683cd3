"""What a registration decides, against the definitions, for every small set of answers.

Not only for those that small worlds come to: stores may hold anything of the epochs that there are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations_with_replacement, product

import pytest
from tests.brute_force.definitions import Answer, Configuration, Terms, configurations
from tests.brute_force.judge import NAME_OF, compare, promise_of
from tests.brute_force.worlds import groups

from quorate.protocol import recovery
from quorate.protocol.consensus import Behaviour

pytestmark = pytest.mark.long

LINEAGES: dict[int, Terms] = {0: (), 1: ((1, 0),), 2: ((1, 0), (2, 1)), 3: ((1, 0), (3, 1))}
"""By epoch. The third never heard of the second, or set it aside."""
THREE = groups("abc")


def answers(
    named: tuple[Configuration, ...], numbers: int = 2, with_losses: bool = False
) -> list[Answer]:
    """Everything that one store may say."""

    def every() -> Iterator[Answer]:
        for begun, lineage in LINEAGES.items():
            epochs = [{epoch for epoch, first in lineage if first <= n} for n in range(numbers)]
            possible = list(product(*({0, *each} for each in epochs)))
            for held, accepted in product(possible, possible if with_losses else [()]):
                for told in {-1, max((n for n in range(numbers) if held[n]), default=-1)}:
                    for limbo in (False, True):
                        # Also more than it was told is stable: that counts only as far as that.
                        for let_go in {0, told + 1, numbers} if told >= 0 else {0}:
                            yield Answer(
                                begun,
                                lineage,
                                named if begun else (),
                                held,
                                told,
                                limbo,
                                accepted,
                                let_go,
                            )

    return list(every())


def check(
    own: Configuration, told: dict[int, Answer], previous: tuple[Configuration, ...] = ()
) -> str:
    """Compare for each behaviour; returns what was decided."""
    promises = {NAME_OF[store]: promise_of(answer) for store, answer in told.items()}
    before = [policy.policy for policy in previous]
    kinds = set()
    for behaviour in Behaviour:
        verdict = recovery.decide(own.policy, promises, behaviour, before)
        compare(verdict, own, told, behaviour, previous)
        kinds.add(type(verdict).__name__)
    (kind,) = kinds
    return kind


def test_decisions_of_three_stores_are_as_defined() -> None:
    """A quorum of three; for a quorum it makes no difference which store says what."""
    each = answers((THREE,))
    seen = set()
    for one, other in combinations_with_replacement(each, 2):
        seen.add(check(THREE, {0: one, 1: other}))
    for said in combinations_with_replacement(each[::3], 3):
        seen.add(check(THREE, dict(enumerate(said))))
    assert seen == {"Decision", "NeedMore", "Lost"}


def test_what_was_let_go_is_nobodys_loss() -> None:
    """Stores that have let go all that was stable, and one that keeps more than the others."""
    nothing = Answer(1, LINEAGES[1], (THREE,), (0, 0, 0), 2, False, retained_from=3)
    for other in (
        Answer(1, LINEAGES[1], (THREE,), (0, 0, 0), -1, False),
        Answer(1, LINEAGES[1], (THREE,), (1, 1, 1), 2, False),
        replace(nothing, retained_from=1, held=(0, 1, 0)),
    ):
        assert check(THREE, {0: nothing, 1: other}) == "Decision"
    # Alone it proves nothing, and what it was not told is stable it can not have let go.
    assert check(THREE, {0: nothing}) == "NeedMore"
    told_less = replace(nothing, told=1)
    beyond = Answer(1, LINEAGES[1], (THREE,), (0, 0, 0), 2, False)
    assert check(THREE, {0: told_less, 1: beyond}) == "Lost"


@pytest.mark.parametrize("block", range(4))
def test_decisions_under_every_policy_are_as_defined(block: int) -> None:
    """By seed: every policy of up to five stores, and changes from one to the other."""
    chooser = random.Random(block)
    every = configurations(5, 3)
    seen = set()
    for own in every[block::4]:
        for before in (own, chooser.choice(every)):
            # Some records were confirmed, and have forgotten where they came from.
            said = answers((before, own), 2, with_losses=True) + answers((own,), 2)
            stores = range((own.everyone | before.everyone).bit_length())
            for _ in range(8):
                told = {s: chooser.choice(said) for s in stores if chooser.random() < 0.8}
                seen.add(check(own, told, (before,)))
    assert seen == {"Decision", "NeedMore", "Lost"}
