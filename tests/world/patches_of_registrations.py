"""Guards of registrations and begins that are taken out.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests import seams
from tests.world.group import Opening

from quorate.protocol.begin import BeginRecord
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntragroupRule
from quorate.protocol.ranges import RangeSet
from quorate.protocol.recovery import Decision
from quorate.source.protocol.registration import (
    Grant,
    Registration,
)
from quorate.store.rules.acceptor import StoreCore

_real_begin = seams.STORE_CORE_BEGIN.real()
_real_decide = seams.DECIDE_IN_SOURCE_REGISTRATION.real()
_real_promise = seams.STORE_CORE_PROMISE.real()


def promise_leaves_the_stream(to: pytest.MonkeyPatch) -> None:
    """A promise does not end the stream of the lower epoch."""
    seams.SOURCE_STATE_END_STREAM.replace(to, lambda *_: ())


def begin_below_the_promise(to: pytest.MonkeyPatch) -> None:
    """A begin of a lower epoch than the promised one is taken."""

    def begin(self: StoreCore, source: Any, begin: BeginRecord, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and state.registration.begun.epoch < begin.epoch:
            state.registration = dataclasses.replace(
                state.registration, promised_epoch=begin.epoch, promised_to=instance
            )
        return _real_begin(self, source, begin, instance, *rest)

    seams.STORE_CORE_BEGIN.replace(to, begin)


def same_promise_to_anyone(to: pytest.MonkeyPatch) -> None:
    """An epoch that was promised to one instance is promised to another, too."""

    def promise(self: StoreCore, source: Any, epoch: int, instance: bytes, *rest: Any) -> Any:
        state = self.sources.get(source)
        if state is not None and epoch == state.registration.promised_epoch:
            state.registration = dataclasses.replace(state.registration, promised_to=instance)
        return _real_promise(self, source, epoch, instance, *rest)

    seams.STORE_CORE_PROMISE.replace(to, promise)


def promise_is_not_durable(to: pytest.MonkeyPatch) -> None:
    """A promise is answered without being written."""

    def promise(self: StoreCore, *arguments: Any) -> Any:
        change = _real_promise(self, *arguments)
        state = change.answer.state
        return dataclasses.replace(change, writes=() if state.held.ranges else change.writes)

    seams.STORE_CORE_PROMISE.replace(to, promise)


def no_blocking_set(to: pytest.MonkeyPatch) -> None:
    """Whoever has answered by the end of the interval is enough to decide."""

    def decide(*arguments: Any) -> Any:
        with seams.POLICY_BLOCKS.replaced(lambda _, stores: bool(stores)):
            return _real_decide(*arguments)

    seams.DECIDE_IN_SOURCE_REGISTRATION.replace(to, decide)


def no_floor(to: pytest.MonkeyPatch) -> None:
    """What may have been stable on silent stores does not count."""
    seams.RECOVERY_MAY_BE_STABLE_UPTO.replace(to, lambda *given: given[-1])


def nothing_is_set_aside(to: pytest.MonkeyPatch) -> None:
    """A store keeps its tail when it takes a lineage over that does not have it."""
    seams.DIVERGES_AT_IN_ACCEPTOR.replace(to, lambda *_: SEQUENCE_MAX)


def set_aside_counts_as_held(to: pytest.MonkeyPatch) -> None:
    """What was set aside still counts as held."""
    real = seams.ACCEPTOR_SET_ASIDE.real()

    def set_aside(reads: Any, state: Any, parts: Any) -> Any:
        before = RangeSet(state.held.ranges)
        answer = real(reads, state, parts)
        state.held.ranges = before
        return answer

    seams.ACCEPTOR_SET_ASIDE.replace(to, set_aside)


def begun_epochs_add_up(to: pytest.MonkeyPatch) -> None:
    """A store takes for its lineage all epochs that it has begun, besides those that it is told: so
    what a minority has begun voids what was kept by those who never heard of it."""
    real = seams.STORE_CORE_FOLLOW.real()

    def follow(self: StoreCore, state: Any, record: Any, begin: BeginRecord) -> Any:
        terms: list[Term] = []
        both = {*state.lineage.terms, *begin.lineage.terms}
        for term in sorted(both, key=lambda term: term.epoch):
            while terms and terms[-1].first >= term.first:
                terms.pop()
            terms.append(term)
        added_up = dataclasses.replace(begin, lineage=Lineage(tuple(terms)))
        return real(self, state, record, added_up)

    seams.STORE_CORE_FOLLOW.replace(to, follow)


def only_the_new_stores_count(to: pytest.MonkeyPatch) -> None:
    """A begin record does not say where it came from."""
    seams.MEMBERSHIP_POLICIES.replace(to, property(lambda self: self.to_policies))
    real = seams.SOURCE_REGISTRATION_ADOPT.real()

    def adopt(self: Registration, decision: Decision, now: float) -> None:
        real(self, decision, now)
        self.membership = dataclasses.replace(
            self.membership, from_policies=(self._policy,), to_policies=(self._policy,)
        )

    seams.SOURCE_REGISTRATION_ADOPT.replace(to, adopt)


def predecessors_are_not_named(to: pytest.MonkeyPatch) -> None:
    """A new configuration does not know those before it."""
    to.setattr(Opening, "previous", property(lambda _: ()))
    seams.SOURCE_REGISTRATION_MAY_GO_ON.replace(to, lambda *_: True)


def active_stores_are_enough(to: pytest.MonkeyPatch) -> None:
    """`all-active` asks for those that are active, however few."""
    real = seams.GROUP_HOLDS.real()

    def holds(self: Group, holders: Any, active: Any) -> Any:
        if self.rule is IntragroupRule.ALL_ACTIVE and active:
            return all(store in holders for store in self.stores if store in active)
        return real(self, holders, active)

    seams.GROUP_HOLDS.replace(to, holds)


def limbo_is_a_no(to: pytest.MonkeyPatch) -> None:
    """What a store in limbo lacks counts as if it had never been there."""
    real = seams.SOURCE_REGISTRATION_PROMISED.real()

    def promised(self: Registration, store: str, epoch: int, grant: Grant) -> Any:
        promise = dataclasses.replace(grant.promise, limbo=False)
        return real(self, store, epoch, dataclasses.replace(grant, promise=promise))

    seams.SOURCE_REGISTRATION_PROMISED.replace(to, promised)
