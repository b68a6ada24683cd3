"""Merging what stores say of a source."""

from __future__ import annotations

import pytest

from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Policy
from quorate.receiver.protocol.directory import (
    Directory,
    SourceRecord,
)

POLICY = Policy.majority_of("abc")


def record(epoch: int = 1, version: int = 1, *, live: bool = True, proxy: str = "") -> SourceRecord:
    address = f"host:{epoch}{version}"
    source = SourceName("orders", 7)
    return SourceRecord(source, address, epoch, version, POLICY, (), live, proxy)


def test_the_first_word_counts() -> None:
    assert Directory().heard("a", record()) == record()


def test_the_same_word_from_another_is_nothing_new() -> None:
    directory = Directory()
    directory.heard("a", record())
    assert directory.heard("b", record()) is None


@pytest.mark.parametrize("newer", [record(epoch=2), record(version=2)])
def test_the_newer_record_counts_whatever_the_order(newer: SourceRecord) -> None:
    directory = Directory()
    directory.heard("a", record())
    assert directory.heard("b", newer) == newer
    assert directory.heard("c", record()) is None


def test_it_lives_while_one_store_says_so_of_its_newest_epoch() -> None:
    directory = Directory()
    directory.heard("a", record(epoch=2))
    directory.heard("b", record(epoch=1))
    assert directory.heard("a", record(epoch=2, live=False)) == record(epoch=2, live=False)
    assert directory.heard("b", record(epoch=2)) == record(epoch=2)


def test_what_a_lost_store_said_of_life_is_void() -> None:
    directory = Directory()
    directory.heard("a", record())
    directory.heard("b", record())
    assert directory.lost("a") == []
    assert directory.lost("b") == [record(live=False)]
    assert directory.lost("b") == []


def test_a_proxy_is_named_while_the_source_is_away() -> None:
    directory = Directory()
    away = record(live=False)
    directory.heard("a", away)
    served = record(live=False, proxy="b")
    assert directory.heard("b", served) == served
    assert directory.heard("a", served) is None
    assert directory.heard("c", record()) == record()
    assert directory.heard("c", away) == served
    assert directory.lost("b") == []
    assert directory.lost("a") == [away]


def test_of_several_proxies_one_is_kept_while_it_stands() -> None:
    directory = Directory()
    directory.heard("a", record(live=False))
    b, c = (record(live=False, proxy=name) for name in "bc")
    assert directory.heard("c", c) == c
    assert directory.heard("b", b) is None
    assert directory.heard("a", record(live=False, proxy="a")) is None
    assert directory.lost("c") == [record(live=False, proxy="a")]
    assert directory.heard("c", c) is None
    assert directory.heard("b", record(epoch=2)) == record(epoch=2)
    assert directory.heard("b", record(epoch=2, live=False)) == record(epoch=2, live=False)


def test_a_proxy_of_an_older_epoch_is_no_longer_one() -> None:
    directory = Directory()
    directory.heard("a", record(live=False, proxy="a"))
    newer = record(epoch=2, live=False)
    assert directory.heard("b", newer) == newer
