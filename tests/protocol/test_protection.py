"""Whether to wait until stores no longer protect another instance of an identity."""

from __future__ import annotations

from math import inf

import pytest

from quorate.protocol.errors import ReceiverActive, SourceActive
from quorate.protocol.protection import INSIST_SECONDS, Protection


def streaming(store: str = "a") -> SourceActive:
    return SourceActive("orders", store)


def silent(seconds: float, store: str = "a") -> SourceActive:
    return SourceActive("orders", store, int(seconds * 1000))


def waiting_until(until: float) -> Protection:
    protection = Protection()
    protection.until = until
    return protection


def test_a_protection_that_ends_in_time_is_waited_for() -> None:
    protection = waiting_until(30.0)
    protection.refused("a", silent(6.0), 1.0)
    protection.refused("b", silent(4.0), 1.0)
    assert protection.is_worth_waiting_for(1.0)
    assert protection.ends_in(2.0) == 5.0
    assert protection.stores == {"a", "b"}


def test_a_protection_that_ends_too_late_is_not() -> None:
    protection = waiting_until(3.0)
    protection.refused("a", silent(6.0), 1.0)
    protection.refused("b", silent(0.5), 1.0)
    assert not protection.is_worth_waiting_for(1.0)
    refusal = protection.refusal
    assert refusal is not None
    assert refusal.free_in == 6.0, "the longest one is named"


def test_an_open_stream_is_believed_only_after_a_moment() -> None:
    protection = waiting_until(30.0)
    protection.refused("a", streaming(), 1.0)
    assert protection.is_worth_waiting_for(1.0)
    protection.refused("a", streaming(), 1.4)
    assert protection.is_worth_waiting_for(1.4)
    assert not protection.is_worth_waiting_for(1.0 + INSIST_SECONDS)
    assert protection.ends_in(2.0) == inf


def test_a_process_that_was_killed_just_now_is_waited_for_like_any_that_is_silent() -> None:
    protection = waiting_until(30.0)
    protection.refused("a", streaming(), 1.0)
    protection.refused("a", silent(6.0), 1.3)
    assert protection.is_worth_waiting_for(2.0)


def test_an_instance_that_shows_life_is_not_waited_for() -> None:
    protection = waiting_until(30.0)
    protection.refused("a", silent(6.0), 1.0)
    protection.refused("a", silent(5.0), 2.5)
    assert protection.is_worth_waiting_for(2.5), "stores do not measure so closely"
    protection.refused("a", silent(6.0), 4.0)
    assert not protection.is_worth_waiting_for(4.0)


def test_without_a_limit_even_a_living_instance_is_waited_for() -> None:
    protection = waiting_until(inf)
    protection.refused("a", streaming(), 1.0)
    assert protection.is_worth_waiting_for(1e6)


def test_a_store_that_answers_otherwise_no_longer_counts() -> None:
    protection = waiting_until(3.0)
    protection.refused("a", silent(6.0), 1.0)
    protection.ended("a")
    protection.ended("b")
    assert (protection.stores, protection.refusal) == (frozenset(), None)
    assert protection.ends_in(2.0) == 0.0


@pytest.mark.parametrize(
    "error",
    [SourceActive("orders/0x1", "a", 4200), ReceiverActive("receiver 0x2", "a", 4200)],
)
def test_the_error_says_when_it_will_be_over(error: SourceActive | ReceiverActive) -> None:
    assert "ends in 4.2 s" in str(error)
    assert "try again" in str(error)
    assert "try again" not in str(streaming())
