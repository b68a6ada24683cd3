"""New identities come at a bounded pace from each client."""

from __future__ import annotations

import pytest

from quorate.protocol.errors import TooManyRegistrations
from quorate.store.rules.floods import BURST_SECONDS, Newcomers


def test_a_flood_is_refused_and_goes_on_at_the_pace() -> None:
    newcomers, burst = Newcomers("a", 2.0), int(2 * BURST_SECONDS)
    for _ in range(burst):
        newcomers.take("here", 1.0)
    with pytest.raises(TooManyRegistrations) as caught:
        newcomers.take("here", 1.0)
    assert caught.value.retryable
    newcomers.take("there", 1.0)
    newcomers.take("here", 1.5)
    with pytest.raises(TooManyRegistrations):
        newcomers.take("here", 1.6)
    for _ in range(burst):
        newcomers.take("here", 100.0)


def test_without_a_bound_nobody_is_refused() -> None:
    newcomers = Newcomers("a", 0.0)
    for _ in range(1000):
        newcomers.take("here", 0.0)
