"""A short while of chaos; `make soak` is the long one."""

from __future__ import annotations

import pytest
from tests.end_to_end.chaos import Chaos
from tests.end_to_end.world import World

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("seed", [1])
@pytest.mark.long
async def test_what_applications_were_told_is_so_after_a_run_of_faults(
    world: World, seed: int
) -> None:
    summary = await Chaos(world, seed).run(6.0)
    assert summary.stable_said > 0
    assert summary.delivered >= 2 * summary.messages
