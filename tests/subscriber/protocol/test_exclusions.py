"""The table of exclusions: each pair is refused, and each alone is not."""

from __future__ import annotations

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.subscriber.protocol.exclusions import BATCHES, LIVE, check

EXCLUDED = [("rate", LIVE), ("paused", LIVE), ("pause()", LIVE), ("conflation", BATCHES)]
NEEDED = [
    ("rate_max_gap", "rate"),
    ("conflation", "conflation_key"),
    ("conflation_key", "conflation"),
]


@pytest.mark.parametrize(("one", "other"), EXCLUDED)
def test_one_excludes_the_other(one: str, other: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        check({one, other})
    assert raised.value.argument == one
    assert f"cannot be given with {other}" in raised.value.detail


@pytest.mark.parametrize(("one", "other"), NEEDED)
def test_one_needs_the_other(one: str, other: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        check({one})
    assert raised.value.argument == one
    assert f"needs a {other}" in raised.value.detail
    check({one, other})


def test_what_may_be_together() -> None:
    check(set())
    check({LIVE, "conflation", "conflation_key"})
    check({"rate", "rate_max_gap", "paused", "conflation", "conflation_key"})
