"""The key and the interval of conflation, as an application names them."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.projection import Projection
from quorate.subscriber.protocol.conflation_key import ConflationKey, read_interval


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("500ms", 0.5), ("2s", 2.0), ("1.5 m", 90.0), (0.25, 0.25), (3, 3.0)],
)
def test_intervals(given: float | str, seconds: float) -> None:
    assert read_interval(given) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "given", ["", "soon", "5", "0ms", "-1s", 0, -1.0, True, float("inf"), float("nan"), [1]]
)
def test_what_is_no_interval_is_refused(given: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^conflation: "):
        read_interval(given)


def test_the_key_of_the_message() -> None:
    key = ConflationKey("key", None)
    assert key.of("orders", b"a", b"1") == key.of("orders", b"a", b"2")
    assert key.of("orders", b"a", b"1") != key.of("orders", b"b", b"1")
    assert key.of("orders", None, b"{}") is None
    # An empty key is a key.
    assert key.of("orders", b"", b"1") is not None


def test_each_topic_has_keys_of_its_own() -> None:
    for key in (ConflationKey("key", None), ConflationKey("id", None)):
        of_orders, of_trades = (key.of(topic, b"a", b'{"id": 1}') for topic in ("orders", "trades"))
        assert of_orders != of_trades


@pytest.mark.parametrize("given", ["order.id, leg", ["order.id", "leg"]])
def test_fields(given: str | list[str]) -> None:
    key = ConflationKey(given, None)
    found = key.of("t", b"a", b'{"order": {"id": 1}, "leg": "x", "price": 7}')
    assert found == key.of("t", b"b", b'{"leg": "x", "order": {"id": 1.0, "at": 2}}')
    for other in (
        b'{"order": {"id": 1}, "leg": "y"}',
        b'{"order": {"id": "1"}, "leg": "x"}',
        b'{"order": {"id": true}, "leg": "x"}',
    ):
        assert key.of("t", b"a", other) not in (found, None)


def test_a_field_named_key_has_double_quotes() -> None:
    key = ConflationKey('"key"', None)
    assert key.of("t", None, b'{"key": 1}') == key.of("t", b"a", b'{"key": 1}') is not None


@pytest.mark.parametrize(
    "payload",
    [b"no JSON", b"{}", b'{"id": null}', b'{"id": [1]}', b'{"id": {"a": 1}}', b'{"id": NaN}', b"1"],
)
def test_a_message_without_the_field_has_no_key(payload: bytes) -> None:
    assert ConflationKey("id", None).of("t", b"a", payload) is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("", "cannot be read"),
        ([], "names no field"),
        (["id", 1], "is no text"),
        (7, "names no field"),
        ("-id", "leaves no field out"),
        ("$key", "cannot be read"),
        ("id;", "cannot be read after 2"),
    ],
)
def test_what_is_no_key_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"conflation_key: .*{problem}"):
        ConflationKey(given, None)


@pytest.mark.parametrize(
    ("select", "field"),
    [
        ("id", "id"),
        ("order", "order.id"),
        ("legs", "legs[1].id"),
        ("-price", "id"),
        ("-order.price", "order.id"),
        ("-legs.price", "legs[1].id"),
        ("-price", "legs[1].id"),
    ],
)
def test_a_field_that_select_keeps(select: str, field: str) -> None:
    ConflationKey(field, Projection(select))
    ConflationKey("key", Projection(select))


@pytest.mark.parametrize(
    ("select", "field"),
    [
        ("price", "id"),
        ("order.price", "order.id"),
        ("order.price", "order"),
        ("legs[1].id", "legs[1].id"),
        ("legs[1]", "legs[0]"),
        ("-id", "id"),
        ("-order", "order.id"),
        ("-legs[0]", "legs[1].id"),
    ],
)
def test_a_field_that_select_leaves_out_or_moves_is_refused(select: str, field: str) -> None:
    with pytest.raises(InvalidArgument, match="select leaves out the field"):
        ConflationKey(["key2", field] if select.startswith("-") else field, Projection(select))
