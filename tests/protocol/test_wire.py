"""The protocol's types cross the wire unchanged, and what no peer may send is refused by name."""

from __future__ import annotations

from itertools import product

import pytest

from quorate.protocol import wire
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.v1 import messages_pb2 as v1

POLICIES = [
    Policy((Group("g", ("a", "b"), intragroup, ("d",)), Group("h", ("c",))), intergroup)
    for intragroup, intergroup in product(IntragroupRule, IntergroupRule)
]


@pytest.mark.parametrize("session_id", [1, 2**63, 2**64 - 2])
def test_source_name(session_id: int) -> None:
    name = SourceName("Börse", session_id)
    sent = v1.SourceName.FromString(wire.source_to_wire(name).SerializeToString())
    assert wire.source_from_wire(sent) == name


@pytest.mark.parametrize(("topic", "session_id"), [("", 1), ("a", 0), ("a", 2**64 - 1), ("\n", 1)])
def test_impossible_source_names_are_refused(topic: str, session_id: int) -> None:
    with pytest.raises(InvalidArgument):
        wire.source_from_wire(v1.SourceName(topic=topic, session_id=session_id))


@pytest.mark.parametrize(
    "lineage", [NO_LINEAGE, Lineage((Term(1, 0),)), Lineage((Term(1, 0), Term(2**63, 2**62)))]
)
def test_lineage(lineage: Lineage) -> None:
    assert wire.lineage_from_wire(wire.lineage_to_wire(lineage)) == lineage


@pytest.mark.parametrize(
    "terms", [[(0, 0)], [(1, -1)], [(2, 0), (1, 5)], [(1, 5), (2, 5)], [(1, 5), (2, 3)]]
)
def test_impossible_lineages_are_refused(terms: list[tuple[int, int]]) -> None:
    sent = [v1.LineageEntry(epoch=epoch, first_sequence=first) for epoch, first in terms]
    with pytest.raises(InvalidArgument, match="lineage"):
        wire.lineage_from_wire(sent)


def test_held_ranges() -> None:
    held = (HeldRange(0, 0, 1), HeldRange(5, 2**62, 3))
    assert wire.held_from_wire(wire.held_to_wire(held)) == held


@pytest.mark.parametrize(("first", "last"), [(3, 2), (-1, 2)])
def test_impossible_held_ranges_are_refused(first: int, last: int) -> None:
    with pytest.raises(InvalidArgument, match="held range"):
        wire.held_from_wire([v1.HeldRange(first=first, last=last, epoch=1)])


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_policy(policy: Policy) -> None:
    sent = v1.Policy.FromString(wire.policy_to_wire(policy).SerializeToString())
    assert wire.policy_from_wire(sent) == policy


@pytest.mark.parametrize("rule", [v1.INTERGROUP_RULE_UNSPECIFIED, 99])
def test_policies_with_rules_of_a_newer_version_are_refused(rule: v1.IntergroupRule) -> None:
    sent = wire.policy_to_wire(POLICIES[0])
    sent.rule = rule
    with pytest.raises(InvalidArgument, match="intergroup"):
        wire.policy_from_wire(sent)
    sent = wire.policy_to_wire(POLICIES[0])
    sent.groups[0].rule = v1.INTRAGROUP_RULE_UNSPECIFIED
    with pytest.raises(InvalidArgument, match="intragroup"):
        wire.policy_from_wire(sent)


def test_an_empty_policy_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        wire.policy_from_wire(v1.Policy(rule=v1.INTERGROUP_RULE_ANY))


def test_membership() -> None:
    membership = Membership(tuple(POLICIES[:2]), tuple(POLICIES[1:3]))
    assert wire.membership_from_wire(wire.membership_to_wire(membership)) == membership
    nothing = Membership((), ())
    assert wire.membership_from_wire(wire.membership_to_wire(nothing)) == nothing


def test_memberships_that_differ_in_their_addresses_alone_have_messages_of_their_own() -> None:
    for address in ("a:1", "a:2", "a:1"):
        membership = Membership((), (POLICIES[0],), (("a", address),))
        sent = wire.membership_to_wire(membership)
        assert wire.membership_from_wire(sent).addresses == (("a", address),)
        sent.stores[0].address = "changed by a caller"
