"""Which groups of which policy hold what is stable of a source, as the stores say.

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
    """A row for each group of each policy in force, and what is wrong, in words.

    newest: what a store says that has begun the newest epoch; has_all: the stores that hold all
    that is stable; taking: those that the source streams to; names: what the stores call
    themselves, by address; unasked: those of its policies that nobody asked, which may hold all.
    """
    # Who asks may reach a store elsewhere than the source does.
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
                f"What is stable of {name} is not held as its policy asks for: {policy}; "
                f"held by {', '.join(sorted(holders)) or 'none that answered'}."
            )
    return rows, problems


def unasked(
    newest: SourceStatus, asked: Iterable[StoreAddress], names: Mapping[str, str]
) -> dict[str, str]:
    """The stores of the policies in force that nobody asked: name, and address if it is known.

    names: what those that answered call themselves, by address.
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
    """None: that depends on stores that nobody asked."""
    return None if group in may_hold and group not in holding else group in holding


def _declared(newest: SourceStatus) -> Policy | None:
    """What the source is configured with, if backups stand in."""
    information = newest.information
    return policy_from_wire(information.declared) if information.HasField("declared") else None


def _stand_ins(policy: Policy, declared: Policy | None, group: str) -> dict[str, str]:
    """By backup: the member that it stands in for."""
    if declared is None or not policy.is_variant_of(declared):
        return {}
    return {
        backup: member for where, member, backup in policy.stand_ins(declared) if where == group
    }


def _policies(newest: SourceStatus) -> list[tuple[Policy, str]]:
    """The policies that the begun record names, and what they are to the stream."""
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
