"""Worlds of dispatchers that die: nothing is lost, nothing comes again that is over."""

from __future__ import annotations

import pytest
from tests.queue.protocol.world import World

SEEDS = 50


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("part", range(3))
def test_worlds_keep_what_a_queue_promises(part: int, by_key: bool) -> None:
    handed = again = deaths = 0
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        world = World(seed, by_key=by_key)
        try:
            world.run(300)
            world.complete()
        except AssertionError as error:
            error.add_note(f"the world of seed {seed}, by_key={by_key}")
            raise
        handed += len(world.handed)
        again += sum(count > 1 for count in world.handed.values())
        deaths += world.deaths
    # The worlds do meet what they are to show.
    assert deaths > SEEDS
    assert 0 < again < handed
