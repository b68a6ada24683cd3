"""The load that every system of the comparison gets, and what checks it."""

from __future__ import annotations

import time
from itertools import count

import pytest
from bench.peers.load import Checker, Load, WrongMessage


def nothing() -> None:
    """Do nothing once the messages before the measured ones are there."""


def sent(load: Load) -> list[bytes]:
    """Return all messages of a load, in the order in which a client hands them over."""
    warm = [payload for payloads in load.warm_up_slices() for payload in payloads]
    return warm + [payload for _, payloads in load.slices() for payload in payloads]


def test_all_messages_are_sent_once_in_order_and_have_their_size() -> None:
    load = Load(messages=2500, size=50, rate=0, warm_up=1200)
    checker = Checker(load, nothing)
    payloads = sent(load)
    assert {len(payload) for payload in payloads} == {50}
    checker.take_all(payloads[:-1])
    assert not checker.done
    checker.take_all(payloads[-1:])
    assert checker.done


@pytest.mark.parametrize("wrong", ["lost", "twice", "out of order", "cut"])
def test_a_wrong_message_is_noticed(wrong: str) -> None:
    load = Load(messages=20, size=50, rate=0, warm_up=0)
    payloads = sent(load)
    if wrong == "lost":
        del payloads[7]
    elif wrong == "twice":
        payloads.insert(7, payloads[6])
    elif wrong == "out of order":
        payloads[7:9] = payloads[8], payloads[7]
    else:
        payloads[7] = payloads[7][:-1]
    with pytest.raises(WrongMessage):
        Checker(load, nothing).take_all(payloads)


def test_a_paced_message_is_late_from_when_it_was_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program looks each second here, and 10 messages a second are due."""
    clock = count(0, 1_000_000_000)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(clock))
    load = Load(messages=20, size=50, rate=10, warm_up=0)
    parts = [payloads for _, payloads in load.slices() if payloads]
    assert [len(part) for part in parts] == [10, 10]
    checker = Checker(load, nothing)
    clock = count(3_000_000_000)
    checker.take_all([payload for part in parts for payload in part])
    assert checker.latency_ms(0.0) == pytest.approx(1100, abs=1)
    assert checker.latency_ms(1.0) == pytest.approx(3000, abs=1)


def test_a_slower_system_gets_a_part_of_what_is_sent_at_full_rate() -> None:
    load = Load(messages=1000, size=50, rate=0, warm_up=100)
    assert load.part(0.25) == Load(messages=250, size=50, rate=0, warm_up=25)
    paced = Load(messages=1000, size=50, rate=10, warm_up=100)
    assert paced.part(0.25) == paced


def test_the_receiver_is_told_before_the_first_measured_message() -> None:
    load = Load(messages=3, size=16, rate=0, warm_up=2)
    told: list[bytes] = []
    payloads = sent(load)
    checker = Checker(load, lambda: told.append(payload))
    for payload in payloads:
        checker.take_all((payload,))
    assert told == [payloads[1]], "it waits, and all that comes later is measured"
