"""The seconds that rows are behind."""

from __future__ import annotations

from quorate.protocol.identity import SourceName
from quorate.store.rules.row_lag import RowLag

A, B = SourceName("orders", 1), SourceName("orders", 2)


def test_rows_that_have_all_are_not_behind() -> None:
    lag = RowLag()
    lag.note(A, 9, 9, 0.0)
    assert lag.seconds(A, 100.0) == 0
    lag.note(A, 9, 10, 100.0)
    assert lag.seconds(A, 103.0) == 3
    lag.note(A, 10, 10, 104.0)
    assert lag.seconds(A, 105.0) == 0


def test_rows_that_follow_a_stream_that_never_rests() -> None:
    """They never have all, and are behind by as long as they take for what is stable."""
    lag = RowLag()
    for second in range(100):
        lag.note(A, 10 * second, 10 * second + 20, float(second))
        assert lag.seconds(A, float(second)) <= 2
    assert lag.seconds(A, 99.0) == 2


def test_rows_that_stand_fall_behind_further() -> None:
    lag = RowLag()
    for second in range(100):
        lag.note(A, 5, 10 * second, float(second))
    lag.note(B, 0, 1, 90.0)
    assert lag.seconds(A, 99.0) == 98
    assert lag.seconds(B, 99.0) == 9
    lag.forget(A)
    assert lag.seconds(A, 99.0) == 0


def test_a_source_that_begins_anew_is_not_behind_for_ever() -> None:
    lag = RowLag()
    lag.note(A, 5, 1000, 0.0)
    lag.note(A, -1, 3, 1.0)
    lag.note(A, 3, 8, 2.0)
    assert lag.seconds(A, 2.0) == 2
    lag.note(A, 8, 8, 3.0)
    assert lag.seconds(A, 3.0) == 0
