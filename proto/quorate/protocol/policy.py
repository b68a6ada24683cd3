"""When a message is stable: a monotone predicate over the stores that hold it (protocol.md 3).

Everything else about quorums is derived from this predicate alone. Blocking sets are here,
`stable_upto` is in quorate.protocol.tracker, and the needs of a recovery are in
quorate.protocol.recovery. Tests compare every derivation with the plain definition over all small
configurations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from quorate.protocol.choices import read_choices
from quorate.protocol.errors import InvalidArgument


class IntragroupRule(enum.Enum):
    """How many of a group's stores must hold a message for the group to count as holding it."""

    QUORUM = "quorum"
    ALL_ACTIVE = "all-active"
    ALL = "all"

    __hash__ = object.__hash__


class IntergroupRule(enum.Enum):
    """How many of the groups must hold a message."""

    ANY = "any"
    MAJORITY = "majority"
    ALL_ACTIVE = "all-active"
    ALL = "all"

    __hash__ = object.__hash__


def quorum(members: int) -> int:
    """Return the size of the smallest majority of this many members."""
    return members // 2 + 1


@dataclass(frozen=True, slots=True)
class Group:
    """A named set of stores that counts as one unit of resilience."""

    name: str
    stores: tuple[str, ...]
    rule: IntragroupRule | str = IntragroupRule.QUORUM
    """How many of these stores must hold a message: quorum, all-active, all."""
    backups: tuple[str, ...] = field(default=(), compare=False)
    """Stores that stand in, in this order, for members that do not answer.

    They are not compared: two groups are equal if only their backups differ.
    """

    def __post_init__(self) -> None:
        read_choices(self, rule=IntragroupRule)

    def __str__(self) -> str:
        spares = f"; backups {', '.join(self.backups)}" if self.backups else ""
        return (
            f"{self.name} ({IntragroupRule(self.rule).value} of {', '.join(self.stores)}{spares})"
        )

    def holds(self, holders: Set[str], active: Set[str]) -> bool:
        """Return whether the group holds a message on these holders, while these are active."""
        held = sum(store in holders for store in self.stores)
        match self.rule:
            case IntragroupRule.QUORUM:
                return held >= quorum(len(self.stores))
            case IntragroupRule.ALL:
                return held == len(self.stores)
            case _:  # ALL_ACTIVE
                # Never fewer than a majority of the configured members. Else a shrinking set of
                # active members would become a quorum of one.
                return held >= quorum(len(self.stores)) and all(
                    store in holders for store in self.stores if store in active
                )

    def is_active(self, active: Set[str]) -> bool:
        """Return whether enough of its stores are active for the group to take part."""
        return sum(store in active for store in self.stores) >= quorum(len(self.stores))


