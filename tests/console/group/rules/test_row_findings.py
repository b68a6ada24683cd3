"""Stores that have different rows of a topic."""

from __future__ import annotations

from quorate.console.group.rules.findings import Kind, Severity
from quorate.console.group.rules.row_findings import RowDigest, rows_differ
from quorate.protocol.bookmarks import Position

HERE, LATER = (Position.parse(f'["orders/0x1@1:{number}"]') for number in (5, 6))


def test_stores_that_agree() -> None:
    same = RowDigest(HERE, b"x", 3)
    assert list(rows_differ("orders", {"a": same, "b": same})) == []
    assert list(rows_differ("orders", {})) == []


def test_stores_at_other_positions_are_not_compared() -> None:
    digests = {"a": RowDigest(HERE, b"x", 3), "b": RowDigest(LATER, b"y", 4)}
    assert list(rows_differ("orders", digests)) == []


def test_the_one_that_differs_from_most_is_named() -> None:
    digests = {name: RowDigest(HERE, b"x", 3) for name in "abd"} | {"c": RowDigest(HERE, b"y", 2)}
    (found,) = rows_differ("orders", digests)
    assert (found.severity, found.kind, found.subject) == (
        Severity.CRITICAL,
        Kind.ROWS,
        "orders",
    )
    assert found.what.endswith("at one position: 3 at a, b, d; 2 at c.")
    assert found.next.startswith("Stop c, move its data directory away")


def test_without_most_nobody_is_named() -> None:
    digests = {"a": RowDigest(HERE, b"x", 3), "b": RowDigest(HERE, b"y", 3)}
    (found,) = rows_differ("orders", digests)
    assert found.next.startswith("Compare single rows")
