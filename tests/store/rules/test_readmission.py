"""When a store may vouch again: the rules alone, over every small world there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, product
from typing import Any

import pytest
from tests.begun import rebegun
from tests.store.ended import ended_knowledge
from tests.store.support import ORDERS

from quorate.protocol.begin import BeginRecord
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.store.rules.peer_knowledge import (
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.readmission import (
    Adoption,
    Ask,
    Stay,
    leave,
    may_concern,
)
from quorate.store.rules.receiver_positions import ReceiverKnowledge
from quorate.v1.messages_pb2 import SourceInformation, StoreEntry
from quorate.v1.store_pb2 import ReceiverStatus

THREE = Policy.majority_of("abc")
UNKNOWN = SourceKnowledge()


def begun(
    upto: int = NOTHING, epoch: int = 1, policy: Policy = THREE, **changes: Any
) -> SourceKnowledge:
    """What a store knows that has begun an epoch and holds everything up to a number."""
    knowledge = SourceKnowledge(
        promised_epoch=epoch,
        promised_to=b"i",
        begun=BeginRecord(Lineage((Term(epoch, 0),)), Membership((policy,), (policy,))),
        held=(HeldRange(0, upto, epoch),) if upto >= 0 else (),
    )
    return rebegun(knowledge, **changes)


def said(store: str, knowledge: SourceKnowledge | None, limbo: bool = False) -> PeerAnswer:
    """A peer's answer; without knowledge it does not know the source."""
    known = {} if knowledge is None else {ORDERS: knowledge}
    return PeerAnswer(store, f"{store}:1", store.encode(), limbo=limbo, sources=known)


def decide(
    answers: Mapping[str, SourceKnowledge | None],
    own: SourceKnowledge = UNKNOWN,
    limbo: str = "",
    others: str = "bc",
) -> Stay | Adoption:
    """What the store a may do; limbo: the peers that are in limbo themselves."""
    sayings = []
    for store, knowledge in answers.items():
        if knowledge is not None:
            knowledge = replace(knowledge, limbo=store in limbo)
        sayings.append(said(store, knowledge, limbo=store in limbo))
    everyone = [f"{each}:1" for each in others]
    outcome = leave("a", "a:1", ORDERS, own, sayings, everyone, asked=everyone)
    assert not isinstance(outcome, Ask), "all have been asked"
    return outcome


def adopted(
    answers: Mapping[str, SourceKnowledge | None],
    own: SourceKnowledge = UNKNOWN,
    limbo: str = "",
    others: str = "bc",
) -> Adoption:
    decision = decide(answers, own, limbo, others)
    assert isinstance(decision, Adoption), decision
    return decision


def test_both_others_are_needed_and_neither_may_be_in_limbo() -> None:
    assert isinstance(decide({"b": begun(9)}), Stay)
    assert isinstance(decide({"b": begun(9), "c": begun(9)}, limbo="c"), Stay)
    assert isinstance(decide({"b": begun(9), "c": None}, limbo="c"), Stay)
    assert isinstance(decide({"b": begun(9), "c": begun(9)}), Adoption)
    assert isinstance(decide({"b": begun(9), "c": None}), Adoption), "it never heard of the source"


def test_who_says_nothing_of_it_is_asked_first() -> None:
    """It may have deleted it, and need not tell that unasked."""
    one, other = said("b", begun(9)), said("c", None)
    everyone = ["b:1", "c:1", "d:1"]
    more = said("d", None)

    def outcome(*answers: PeerAnswer, asked: Sequence[str] = ()) -> Stay | Ask | Adoption:
        return leave("a", "a:1", ORDERS, UNKNOWN, answers, everyone, asked=asked)

    assert outcome(one, other, more) == Ask(frozenset({"c:1"})), "d has no part in it"
    assert isinstance(outcome(one, other, more, asked=["c:1"]), Adoption)
    assert isinstance(outcome(one, more), Stay)
    assert isinstance(outcome(one, said("c", None, limbo=True)), Stay)


