"""Heartbeats: the silence that counts, and the one that does not."""

from __future__ import annotations

from math import inf, nan

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.heartbeat import Hearing, Heartbeat


def looked(hearing: Hearing, until: float) -> list[float]:
    """Look whenever it is due. Return the times at which a silence was news."""
    news = []
    while hearing.look_at <= until:
        now = hearing.look_at
        if hearing.look(now):
            news.append(now)
    return news


@pytest.fixture
def hearing() -> Hearing:
    return Hearing(Heartbeat(), 0.0)


def test_silence_counts_after_the_timeout_and_is_told_once(hearing: Hearing) -> None:
    assert looked(hearing, 4.5) == []
    hearing.heard(4.5)
    assert looked(hearing, 100.0) == [9.5]
    assert hearing.is_silent


def test_a_peer_that_is_heard_again_may_become_silent_again(hearing: Hearing) -> None:
    assert not hearing.heard(1.0)
    looked(hearing, 10.0)
    assert hearing.heard(10.5)
    assert not hearing.heard(10.6)
    assert not hearing.is_silent
    assert looked(hearing, 100.0) == [15.6]


def test_the_time_in_which_the_listener_did_not_run_does_not_count(hearing: Hearing) -> None:
    looked(hearing, 2.0)
    assert not hearing.look(60.0), "what was said meanwhile was not read yet"
    assert looked(hearing, 100.0) == [62.0]


def test_a_late_look_counts_as_little_as_it_is_late() -> None:
    hearing = Hearing(Heartbeat(interval=1.0, timeout=2.5), 0.0)
    assert not hearing.look(1.25)
    assert hearing.look_at == 2.25
    assert looked(hearing, 10.0) == [2.75]


@pytest.mark.parametrize("interval", [0.0, -1.0, inf, nan])
def test_an_interval_that_makes_no_sense_is_refused(interval: float) -> None:
    with pytest.raises(InvalidArgument, match="heartbeat_interval"):
        Heartbeat(interval=interval)


@pytest.mark.parametrize("timeout", [1.0, 0.0, inf, nan])
def test_a_timeout_that_is_not_above_the_interval_is_refused(timeout: float) -> None:
    with pytest.raises(InvalidArgument, match="heartbeat_timeout"):
        Heartbeat(interval=1.0, timeout=timeout)
