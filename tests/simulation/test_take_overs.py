"""Who takes over from whom: of several instances one lives on, and never the one that was first.

Whoever starts, is cut off from whom, and registers anew at the wrong moment, follows from the seed.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator

import pytest
from tests.simulation.script import CALM, Script
from tests.simulation.source_actor import SourceInstance

_STORES = ("store1", "store2", "store3")
_SECONDS = 6.0
"""In which everybody has heard of it who was replaced: twenty registration intervals."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(8, 24))
def test_one_lives_on_and_it_is_not_the_one_that_was_replaced(seed: int) -> None:
    script, choice = Script(seed, dict(CALM)), random.Random(seed)
    script.until_complete()
    script.source.kill()
    # It was told to take over, too.
    first = script.start_source()
    script.until_complete()
    script.send(*_STORES)
    frees = [script.cut(first.process.name, *choice.sample(_STORES, choice.choice((0, 1, 2))))]
    if choice.random() < 0.5:
        first.core._register_anew(first.core.epoch + 1, script.world.now)
        first._after_input()
    later: list[SourceInstance] = []
    for _ in range(choice.choice((1, 2))):
        later.append(script.start_source())
        if choice.random() < 0.3:
            frees.append(script.cut(later[-1].process.name, choice.choice(_STORES)))
        script.run(choice.uniform(0.0, 0.01))
    script.run(choice.uniform(0.0, 1.0))
    for free in frees:
        free()
    script.run(_SECONDS)
    assert first.core.error is not None
    (alive,) = [one for one in later if one.core.error is None]
    assert alive.send()
    script.until(lambda: alive.core.stable_upto == alive.core.window.next_sequence - 1)