def test_an_end_at_a_peer_is_taken_over_as_the_newest_begin() -> None:
    still, gone = begun(9), ended_knowledge(2, membership=begun(9).begun.membership)
    for own in (UNKNOWN, begun(9)):
        adoption = adopted({"b": still, "c": gone}, own)
        assert (adoption.begun.epoch, adoption.begun.ended, adoption.floor) == (2, True, NOTHING)
        assert not adoption.fetch
    assert isinstance(decide({"b": still, "c": gone}, limbo="c"), Stay)


def test_what_began_after_an_end_counts_and_nothing_older() -> None:
    lineage = Lineage((Term(3, 0),))
    new = begun(4, 3, lineage=lineage, held=(HeldRange(0, 4, 3),), generation=2)
    adoption = adopted({"b": new, "c": begun(9)})
    assert (adoption.begun.epoch, adoption.begun.generation, adoption.begun.ended) == (3, 2, False)
    assert adoption.fetch == RangeSet([Range(0, 4)])


def test_who_is_missing_is_named() -> None:
    decision = decide({"b": begun(9)})
    assert isinstance(decision, Stay)
    assert "in limbo themselves: c" in decision.reason


def test_who_can_not_be_spared_is_told_that_waiting_does_not_help() -> None:
    everyone = Policy((Group("stores", ("a", "b", "c"), IntragroupRule.ALL),))
    decision = decide({each: begun(9, policy=everyone) for each in "bc"})
    assert isinstance(decision, Stay)
    assert "have answered, and are not enough without it by" in decision.reason
    assert "all of a, b, c" in decision.reason
    assert "quorate store readmit a --reason" in decision.reason


def test_a_source_that_nobody_began_needs_every_peer() -> None:
    promised = SourceKnowledge(promised_epoch=4, promised_to=b"i")
    assert isinstance(decide({"b": promised, "c": None}, others="bcd"), Stay)
    adoption = adopted({"b": promised, "c": None, "d": None}, others="bcd")
    assert (adoption.promised_epoch, adoption.promised_to) == (4, b"i")
    assert adoption.begun.lineage == Lineage()
    assert not adoption.fetch


def test_what_one_peer_holds_may_be_stable_with_what_this_store_had() -> None:
    """Though nobody was ever told: so it is not enough to fetch what is known to be stable."""
    adoption = adopted({"b": begun(9, stable_upto=3), "c": begun(3, stable_upto=3)})
    assert adoption.floor == 9
    assert adoption.fetch == RangeSet([Range(0, 9)])
    assert adoption.holders["b:1"] == RangeSet([Range(0, 9)])
    assert adoption.stable_upto == 3


def test_what_is_still_here_is_not_fetched() -> None:
    own = begun(5)
    adoption = adopted({"b": begun(9), "c": begun(9)}, own)
    assert adoption.fetch == RangeSet([Range(6, 9)])


def test_what_belongs_to_no_lineage_in_force_is_fetched_again() -> None:
    newer = begun(9, 2, lineage=Lineage((Term(1, 0), Term(2, 4))))
    newer = replace(newer, held=(HeldRange(0, 3, 1), HeldRange(4, 9, 2)))
    adoption = adopted({"b": newer, "c": newer}, begun(9))
    assert adoption.begun.lineage == newer.begun.lineage
    assert adoption.fetch == RangeSet([Range(4, 9)])


def test_a_message_that_no_peer_has_keeps_it_in_limbo() -> None:
    holes = begun(held=(HeldRange(0, 3, 1), HeldRange(6, 9, 1)), stable_upto=8)
    decision = decide({"b": holes, "c": begun(2)})
    assert isinstance(decision, Stay)
    assert "[4, 5] may have been stable" in decision.reason
    accepted = replace(holes, accepted_losses=(HeldRange(4, 5, 1),))
    adoption = adopted({"b": accepted, "c": begun(2)})
    assert adoption.fetch == RangeSet([Range(0, 3), Range(6, 9)])


