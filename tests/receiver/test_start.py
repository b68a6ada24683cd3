"""Start positions as applications name them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.receiver import Start

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("earliest", Start.EARLIEST),
        ("latest", Start.LATEST),
        ("last:100", Start.last(100)),
        ("last:0", Start.LATEST),
        ("42", Start.at(42)),
        (42, Start.at(42)),
        (0, Start.EARLIEST),
        (NOON, Start.since(NOON)),
        (NOON.replace(tzinfo=None), Start.since(NOON)),
        (NOON.astimezone(timezone(timedelta(hours=5))), Start.since(NOON)),
        ("2026-01-31T12:00Z", Start.since(NOON)),
        ("2026-01-31T17:00:00+05:00", Start.since(NOON)),
        ("2026-01-31", Start.since(NOON - timedelta(hours=12))),
        (Start.LATEST, Start.LATEST),
    ],
)
def test_texts_numbers_and_times(given: Any, start: Start) -> None:
    assert Start.of(given) == start
    assert Start.of(str(start)) == start


@pytest.mark.parametrize(
    "given",
    ["newest", "last", "last:", "last:-1", "-1", -1, 2**63, "", True, None, 1.5, "today"],
)
def test_what_is_no_start_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match="start"):
        Start.of(given)


@pytest.mark.parametrize("time", [datetime.min, datetime.max])
def test_times_stay_within_what_stores_understand(time: datetime) -> None:
    assert abs(Start.since(time).value) < 2**63
