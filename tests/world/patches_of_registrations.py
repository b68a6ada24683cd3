"""Guards of registrations and begins that are taken out.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests import seams

from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.policy import Group, IntragroupRule
from quorate.store.rules.acceptor import StoreCore

_real_promise = seams.STORE_CORE_PROMISE.real()


def promise_leaves_the_stream(to: pytest.MonkeyPatch) -> None:
    """A promise does not end the stream of the lower epoch."""
    seams.SOURCE_STATE_END_STREAM.replace(to, lambda *_: ())


def same_promise_to_anyone(to: pytest.MonkeyPatch) -> None:
    """An epoch that was promised to one instance is promised to another, too."""

    def promise(self: StoreCore, source: Any, epoch: int, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and epoch == state.registration.promised_epoch:
            state.registration = dataclasses.replace(state.registration, promised_to=instance)
        return _real_promise(self, source, epoch, instance, *rest)

    seams.STORE_CORE_PROMISE.replace(to, promise)


def nothing_is_set_aside(to: pytest.MonkeyPatch) -> None:
    """A store keeps its tail when it takes a lineage over that does not have it."""
    seams.DIVERGES_AT_IN_ACCEPTOR.replace(to, lambda *_: SEQUENCE_MAX)


def active_stores_are_enough(to: pytest.MonkeyPatch) -> None:
    """`all-active` asks for those that are active, however few."""
    real = seams.GROUP_HOLDS.real()

    def holds(self: Group, holders: Any, active: Any) -> Any:
        if self.rule is IntragroupRule.ALL_ACTIVE and active:
            return all(store in holders for store in self.stores if store in active)
        return real(self, holders, active)

    seams.GROUP_HOLDS.replace(to, holds)