def test_what_is_behind_a_gap_that_nobody_can_fill_is_not_waited_for() -> None:
    """Nobody was told that it is stable, and it can not be: b and c vouch for the gap."""
    holes = begun(held=(HeldRange(0, 3, 1), HeldRange(6, 9, 1)))
    adoption = adopted({"b": holes, "c": begun(2)})
    assert (adoption.floor, adoption.fetch) == (3, RangeSet([Range(0, 3)]))


def test_of_two_instances_that_were_promised_one_epoch_neither_is_let_in() -> None:
    one, other = begun(9), begun(9, promised_to=b"other")
    assert adopted({"b": one, "c": one}).promised_to == b"i"
    assert adopted({"b": one, "c": other}).promised_to == b""
    higher = replace(other, promised_epoch=7)
    adoption = adopted({"b": one, "c": higher})
    assert (adoption.promised_epoch, adoption.promised_to) == (7, b"other")
    assert adoption.begun.epoch == 1


def test_the_highest_of_each_receiver_counts() -> None:
    def receivers(*known: tuple[int, int, int]) -> SourceKnowledge:
        return begun(
            9,
            receivers=tuple(
                ReceiverStatus(session_id=session, epoch=epoch, acknowledged_upto=upto)
                for session, epoch, upto in known
            ),
        )

    answers = {"b": receivers((1, 5, 3), (2, 1, 7)), "c": receivers((1, 4, 8))}
    own = receivers((1, 6, 9), (3, 1, 0))
    assert adopted(answers, own).receivers == {
        1: ReceiverKnowledge(5, 8),
        2: ReceiverKnowledge(1, 7),
    }, "what it has itself may be of a receiver that ended since"


def test_what_is_spent_is_the_highest_that_any_peer_says() -> None:
    answers = {"b": begun(9, spent_receiver_epoch=4), "c": begun(9, spent_receiver_epoch=6)}
    assert adopted(answers).spent_receiver_epoch == 6


def test_whether_a_receiver_is_waited_for_its_newest_registration_says() -> None:
    def known(epoch: int, not_waited_for: bool) -> SourceKnowledge:
        one = ReceiverStatus(session_id=1, epoch=epoch, not_waited_for=not_waited_for)
        return begun(9, receivers=(one,))

    for older, newer in ((True, False), (False, True)):
        for answers in (
            {"b": known(1, older), "c": known(2, newer)},
            {"b": known(2, newer), "c": known(1, older)},
        ):
            assert adopted(answers).receivers == {1: ReceiverKnowledge(2, 0, waited_for=not newer)}


def test_a_position_counts_only_as_far_as_it_belongs_to_the_lineage() -> None:
    """Behind that, other messages have these numbers."""
    status = (ReceiverStatus(session_id=1, epoch=2, acknowledged_upto=8),)
    behind = begun(9, receivers=status)
    newer = begun(9, epoch=2, lineage=Lineage((Term(1, 0), Term(2, 5))))
    assert adopted({"b": behind, "c": newer}).receivers == {1: ReceiverKnowledge(2, 4)}


def test_a_confirmed_begin_needs_the_former_stores_no_more() -> None:
    moving = begun(9, membership=Membership((Policy.majority_of("xyz"),), (THREE,)))
    confirmed = begun(9, membership=Membership((), (THREE,)))
    assert isinstance(decide({"b": moving, "c": moving}), Stay)
    adoption = adopted({"b": moving, "c": confirmed})
    assert adoption.begun.membership == confirmed.begun.membership


def test_a_begin_that_names_no_stores_leaves_it_in_limbo() -> None:
    nobody = begun(9, membership=Membership((), ()))
    assert isinstance(decide({"b": nobody, "c": nobody}), Stay)


def test_stores_are_known_by_the_names_that_sources_give_them() -> None:
    policy = Policy.majority_of(("host-a:1", "host-b:1", "other"))
    information = SourceInformation(
        stores=[
            StoreEntry(name="host-a:1", address="a:1"),
            StoreEntry(name="host-b:1", address="b:1"),
            StoreEntry(name="other", address="c:1"),
        ]
    )
    known = begun(9, policy=policy, information=information)
    assert adopted({"b": known, "c": known}).fetch == RangeSet([Range(0, 9)])
    assert isinstance(decide({"b": begun(9, policy=policy), "c": begun(9, policy=policy)}), Stay)


