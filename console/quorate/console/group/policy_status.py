"""The groups of each policy that hold the stable messages of a source, by the word of the stores.

Only reads; part of quorate.console.group.status.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.wire import membership_from_wire, policy_from_wire
from quorate.v1.store_pb2 import SourceStatus

Row = dict[str, Any]


def group_rows(
    name: SourceName,
    newest: SourceStatus,
    has_all: frozenset[str],
    taking: frozenset[str],
    names: Mapping[str, str],
    unasked: Set[str],
) -> tuple[list[Row], list[str]]:
    """Return a row for each group of each policy in force, and the problems in words.

    newest: the status from a store that has begun the newest epoch. has_all: the stores that hold
    all stable messages.

    taking: the stores that the source streams to. names: the stores' own names by address.

    unasked: the stores of its policies that were not asked, and that may hold everything.
    """
    # The command may reach a store at another address than the source does.
    called = {
        entry.name: entry.store_name or names.get(entry.address, entry.name)
        for entry in newest.information.stores
    }
    rows: list[Row] = []
    problems: list[str] = []
    declared = _declared(newest)
    for policy, role in _policies(newest):
        holders = {store for store in policy.stores if called.get(store, store) in has_all}
        active = {store for store in policy.stores if called.get(store, store) in taking}
        holding = policy.groups_holding(holders, active)
        may_hold = policy.groups_holding(holders | unasked, active | unasked)
        rows += [
            {
                "topic": name.topic,
                "session_id": f"{name.session_id:#x}",
                "group": group.name,
                "rule": group.rule.value,
                "intergroup": policy.rule.value,
                "role": role,
                "satisfied": _satisfied(group.name, holding, may_hold),
                "stores": list(group.stores),
                "holding": [store for store in group.stores if store in holders],
                "backups": list(group.backups),
                "stand_in_for": _stand_ins(policy, declared, group.name),
            }
            for group in policy.groups
        ]
        if not policy.stable(holders | unasked, active | unasked):
            problems.append(
                f"Too few stores hold the stable messages of {name}. Its policy asks for {policy}; "
                f"held by {', '.join(sorted(holders)) or 'no store that answered'}."
            )
    return rows, problems


def unasked(
    newest: SourceStatus, asked: Iterable[StoreAddress], names: Mapping[str, str]
) -> dict[str, str]:
    """Return the stores of the policies in force that were not asked: address by name.

    An unknown address is empty. names: the own names of the stores that answered, by address.
    """
    addresses = {store.address for store in asked}
    known = {store.name for store in asked} | set(names.values())
    where = {entry.name: entry.address for entry in newest.information.stores}
    was_asked = known | {
        entry.name
        for entry in newest.information.stores
        if entry.address in addresses or entry.store_name in known
    }
    return {
        store: where.get(store, "")
        for policy, _ in _policies(newest)
        for store in sorted(policy.stores)
        if store not in was_asked
    }


def _satisfied(group: str, holding: Sequence[str], may_hold: Sequence[str]) -> bool | None:
    """Return whether the group is satisfied; None if that depends on stores that were not asked."""
    return None if group in may_hold and group not in holding else group in holding


def _declared(newest: SourceStatus) -> Policy | None:
    """Return the policy that the source is configured with, if backups stand in."""
    information = newest.information
    return policy_from_wire(information.declared) if information.HasField("declared") else None


def _stand_ins(policy: Policy, declared: Policy | None, group: str) -> dict[str, str]:
    """Return the member that each backup stands in for, by backup."""
    if declared is None or not policy.is_variant_of(declared):
        return {}
    return {
        backup: member for where, member, backup in policy.stand_ins(declared) if where == group
    }


def _policies(newest: SourceStatus) -> list[tuple[Policy, str]]:
    """Return the policies that the begun record names, each with its role for the stream."""
    membership = Membership((), ())
    if newest.HasField("membership"):
        membership = membership_from_wire(newest.membership)
    elif newest.information.policy.groups:
        membership = Membership((), (policy_from_wire(newest.information.policy),))
    policies = membership.policies
    if len(policies) == 1:
        return [(policies[0], "in force")]
    leaving = [policy for policy in policies if policy not in membership.to_policies]
    return [(policy, "leaving" if policy in leaving else "changing") for policy in policies]
