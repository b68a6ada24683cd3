"""Guards of stores among their peers that are taken out: limbo, repair, proxies, retention, ends.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests import seams

from quorate.store.rules.lifetimes import (
    Lives,
    Who,
)
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.source_state import (
    SourceState,
)
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.turns import Turn


def copies_are_not_told(to: pytest.MonkeyPatch) -> None:
    """G4: a store whose disk was put back goes on with what it finds."""
    seams.STANDING_CHECK_REMEMBERED.replace(to, lambda *_: "")


def stores_serve_before_they_ask(to: pytest.MonkeyPatch) -> None:
    """A store that starts vouches for what it finds until a peer contradicts it."""
    seams.STANDING_BEGIN_CHECK.replace(to, lambda *_: None)


def the_clock_decides_alone(to: pytest.MonkeyPatch) -> None:
    """What is overdue by the time of day is deleted at once when a store starts."""

    def overdue(self: Lives, who: Who) -> bool:
        return self.marked(who)

    seams.LIVES_OVERDUE.replace(to, overdue)


def what_was_let_go_is_missed(to: pytest.MonkeyPatch) -> None:
    """A decision wants also what stores have let go on purpose."""
    seams.RECOVERY_RELEASED_BELOW.replace(to, lambda *_: 0)


def repair_follows_the_open_tail(to: pytest.MonkeyPatch) -> None:
    """Repair takes for stable whatever a peer holds."""

    def stable_upto(own: Any, peers: Any) -> int:
        ends = [item.last for peer in peers for item in peer.held]
        return int(max((own.stable_upto, *ends)))

    seams.REPAIR_PLAN_STABLE_UPTO.replace(to, stable_upto)


def signs_of_life_do_not_count(to: pytest.MonkeyPatch) -> None:
    """A store deletes a source when its own start is long ago, whoever it heard since."""
    seams.LIVES_SILENT.replace(to, lambda self, _: self.observed.now)


def what_a_peer_lacks_is_deleted(to: pytest.MonkeyPatch) -> None:
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
