"""Peers that break the protocol cost nothing that is stable, and are reported."""

from __future__ import annotations

import pytest
from tests import seams
from tests.simulation.checker import Checker
from tests.simulation.circumstances import SAFETY, THREE
from tests.simulation.guards import Patch, first_found
from tests.simulation.test_mutations import (
    _lose_frames,
    _numbers_are_used_twice,
    _old_epochs_are_sent,
    _unstable_is_forgotten,
)
from tests.simulation.weather import KINDS

pytestmark = pytest.mark.long


def test_other_content_under_a_number_that_is_held_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is held and acknowledged stays what it was either way: the comparison only tells of a
    source that is broken. So it is missed by its reports, not by what must always hold."""
    _numbers_are_used_twice(monkeypatch)

    told: list[object] = []
    monkeypatch.setattr(Checker, "conflict", lambda _, error: told.append(error))

    def reports() -> int:
        told.clear()
        weather = {"kinds": ("crash_store", "reset_connections"), "complete_seconds": 1.0, **THREE}
        first_found(weather, (), 10)
        return len(told)

    assert reports() > 0
    seams.SAME_CONTENT_IN_INDEX.replace(monkeypatch, lambda *_: True)
    assert reports() == 0


@pytest.mark.parametrize(
    "breach",
    [_lose_frames, _old_epochs_are_sent, _numbers_are_used_twice, _unstable_is_forgotten],
    ids=lambda breach: breach.__name__.strip("_"),
)
def test_a_peer_that_breaks_the_protocol_costs_nothing_that_is_stable(
    breach: Patch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may get stuck; what the store's guards do about it is what the mutations take out."""
    breach(monkeypatch)
    weather = {
        # No copy rots: under a number that comes with other content nobody can then tell which of
        # the two is right.
        "kinds": tuple(kind for kind in KINDS if kind not in ("flip_bit", "flip_in_need")),
        "honest": False,
        "proxies": False,
        "attributes": False,
        "faulty_seconds": 2.0,
        "complete_seconds": 3.0,
    }
    assert first_found(weather, SAFETY, 10) is None
