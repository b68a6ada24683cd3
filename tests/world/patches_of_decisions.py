"""Guards of decisions and ends, each taken out.

A guard is taken out by patching the product in the test; nothing in the product knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from tests import seams

from quorate.protocol.recovery import Promise
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.frames import Packed
from quorate.source.protocol.registration import OwnKnowledge, Registration
from quorate.store.rules.identities import Identities
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Write


def hung_stores_are_waited_for(to: pytest.MonkeyPatch) -> None:
    """A source registers when all have answered, however long that takes."""
    real = seams.SOURCE_REGISTRATION_DECIDE.real()

    def decide(self: Registration, _: float, own: OwnKnowledge) -> Any:
        return real(self, self._started_at, own)

    seams.SOURCE_REGISTRATION_DECIDE.replace(to, decide)


def whoever_begins_is_a_holder(to: pytest.MonkeyPatch) -> None:
    """A source counts a store that takes no messages as having all of them."""
    real = seams.SOURCE_CORE_RELEASE.real()

    def release(self: SourceCore, packed: Packed, now: float) -> Any:
        frame = real(self, packed, now)
        for store in self.streams.state_only():
            self.tracker.rejoin(store, packed.last)
        return frame

    seams.SOURCE_CORE_RELEASE.replace(to, release)


def older_generations_count(to: pytest.MonkeyPatch) -> None:
    """Let the facts about an ended stream count for the next one."""
    seams.RECOVERY_OF_GENERATION.replace(to, dict)
    seams.OF_GENERATION_IN_SOURCE_REGISTRATION.replace(to, dict)


def ends_do_not_win(to: pytest.MonkeyPatch) -> None:
    """The newest begin that is no end names the stream."""

    def newest_begun(promises: Iterable[Promise]) -> Promise:
        known = list(promises)
        going_on = [each for each in known if not each.begun.ended]
        return max(going_on or known, key=lambda each: each.begun.newness, default=Promise())

    seams.RECOVERY_NEWEST_BEGUN.replace(to, newest_begun)
    seams.NEWEST_BEGUN_IN_SOURCE_REGISTRATION.replace(to, newest_begun)


def ends_leave_no_mark(to: pytest.MonkeyPatch) -> None:
    """A store that is told to forget a receiver forgets also that it was told."""

    def end_receiver(
        self: Identities, state: SourceState, session_id: int, _: int, reg_ids: RegIds
    ) -> list[Write]:
        known = session_id in state.receivers
        return self.forget_receiver(state, session_id, reg_ids) if known else []

    seams.IDENTITIES_END_RECEIVER.replace(to, end_receiver)
