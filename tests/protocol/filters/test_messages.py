"""The documents of messages: each payload is decoded once, in whatever order it is asked for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.protocol.filters.evaluate import Filter, Rows
from quorate.protocol.filters.messages import Documents
from quorate.protocol.payloads import PayloadFormat, reader_of

PAYLOADS = [b"%d" % number if number % 4 else b"no JSON" for number in range(12)]
EXPECTED = [number if number % 4 else None for number in range(12)]


@given(st.lists(st.sets(st.integers(0, 11)).map(sorted) | st.just(range(2, 9)), max_size=6))
def test_each_payload_is_decoded_once(asked: list[Rows]) -> None:
    decoded: list[int] = []

    def payloads(rows: Rows) -> Sequence[bytes]:
        decoded.extend(rows)
        return [PAYLOADS[row] for row in rows]

    documents = Documents(reader_of(PayloadFormat.JSON), payloads)
    for rows in asked:
        assert documents.of(rows) == [EXPECTED[row] for row in rows]
    different = {row for rows in asked for row in rows}
    assert sorted(decoded) == sorted(different)
    assert documents.undecoded == sum(row % 4 == 0 for row in different)


@pytest.mark.parametrize(
    ("where", "needs"),
    [("a = 1", True), ("$size > 5 OR $key = 'a'", True), ("$key = 'a' AND $sequence > 5", False)],
)
def test_a_filter_says_whether_it_looks_at_payloads(where: str, needs: bool) -> None:
    assert Filter(where).needs_payloads is needs
