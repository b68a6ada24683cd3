"""When a source is finished at a store, when at all of its stores, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.begun import rebegun
from tests.store.ended import answer, ended_knowledge, filled, knowledge
from tests.store.support import FIRST_LINEAGE, ORDERS, World

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.rules.finished import closed_elsewhere, is_finished, is_over_everywhere
from quorate.store.rules.repair_plan import OwnView, PeerView, begin_to_adopt
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.maintenance_records import LossRecord


def finished() -> SourceState:
    """A source with a drawn session ID, which has closed. All that it sent was let go."""
    state = filled(World())
    record = state.registration
    assert record.information is not None
    record.information.drawn = True
    state.registration = replace(record, clean=True)
    state.held.ranges = RangeSet()
    state.held.stable_upto, state.held.retained_from = 29, 30
    return state


def test_one_that_has_nothing_left_is_finished() -> None:
    assert is_finished(finished(), "")


def _live(state: SourceState) -> None:
    world = World()
    state.stream = world.stream()


def _chosen(state: SourceState) -> None:
    assert state.registration.information is not None
    state.registration.information.drawn = False


def _unknown(state: SourceState) -> None:
    state.registration = replace(state.registration, information=None)


def _not_closed(state: SourceState) -> None:
    state.registration = replace(state.registration, clean=False)


def _promised_again(state: SourceState) -> None:
    state.registration = replace(state.registration, promised_epoch=2)


def _never_begun(state: SourceState) -> None:
    state.registration = replace(state.registration, begun=NOT_BEGUN, promised_epoch=0)


def _holds_a_message(state: SourceState) -> None:
    state.held.ranges = RangeSet((Range(29, 29),))


def _lacks_a_message(state: SourceState) -> None:
    state.held.retained_from = 29


def _has_an_accepted_loss(state: SourceState) -> None:
    state.accepted = (LossRecord(ORDERS, 3, 3, "a reason", 0, FIRST_LINEAGE),)


@pytest.mark.parametrize(
    "change",
    [
        _live,
        _chosen,
        _unknown,
        _not_closed,
        _promised_again,
        _never_begun,
        _holds_a_message,
        _lacks_a_message,
        _has_an_accepted_loss,
    ],
)
def test_each_condition_is_needed(change: Callable[[SourceState], None]) -> None:
    state = finished()
    change(state)
    assert not is_finished(state, "")


def test_a_store_that_cannot_vouch_does_not_call_it_finished() -> None:
    assert not is_finished(finished(), "it was wiped")


def test_one_that_sent_nothing_is_finished_at_once() -> None:
    state = finished()
    state.held.stable_upto, state.held.retained_from = -1, 0
    assert is_finished(state, "")


def test_where_no_messages_are_kept_it_is_finished_at_once() -> None:
    state = finished()
    state.held.retained_from = 0
    state.takes_data = False
    assert is_finished(state, "")


def test_a_store_that_missed_the_close_hears_of_it_from_one_where_it_is_finished() -> None:
    state = finished()
    state.registration = replace(state.registration, clean=False)
    known = knowledge(finished=True, stable_upto=29)
    assert closed_elsewhere(state, [knowledge(), known])
    for other in (
        replace(known, finished=False),
        rebegun(replace(known, promised_epoch=2), epoch=2),
        replace(known, promised_to=b"another instance"),
        replace(known, stable_upto=30),
    ):
        assert not closed_elsewhere(state, [other])
    _live(state)
    assert not closed_elsewhere(state, [known])


def test_it_is_over_everywhere_once_each_store_said_so() -> None:
    here = answer("s2", knowledge(finished=True))
    unknown = answer("s3")
    named = {"s2", "s3"}
    assert is_over_everywhere(ORDERS, named, {"s2": here, "s3": unknown})
    assert is_over_everywhere(ORDERS, set(), {})
    deleted = answer("s3", ended_knowledge())
    assert is_over_everywhere(ORDERS, named, {"s2": here, "s3": deleted})
    assert not is_over_everywhere(ORDERS, named, {"s2": here})
    for other in (answer("s3", knowledge()), answer("s3", limbo=True)):
        assert not is_over_everywhere(ORDERS, named, {"s2": here, "s3": other})
        assert not is_over_everywhere(ORDERS, {"s2"}, {"s2": here, "s3": other})


def test_a_store_that_forgot_it_does_not_adopt_it_from_one_that_has_not() -> None:
    policy = Policy.majority_of(["s1", "s2"])
    membership = Membership((policy,), (policy,))
    peer = PeerView(
        "s2:1", "s2", BeginRecord(FIRST_LINEAGE, membership), promised_to=b"a", finished=True
    )
    assert begin_to_adopt(OwnView("s1"), [peer]) is None
    assert begin_to_adopt(OwnView("s1"), [replace(peer, finished=False)]) is not None
    # One that promised it something has a part in it, and catches up.
    own = OwnView("s1", 1, NOT_BEGUN, promised_to=b"a")
    assert begin_to_adopt(own, [peer]) is peer
