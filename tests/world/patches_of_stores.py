"""Guards of stores among their peers that are taken out: limbo, repair, proxies, retention, ends.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests import seams

from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import RangeSet
from quorate.protocol.recovery import Decision
from quorate.store.rules import (
    retention,
)
from quorate.store.rules.lifetimes import (
    Lives,
    Who,
)
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.proxy import Gathering, Party
from quorate.store.rules.repair_plan import OwnView
from quorate.store.rules.source_state import (
    SourceState,
)
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.turns import Turn


def limbo_ends_at_what_is_known_stable(to: pytest.MonkeyPatch) -> None:
    """A store leaves limbo with what others were told is stable, not with what may be stable."""
    real = seams.READMISSION_RULES_LACKING.real()

    def lacking(decision: Decision, me: str) -> Any:
        wanted = real(decision, me)
        wanted.remove(decision.stable_upto + 1, SEQUENCE_MAX)
        return wanted

    seams.READMISSION_RULES_LACKING.replace(to, lacking)


def copies_are_not_told(to: pytest.MonkeyPatch) -> None:
    """G4: a store whose disk was put back goes on with what it finds."""
    seams.STANDING_CHECK_REMEMBERED.replace(to, lambda *_: "")


def stores_serve_before_they_ask(to: pytest.MonkeyPatch) -> None:
    """A store that starts vouches for what it finds until a peer contradicts it."""
    seams.STANDING_BEGIN_CHECK.replace(to, lambda *_: None)


def reboots_go_unnoticed(to: pytest.MonkeyPatch) -> None:
    """A store that did not sync goes on after its host went down as if it had everything."""
    seams.RUN_MAY_HAVE_LOST.replace(to, lambda *_: False)


def the_clock_decides_alone(to: pytest.MonkeyPatch) -> None:
    """What is overdue by the time of day is deleted at once when a store starts."""

    def overdue(self: Lives, who: Who) -> bool:
        return self.marked(who)

    seams.LIVES_OVERDUE.replace(to, overdue)


def greetings_hide_what_was_known(to: pytest.MonkeyPatch) -> None:
    """A peer forgets what a store was when that greets with less."""
    seams.WAS_PUT_BACK.replace(to, lambda *_: False)


def one_copy_is_enough_for_a_proxy(to: pytest.MonkeyPatch) -> None:
    """A proxy takes for stable what one store alone has."""

    def look(_: Gathering, now: float, among: Sequence[Party]) -> int:  # noqa: ARG001
        told = max(party.stable_upto for party in among)
        return max(party.held.contiguous_upto(told + 1) for party in among)

    seams.GATHERING_LOOK.replace(to, look)


def nobody_repairs(to: pytest.MonkeyPatch) -> None:
    """What a store missed is made up for by nobody."""
    seams.REPAIR_PLAN_LACKING.replace(to, lambda *_: RangeSet())


def repair_waits_for_a_pause(to: pytest.MonkeyPatch) -> None:
    """A store to which a source streams puts off what it missed until the source has left."""
    real = seams.REPAIR_PLAN_LACKING.real()

    def lacking(own: OwnView, stable: int) -> RangeSet:
        return RangeSet() if own.live else real(own, stable)

    seams.REPAIR_PLAN_LACKING.replace(to, lacking)


def what_was_let_go_is_missed(to: pytest.MonkeyPatch) -> None:
    """A decision wants also what stores have let go on purpose."""
    seams.RECOVERY_RELEASED_BELOW.replace(to, lambda *_: 0)


def what_is_unstable_is_let_go(to: pytest.MonkeyPatch) -> None:
    """A store lets go of what it has, and says that it was stable."""

    def limit(state: SourceState, *_: Any) -> retention.Limit:
        state.held.stable_upto = state.held.next_sequence - 1
        return retention.Limit(state.held.stable_upto, "")

    seams.RETENTION_RULES_LIMIT.replace(to, limit)


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
