"""The pace of a replay, by a clock of the test's own."""

from __future__ import annotations

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.subscriber.protocol.pace import Pace, Rate, RateKind


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1000/s", Rate(RateKind.MESSAGES, 1000)),
        ("2k/s", Rate(RateKind.MESSAGES, 2000)),
        ("500KB/s", Rate(RateKind.BYTES, 500_000)),
        ("1.5 MiB/s", Rate(RateKind.BYTES, 1.5 * 2**20)),
        ("0.5x", Rate(RateKind.MULTIPLE, 0.5)),
        (".5X", Rate(RateKind.MULTIPLE, 0.5)),
    ],
)
def test_texts(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "0/s", "0x", "-1/s", "10", "1e3/s", "x", ".x", "1.x"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="rate"):
        Rate.parse(text)


def test_messages_a_second() -> None:
    pace = Pace(Rate.parse("10/s"))
    assert [pace.due_at(5.0, 1, 0) for _ in range(3)] == pytest.approx([5.0, 5.1, 5.2])


def test_bytes_a_second() -> None:
    pace = Pace(Rate.parse("100B/s"))
    assert [pace.due_at(5.0, size, 0) for size in (50, 200, 1)] == pytest.approx([5.0, 5.5, 7.5])


def test_a_multiple_of_their_own_pace() -> None:
    pace = Pace(Rate.parse("2x"))
    times = [10**9 * second for second in (100, 101, 101, 105)]
    assert [pace.due_at(5.0, 1, each) for each in times] == pytest.approx([5.0, 5.5, 5.5, 7.5])


def test_a_long_pause_is_cut_short() -> None:
    pace = Pace(Rate.parse("1x"), max_gap=2.0)
    assert pace.due_at(5.0, 1, 0) == 5.0
    assert pace.due_at(5.0, 1, 3600 * 10**9) == 7.0
    assert pace.due_at(7.0, 1, 3601 * 10**9) == 8.0


def test_times_that_go_back_make_no_pause() -> None:
    pace = Pace(Rate.parse("1x"))
    assert pace.due_at(5.0, 1, 10**10) == 5.0
    assert pace.due_at(5.0, 1, 10**9) == 5.0
    assert pace.due_at(5.0, 1, 11 * 10**9) == 6.0


def test_what_is_late_is_made_up_for_within_a_second() -> None:
    pace = Pace(Rate.parse("10/s"))
    pace.due_at(0.0, 1, 0)
    # A minute later ten messages are due at once, and not six hundred.
    assert 10 <= sum(pace.due_at(60.0, 1, 0) <= 60.0 for _ in range(100)) <= 11
