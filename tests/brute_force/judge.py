"""What must hold in a small world: production decides, the definitions judge.

Every decision that production takes is compared with the definitions; nothing that was reported
stable may be lost or its number reused, now or by any registration that could come next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.brute_force.definitions import (
    SETS,
    Answer,
    Configuration,
    Recovered,
    Terms,
    epoch_at,
    recover,
)
from tests.held import merge_held

from quorate.protocol import recovery
from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.recovery import Decision, Lost, NeedMore, Promise
from quorate.protocol.tracker import StabilityTracker

if TYPE_CHECKING:
    from tests.brute_force.states import Rules, Shape, State, Store

NAME_OF = [next(iter(SETS[1 << at])) for at in range(6)]
Verdict = Decision | NeedMore | Lost


class Violation(AssertionError):
    """Something that must always hold does not."""


class Judge:
    """Asks production and compares; remembers, since small worlds ask the same again and again."""

    def __init__(self, shape: Shape, rules: Rules) -> None:
        self._shape = shape
        self._rules = rules
        self._decided: dict[Hashable, Verdict] = {}
        self._foretold: set[Hashable] = set()
        self._stable: dict[tuple[Configuration, int], bool] = {}
        self._upto: dict[Hashable, int] = {}

    @property
    def decisions(self) -> int:
        """How many different ones were compared with the definitions."""
        return len(self._decided)

    # What production says.

    def stable(self, policy: Configuration, members: int) -> bool:
        """Whether the stores, all active, make something stable."""
        key = (policy, members)
        if key not in self._stable:
            stores = SETS[members & policy.everyone]
            self._stable[key] = policy.policy.stable(stores, stores)
        return self._stable[key]

    def blocks(self, policy: Configuration, members: int) -> bool:
        return policy.policy.blocks(SETS[members])

    def stable_upto(
        self,
        policies: Sequence[Configuration],
        links: tuple[tuple[int, int, bool], ...],
        stable_upto: int,
    ) -> int:
        """How far the stream is stable: by store what it acknowledged, and whether it is active."""
        key = (tuple(policies), links, stable_upto)
        if key not in self._upto:
            tracker = StabilityTracker([policy.policy for policy in policies], stable_upto)
            for store, _, active in links:
                tracker.join(NAME_OF[store])
                if not active:
                    tracker.leave(NAME_OF[store])
            for store, upto, _ in links:
                tracker.acknowledge(NAME_OF[store], upto)
            self._upto[key] = tracker.stable_upto
        return self._upto[key]

    def decide(
        self,
        state: State,
        own: Configuration,
        answers: tuple[tuple[int, Store], ...],
        behaviour: Behaviour,
        previous: Sequence[Configuration] = (),
    ) -> Verdict:
        """What production decides from these answers; raises Violation if it should not.

        previous: the configurations before the source's own, which it was told of.
        """
        told = tuple((s, self._answer(state, store)) for s, store in answers)
        if not self._rules.lineage:
            told = _as_list_of_epochs(told)
        before = tuple(dict.fromkeys(previous)) if not any(a.begun for _, a in told) else ()
        key = (own, told, behaviour, before)
        verdict = self._decided.get(key)
        if verdict is None:
            promises = {NAME_OF[s]: promise_of(answer) for s, answer in told}
            verdict = recovery.decide(
                own.policy, promises, behaviour, [policy.policy for policy in before]
            )
            compare(verdict, own, dict(told), behaviour, before)
            self._decided[key] = verdict
        return verdict

    def _answer(self, state: State, store: Store) -> Answer:
        begun = store.begun
        record = state.sources[begun - 1] if begun else None
        named: dict[int, None] = {}
        if record:
            come_from = () if store.confirmed else record.from_policies
            named = dict.fromkeys(come_from + record.to_policies)
        return Answer(
            begun,
            record.lineage if record else (),
            tuple(self._shape.policies[policy] for policy in named),
            store.held,
            store.told,
            store.limbo,
            takes=store.takes,
        )

    # What must hold.

    def check_kept(
        self, state: State, registering: int, lineage: Terms, kept_upto: int, who: str
    ) -> None:
        """A registration keeps all that lower epochs reported stable, with its content.

        A lower one may still decide something else: it can not begin on enough stores any more.
        """
        for number, (epoch, reporter) in enumerate(state.reported):
            if reporter >= registering:
                continue
            if number > kept_upto:
                raise Violation(f"{number} was reported stable, and {who} uses it again")
            if epoch_at(lineage, number) != epoch:
                raise Violation(f"{number} was reported stable, and {who} has other content")

    def report(self, state: State, g: int, policies: Sequence[Configuration]) -> State:
        """The application is told that more is stable: then it must be, by the definition."""
        return self.reported(state, g + 1, state.sources[g].stable, policies)

    def reported(
        self, state: State, teller: int, upto: int, policies: Sequence[Configuration]
    ) -> State:
        """Somebody is told that everything up to here is stable in the lineage of that epoch."""
        source, g = state.sources[teller - 1], teller - 1
        reported = state.reported
        for number in range(upto + 1):
            epoch = epoch_at(source.lineage, number)
            if number < len(reported):
                known, reporter = reported[number]
                if known != epoch:
                    raise Violation(f"{number} is stable with two contents")
                if reporter > g + 1:
                    reported = (*reported[:number], (epoch, g + 1), *reported[number + 1 :])
                continue
            holders = 0
            for s, column in enumerate(state.columns):
                held = column.store.held
                # Of what a wiped store had, its peers take care when they let it out of limbo.
                if column.store.limbo or (number < len(held) and held[number] == epoch):
                    holders |= 1 << s
            if not all(policy.may_be[holders & policy.everyone] for policy in policies):
                raise Violation(
                    f"{number} is reported stable by epoch {g + 1}, "
                    f"but only {''.join(sorted(SETS[holders]))} may have it"
                )
            reported = (*reported, (epoch, g + 1))
        state = state._replace(reported=reported)
        for newer, other in enumerate(state.sources[g + 1 :], g + 2):
            if any(column.store.begun == newer for column in state.columns):
                self.check_kept(state, newer, other.lineage, other.kept_upto, f"epoch {newer}")
        return state

    def foretell(self, state: State) -> None:
        """Whichever stores answer the next registration, it keeps what was reported stable."""
        if not state.reported:
            return
        stores = [column.store for column in state.columns]
        newest = tuple(
            (source.lineage, source.from_policies, source.to_policies) for source in state.sources
        )
        seen = (
            state.reported,
            tuple((s.begun, s.confirmed, s.held, s.told, s.limbo, s.takes) for s in stores),
            newest,
        )
        if seen in self._foretold:
            return
        self._foretold.add(seen)
        for own in dict.fromkeys(self._shape.policies):
            for answering in range(1, 1 << len(stores)):
                self._foretell(state, own, answering)

    def _foretell(self, state: State, own: Configuration, answering: int) -> None:
        answers = tuple(
            (s, column.store) for s, column in enumerate(state.columns) if answering >> s & 1
        )
        verdict = self.decide(state, own, answers, Behaviour.LOWEST, self._shape.policies)
        vouching = sum(not store.limbo for _, store in answers)
        if vouching == len(state.columns) and not isinstance(verdict, Decision):
            raise Violation(f"all stores answer, and there is no decision but {verdict}")
        if isinstance(verdict, Decision):
            terms = tuple((term.epoch, term.first) for term in verdict.begun.lineage.terms)
            who = f"a registration with {''.join(sorted(SETS[answering]))}"
            self.check_kept(state, len(state.sources) + 1, terms, verdict.kept_upto, who)

    def check_end(self, state: State) -> None:
        """Nothing more can happen: no store is in limbo that has peers enough to leave it."""
        well = sum(1 << s for s, each in enumerate(state.columns) if not each.store.limbo)
        for s, column in enumerate(state.columns):
            if column.store.limbo and all(
                policy.may_be[well & policy.everyone] and policy.blocks(well & policy.everyone)
                for policy in self._shape.policies
            ):
                raise Violation(f"{NAME_OF[s]} stays in limbo for ever")


def compare(
    verdict: Verdict,
    own: Configuration,
    answers: dict[int, Answer],
    behaviour: Behaviour,
    previous: Sequence[Configuration] = (),
) -> None:
    """Whether production's decision is the definitions'; raises Violation if not."""
    defined = recover(own, answers, behaviour, previous)
    where = f"{own}, {behaviour.value}, {answers}: {verdict}, defined is {defined}"
    match verdict:
        case NeedMore():
            agreed = defined.floor is None
        case Lost():
            agreed = defined.lost
        case Decision():
            agreed = not defined.lost and _told(verdict) == defined
    if not agreed:
        raise Violation(f"a decision is not as defined: {where}")


def _told(decision: Decision) -> Recovered:
    """A decision in the words of the definitions."""
    return Recovered(
        decision.floor,
        False,
        decision.kept_upto,
        tuple((term.epoch, term.first) for term in decision.begun.lineage.terms),
        {NAME_OF.index(store): _numbers(held) for store, held in decision.holders.items()},
        _numbers(decision.losses),
        decision.retained_from,
    )


def _numbers(ranges: Iterable[Range]) -> frozenset[int]:
    return frozenset(n for each in ranges for n in range(each.first, each.last + 1))


def promise_of(answer: Answer) -> Promise:
    """The answer as production takes it."""
    named = tuple(policy.policy for policy in answer.named)
    return Promise(
        BeginRecord(
            Lineage(tuple(Term(*term) for term in answer.lineage)),
            Membership((), named) if answer.begun else None,
        ),
        _ranges(answer.held),
        answer.told,
        answer.limbo,
        losses=_ranges(answer.accepted),
        retained_from=answer.retained_from,
        takes_data=answer.takes,
    )


def _ranges(epochs: tuple[int, ...]) -> tuple[HeldRange, ...]:
    return merge_held(HeldRange(n, n, epoch) for n, epoch in enumerate(epochs) if epoch)


def _as_list_of_epochs(
    answers: Iterable[tuple[int, Answer]],
) -> tuple[tuple[int, Answer], ...]:
    """As if stores knew only which epochs had begun, and where: each voids what it begins on."""
    answers = tuple(answers)
    terms: Terms = ()
    for epoch, first in sorted({term for _, answer in answers for term in answer.lineage}):
        terms = (*(term for term in terms if term[1] < first), (epoch, first))
    return tuple((s, replace(a, lineage=terms)) for s, a in answers)
