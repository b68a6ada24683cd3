"""Applications name where a subscription begins, and where it ends."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quorate.protocol.bookmarks import Bookmark, Place, Position
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.times import TIME_NS_MAX
from quorate.subscriber.begin import (
    EPOCH,
    MOST_RECENT,
    NOW,
    Ahead,
    Begin,
    Behind,
    End,
    GivenBegin,
    GivenEnd,
    Time,
    read_begin,
    read_end,
)

NOW_NS = 1_000_000_000_000
ONE, TWO = (Bookmark(SourceName("orders", 1), 1, number) for number in (3, 4))
POSITION = Position({ONE.source: Place(1, 3)})
YEAR = 1_767_225_600_000_000_000
"""The beginning of 2026."""


@pytest.mark.parametrize("given", ["9999-12-31", datetime(9999, 12, 31)])
def test_a_time_that_no_request_can_name_is_the_last_one(given: str | datetime) -> None:
    assert read_begin(given, 0) == Time(TIME_NS_MAX)


@pytest.mark.parametrize(
    ("given", "begin"),
    [
        (EPOCH, EPOCH),
        ("Epoch", EPOCH),
        ("now", NOW),
        ("most_recent", MOST_RECENT),
        (str(POSITION), POSITION),
        (POSITION, POSITION),
        (ONE, Behind((ONE,))),
        (str(ONE), Behind((ONE,))),
        ([ONE, TWO], Behind((ONE, TWO))),
        (f"{ONE}, {TWO}", Behind((ONE, TWO))),
        (f"after {ONE}", Behind((ONE,))),
        (f"at {ONE}", Ahead((ONE,))),
        (f"At  {ONE}, {TWO}", Ahead((ONE, TWO))),
        ("2026-01-01", Time(YEAR)),
        ("at 2026-01-01", Time(YEAR)),
        ("after 2026-01-01", Time(YEAR + 1000)),
        (datetime(2026, 1, 1, tzinfo=UTC), Time(YEAR)),
        ("-1.5m", Time(NOW_NS - 90 * 10**9)),
        ("+2s", Time(NOW_NS + 2 * 10**9)),
        ("1767225600", Time(YEAR)),
        ("after 1767225600.5", Time(YEAR + 500_001_000)),
        (1767225600, Time(YEAR)),
        (1767225600.5, Time(YEAR + 500_000_000)),
        ("20260101", Time(YEAR)),
        ("20260101T000000Z", Time(YEAR)),
    ],
)
def test_where_it_begins(given: GivenBegin, begin: Begin) -> None:
    assert read_begin(given, NOW_NS) == begin


@pytest.mark.parametrize(
    ("given", "end"),
    [
        (NOW, NOW),
        ("now", NOW),
        (str(POSITION), POSITION),
        (ONE, Behind((ONE,))),
        ([ONE, TWO], Behind((ONE, TWO))),
        (f"{ONE}, {TWO}", Behind((ONE, TWO))),
        (f"at {ONE}", Behind((ONE,))),
        (f"before {ONE}", Ahead((ONE,))),
        (f"before {ONE},{TWO}", Ahead((ONE, TWO))),
        (1767225600.0, Time(YEAR)),
        ("2026-01-01", Time(YEAR)),
        ("before 2026-01-01", Time(YEAR)),
        ("at 2026-01-01", Time(YEAR + 1000)),
        ("+1d", Time(NOW_NS + 86_400 * 10**9)),
    ],
)
def test_where_it_ends(given: GivenEnd, end: End) -> None:
    assert read_end(given, NOW_NS) == end


@pytest.mark.parametrize(
    "given",
    [
        f"before {ONE}",
        "at now",
        "at epoch",
        f"after {POSITION}",
        "at",
        "",
        "+5",
        [],
        7,
        -1e9,
        float("inf"),
        float("nan"),
        True,
        "176722560012",
    ],
)
def test_what_is_no_beginning(given: GivenBegin) -> None:
    with pytest.raises(InvalidArgument, match=r"^begin: .* is none; give"):
        read_begin(given, 0)


@pytest.mark.parametrize("given", [EPOCH, MOST_RECENT, f"after {ONE}", [], 7])
def test_what_is_no_end(given: GivenEnd) -> None:
    with pytest.raises(InvalidArgument, match=r"^end: .* is none; give"):
        read_end(given, 0)
