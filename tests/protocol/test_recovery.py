"""Decisions from promises, against the definition of protocol.md 4 over small worlds.

A world is what every store holds and how it answers: it vouches, it answers from limbo, or it is
silent. The definition looks at every world that the answers leave possible; it never uses the
predicate's shortcuts that the code uses.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations, product

import pytest

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour, consensus
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.recovery import (
    Decision,
    Lost,
    Marker,
    NeedMore,
    Promise,
    decide,
    newest_begun,
)

VOUCHES, LIMBO, SILENT = "vouches", "limbo", "silent"
LINEAGE = Lineage((Term(1, 0),))


def subsets(stores: frozenset[str]) -> Iterator[frozenset[str]]:
    each = sorted(stores)
    for members in chain.from_iterable(combinations(each, n) for n in range(len(each) + 1)):
        yield frozenset(members)


@dataclass(frozen=True)
class World:
    """What the answers say, number by number."""

    policies: tuple[Policy, ...]
    holdings: Mapping[str, frozenset[int]]
    """Of every store that answered: the numbers of the stream that it holds."""
    vouching: frozenset[str]
    claim: int

    def possible_holders(self, policy: Policy, number: int) -> Iterator[frozenset[str]]:
        """Every set of the policy's stores that may hold the number."""
        sure = {store for store, held in self.holdings.items() if number in held} & policy.stores
        for more in subsets(policy.stores - self.vouching - sure):
            yield frozenset(sure) | more

    def may_be_stable(self, number: int) -> bool:
        return number <= self.claim or any(
            policy.stable(holders)
            for policy in self.policies
            for holders in self.possible_holders(policy, number)
        )

    def undecided(self) -> bool:
        """Whether some policy has a stable set with nobody in it who vouches."""
        return any(
            policy.stable(without)
            for policy in self.policies
            for without in subsets(policy.stores - self.vouching)
        )

    def survives(self, number: int) -> bool:
        return any(number in held for held in self.holdings.values())


def check(world: World, own: Policy, promises: Mapping[str, Promise], top: int) -> None:
    """Compare decide with the definition under every behaviour."""
    highest = decide(own, promises)
    if world.undecided():
        assert isinstance(highest, NeedMore), (world, highest)
        everyone = frozenset(chain.from_iterable(policy.stores for policy in world.policies))
        assert set(highest.missing) == everyone - world.vouching
        return
    # A number is reported as stable only with all before it.
    floor = next(n for n in range(-1, top + 2) if not world.may_be_stable(n + 1))
    lost = [number for number in range(floor + 1) if not world.survives(number)]
    if lost:
        assert isinstance(highest, Lost), (world, highest)
        assert highest.lost.first == lost[0]
        assert all(number in lost for number in range(lost[0], highest.lost.last + 1))
        assert highest.lost.last + 1 not in lost
        return
    assert isinstance(highest, Decision), (world, highest)
    assert highest.floor == floor
    kept = floor
    while world.survives(kept + 1):
        kept += 1
    assert highest.kept_upto == kept
    assert highest.stable_upto == world.claim
    check_holders(world, highest)
    for behaviour in (Behaviour.MAJORITY, Behaviour.LOWEST):
        other = decide(own, promises, behaviour)
        assert isinstance(other, Decision)
        assert other.floor == floor
        ends = {store: max(world.holdings[store], default=-1) for store in world.vouching}
        wanted = consensus(behaviour, own, ends)
        assert other.kept_upto == min(kept, max(floor, wanted)), (behaviour, world)
        check_holders(world, other)


def check_holders(world: World, decision: Decision) -> None:
    """What is not kept is set aside by whoever has it, so that nobody holds it any more."""
    top = max(chain.from_iterable(world.holdings.values()), default=-1)
    for store, held in world.holdings.items():
        left = {number for number in held if number <= decision.kept_upto}
        assert {n for n in range(top + 2) if n in decision.holders[store]} == left


