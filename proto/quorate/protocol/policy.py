"""When a message is stable: a monotone predicate over the stores that hold it (DESIGN 4.1).

Everything else about quorums is derived from the predicate and nothing else: blocking sets here,
how far a stream is stable in quorate.protocol.tracker, what a recovery needs in
quorate.protocol.recovery. Tests compare every derivation with the plain definition over all small
configurations.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from itertools import combinations

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
    """The smallest majority of so many members."""
    return members // 2 + 1


@dataclass(frozen=True, slots=True)
class Group:
    """A named set of stores that counts as one unit of resilience."""

    name: str
    stores: tuple[str, ...]
    rule: IntragroupRule = IntragroupRule.QUORUM
    backups: tuple[str, ...] = field(default=(), compare=False)
    """Spares that stand in, in this order, for members that do not answer. They are not counted, so
    that two groups are the same whoever could stand in."""

    def __str__(self) -> str:
        spares = f"; backups {', '.join(self.backups)}" if self.backups else ""
        return f"{self.name} ({self.rule.value} of {', '.join(self.stores)}{spares})"

    def holds(self, holders: Set[str], active: Set[str]) -> bool:
        """Whether the group holds what these stores hold, while those are active."""
        held = sum(store in holders for store in self.stores)
        match self.rule:
            case IntragroupRule.QUORUM:
                return held >= quorum(len(self.stores))
            case IntragroupRule.ALL:
                return held == len(self.stores)
            case IntragroupRule.ALL_ACTIVE:
                # Never fewer than a majority of the configured ones: a shrinking set of active
                # members must not become a quorum of one.
                return held >= quorum(len(self.stores)) and all(
                    store in holders for store in self.stores if store in active
                )

    def is_active(self, active: Set[str]) -> bool:
        """Whether enough of its stores are active for the group to take part."""
        return sum(store in active for store in self.stores) >= quorum(len(self.stores))


@dataclass(frozen=True, slots=True)
class Policy:
    """Groups of stores, and how many of the groups a message needs."""

    groups: tuple[Group, ...]
    rule: IntergroupRule = IntergroupRule.ANY
    stores: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of all configured stores."""
    backups: frozenset[str] = field(init=False, compare=False, repr=False)
    """The names of all backups."""

    def __post_init__(self) -> None:
        # Asked for again and again, by whoever waits for a quorum.
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

    def __str__(self) -> str:
        groups = " and ".join(map(str, self.groups))
        return groups if len(self.groups) == 1 else f"{self.rule.value} of {groups}"

    @staticmethod
    def majority_of(stores: Iterable[str]) -> Policy:
        """One group of these stores; a quorum of it makes a message stable."""
        return Policy((Group("stores", tuple(stores)),))

    def is_variant_of(self, declared: Policy) -> bool:
        """Whether it is that policy, apart from backups that stand in for members."""
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
        """Group, member and backup for every backup that stands in.

        declared: the policy that this one is a variant of.
        """
        for theirs, mine in zip(declared.groups, self.groups, strict=True):
            for member, store in zip(theirs.stores, mine.stores, strict=True):
                if member != store:
                    yield theirs.name, member, store

    def group_of(self, store: str) -> Group | None:
        """The group that the store is a member of."""
        return next((group for group in self.groups if store in group.stores), None)

    def groups_holding(self, holders: Set[str], active: Set[str]) -> tuple[str, ...]:
        """The names of the groups that hold what these stores hold, while those are active."""
        return tuple(group.name for group in self.groups if group.holds(holders, active))

    def stable(self, holders: Set[str], active: Set[str] | None = None) -> bool:
        """Whether a message on these stores is stable.

        active matters to the all-active rules alone. Without it the question is whether the
        message may be stable under some set of active stores, which is what recovery must ask.
        """
        if active is None:
            # The fewest active stores ask for the least. The holders themselves would ask for
            # more: two holders make a group of three active, which under `all` then lacks one.
            active = frozenset()
        held = [group for group in self.groups if group.holds(holders, active)]
        match self.rule:
            case IntergroupRule.ANY:
                return bool(held)
            case IntergroupRule.MAJORITY:
                return len(held) >= quorum(len(self.groups))
            case IntergroupRule.ALL:
                return len(held) == len(self.groups)
            case IntergroupRule.ALL_ACTIVE:
                return len(held) >= quorum(len(self.groups)) and all(
                    group in held for group in self.groups if group.is_active(active)
                )

    def blocks(self, stores: Set[str]) -> bool:
        """Whether these stores are a blocking set: without them nothing can be stable."""
        return not self.stable(self.stores - stores)

    def minimal_blocking_sets(self) -> Iterator[frozenset[str]]:
        """Every blocking set that has no smaller one inside, smallest first."""
        found: list[frozenset[str]] = []
        for size in range(len(self.stores) + 1):
            for members in combinations(sorted(self.stores), size):
                candidate = frozenset(members)
                if self.blocks(candidate) and not any(smaller <= candidate for smaller in found):
                    found.append(candidate)
                    yield candidate


@dataclass(frozen=True, slots=True)
class Membership:
    """What a begin record names: the policies it came from and those it goes to."""

    from_policies: tuple[Policy, ...]
    to_policies: tuple[Policy, ...]
    addresses: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Name and address of the stores, for a source whose configuration does not know them."""
    _policies: tuple[Policy, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        named = dict.fromkeys(self.from_policies + self.to_policies)
        object.__setattr__(self, "_policies", tuple(named))

    @property
    def policies(self) -> tuple[Policy, ...]:
        """All named policies, each once."""
        return self._policies

    @property
    def stores(self) -> frozenset[str]:
        """All stores of all named policies."""
        return frozenset().union(*(policy.stores for policy in self.policies))

    def confirmed(self) -> Membership:
        """The same once it counts: it forgets where it came from."""
        return Membership(self.to_policies, self.to_policies, self.addresses)
