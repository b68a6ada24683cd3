"""What may be sent, and what is made of it."""

from __future__ import annotations

import pytest

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, checked_attributes
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.limits import BATCH_BYTES_TARGET, MESSAGE_BYTES_USUAL
from quorate.source.protocol.outgoing import (
    Limit,
    Outgoing,
    Ready,
    check_commit,
    checked,
    checked_one,
)

LIMIT = Limit(100)


def test_plain_payloads_stay_as_they_are() -> None:
    payload = b"x" * 10
    ready = checked([payload], Limit(10))
    assert ready.payloads[0] is payload
    assert ready.attributes == []
    assert (len(ready), ready.size) == (1, 10)


def test_messages_with_and_without_attributes() -> None:
    ready = checked(
        [b"0", Outgoing(b"1", b"key"), bytearray(b"2"), Outgoing(b"3", properties={"a": b"b"})],  # type: ignore[list-item]
        LIMIT,
    )
    assert ready.payloads == [b"0", b"1", b"2", b"3"]
    key, properties = checked_attributes(b"key"), checked_attributes(None, {"a": b"b"})
    expected = [NO_ATTRIBUTES, key, NO_ATTRIBUTES, properties]
    assert ready.attributes == expected
    assert ready.size == 4 + key.size + properties.size
    assert ready.part(1, 3) == Ready([b"1", b"2"], expected[1:3])


def test_an_empty_key_is_kept() -> None:
    assert checked([Outgoing(b"x", b"")], Limit(10_000)).attributes == [Attributes(b"")]


def test_messages_that_have_none_after_all_are_plain() -> None:
    assert checked([Outgoing(b"0"), b"1"], LIMIT) == checked([b"0", b"1"], LIMIT)


def test_key_and_properties_count() -> None:
    taken = checked_attributes(b"key", {"name": b"value"}).size
    assert checked_one(b"x" * 10, b"key", {"name": b"value"}, Limit(10 + taken))
    with pytest.raises(MessageTooLarge, match=f"{10 + taken} bytes with its key and properties"):
        checked_one(b"x" * 10, b"key", {"name": b"value"}, Limit(9 + taken))
    with pytest.raises(MessageTooLarge):
        checked([b"", Outgoing(b"", b"k" * 100)], LIMIT)
    check_commit(checked([b"", Outgoing(b"", b"k" * 100_000)], Limit(200_000)), b"marker")
    with pytest.raises(InvalidArgument, match="more than a batch has"):
        check_commit(
            checked([b"", Outgoing(b"", b"k" * BATCH_BYTES_TARGET)], Limit(1 << 20)), b"marker"
        )
    with pytest.raises(InvalidArgument, match="more than a batch has: 1,048,576"):
        check_commit(checked([bytes(MESSAGE_BYTES_USUAL + 1)], Limit(1 << 26)), b"marker")


@pytest.mark.parametrize("message", ["text", 5, None, Outgoing("text"), Outgoing(b"", "key")])  # type: ignore[arg-type]
def test_what_can_not_be_sent(message: object) -> None:
    with pytest.raises(InvalidArgument, match="not bytes; encode it first"):
        checked([b"good", message], LIMIT)  # type: ignore[list-item]
