"""The groups of each policy that hold the stable messages of a source, by the word of the stores.

Only reads; part of quorate.console.group.status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from quorate.console.group.rules.findings import Finding, Kind, Severity
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.policy import IntergroupRule, IntragroupRule, Policy
from quorate.protocol.wire import membership_from_wire, named_in_policies, policy_from_wire
from quorate.v1.store_pb2 import SourceStatus, StatusResponse

Row = dict[str, Any]

_ENTRY = attrgetter("name", "address", "store_name")


@dataclass(frozen=True, slots=True)
class Members:
    """The policies of a source, and the stores that they name."""

    policies: tuple[tuple[Policy, str], ...]
    """The policies that the begun record names, each with its role for the stream."""
    called: Mapping[str, str]
    """The stores' own names by those in the policies, as far as they are known.

    The command may reach a store at another address than the source does.
    """
    unasked: Mapping[str, str]
    """The addresses, if known, of the stores that were not asked, by their names in the policies.
    They may hold everything."""
    replicas: frozenset[str] = frozenset()
    """The own names of the stores that the source sends to and that no policy names."""

    @property
    def own_names(self) -> set[str]:
        """The own names of the stores of the policies, as far as they are known."""
        called = self.called
        return {called.get(store, store) for policy, _ in self.policies for store in policy.stores}


@dataclass(frozen=True, slots=True)
class Asked:
    """The stores that were asked, and the answers of those that answered."""

    stores: Sequence[StoreAddress]
    answers: Mapping[str, StatusResponse]
    """The answers by the stores' own names."""
    names: Mapping[str, str]
    """The own names of the stores that answered, by address."""
    _members: dict[object, Members] = field(default_factory=dict)

    def members(self, newest: SourceStatus) -> Members:
        """Return the policies and stores of a source. Most sources of a group have the same ones.

        newest: the status from a store that has begun the newest epoch.
        """
        information = newest.information
        begun = newest.begun
        record = begun.membership if begun.HasField("membership") else information.policy
        known_by = (
            begun.HasField("membership"),
            record.SerializeToString(deterministic=True),
            *map(_ENTRY, information.stores),
        )
        members = self._members.get(known_by)
        if members is None:
            members = self._members[known_by] = self._members_of(newest)
        return members

    def _members_of(self, newest: SourceStatus) -> Members:
        stores = newest.information.stores
        called = {
            each.name: each.store_name or self.names.get(each.address, each.name) for each in stores
        }
        policies = _policies(newest)
        addresses = {store.address for store in self.stores}
        known = {store.name for store in self.stores} | set(self.names.values())
        where = {each.name: each.address for each in stores}
        asked = known | {
            each.name for each in stores if each.address in addresses or each.store_name in known
        }
        unasked = {
            store: where.get(store, "")
            for policy, _ in policies
            for store in sorted(policy.stores)
            if store not in asked
        }
        named = named_in_policies(newest)
        replicas = frozenset(own for name, own in called.items() if named and name not in named)
        return Members(policies, called, unasked, replicas)