def promise_of(numbers: frozenset[int], policy: Policy, claim: int, limbo: bool) -> Promise:
    return Promise(
        begun=BeginRecord(LINEAGE, Membership((policy,), (policy,))),
        held=tuple(HeldRange(number, number, 1) for number in sorted(numbers)),
        stable_upto=claim,
        limbo=limbo,
    )


def check_every_world(policy: Policy, holdings: list[frozenset[int]], claims: range) -> int:
    """Every holding of every store, every way to answer, every claim, told by one store."""
    stores, worlds = sorted(policy.stores), 0
    top = max(chain.from_iterable(holdings), default=-1)
    for held in product(holdings, repeat=len(stores)):
        for ways in product((VOUCHES, LIMBO, SILENT), repeat=len(stores)):
            answered = [store for store, way in zip(stores, ways, strict=True) if way != SILENT]
            for claim in claims if answered else claims[:1]:
                promises = {
                    store: promise_of(
                        numbers, policy, claim if store == answered[-1] else -1, way == LIMBO
                    )
                    for store, numbers, way in zip(stores, held, ways, strict=True)
                    if way != SILENT
                }
                world = World(
                    (policy,),
                    {store: held[stores.index(store)] for store in answered},
                    frozenset(s for s in answered if not promises[s].limbo),
                    claim,
                )
                check(world, policy, promises, top)
                worlds += 1
    return worlds


def tails(top: int) -> list[frozenset[int]]:
    """Nothing, [0, 0], [0, 1], … [0, top]."""
    return [frozenset(range(end)) for end in range(top + 2)]


@pytest.mark.long
def test_three_stores_with_tails() -> None:
    assert check_every_world(Policy.majority_of("abc"), tails(3), range(-1, 4)) > 10_000


def test_three_stores_with_holes_anywhere() -> None:
    numbers = [frozenset(n for n in range(2) if mask >> n & 1) for mask in range(4)]
    check_every_world(Policy.majority_of("abc"), numbers, range(-1, 2))


def _two_groups(rule: IntergroupRule, second: IntragroupRule) -> Policy:
    return Policy((Group("g", ("a", "b", "c")), Group("h", ("d",), second)), rule)


@pytest.mark.long
@pytest.mark.parametrize("rule", list(IntergroupRule))
def test_two_groups(rule: IntergroupRule) -> None:
    check_every_world(_two_groups(rule, IntragroupRule.QUORUM), tails(1), range(-1, 1))


@pytest.mark.long
@pytest.mark.parametrize("rule", list(IntragroupRule))
def test_two_pairs_by_intragroup_rule(rule: IntragroupRule) -> None:
    policy = Policy((Group("g", ("a", "b"), rule), Group("h", ("c", "d"), rule)))
    check_every_world(policy, tails(1), range(-1, 1))


@pytest.mark.parametrize("seed", range(40))
def test_any_policies_epochs_and_holdings(seed: int) -> None:
    """Two policies in force, two epochs with void batches, holes: sampled, not exhausted."""
    chooser = random.Random(seed)
    lineage = Lineage((Term(1, 0), Term(2, 2)))
    top = 4
    for _ in range(60):
        policies = tuple(
            Policy((Group("g", group, chooser.choice(list(IntragroupRule))),))
            for group in (("a", "b", "c"), ("b", "c", "d"))
        )
        own = policies[1]
        membership = Membership(policies[:1], policies)
        promises: dict[str, Promise] = {}
        holdings: dict[str, frozenset[int]] = {}
        for store in "abcd":
            way = chooser.choice((VOUCHES, VOUCHES, LIMBO, SILENT))
            if way == SILENT:
                continue
            epochs = {n: chooser.choice((0, 1, 2)) for n in range(top + 1)}
            begun = store == "b" or chooser.random() < 0.5
            promises[store] = Promise(
                begun=BeginRecord(
                    lineage if begun else LINEAGE,
                    membership if begun else Membership(policies[:1], policies[:1]),
                ),
                held=tuple(HeldRange(n, n, epoch) for n, epoch in epochs.items() if epoch),
                stable_upto=chooser.choice((-1, -1, 0, 1)),
                limbo=way == LIMBO,
            )
            holdings[store] = frozenset(n for n, e in epochs.items() if e == (1 if n < 2 else 2))
        if not any(promise.begun.epoch == 2 for promise in promises.values()):
            continue
        world = World(
            policies,
            holdings,
            frozenset(store for store, promise in promises.items() if not promise.limbo),
            max(promise.stable_upto for promise in promises.values()),
        )
        check(world, own, promises, top)


