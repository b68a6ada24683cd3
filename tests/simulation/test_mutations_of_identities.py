"""Guards of identities: those that end, and those that are used twice; each must be missed.

As tests.simulation.test_mutations, which has the guards of streams and of stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests import seams
from tests.simulation.circumstances import SAFETY, THREE
from tests.simulation.endings import Mortality
from tests.simulation.guards import Mutation, missed
from tests.simulation.test_mutations import _promise_leaves_the_stream
from tests.world.patches_of_decisions import older_generations_count

from quorate.protocol.identity import SourceName
from quorate.receiver.protocol.consumed import Acknowledgements
from quorate.store.rules.lifetimes import (
    Lifetimes,
)
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.receivers import Receivers
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.turns import Turn


def _signs_of_life_do_not_count(to: pytest.MonkeyPatch) -> None:
    """A store deletes a source when its own start is long ago, whoever it heard since."""
    seams.LIVES_SILENT.replace(to, lambda self, _: self.observed.now)


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

    async def look_at(
        self: Keeper, state: SourceState, news: Sequence[PeerAnswer], turn: Turn
    ) -> None:
        if all(state.name in answer.sources for answer in news):
            await real(self, state, news, turn)
        else:
            record = state.registration
            await self._end_everywhere(record, self._view(record))

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
    Mutation(_signs_of_life_do_not_count, MORTAL, SAFETY),
    Mutation(older_generations_count, ENDED),
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
