"""Several topics as one subscription: one pattern, and one condition."""

from __future__ import annotations

from typing import Any

import pytest
from tests.protocol.filters import messages as seen

from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.subscriber.protocol.topics import read_topics


def passes(where: Any, topic: str, **document: Any) -> bool:
    return seen.passes(where, seen.Seen(document, topic))


def test_one_topic_or_a_pattern() -> None:
    one = read_topics("orders", None, "price > 1")
    assert (one.topic, one.pattern) == ("orders", "")
    assert one.where is not None
    assert one.where.text == "price > 1"
    assert one.selects("orders")
    assert not one.selects("orders2")
    some = read_topics(None, "orders[.].*", None)
    assert (some.topic, some.pattern, some.where) == ("", "orders[.].*", None)
    assert some.selects("orders.eu")
    assert not some.selects("orders")


def test_each_topic_has_its_condition() -> None:
    topics = read_topics({"orders": "price > 100 OR vip", "it's": None}, None, None)
    where = topics.where
    assert passes(where, "orders", price=101)
    assert passes(where, "orders", vip=True)
    assert not passes(where, "orders", price=99)
    assert not passes(where, "orders")
    assert passes(where, "it's")
    assert not passes(where, "other", price=101, vip=True)


def test_a_condition_for_all_topics() -> None:
    topics = read_topics({"orders": "price > 100", "trades": None}, None, "size > 5 OR vip")
    assert passes(topics.where, "orders", price=101, vip=True)
    assert not passes(topics.where, "orders", price=99, vip=True)
    assert not passes(topics.where, "orders", price=99, size=6)
    assert not passes(topics.where, "orders", price=101)
    assert passes(topics.where, "trades", size=6)
    assert not passes(topics.where, "trades", size=5)
    without = read_topics({"orders": None, "trades": None}, None, "size > 5")
    assert passes(without.where, "trades", size=6)
    assert not passes(without.where, "trades", size=5)
    assert read_topics({"orders": None, "trades": None}, None, None).where is None


def test_names_are_no_patterns() -> None:
    topics = read_topics({"a.b": None, "c|d": None}, None, None)
    selects = read_topics(None, topics.pattern, None).selects
    for tested in (selects, topics.selects):
        assert tested("a.b")
        assert tested("c|d")
        assert not any(map(tested, ("axb", "c", "d", "a.b|c")))


@pytest.mark.parametrize(
    ("topic", "pattern", "problem"),
    [
        (None, None, "either"),
        ("orders", "orders", "either"),
        ({"orders": None}, "orders", "either"),
        ({}, None, "names no topic"),
        ({"": None}, None, "is empty"),
        (7, None, "is not text"),
        ({f"topic{number:03}": None for number in range(200)}, None, "200 topics have .* 1,024"),
        (dict.fromkeys("ab", f"x = '{'x' * 9000}'"), None, "one filter: it has 18,"),
        ({"a": f"{'(' * 98}x{')' * 98}", "b": f"{'NOT ' * 98}x"}, None, "one filter: .* deeper"),
    ],
)
def test_what_names_no_topics_is_refused(topic: Any, pattern: str | None, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"topic: .*{problem}"):
        read_topics(topic, pattern, None)


@pytest.mark.parametrize("condition", ["price >", "a) OR (b", ""])
def test_a_wrong_condition_says_of_which_topic_it_is(condition: str) -> None:
    with pytest.raises(InvalidFilter, match="condition of the topic 'trades'"):
        read_topics({"orders": "price > 1", "trades": condition}, None, None)


def test_a_wrong_condition_for_all_is_refused() -> None:
    with pytest.raises(InvalidFilter):
        read_topics({"orders": None}, None, "a) OR (b")