@dataclass(frozen=True, slots=True)
class GroupView:
    """The groups of the policies in force of one source."""

    name: SourceName
    members: Members
    has_all: frozenset[str]
    """The stores that hold all stable messages, by their own names."""
    taking: frozenset[str]
    """The stores that the source streams to, by their own names."""

    def rows(self, declared: Policy | None) -> list[Row]:
        """Return a row for each group of each policy in force.

        declared: the policy that the source is configured with, if backups stand in.
        """
        unasked = self.members.unasked.keys()
        rows: list[Row] = []
        for policy, role in self.members.policies:
            holders, active = self._of(policy)
            holding = policy.groups_holding(holders, active)
            may_hold = policy.groups_holding(holders | unasked, active | unasked)
            rows += [
                {
                    "topic": self.name.topic,
                    "session_id": f"{self.name.session_id:#x}",
                    "group": group.name,
                    "rule": IntragroupRule(group.rule).value,
                    "intergroup": IntergroupRule(policy.rule).value,
                    "role": role,
                    "satisfied": _satisfied(group.name, holding, may_hold),
                    "stores": list(group.stores),
                    "holding": [store for store in group.stores if store in holders],
                    "backups": list(group.backups),
                    "stand_in_for": _stand_ins(policy, declared, group.name),
                }
                for group in policy.groups
            ]
        return rows

    def findings(self) -> Iterator[Finding]:
        """Yield the policies that the stable messages do not meet."""
        unasked = self.members.unasked.keys()
        for policy, _ in self.members.policies:
            holders, active = self._of(policy)
            if not policy.stable(holders | unasked, active | unasked):
                yield Finding(
                    Severity.CRITICAL, Kind.POLICY, str(self.name),
                    f"Too few stores hold the stable messages of {self.name}. Its policy asks for "
                    f"{policy}; held by {', '.join(sorted(holders)) or 'no store that answered'}.",
                    "If one more store fails, messages that were said to be stable may be gone.",
                    "Start the stores that are away. `quorate repair` fills the others.",
                )  # fmt: skip

    def cut_off(self) -> Iterator[Finding]:
        """Yield the policies that the stores to which the source streams cannot meet."""
        unasked = self.members.unasked.keys()
        for policy, role in self.members.policies:
            _, taking = self._of(policy)
            if role != "leaving" and not policy.stable(taking | unasked, taking | unasked):
                yield Finding(
                    Severity.CRITICAL, Kind.NO_QUORUM, str(self.name),
                    f"{self.name} has no quorum: it streams to "
                    f"{', '.join(sorted(taking)) or 'no store that answered'}, and its policy asks "
                    f"for {policy}.",
                    "Nothing that it sends becomes stable.",
                    "Start the stores that are away, or mend the network between them and the "
                    "source.",
                )  # fmt: skip

    def findings_without(self, store: str) -> Iterator[Finding]:
        """Yield the policies that the source would no longer meet if this store stopped.

        store: its own name. A source that streams to no store needs none.
        """
        left = self.taking - {store}
        for policy, _ in self.members.policies:
            if self.taking and not policy.stable(*self._named(policy, left, left)):
                yield Finding(
                    Severity.WARNING, Kind.NO_QUORUM, str(self.name),
                    f"Without store {store}, {self.name} would lose its quorum. Its policy asks "
                    f"for {policy}; it would stream to {', '.join(sorted(left)) or 'no store'}.",
                    "Nothing that it sends would become stable.",
                    "Wait until the source streams to the other stores before you stop this one.",
                )  # fmt: skip

    def _of(self, policy: Policy) -> tuple[set[str], set[str]]:
        """Return the stores of a policy that hold everything, and those that are active."""
        return self._named(policy, self.has_all, self.taking)

    def _named(
        self, policy: Policy, holding: frozenset[str], taking: frozenset[str]
    ) -> tuple[set[str], set[str]]:
        """Return which stores of a policy are among these, by their names in the policy."""
        called = self.members.called
        holders = {store for store in policy.stores if called.get(store, store) in holding}
        active = {store for store in policy.stores if called.get(store, store) in taking}
        return holders, active


def declared_policy(newest: SourceStatus) -> Policy | None:
    """Return the policy that the source is configured with, if backups stand in."""
    information = newest.information
    return policy_from_wire(information.declared) if information.HasField("declared") else None


def _satisfied(group: str, holding: Sequence[str], may_hold: Sequence[str]) -> bool | None:
    """Return whether the group is satisfied; None if that depends on stores that were not asked."""
    return None if group in may_hold and group not in holding else group in holding


def _stand_ins(policy: Policy, declared: Policy | None, group: str) -> dict[str, str]:
    """Return the member that each backup stands in for, by backup."""
    if declared is None or not policy.is_variant_of(declared):
        return {}
    return {
        backup: member for where, member, backup in policy.stand_ins(declared) if where == group
    }


def _policies(newest: SourceStatus) -> tuple[tuple[Policy, str], ...]:
    """Return the policies that the begun record names, each with its role for the stream."""
    if not newest.begun.HasField("membership"):
        policy = newest.information.policy
        return ((policy_from_wire(policy), "in force"),) if policy.groups else ()
    membership = membership_from_wire(newest.begun.membership)
    policies = membership.policies
    if len(policies) == 1:
        return ((policies[0], "in force"),)
    leaving = [policy for policy in policies if policy not in membership.to_policies]
    return tuple((each, "leaving" if each in leaving else "changing") for each in policies)
