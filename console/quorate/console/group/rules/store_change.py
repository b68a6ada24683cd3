"""A change of the stores of a group: a store comes, leaves, or takes the place of another one.

Pure: the policy that each source goes to, and the lines of configuration that say so. The steps
are in quorate.console.group.rules.change_steps.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from quorate.console.group.rules.source_status import SourceView
from quorate.protocol.addresses import place_of
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import StoreAddress
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy


@dataclass(frozen=True, slots=True)
class StoreChange:
    """The store that leaves, and the one that comes."""

    old: str = ""
    """The own name of the store that leaves; empty: none does."""
    new: StoreAddress | None = None
    """The store that comes; None: none does."""
    group: str = ""
    """The group that a further store comes to; empty: the only one."""

    def __str__(self) -> str:
        if self.new is None:
            return f"remove {self.old}"
        if not self.old:
            return f"add {self.new.name}"
        if self.keeps_name:
            return f"replace {self.old}, at {self.new.address}"
        return f"replace {self.old} by {self.new.name}"

    @property
    def keeps_name(self) -> bool:
        """Whether a store comes back under its name: on a blank disk, or at another address."""
        return self.new is not None and self.new.name == self.old

    @property
    def new_address(self) -> str:
        """The address of the store that comes; empty: none does."""
        return self.new.address if self.new is not None else ""

    def target(self, policy: Policy, olds: Collection[str]) -> Policy:
        """Return the policy that a source goes to.

        olds: the names that the policy has for the store that leaves. Raises InvalidArgument if the
        policy has no such group, or no store is left.
        """
        if self.keeps_name:
            return policy
        if self.new is not None and not self.old:
            return self._with_new(policy)
        groups = [
            replace(
                group,
                stores=self._swapped(group.stores, olds),
                backups=self._swapped(group.backups, olds),
            )
            for group in policy.groups
        ]
        left = tuple(group for group in groups if group.stores)
        if not left:
            raise InvalidArgument("store", f"{self.old} is the last store of {policy}")
        return Policy(left, policy.rule)

    def _swapped(self, stores: tuple[str, ...], olds: Collection[str]) -> tuple[str, ...]:
        instead = (self.new.name,) if self.new is not None else ()
        return tuple(name for store in stores for name in (instead if store in olds else (store,)))

    def _with_new(self, policy: Policy) -> Policy:
        assert self.new is not None
        names = [group.name for group in policy.groups]
        chosen = self.group or (names[0] if len(names) == 1 else "")
        if chosen not in names:
            what = f"{chosen!r} is none of" if chosen else "must name one of"
            raise InvalidArgument("--group", f"{what} {', '.join(names)}")
        new = self.new.name
        return Policy(
            tuple(
                replace(group, stores=(*group.stores, new)) if group.name == chosen else group
                for group in policy.groups
            ),
            policy.rule,
        )


def names_of(view: SourceView, policy: Policy, store: str) -> set[str]:
    """Return the names that a policy of a source has for the store of this own name."""
    called = view.members.called
    return {
        name for name in policy.stores | policy.backups if store in (name, called.get(name, name))
    }


def has_moved(view: SourceView, change: StoreChange) -> bool:
    """Return whether the change asks nothing more of the policies of a source."""
    policies = view.members.policies
    return change.keeps_name or (
        len(policies) == 1 and policy_has_moved(view, policies[0][0], change)
    )


def policy_has_moved(view: SourceView, policy: Policy, change: StoreChange) -> bool:
    """Return whether the change asks nothing more of this policy of a source."""
    if change.keeps_name:
        return True
    if change.old:
        return not names_of(view, policy, change.old)
    assert change.new is not None
    return bool(names_of(view, policy, change.new.name) & policy.stores)


# The lines of configuration.


def layout_lines(policy: Policy, addresses: Mapping[str, str], table: str = "") -> list[str]:
    """Return a layout as lines of TOML. addresses: by the names of the stores in the policy.

    table: the table of which it is a part; empty: it is on top.
    """
    (group, *more), rule = policy.groups, IntergroupRule(policy.rule)
    head = [f"[[{table}]]"] if table else []
    plain = not more and rule is IntergroupRule.ANY and not group.backups
    if plain and (group.name, IntragroupRule(group.rule)) == ("stores", IntragroupRule.QUORUM):
        return [*head, f"stores = {_named(group.stores, addresses)}"]
    if rule is not IntergroupRule.ANY:
        head.append(f"intergroup = {_text(rule.value)}")
    inner = f"{table}.groups" if table else "groups"
    return [*head, *(line for each in policy.groups for line in _group(each, inner, addresses))]


def _group(group: Group, table: str, addresses: Mapping[str, str]) -> list[str]:
    lines = [f"[[{table}]]", f"name = {_text(group.name)}"]
    if (rule := IntragroupRule(group.rule)) is not IntragroupRule.QUORUM:
        lines.append(f"rule = {_text(rule.value)}")
    lines.append(f"stores = {_named(group.stores, addresses)}")
    if group.backups:
        lines.append(f"backups = {_named(group.backups, addresses)}")
    return lines


def peer_line(addresses: Sequence[str]) -> str:
    """Return the line of a store's file that names its peers."""
    return f"peers = [{', '.join(map(_text, addresses))}]"


def _named(stores: Sequence[str], addresses: Mapping[str, str]) -> str:
    return f"[{', '.join(_text(_address(store, addresses)) for store in stores)}]"


def _address(store: str, addresses: Mapping[str, str]) -> str:
    """Return a store as people write it. A store without a name is called by its address."""
    address = addresses.get(store, "HOST:PORT")
    return address if store == place_of(address) else f"{store}={address}"


def _text(value: str) -> str:
    # A string of JSON is one of TOML.
    return json.dumps(value, ensure_ascii=False)
