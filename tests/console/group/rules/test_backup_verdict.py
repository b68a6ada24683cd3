"""The verdict on the parts of a backup: is every stable message in one of them?"""

from __future__ import annotations

from quorate.console.group.rules.backup_verdict import problems
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range
from quorate.store.offline import OfflineSource
from quorate.v1.messages_pb2 import SourceInformation, StoreEntry

ORDERS = SourceName("orders", 1)
FIRST, SECOND = Lineage((Term(1, 0),)), Lineage((Term(1, 0), Term(2, 50)))


def orders(
    upto: int,
    stable: int = NOTHING,
    *,
    lineage: Lineage = FIRST,
    policies: tuple[Policy, ...] = (Policy.majority_of("abc"),),
    held: tuple[HeldRange, ...] = (),
    retained_from: int = 0,
    lost: tuple[Range, ...] = (),
    limbo: str = "",
    called: str = "abc",
) -> OfflineSource:
    entries = [
        StoreEntry(name=name, address=f"{name}:1", store_name=own)
        for name, own in zip("abc", called, strict=True)
    ]
    return OfflineSource(
        ORDERS, 1, lineage, held or (HeldRange(0, upto, 1),), (), stable, 0, {},
        retained_from, lost, limbo, Membership(policies, policies),
        SourceInformation(stores=entries),
    )  # fmt: skip


def test_parts_of_different_moments_are_enough_together() -> None:
    parts = {"a": [orders(49, 49)], "b": [orders(99, 98)], "c": [orders(80, 49)]}
    assert problems(parts) == []


def test_one_store_may_be_missing_and_two_may_not() -> None:
    whole = [orders(99, 99)]
    assert problems({"a": whole, "b": whole}) == []
    (problem,) = problems({"a": whole})
    assert problem.startswith("A stable message of orders/0x1 may be in no part")
    assert problem.endswith("of these stores there are a.")


def test_both_policies_of_a_change_count() -> None:
    moving = orders(9, 9, policies=(Policy.majority_of("abc"), Policy.majority_of("cde")))
    (problem,) = problems({"a": [moving], "b": [moving], "c": [moving]})
    assert "of these stores there are c" in problem


def test_a_part_in_limbo_does_not_count() -> None:
    doubted = orders(99, 99, limbo="it is new")
    (problem,) = problems({"a": [orders(99, 99)], "b": [doubted]})
    assert "of these stores there are a" in problem


def test_a_store_that_policies_call_otherwise_counts() -> None:
    whole = [orders(99, 99, called="xyc")]
    assert problems({"x": whole, "y": whole}) == []


def test_a_store_that_knows_of_more_than_all_hold_shows_a_gap() -> None:
    told = orders(49, 99)
    (problem,) = problems({"a": [told], "b": [told], "c": [orders(59, 49)]})
    assert problem == "No part of the backup has [60, 99] of orders/0x1."
    accepted = orders(49, 99, lost=(Range(60, 99),))
    assert problems({"a": [told], "b": [accepted], "c": [orders(59, 49)]}) == []


def test_messages_that_were_released_or_set_aside_do_not_count() -> None:
    late = orders(99, 99, held=(HeldRange(20, 99, 1),), retained_from=20)
    assert problems({"a": [late], "b": [late]}) == []
    # The numbers from 50 on are of epoch 2; of epoch 1 they are void.
    void = orders(99, 49)
    newer = orders(59, 69, lineage=SECOND, held=(HeldRange(0, 49, 1), HeldRange(50, 59, 2)))
    (problem,) = problems({"a": [void], "b": [newer]})
    assert problem == "No part of the backup has [60, 69] of orders/0x1."


def test_a_group_without_sources_is_whole() -> None:
    assert problems({"a": [], "b": []}) == []
