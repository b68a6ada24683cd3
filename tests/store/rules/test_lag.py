"""What a store lacks that its peers have, and when it lags."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from tests import seams
from tests.begun import rebegun
from tests.store.support import FIRST_LINEAGE, ORDERS, World, batch

from quorate.protocol.begin import BeginRecord
from quorate.protocol.bookmarks import NO_PLACE, Place
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.store.rules.lag import LAG_SECONDS, Lack, Lags, furthest, is_short_of, lack
from quorate.store.rules.peer_knowledge import UNKNOWN, SourceKnowledge
from quorate.store.rules.source_state import SourceState

SECOND_LINEAGE = Lineage((Term(1, 0), Term(2, 40)))
OF_ABC = Policy.majority_of("abc")


def own(upto: int, stable_upto: int | None = None) -> SourceState:
    """A store's stream with [0, upto], of batches of ten."""
    world = World()
    stream = world.stream()
    for first in range(0, upto + 1, 10):
        world.append(stream, batch(first, first + 9))
    stable = upto if stable_upto is None else stable_upto
    world.write(world.core.streams.keepalive(stream, stable))
    return world.core.sources[ORDERS]


def peer(upto: int, lineage: Lineage = FIRST_LINEAGE, **changes: Any) -> SourceKnowledge:
    """A peer's knowledge of a stream of which it has everything up to a stable number."""
    held = tuple(
        HeldRange(term.first, min([later.first - 1 for later in lineage.terms[at + 1 :]] + [upto]),
                  term.epoch)
        for at, term in enumerate(lineage.terms)
    )  # fmt: skip
    known = SourceKnowledge(begun=BeginRecord(lineage), held=held, stable_upto=upto)
    return rebegun(known, **changes)


def test_a_store_lacks_what_a_peer_has_and_is_stable() -> None:
    assert lack(own(99), peer(199)) == Lack(100, Place(1, 199))


@pytest.mark.parametrize(
    ("why", "other"),
    [
        ("it has as much", peer(99)),
        ("the peer has less", peer(49)),
        ("the peer knows nothing", UNKNOWN),
        ("what it has is not stable", peer(199, stable_upto=99)),
        ("it has ended at the peer", peer(199, generation=1)),
        ("the peer lacks it too", peer(199, held=(HeldRange(0, 99, 1),))),
        ("the peer cannot go on either", peer(199, held=(HeldRange(150, 199, 1),))),
    ],
    ids=lambda each: each.replace(" ", "_") if isinstance(each, str) else "",
)
def test_a_store_lacks_nothing_if(why: str, other: SourceKnowledge) -> None:
    assert lack(own(99), other) is None, why


def test_messages_that_are_not_known_to_be_stable_are_lacked() -> None:
    assert lack(own(99, stable_upto=49), peer(99)) == Lack(50, Place(1, 99))


def test_what_a_peer_has_let_go_holds_nobody_up() -> None:
    other = peer(199, held=(HeldRange(150, 199, 1),), retained_from=150)
    assert lack(own(99), other) == Lack(100, Place(1, 199))


def test_an_accepted_loss_is_not_lacked() -> None:
    state = own(99)
    state.losses = RangeSet()
    state.losses.add(100, 199)
    state.held.stable_upto = 199
    assert lack(state, peer(199)) is None


def test_what_a_later_epoch_did_not_keep_is_no_use() -> None:
    assert lack(own(99), peer(59, SECOND_LINEAGE)) == Lack(40, Place(2, 59))


def test_of_a_peer_that_missed_an_epoch_only_what_was_kept_counts() -> None:
    state = own(39)
    state.registration = rebegun(state.registration, lineage=SECOND_LINEAGE)
    assert lack(state, peer(99)) is None


@pytest.mark.parametrize(("names", "found"), [({"c"}, Lack(0, Place(1, 9))), ({"d"}, None)])
def test_an_unknown_source_is_lacked_where_it_is_to_be(
    names: Collection[str], found: Lack | None
) -> None:
    known = peer(9, membership=Membership((OF_ABC,), (OF_ABC,)))
    assert lack(None, known, names) == found