@dataclass(frozen=True, slots=True)
class Policy:
    """Groups of stores, and how many of the groups a message needs."""

    groups: tuple[Group, ...]
    rule: IntergroupRule | str = IntergroupRule.ANY
    """How many of the groups must hold a message: any, majority, all-active, all."""
    stores: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of all configured stores."""
    backups: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of all backups."""

    def __post_init__(self) -> None:
        read_choices(self, rule=IntergroupRule)
        # Made once, because every wait for a quorum asks for them again and again.
        members = frozenset(store for group in self.groups for store in group.stores)
        spares = frozenset(store for group in self.groups for store in group.backups)
        object.__setattr__(self, "stores", members)
        object.__setattr__(self, "backups", spares)
        if not self.groups or not all(group.stores for group in self.groups):
            raise InvalidArgument("policy", "has no group, or a group without stores")
        if len({group.name for group in self.groups}) < len(self.groups):
            raise InvalidArgument("policy", "has two groups of one name")
        if len(members | spares) < sum(
            len(group.stores) + len(group.backups) for group in self.groups
        ):
            raise InvalidArgument("policy", "names a store twice")

    def __hash__(self) -> int:
        # The set keeps its hash. Each look into a cache of what is sent asks for that of policies.
        return hash(self.stores)

    def __str__(self) -> str:
        groups = " and ".join(map(str, self.groups))
        if len(self.groups) == 1:
            return groups
        return f"{IntergroupRule(self.rule).value} of {groups}"

    @staticmethod
    def majority_of(stores: Iterable[str]) -> Policy:
        """Return the policy of one group: a quorum of these stores makes a message stable."""
        return Policy((Group("stores", tuple(stores)),))

    def is_variant_of(self, declared: Policy) -> bool:
        """Return whether it is that policy, apart from backups that stand in for members."""
        return (
            self.rule is declared.rule
            and len(self.groups) == len(declared.groups)
            and all(
                (mine.name, mine.rule, len(mine.stores))
                == (theirs.name, theirs.rule, len(theirs.stores))
                and {*mine.stores} <= {*theirs.stores, *theirs.backups}
                for mine, theirs in zip(self.groups, declared.groups, strict=True)
            )
        )

    def stand_ins(self, declared: Policy) -> Iterator[tuple[str, str, str]]:
        """Yield group, member and backup for every backup that stands in.

        declared: the policy that this one is a variant of.
        """
        for theirs, mine in zip(declared.groups, self.groups, strict=True):
            for member, store in zip(theirs.stores, mine.stores, strict=True):
                if member != store:
                    yield theirs.name, member, store

    def group_of(self, store: str) -> Group | None:
        """Return the group that the store is a member of, if there is one."""
        return next((group for group in self.groups if store in group.stores), None)

    def groups_holding(self, holders: Set[str], active: Set[str]) -> tuple[str, ...]:
        """Return the groups' names that hold a message on `holders`, while `active` are active."""
        return tuple(group.name for group in self.groups if group.holds(holders, active))

    def stable(self, holders: Set[str], active: Set[str] | None = None) -> bool:
        """Return whether a message on these stores is stable.

        active: the active stores, for the all-active rules. Without it the answer is whether the
        message may be stable under any set of active stores: the question of a recovery.
        """
        if active is None:
            # No active store asks for the least. The holders as active stores would ask for more:
            # two holders make a group of three active, which under `all` then lacks one.
            active = frozenset()
        held = [group for group in self.groups if group.holds(holders, active)]
        match self.rule:
            case IntergroupRule.ANY:
                return bool(held)
            case IntergroupRule.MAJORITY:
                return len(held) >= quorum(len(self.groups))
            case IntergroupRule.ALL:
                return len(held) == len(self.groups)
            case _:  # ALL_ACTIVE
                return len(held) >= quorum(len(self.groups)) and all(
                    group in held for group in self.groups if group.is_active(active)
                )

    def blocks(self, stores: Set[str]) -> bool:
        """Return whether these stores are a blocking set: without them nothing can be stable."""
        return not self.stable(self.stores - stores)


def named_by(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the stores and the backups that these policies name."""
    return frozenset().union(*(policy.stores | policy.backups for policy in policies))


@dataclass(frozen=True, slots=True)
class Membership:
    """The policies of a begin record: those that it came from, and those that it goes to."""

    from_policies: tuple[Policy, ...]
    to_policies: tuple[Policy, ...]
    addresses: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Names and addresses of the stores, for a source whose configuration lacks them."""
    _policies: tuple[Policy, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        named = dict.fromkeys(self.from_policies + self.to_policies)
        object.__setattr__(self, "_policies", tuple(named))

    @property
    def policies(self) -> tuple[Policy, ...]:
        """All named policies, each of them once."""
        return self._policies

    @property
    def stores(self) -> frozenset[str]:
        """All stores of all named policies."""
        return frozenset().union(*(policy.stores for policy in self.policies))

    def confirmed(self) -> Membership:
        """Return the membership of the confirmed begin, which forgets the policies it came from."""
        return Membership(self.to_policies, self.to_policies, self.addresses)