def test_a_source_does_not_concern_it_only_if_all_its_stores_are_others() -> None:
    policy = Policy.majority_of("bcx")
    for entry, concerned in (
        (StoreEntry(name="x", address="x:1", store_name="far away"), False),
        (StoreEntry(name="x", address="x:1"), True),
        (StoreEntry(name="x", address="x:1", store_name="a"), True),
        (StoreEntry(name="x", address="a:1", store_name="far away"), True),
    ):
        information = SourceInformation(stores=[entry])
        known = begun(9, policy=policy, information=information)
        answers = [said("b", known), said("c", known)]
        assert may_concern("a", "a:1", ORDERS, answers) == concerned
    assert may_concern("a", "a:1", ORDERS, [said("b", begun(9)), said("c", None)])
    promised = SourceKnowledge(promised_epoch=4, promised_to=b"i")
    assert may_concern("a", "a:1", ORDERS, [said("b", promised)])


# Everything there is, in small.


def subsets(stores: str) -> Iterator[frozenset[str]]:
    return map(frozenset, chain.from_iterable(combinations(stores, n) for n in range(5)))


POLICIES = (
    THREE,
    Policy((Group("g", tuple("abc"), IntragroupRule.ALL),)),
    Policy((Group("g", ("a",)), Group("h", tuple("bcd")))),
    Policy((Group("g", tuple("ab")), Group("h", tuple("cd"))), IntergroupRule.ALL),
    Policy((Group("g", tuple("ab")), Group("h", tuple("cd"))), IntergroupRule.ANY),
)


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_that_may_be_stable_is_left_behind(policy: Policy) -> None:
    """Every way in which a store lost what it held, whoever holds what and whoever answers.

    Each message of two was held by some set of stores, the wiped store a among them or not. If
    that was a stable set, then a store that leaves limbo is to have fetched the message.
    """
    others = "".join(sorted(policy.stores - {"a"}))
    left = 0
    for first, second in product(list(subsets("a" + others)), repeat=2):
        held = {
            store: RangeSet([Range(n, n) for n, at in enumerate((first, second)) if store in at])
            for store in others
        }
        for answering, in_limbo in product(list(subsets(others)), list(subsets(others))):
            answers: dict[str, SourceKnowledge | None] = {
                store: begun(
                    policy=policy, held=tuple(HeldRange(r.first, r.last, 1) for r in held[store])
                )
                for store in answering
            }
            decision = decide(answers, limbo="".join(in_limbo), others=others)
            vouching = answering - in_limbo
            enough = policy.stable(vouching) and policy.blocks(vouching)
            if not enough:
                assert isinstance(decision, Stay)
                continue
            for number, at in enumerate((first, second)):
                # One is reported as stable only with those before it.
                if not policy.stable(at) or isinstance(decision, Stay):
                    break
                assert number in decision.fetch
            left += isinstance(decision, Adoption)
    without = policy.stores - {"a"}
    assert bool(left) == (policy.stable(without) and policy.blocks(without))


@pytest.mark.parametrize("policy", POLICIES)
def test_no_promise_that_counts_is_forgotten(policy: Policy) -> None:
    """A source that has the promise of a blocking set, the wiped store among it or not, is known to
    whoever leaves limbo. If only the wiped store promised, then a later answer tells the source.
    """
    others = "".join(sorted(policy.stores - {"a"}))
    for promised_at, answering in product(list(subsets("a" + others)), list(subsets(others))):
        answers: dict[str, SourceKnowledge | None] = {
            store: begun(
                policy=policy,
                promised_epoch=9 if store in promised_at else 1,
                promised_to=b"new" if store in promised_at else b"i",
            )
            for store in answering
        }
        decision = decide(answers, others=others)
        if isinstance(decision, Adoption) and policy.blocks(promised_at) and promised_at != {"a"}:
            assert decision.promised_epoch == 9
