"""Names as people and programs write them: the good ones pass, the bad ones are explained."""

from __future__ import annotations

from typing import Any

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import (
    SourceName,
    StoreAddress,
    check_reg_id,
    check_session_id,
    check_topic,
    parse_addresses,
    parse_session_id,
    parse_stores,
)


@pytest.mark.parametrize("topic", ["a", "orders", "Börse/ÄÖ", "a b", "市場", "x" * 255, "é" * 127])
def test_topics(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize(
    "topic", ["", "x" * 256, "é" * 128, "a\nb", "\0", "tab\t", "\x7f", "\ud800", "a\udcff"]
)
def test_bad_topics(topic: str) -> None:
    with pytest.raises(InvalidArgument, match="topic"):
        check_topic(topic)


@pytest.mark.parametrize(
    ("text", "number"),
    [("16", 16), ("0x10", 16), ("0X1F", 31), ("1", 1), ("0xfffffffffffffffe", 2**64 - 2)],
)
def test_session_ids(text: str, number: int) -> None:
    assert parse_session_id(text) == number


@pytest.mark.parametrize(
    "text", ["", "0", "0x0", "-1", "0xffffffffffffffff", "18446744073709551616", "abc", "0x", "1.5"]
)
def test_bad_session_ids(text: str) -> None:
    with pytest.raises(InvalidArgument, match="session ID"):
        parse_session_id(text)


def test_a_session_id_of_all_ones_or_zero_is_none() -> None:
    for number in (0, 2**64 - 1, 2**64, -1):
        with pytest.raises(InvalidArgument):
            check_session_id(number)


@pytest.mark.parametrize("number", [0, -1, 2**64, "7"])
def test_bad_reg_ids(number: Any) -> None:
    with pytest.raises(InvalidArgument, match="reg_id"):
        check_reg_id(number)
    assert check_reg_id(7) == 7


def test_a_source_is_written_with_its_session_in_hexadecimal() -> None:
    assert str(SourceName("orders", 255)) == "orders/0xff"
    assert SourceName("orders", 255).checked() == SourceName("orders", 255)
    for name in (SourceName("", 1), SourceName("orders", 0)):
        with pytest.raises(InvalidArgument):
            name.checked()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:7301", StoreAddress("127.0.0.1:7301", "localhost:7301")),
        ("a=LocalHost:07301", StoreAddress("a", "localhost:7301")),
        ("Host.Example:00007301", StoreAddress("host.example:7301", "host.example:7301")),
        ("[0:0:0:0:0:0:0:1]:7301", StoreAddress("127.0.0.1:7301", "[::1]:7301")),
        ("[2001:DB8::0]:7301", StoreAddress("[2001:db8::]:7301", "[2001:db8::]:7301")),
        ("[::ffff:10.0.0.1]:7301", StoreAddress("10.0.0.1:7301", "10.0.0.1:7301")),
        ("[no-number]:7301", StoreAddress("[no-number]:7301", "[no-number]:7301")),
        (" host.example:1 ", StoreAddress("host.example:1", "host.example:1")),
        ("a=10.0.0.1:7301", StoreAddress("a", "10.0.0.1:7301")),
        ("s-1.x=h:65535#7", StoreAddress("s-1.x", "h:65535", 7)),
        ("h:7301#18446744073709551615", StoreAddress("h:7301", "h:7301", 2**64 - 1)),
        ("v6=[::1]:7301", StoreAddress("v6", "[::1]:7301")),
    ],
)
def test_store_addresses(text: str, address: StoreAddress) -> None:
    assert StoreAddress.parse(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost:7301#0",
        "localhost",
        "localhost:",
        ":7301",
        "h:0",
        "h:65536",
        "h:123456",
        "h:x",
        "=h:1",
        "a=b=h:1",
        "h:1#",
        "h:1#x",
        "h:1#18446744073709551616",
        "two words:1",
    ],
)
def test_bad_store_addresses(text: str) -> None:
    with pytest.raises(InvalidArgument, match="store"):
        StoreAddress.parse(text)


def test_lists_of_stores() -> None:
    assert [store.name for store in parse_stores("h:1, b=h:2,h:3,")] == ["h:1", "b", "h:3"]
    assert parse_addresses("h:1, b=h:2") == ("h:1", "h:2")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "none given"),
        (" , ", "none given"),
        ("h:1,nonsense", "'nonsense' is not of the form"),
        ("h:1,h:1", "h:1 is given twice; name each store once"),
        ("a=h:1,b=H:01", "h:1 is given twice"),
        ("h:1,b=h:1", "h:1 is given twice"),
        (
            "localhost:1,[::1]:1",
            "localhost:1 and \\[::1\\]:1 are one address; name each store once",
        ),
        ("a=127.0.0.1:1,b=localhost:1", "127.0.0.1:1 and localhost:1 are one address"),
        ("a=h:1,a=h:2", "h:1 and h:2 are both called a; give each store a name of its own"),
    ],
)
def test_bad_lists_of_stores(text: str, why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        parse_stores(text)