def test_a_first_registration_keeps_nothing() -> None:
    decision = decide(Policy.majority_of("abc"), {"a": Promise(), "b": Promise()})
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.floor, decision.stable_upto) == (-1, -1, -1)
    assert decision.begun.lineage == NO_LINEAGE
    assert decision.begun.policies == ()


def test_what_a_store_has_of_a_stream_that_was_ended_counts_for_nothing() -> None:
    """c was away when the source was deregistered; a and b know that it was."""
    policy = Policy.majority_of("abc")
    held = (HeldRange(0, 9, 1),)
    away = Promise(BeginRecord(LINEAGE, Membership((), (policy,))), held, stable_upto=9)
    end = Lineage((Term(2, 0),))
    told = Promise(BeginRecord(end, generation=2))
    decision = decide(policy, {"a": told, "b": told, "c": away})
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.stable_upto, decision.begun.lineage) == (-1, -1, end)
    assert (decision.begun.ended, decision.begun.generation, decision.begun.policies) == (
        True,
        2,
        (),
    )
    revived = decide(policy, {"a": Promise(), "b": Promise(), "c": away})
    assert isinstance(revived, Decision)
    assert revived.kept_upto == 9


def test_the_newest_begin_wins_also_over_an_end() -> None:
    """c alone began the end; the next registration had not heard of it, and went on."""
    policy = Policy.majority_of("abc")
    lineage = Lineage((*LINEAGE.terms, Term(3, 10)))
    went_on = Promise(BeginRecord(lineage, Membership((), (policy,))), (HeldRange(0, 9, 1),), 9)
    ended = Promise(BeginRecord(Lineage((Term(2, 0),)), generation=2))
    decision = decide(policy, {"a": went_on, "c": ended})
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.begun.lineage, decision.begun.ended) == (9, lineage, False)


def test_a_stream_after_an_end_voids_what_is_older_than_that() -> None:
    policy = Policy.majority_of("abc")
    anew = Lineage((Term(3, 0),))
    member = Membership((policy,), (policy,))
    new = Promise(BeginRecord(anew, member, 2), (HeldRange(0, 1, 3),), 1)
    old = Promise(BeginRecord(LINEAGE, member), (HeldRange(0, 9, 1),), stable_upto=9)
    decision = decide(policy, {"a": new, "b": old})
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.stable_upto, decision.begun.generation) == (1, 1, 2)


def test_nobody_answered() -> None:
    assert decide(Policy.majority_of("ab"), {}) == NeedMore(("a", "b"))


def test_blank_stores_outside_limbo_vouch_and_those_in_limbo_do_not() -> None:
    policy = Policy.majority_of("abc")
    assert isinstance(decide(policy, {"a": Promise(), "b": Promise(limbo=True)}), NeedMore)


def test_a_limbo_store_may_name_the_newest_lineage() -> None:
    """Its "I have it" counts, also of a begin record."""
    policy = Policy.majority_of("abc")
    member = Membership((policy,), (policy,))
    old = Promise(BeginRecord(LINEAGE, member), (HeldRange(0, 3, 1),), -1)
    newer = Lineage((Term(1, 0), Term(2, 2)))
    limbo = Promise(
        BeginRecord(newer, member), (HeldRange(0, 1, 1), HeldRange(2, 2, 2)), -1, limbo=True
    )
    decision = decide(policy, {"a": old, "b": old, "c": limbo})
    assert isinstance(decision, Decision)
    assert decision.begun.lineage == newer
    assert decision.kept_upto == 2


