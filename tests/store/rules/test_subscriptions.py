"""The subscriptions that run at a store: their bound, and the one that is furthest behind."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest

from quorate.protocol.bookmarks import Place, Position
from quorate.protocol.errors import TooManySubscriptions
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.store.rules.subscriptions import Running, Slowest, Subscriptions
from quorate.store.rules.walk import Walk

ORDERS = SourceName("orders", 1)
FIRST = Lineage((Term(1, 0),))


def running(client: str, topic: str = "orders", upto: int | None = None) -> Running:
    walk = None
    if upto is not None:
        walk = Walk(Position({ORDERS: Place(1, upto)}), 0, topic.__eq__)
    return Running(client, topic, "", topic.__eq__, 1, None, 0.0, walk)


def test_more_than_the_bound_are_refused_until_one_ends() -> None:
    all_of_them = Subscriptions("s1", 2)
    with all_of_them.opened(running("a")):
        with all_of_them.opened(running("b")):
            with pytest.raises(TooManySubscriptions) as caught, all_of_them.opened(running("c")):
                pass
            assert (caught.value.store, caught.value.most) == ("s1", 2)
        with all_of_them.opened(running("c")):
            assert sorted(each.client for each in all_of_them) == ["a", "c"]
    assert len(all_of_them) == 0


def test_payloads_that_are_no_json_are_counted_also_of_subscriptions_that_ended() -> None:
    all_of_them = Subscriptions("s1", 0)
    first, second = Filter("price > 1"), Filter("price > 2")
    with all_of_them.opened(replace(running("a"), where=first)):
        first.undecoded += 3
        assert all_of_them.undecoded == 3
    with all_of_them.opened(replace(running("b"), where=second)):
        second.undecoded += 4
        assert all_of_them.undecoded == 7


def test_without_a_bound_all_are_taken() -> None:
    all_of_them = Subscriptions("s1", 0)
    with ExitStack() as stack:
        for number in range(100):
            stack.enter_context(all_of_them.opened(running(str(number))))
        assert len(all_of_them) == 100


def test_the_slowest_is_the_one_that_has_read_least_of_that_source() -> None:
    all_of_them = Subscriptions("s1", 0)
    with (
        all_of_them.opened(running("quick", upto=90)),
        all_of_them.opened(running("slow", upto=7)),
        all_of_them.opened(running("other topic", "trades", upto=3)),
        all_of_them.opened(running("not begun yet")),
    ):
        assert all_of_them.slowest(ORDERS, FIRST) == Slowest("slow", 7)
        assert all_of_them.slowest(SourceName("nobody's", 1), FIRST) is None
