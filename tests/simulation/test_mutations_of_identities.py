"""Guards of identities: those that end, and those that are used twice; each must be missed.

As tests.simulation.test_mutations, which has the guards of streams and of stores.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import pytest
from tests import seams
from tests.simulation.circumstances import PAIR, SAFETY, THREE
from tests.simulation.endings import Mortality
from tests.simulation.guards import Mutation, missed
from tests.simulation.test_mutations import _promise_leaves_the_stream

from quorate.protocol.identity import SourceName
from quorate.protocol.wire import membership_from_wire
from quorate.receiver.protocol.consumed import Acknowledgements
from quorate.store.rules.deregistration import Verdict
from quorate.store.rules.identities import Identities
from quorate.store.rules.identity_records import Tombstone
from quorate.store.rules.lifetimes import (
    Lifetimes,
)
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.receivers import Receivers
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.lifecycle import Keeper
from quorate.v1 import store_pb2 as store_v1


def _who_deleted_it_never_had_it(to: pytest.MonkeyPatch) -> None:
    """A store answers for a source that it deleted as for one that it never heard of."""

    def in_the_way(self: Identities, source: SourceName, *_: Any) -> None:
        self.settled.add(source)

    seams.IDENTITIES_IN_THE_WAY.replace(to, in_the_way)


def _one_store_deletes_for_all(to: pytest.MonkeyPatch) -> None:
    """A store vouches for what it lacks of a source as soon as it has deleted that itself."""
    seams.SETTLED_IN_LIFECYCLE.replace(to, lambda *_: True)


def _a_blocking_set_deletes_for_all(to: pytest.MonkeyPatch) -> None:
    """A deregistration is settled though those that were not told are a blocking set as well."""

    def know_everything(tombstone: Tombstone, sure: Set[str]) -> bool:
        membership = tombstone.registration.membership
        policies = membership_from_wire(membership).policies if membership is not None else ()
        return bool(policies) and all(policy.blocks(policy.stores & sure) for policy in policies)

    seams.SOURCE_TOMBSTONES_KNOW_EVERYTHING.replace(to, know_everything)


def _signs_of_life_do_not_count(to: pytest.MonkeyPatch) -> None:
    """A store deletes a source when its own start is long ago, whoever it heard since."""
    seams.LIVES_SILENT.replace(to, lambda self, _: self.observed.now)


def _deleting_forgets_the_promise(to: pytest.MonkeyPatch) -> None:
    """A store that deleted a source lets an epoch in that it had fenced."""
    seams.IDENTITIES_CHECK_OUTLIVES.replace(to, lambda *_: None)


def _anyone_may_deregister(to: pytest.MonkeyPatch) -> None:
    """A store deletes a source when an instance says so that was fenced."""
    seams.JUDGE_SOURCE_IN_LIFECYCLE.replace(to, lambda *_: Verdict.BURY)


def _nobody_is_told_what_was_ended(to: pytest.MonkeyPatch) -> None:
    """What a store that was away has of a stream that was deregistered counts."""
    seams.RECOVERY_ENDED_UPTO.replace(to, lambda _: 0)


def _positions_outlive_their_stream(to: pytest.MonkeyPatch) -> None:
    """A receiver goes on acknowledging what it had of a stream that begins anew."""
    real = seams.ACKNOWLEDGEMENTS_WITHDRAW.real()

    def withdraw(self: Acknowledgements, first: int) -> None:
        sent = self._sent
        real(self, first)
        self._sent = sent

    seams.ACKNOWLEDGEMENTS_WITHDRAW.replace(to, withdraw)


def _what_a_peer_lacks_is_deleted(to: pytest.MonkeyPatch) -> None:
    """A store deletes a source because another one does not know it."""
    real = seams.KEEPER_LOOK_AT.real()

    async def look_at(self: Keeper, state: SourceState, news: Sequence[PeerAnswer]) -> None:
        if all(state.name in answer.sources for answer in news):
            await real(self, state, news)
        else:
            await self._bury(state, store_v1.DELETION_EXPIRED)

    seams.KEEPER_LOOK_AT.replace(to, look_at)


# Identities that are used twice.


def _fenced_receivers_are_heard(to: pytest.MonkeyPatch) -> None:
    """A store takes the position of a receiver that another one has fenced."""
    real = seams.RECEIVERS_ACKNOWLEDGE.real()

    def acknowledge(
        self: Receivers, source: SourceName, session_id: int, _: int, upto: int, *rest: Any
    ) -> Any:
        record = self.source(source).receivers.get(session_id)
        if record is None:
            return real(self, source, session_id, 0, upto, *rest)
        return real(self, source, session_id, record.epoch, upto, rest[0], record.instance)

    seams.RECEIVERS_ACKNOWLEDGE.replace(to, acknowledge)


MORTAL = {
    "mortality": Mortality(Lifetimes(0.0, 40.0), Lifetimes(0.0, 60.0)),
    "kinds": ("rest_source", "rest_source", "part_for_long", "crash_for_long", "crash_source"),
    "outlives": False,
    "faulty_seconds": 8.0,
    **THREE,
}
ENDED = {
    **MORTAL,
    "kinds": ("deregister_source", "crash_for_long", "part_for_long", "pause_source"),
}

MUTATIONS = (
    Mutation(
        _what_a_peer_lacks_is_deleted,
        {"kinds": ("wipe_store", "crash_source"), "proxies": True, **THREE},
    ),
    Mutation(_who_deleted_it_never_had_it, MORTAL, SAFETY),
    Mutation(_one_store_deletes_for_all, MORTAL, SAFETY),
    Mutation(_signs_of_life_do_not_count, MORTAL, SAFETY),
    Mutation(_deleting_forgets_the_promise, MORTAL, SAFETY),
    Mutation(_a_blocking_set_deletes_for_all, {**ENDED, "setups": PAIR}, ("I1",)),
    Mutation(_anyone_may_deregister, ENDED, ("I1", "I2")),
    Mutation(_nobody_is_told_what_was_ended, ENDED),
    Mutation(_fenced_receivers_are_heard, {"kinds": ("second_receiver",), **THREE}, ("I5",)),
    Mutation(
        _promise_leaves_the_stream,
        {"kinds": ("second_source",), "outlives": False, **THREE},
        ("I5",),
    ),
)


@pytest.mark.big
@pytest.mark.timeout(600)  # Some guards are missed by one world in hundreds.
@pytest.mark.parametrize("mutation", MUTATIONS, ids=str)
def test_a_guard_that_is_taken_out_is_missed(
    mutation: Mutation, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed(mutation, monkeypatch)


@pytest.mark.big
@pytest.mark.xfail(strict=True, reason="no world of the first 900 misses it")
def test_positions_that_outlive_their_stream_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    missed(Mutation(_positions_outlive_their_stream, ENDED, ("I4",)), monkeypatch)
