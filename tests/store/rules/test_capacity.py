"""The bounds of a whole store."""

from __future__ import annotations

import pytest

from quorate.protocol.errors import StoreFull
from quorate.store.rules.capacity import Capacity
from quorate.store.rules.retention import Limit, choose_before
from quorate.store.storage.records import IndexEntry


def test_without_bounds_nothing_is_refused() -> None:
    capacity = Capacity("a")
    capacity.check_source(10**9)
    capacity.check_receiver(10**9)
    assert capacity.refused == 0


def test_what_is_beyond_a_bound_is_refused_and_counted() -> None:
    capacity = Capacity("a", sources_max=2, receivers_max=3)
    capacity.check_source(1)
    capacity.check_receiver(2)
    with pytest.raises(StoreFull) as caught:
        capacity.check_source(2)
    assert (caught.value.store, caught.value.what, caught.value.most) == ("a", "sources", 2)
    with pytest.raises(StoreFull, match="3 receivers"):
        capacity.check_receiver(4)
    assert capacity.refused == 2


def rows(*positions: int) -> list[IndexEntry]:
    """Return rows of one message and ten bytes, in batches at these positions."""
    return [
        IndexEntry(first=number, last=number, position=position, epoch=1, checksum=0, size=10)
        for number, position in enumerate(positions)
    ]


@pytest.mark.parametrize(
    ("before", "excess", "upto", "gone", "why"),
    [
        (100, 25, 9, 3, ""),  # as many as the excess needs
        (100, 20, 9, 2, ""),
        (7, 100, 9, 2, ""),  # another source has an older batch then
        (100, 100, 1, 2, "kept"),
        (100, 20, 1, 2, ""),  # nothing more would have to go
        (100, 0, 9, 0, ""),
        (100, 100, -1, 0, "kept"),
    ],
)
def test_the_oldest_go_as_far_as_they_may(
    before: int, excess: int, upto: int, gone: int, why: str
) -> None:
    given = rows(3, 5, 8, 9)
    going, kept = choose_before(given, before, excess, Limit(upto, "kept"))
    assert (going, kept) == (given[:gone], why)