def test_the_newest_begin_is_that_of_the_highest_epoch_and_then_the_confirmed_one() -> None:
    here, there = Policy.majority_of("abc"), Policy.majority_of("xyz")
    moving = Membership((here,), (there,))
    joint = Membership((here,), (here, there))
    older = Promise(BeginRecord(Lineage((Term(1, 0),)), moving.confirmed()))
    assert newest_begun([]) == Promise()
    for unconfirmed in (moving, joint):
        begun = Promise(BeginRecord(Lineage((Term(2, 0),)), unconfirmed))
        assert newest_begun([older, begun]) is newest_begun([begun, older]) is begun
    begun, confirmed = (
        Promise(BeginRecord(Lineage((Term(2, 0),)), moving)),
        Promise(BeginRecord(Lineage((Term(2, 0),)), moving.confirmed())),
    )
    assert newest_begun([begun, confirmed]) is newest_begun([confirmed, begun]) is confirmed
    # Both name the same policies: what is asked of a recovery is the same.
    begun, confirmed = (
        Promise(BeginRecord(Lineage((Term(2, 0),)), joint)),
        Promise(BeginRecord(Lineage((Term(2, 0),)), joint.confirmed())),
    )
    assert newest_begun([begun, confirmed]) is begun
    assert newest_begun([confirmed, begun]) is confirmed


def test_the_policies_in_force_ask_too_when_the_source_comes_with_another() -> None:
    old, new = Policy.majority_of("abc"), Policy.majority_of("xyz")
    begun = Promise(BeginRecord(LINEAGE, Membership((old,), (old,))), (HeldRange(0, 3, 1),), 1)
    answer = decide(new, {"x": Promise(), "y": Promise(), "a": begun})
    assert answer == NeedMore(("b", "c", "z"))
    decision = decide(new, {"x": Promise(), "y": Promise(), "a": begun, "b": begun})
    assert isinstance(decision, Decision)
    assert decision.begun.policies == (old,)
    assert decision.kept_upto == 3


def test_what_may_be_stable_and_is_nowhere_names_who_might_have_it() -> None:
    policy = Policy.majority_of("abc")
    told = promise_of(frozenset(range(3)), policy, 5, limbo=False)
    lost = decide(policy, {"a": told, "b": told})
    assert isinstance(lost, Lost)
    assert (lost.lost.first, lost.lost.last) == (3, 5)
    assert lost.might_have == ("c",)


def test_nothing_behind_a_gap_that_nobody_can_fill_may_be_stable() -> None:
    """Two stores left limbo with what is behind what they lack; others are in limbo meanwhile."""
    policy = Policy.majority_of("abcd")
    behind = promise_of(frozenset((0, 1, 4, 5)), policy, 0, limbo=False)
    limbo = replace(Promise(), limbo=True)
    decision = decide(policy, {"a": behind, "b": behind, "c": limbo, "d": limbo})
    assert isinstance(decision, Decision)
    assert (decision.floor, decision.kept_upto) == (1, 1)
    filled = replace(behind, held=(HeldRange(0, 5, 1),))
    decision = decide(policy, {"a": behind, "b": filled, "c": limbo})
    assert isinstance(decision, Decision)
    assert (decision.floor, decision.kept_upto) == (5, 5)


