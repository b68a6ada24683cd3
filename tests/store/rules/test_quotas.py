"""The quotas of identities: calls by connection, subscriptions, bytes."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from quorate.protocol.access import Limits
from quorate.protocol.errors import LimitReached
from quorate.store.rules.quotas import Quotas, Use

TWO = Limits(connections=2, subscriptions=2)


def test_calls_on_a_known_connection_are_as_many_as_they_like() -> None:
    quotas = Quotas()
    with ExitStack() as stack:
        for connection in ("x", "y", "x", "y"):
            stack.enter_context(quotas.used("a", TWO, connection, subscribes=False))
        with pytest.raises(LimitReached) as caught:
            stack.enter_context(quotas.used("a", TWO, "z", subscribes=False))
        assert (caught.value.what, caught.value.most) == ("connections", 2)
        stack.enter_context(quotas.used("b", TWO, "z", subscribes=False))
    with quotas.used("a", TWO, "z", subscribes=False):
        pass


def test_subscriptions_end() -> None:
    quotas = Quotas()
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(quotas.used("a", TWO, "x", subscribes=True))
        with pytest.raises(LimitReached, match="a has 2 subscriptions at the store"):
            stack.enter_context(quotas.used("a", TWO, "x", subscribes=True))
        stack.enter_context(quotas.used("a", TWO, "x", subscribes=False))
    with quotas.used("a", TWO, "x", subscribes=True):
        pass


def test_a_refused_call_is_not_counted() -> None:
    quotas, one = Quotas(), Limits(connections=1, subscriptions=1)
    with quotas.used("a", one, "x", subscribes=True) as use:
        with pytest.raises(LimitReached), quotas.used("a", one, "x", subscribes=True):
            pass
        assert (use.calls, use.subscriptions) == ({"x": 1}, 1)


def test_bytes_wait_for_their_time() -> None:
    use = Use(Limits(bytes_per_second=100.0))
    assert use.wait(100, now=50.0) == 0.0, "what a second allows comes at once"
    assert use.wait(50, now=50.0) == pytest.approx(0.5)
    assert use.wait(50, now=50.5) == pytest.approx(0.5)
    assert use.wait(100, now=90.0) == 0.0
    assert Use(Limits()).wait(10**12, now=0.0) == 0.0


def test_without_limits_nothing_is_refused() -> None:
    quotas = Quotas()
    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(quotas.used("a", Limits(), str(number), subscribes=True))
