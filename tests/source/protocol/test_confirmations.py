"""Counting who has consumed what: distinct receivers, epochs, and what a confirmation is worth."""

from __future__ import annotations

from itertools import product

import pytest
from tests import seams

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Policy
from quorate.source import DeliveryConfirmed, SourceOptions
from quorate.source.options import asks_for_confirmation
from quorate.source.protocol.confirmations import Confirmations
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.retention import Retention


def test_nobody_is_waited_for_unless_asked() -> None:
    none = Confirmations(0)
    none.begin(9, 9)
    assert none.settled(41) == 41
    assert none.confirmed(0x20, 5)
    assert (none.upto, none.settled(41)) == (SEQUENCE_MAX, 41)


def test_only_news_is_news() -> None:
    one = Confirmations(1)
    assert [one.confirmed(0x20, upto) for upto in (5, 5, 3, 6, NOTHING)] == [
        True, False, False, True, False,
    ]  # fmt: skip
    assert one.upto == 6


@pytest.mark.parametrize("unique", [1, 2, 3])
def test_as_many_distinct_receivers_as_asked(unique: int) -> None:
    for told in product(range(-1, 3), repeat=4):
        counted = Confirmations(unique)
        for session_id, upto in zip((1, 2, 3, 1), told, strict=True):
            counted.confirmed(session_id, upto)
        reached = [max(told[0], told[3]), told[1], told[2]]
        expected = max(
            n for n in range(-1, 3) if n == -1 or sum(one >= n for one in reached) >= unique
        )
        assert counted.upto == expected
        assert counted.settled(1) == min(1, expected)


def test_a_new_epoch_takes_back_what_it_does_not_keep() -> None:
    counted = Confirmations(1)
    counted.begin(9, 4)
    assert counted.upto == 4, "stable before it was opened"
    counted.confirmed(0x20, 9)
    counted.begin(6, 6)
    assert counted.upto == 6
    assert counted.confirmed(0x20, 7)


def test_receivers_that_come_and_go_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.CONFIRMATIONS_RECEIVERS_MAX.replace(monkeypatch, 3)
    counted = Confirmations(2)
    for session_id in range(100):
        counted.confirmed(session_id, session_id)
    assert counted.upto == 98
    assert len(counted._consumed) == 3


def test_bytes_up_to_a_number() -> None:
    retention = Retention(0)
    for first, size in ((0, 10), (5, 30), (10, 60)):
        retention.append(first, first + 4, b"", size, 0.0)
    assert [retention.bytes_upto(n) for n in (-1, 3, 4, 8, 9, 14, 99)] == [
        -1, -1, 10, 10, 30, 60, 60,
    ]  # fmt: skip


def test_options() -> None:
    assert not asks_for_confirmation(SourceOptions())
    assert asks_for_confirmation(SourceOptions(confirm_delivery=True))
    assert asks_for_confirmation(SourceOptions(unique_confirmations=1))
    with pytest.raises(InvalidArgument):
        SourceOptions(unique_confirmations=-1)


def test_a_confirmation_counts_as_far_as_the_lineage_is_the_same() -> None:
    name, stores = SourceName("orders", 0x10), (StoreAddress("a", "a:1"),)
    core = SourceCore(name, stores, Policy.majority_of("a"), SourceOptions(), b"me")
    core.retention.append(0, 9, b"", 0, 0.0)
    core.confirmed(0x20, 7, 1, 9)
    assert core.events == [], "nothing is known of the stream yet"
    core.started = True
    core.registration.lineage = Lineage((Term(1, 0), Term(3, 5)))
    for epoch in (1, 2, 3, 4):
        core.confirmed(0x20 + epoch, 7, epoch, 99)
    assert core.events == [
        DeliveryConfirmed(0x21, 7, 4, None),
        DeliveryConfirmed(0x23, 7, 9, None),
    ]