def test_the_newest_marker_of_what_is_kept_is_told() -> None:
    """Not one above it, nor one whose message belongs to another epoch than the lineage names."""
    policy = Policy.majority_of("abc")
    lineage = Lineage((Term(1, 0), Term(3, 4)))
    member = Membership((policy,), (policy,))
    mine = Promise(
        BeginRecord(lineage, member),
        (HeldRange(0, 3, 1), HeldRange(4, 5, 3)),
        3,
        markers=(Marker(3, 1, b"three"), Marker(5, 3, b"five")),
    )
    # This store missed the newest epoch; what it has from 4 on is void.
    theirs = Promise(
        BeginRecord(Lineage((Term(1, 0), Term(2, 4))), member),
        (HeldRange(0, 3, 1), HeldRange(4, 6, 2)),
        3,
        markers=(Marker(3, 1, b"three"), Marker(6, 2, b"void")),
    )
    decision = decide(policy, {"a": mine, "b": theirs})
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.marker) == (5, Marker(5, 3, b"five"))
    decision = decide(policy, {"a": mine, "b": theirs, "c": theirs}, Behaviour.LOWEST)
    assert isinstance(decision, Decision)
    assert (decision.kept_upto, decision.marker) == (3, Marker(3, 1, b"three"))


def test_there_is_no_marker_if_none_was_committed() -> None:
    decision = decide(Policy.majority_of("abc"), {"a": Promise(), "b": Promise()})
    assert isinstance(decision, Decision)
    assert decision.marker is None


def with_losses(promise: Promise, *losses: HeldRange) -> Promise:
    return replace(promise, losses=losses)


@pytest.mark.parametrize("claim", range(-1, 4))
def test_a_loss_that_any_answering_store_names_is_required_of_nobody(claim: int) -> None:
    """Every holding of two answering stores, every loss: as if the lost numbers were there."""
    policy = Policy.majority_of("abc")
    numbers = [frozenset(n for n in range(4) if mask >> n & 1) for mask in range(16)]
    completed = 0
    for one, two, lost in product(numbers, repeat=3):
        promises = {
            "a": promise_of(one, policy, claim, limbo=False),
            "b": with_losses(
                promise_of(two, policy, -1, limbo=False),
                *(HeldRange(number, number, 1) for number in sorted(lost)),
            ),
        }
        without = decide(policy, {**promises, "b": with_losses(promises["b"])})
        answer = decide(policy, promises)
        # What was accepted as lost may have been stable: its numbers are not given away.
        floor = max(claim, *lost, -1)
        while floor + 1 in one | two:
            floor += 1
        missing = set(range(floor + 1)) - one - two
        if missing - lost:
            assert isinstance(answer, Lost)
            assert answer.lost.first == min(missing - lost)
            continue
        assert isinstance(answer, Decision)
        assert {n for n in range(9) if n in answer.losses} == missing
        assert answer.kept_upto == answer.floor == floor
        assert answer.holders.keys() == {"a", "b"}
        having = {n for n in range(9) if n in answer.holders["a"]}
        assert having == {n for n in one if n <= floor}, "a loss is nobody's"
        if isinstance(without, Decision):
            assert without == answer or without.floor < max(lost)
        else:
            completed += 1
    assert completed > 0 or claim < 0


def test_a_loss_counts_only_where_the_lineage_is_the_one_it_was_accepted_in() -> None:
    policy = Policy.majority_of("abc")
    lineage = Lineage((Term(1, 0), Term(3, 2)))
    member = Membership((policy,), (policy,))
    begun = Promise(BeginRecord(lineage, member), (HeldRange(0, 1, 1), HeldRange(4, 4, 3)), 4)
    for epoch, accepted in ((1, False), (2, False), (3, True)):
        loss = HeldRange(2, 3, epoch)
        answer = decide(policy, {"a": begun, "b": with_losses(begun, loss)})
        assert isinstance(answer, Decision if accepted else Lost), epoch


def test_no_number_that_is_accepted_as_lost_is_given_away() -> None:
    policy = Policy.majority_of("abc")
    held = promise_of(frozenset((0, 1, 2)), policy, 0, limbo=False)
    nothing = promise_of(frozenset(), policy, -1, limbo=False)
    loss = HeldRange(3, 4, 1)
    promises = {"a": held, "b": with_losses(nothing, loss), "c": nothing}
    answer = decide(policy, promises)
    assert isinstance(answer, Decision)
    assert (answer.floor, answer.kept_upto, list(answer.losses)) == (4, 4, [Range(3, 4)])
