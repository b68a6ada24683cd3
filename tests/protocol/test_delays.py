"""How long anything waits before it tries again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.delays import RECONNECT, Delays, delay_after, with_longest
from quorate.protocol.errors import InvalidArgument


def test_each_delay_is_longer_than_the_one_before_until_the_longest() -> None:
    delays = Delays(first=0.1, factor=3.0, longest=5.0)
    found = [delay_after(delays, failures) for failures in range(1, 7)]
    assert found == pytest.approx([0.1, 0.3, 0.9, 2.7, 5.0, 5.0])


def test_delays_may_all_be_equal() -> None:
    assert [delay_after(Delays(first=0.5, factor=1.0), failures) for failures in (1, 2, 99)] == [
        0.5
    ] * 3


@given(st.integers(0, 10**9))
def test_no_number_of_failures_is_too_many(failures: int) -> None:
    assert RECONNECT.first <= delay_after(RECONNECT, failures) <= RECONNECT.longest


def test_the_longest_delay_may_be_another_one() -> None:
    assert delay_after(with_longest(RECONNECT, 10.0), 99) == 10.0
    assert delay_after(with_longest(RECONNECT, 0.01), 1) == 0.01


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("first", -1.0),
        ("first", float("inf")),
        ("longest", float("nan")),
        ("factor", 0.5),
        ("jitter", 1.5),
        ("give_up_after", 0.0),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidArgument) as raised:
        Delays(**{name: value})
    assert raised.value.argument == f"delays.{name}"