def test_of_two_peers_the_one_that_can_give_more_counts() -> None:
    near, far = Lack(5, Place(1, 9)), Lack(5, Place(1, 99))
    assert furthest(near, far) == furthest(far, near) == furthest(far, None) == far
    assert furthest(None, None) is None


@pytest.mark.parametrize(
    ("place", "is_short"),
    [
        (NO_PLACE, False),
        (Place(1, 9), False),
        (Place(1, 10), True),
        (Place(2, 5), True),
    ],
)
def test_a_store_is_short_of_a_place_that_it_has_not_reached(place: Place, is_short: bool) -> None:
    assert is_short_of(place, FIRST_LINEAGE, 9) == is_short


def test_a_void_place_is_taken_back_and_not_waited_for() -> None:
    assert not is_short_of(Place(1, 50), SECOND_LINEAGE, 45)


# When a store lags.


def lagging_at(steps: list[tuple[float, int, int]]) -> list[float]:
    """The times at which a store lags that lacks, at each time, what is from one number to another.

    A first number above the last one stands for nothing.
    """
    lags, found = Lags(), []
    for now, first, upto in steps:
        lags.note(ORDERS, Lack(first, Place(1, upto)) if first <= upto else None, now)
        if lags.lagging(ORDERS) is not None:
            found.append(now)
    return found


def holds() -> None:
    """Check what makes a lag, and what does not."""
    late = LAG_SECONDS
    assert lagging_at([(0, 100, 199), (late - 0.1, 100, 299), (late, 100, 299)]) == [late]
    # One that lacks something for a moment, again and again, does not lag.
    assert lagging_at([(at, 100 * at, 100 * at + 50) for at in range(20)]) == []
    # One that gets on, but not as far as its peers were when it was looked at, does.
    assert lagging_at([(0, 100, 999), (late, 500, 1999), (2 * late, 900, 2999)]) == [late, 2 * late]
    # It no longer lags once it has reached that.
    assert lagging_at([(0, 100, 199), (late, 100, 199), (late + 1, 200, 199)]) == [late]
    assert lagging_at([(0, 100, 199), (late, 100, 199), (late + 1, 200, 299)]) == [late]
    # A stream that began anew has lower numbers.
    assert lagging_at([(0, 100, 199), (late - 1, 0, 9), (late, 10, 19), (late + 4, 10, 19)]) == []


def test_a_store_lags_once_it_has_lacked_something_for_long() -> None:
    holds()


def _at_once(lags: Lags, source: Any, found: Lack | None, now: float) -> bool:
    return note(lags, source, found, now + 2 * LAG_SECONDS if source in lags._wanted else now)


def _of_what_is_lacked_now(lags: Lags, source: Any, found: Lack | None, now: float) -> bool:
    wanted = lags._wanted.get(source)
    if found is not None and wanted is not None and found != lags._lacks[source]:
        lags.forget(source)
    return note(lags, source, found, now)


def _for_ever(lags: Lags, source: Any, found: Lack | None, now: float) -> bool:
    return found is not None and note(lags, source, replace(found, first=0), now)


note: Callable[..., bool] = seams.LAGS_NOTE.real()


@pytest.mark.parametrize("instead", [_at_once, _of_what_is_lacked_now, _for_ever])
def test_without_a_guard_of_lags_the_rule_fails(
    instead: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.LAGS_NOTE.replace(monkeypatch, instead)
    with pytest.raises(AssertionError):
        holds()


def test_a_lag_is_news_once() -> None:
    lags, found = Lags(), Lack(1, Place(1, 9))
    assert [lags.note(ORDERS, found, now) for now in (0, LAG_SECONDS, 2 * LAG_SECONDS)] == [
        False,
        True,
        False,
    ]
    assert list(lags) == [ORDERS]
    assert lags.lagging(ORDERS) == lags.lacks()[ORDERS] == found
    lags.forget(ORDERS)
    assert list(lags) == []
    assert not lags.lacks()
