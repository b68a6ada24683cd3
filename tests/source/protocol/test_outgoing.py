"""What may be sent, and what is made of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, checked_attributes
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.limits import BATCH_BYTES_TARGET, MESSAGE_BYTES_USUAL
from quorate.protocol.times import TIME_NS_MAX
from quorate.source.protocol.outgoing import (
    Limit,
    Outgoing,
    check_commit,
    checked,
    checked_one,
    deletion,
    ready_of,
)

LIMIT = Limit(100)


def test_plain_payloads_stay_as_they_are() -> None:
    payload = b"x" * 10
    ready = checked([payload], Limit(10), 0)
    assert ready.payloads[0] is payload
    assert ready.attributes == []
    assert (len(ready), ready.size) == (1, 10)


def test_messages_with_and_without_attributes() -> None:
    ready = checked(
        [b"0", Outgoing(b"1", b"key"), bytearray(b"2"), Outgoing(b"3", properties={"a": b"b"})],  # type: ignore[list-item]
        LIMIT,
        0,
    )
    assert ready.payloads == [b"0", b"1", b"2", b"3"]
    key, properties = checked_attributes(b"key"), checked_attributes(None, {"a": b"b"})
    expected = [NO_ATTRIBUTES, key, NO_ATTRIBUTES, properties]
    assert ready.attributes == expected
    assert ready.size == 4 + key.size + properties.size
    assert ready.part(1, 3) == ready_of([b"1", b"2"], expected[1:3])


keys = st.binary(max_size=30)
messages_with_keys = st.builds(Outgoing, st.binary(max_size=9), keys)
messages_of_any_kind = st.builds(
    Outgoing,
    st.binary(max_size=9),
    st.none() | keys,
    st.just({}) | st.just({"name": b"value"}),
    st.none() | st.just(5),
    st.booleans(),
)


@given(
    st.lists(messages_with_keys, min_size=1)
    | st.lists(messages_with_keys | messages_of_any_kind, min_size=1)
)
def test_many_messages_are_checked_as_each_one_is(messages: list[bytes | Outgoing]) -> None:
    each = [checked_one(message, LIMIT, 7) for message in messages]  # type: ignore[arg-type]
    ready = checked(messages, LIMIT, 7)
    assert ready.payloads == [payload for payload, _ in each]
    attributes = [own for _, own in each]
    assert (ready.attributes or [NO_ATTRIBUTES] * len(each)) == attributes
    assert all(type(own) is Attributes for own in ready.attributes)
    assert ready.sizes == [len(payload) + own.size for payload, own in each]


def test_one_of_many_messages_with_keys_is_too_large() -> None:
    many = [Outgoing(b"", b"k"), Outgoing(b"", b"k" * 100), Outgoing(b"", b"k")]
    with pytest.raises(MessageTooLarge):
        checked(many, LIMIT, 0)


def test_an_empty_key_is_kept() -> None:
    assert checked([Outgoing(b"x", b"")], Limit(10_000), 0).attributes == [Attributes(b"")]


def test_messages_that_have_none_after_all_are_plain() -> None:
    assert checked([Outgoing(b"0"), b"1"], LIMIT, 0) == checked([b"0", b"1"], LIMIT, 0)


def test_key_and_properties_count() -> None:
    taken = checked_attributes(b"key", {"name": b"value"}).size
    message = Outgoing(b"x" * 10, b"key", {"name": b"value"})
    assert checked_one(message, Limit(10 + taken), 0)
    with pytest.raises(MessageTooLarge, match=f"{10 + taken} bytes with its key and properties"):
        checked_one(message, Limit(9 + taken), 0)
    with pytest.raises(MessageTooLarge):
        checked([b"", Outgoing(b"", b"k" * 100)], LIMIT, 0)
    check_commit(checked([b"", Outgoing(b"", b"k" * 100_000)], Limit(200_000), 0), b"marker")
    with pytest.raises(InvalidArgument, match="more than a batch has"):
        check_commit(
            checked([b"", Outgoing(b"", b"k" * BATCH_BYTES_TARGET)], Limit(1 << 20), 0), b"marker"
        )
    with pytest.raises(InvalidArgument, match="more than a batch has: 1,048,576"):
        check_commit(checked([bytes(MESSAGE_BYTES_USUAL + 1)], Limit(1 << 26), 0), b"marker")


@pytest.mark.parametrize("message", ["text", 5, None, Outgoing("text"), Outgoing(b"", "key")])  # type: ignore[arg-type]
def test_what_can_not_be_sent(message: object) -> None:
    with pytest.raises(InvalidArgument, match="not bytes; encode it first"):
        checked([b"good", message], LIMIT, 0)  # type: ignore[list-item]


@pytest.mark.parametrize("marker", ["text", [1], None, 5])
def test_a_marker_that_is_not_bytes_is_refused(marker: object) -> None:
    with pytest.raises(InvalidArgument, match=r"marker: is .*, not bytes; encode it first"):
        check_commit(checked([b""], LIMIT, 0), marker)


def test_a_marker_becomes_bytes() -> None:
    assert check_commit(checked([b""], LIMIT, 0), bytearray(b"marker")) == b"marker"


SECOND_NS = 1_000_000_000
MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
MOMENT_NS = int(MOMENT.timestamp()) * SECOND_NS


@pytest.mark.parametrize(
    ("expires", "expires_ns"),
    [
        (None, None),
        (MOMENT, MOMENT_NS),
        (MOMENT.replace(tzinfo=None), MOMENT_NS),
        (MOMENT.astimezone(timezone(timedelta(hours=2))), MOMENT_NS),
        (0, 5),
        (1.5, 5 + 3 * SECOND_NS // 2),
        (-1, 5 - SECOND_NS),
        (1e300, TIME_NS_MAX),
        (-1e300, -TIME_NS_MAX),
    ],
)
def test_an_expiry_is_a_moment_or_seconds_from_now(expires: Any, expires_ns: int | None) -> None:
    _, attributes = checked_one(Outgoing(b"", expires=expires), LIMIT, 5)
    assert attributes == Attributes(expires_ns=expires_ns)


@pytest.mark.parametrize("expires", ["1h", True, float("inf"), float("nan"), timedelta(1)])
def test_what_is_no_expiry(expires: Any) -> None:
    with pytest.raises(InvalidArgument, match="not a datetime or a number of seconds"):
        checked_one(Outgoing(b"", expires=expires), LIMIT, 5)


def test_a_deletion_has_a_key_or_a_payload() -> None:
    payload, attributes = checked_one(deletion(b"", None, b""), LIMIT, 0)
    assert (payload, attributes) == (b"", Attributes(b"", deleted=True))
    payload, attributes = checked_one(deletion(None, {"a": b"b"}, b"{}"), LIMIT, 0)
    assert (payload, attributes) == (b"{}", Attributes(None, {"a": b"b"}, deleted=True))
    with pytest.raises(InvalidArgument, match="give the key whose row is to be deleted"):
        deletion(None, None, b"")
