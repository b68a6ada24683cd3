"""When a message is stable, written from the definition and not from quorate.protocol.policy.

The checker decides with this whether what applications were told is so. Nothing here knows how
production derives anything.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy

INTRAGROUP = ("quorum", "all-active", "all")
INTERGROUP = ("any", "majority", "all-active", "all")


def more_than_half(part: int, whole: int) -> bool:
    return 2 * part > whole


@dataclass(frozen=True)
class Party:
    """A group of stores."""

    name: str
    stores: tuple[str, ...]
    rule: str = "quorum"
    backups: tuple[str, ...] = ()

    def has(self, holders: Collection[str], active: Collection[str]) -> bool:
        """Whether the group as a whole has what these stores hold."""
        lacking = [store for store in self.stores if store not in holders]
        if self.rule == "all":
            return not lacking
        if self.rule == "all-active" and any(store in active for store in lacking):
            return False
        return more_than_half(len(self.stores) - len(lacking), len(self.stores))

    def is_active(self, active: Collection[str]) -> bool:
        return more_than_half(sum(store in active for store in self.stores), len(self.stores))


@dataclass(frozen=True)
class Setup:
    """What a source is configured with: groups, and how many of them a message needs."""

    parties: tuple[Party, ...]
    rule: str = "any"

    @property
    def stores(self) -> tuple[str, ...]:
        return tuple(store for party in self.parties for store in party.stores)

    @property
    def everyone(self) -> tuple[str, ...]:
        """Its stores, and those that may stand in for them."""
        return (*self.stores, *(store for party in self.parties for store in party.backups))

    @staticmethod
    def of(policy: Policy) -> Setup:
        """What production says, word for word."""
        parties = [
            Party(group.name, group.stores, IntragroupRule(group.rule).value, group.backups)
            for group in policy.groups
        ]
        return Setup(tuple(parties), IntergroupRule(policy.rule).value)

    def variants(self) -> Iterator[Setup]:
        """This one, and with one backup that stands in for one member."""
        yield self
        for at, party in enumerate(self.parties):
            for place in range(len(party.stores)):
                for backup in party.backups:
                    stores = (*party.stores[:place], backup, *party.stores[place + 1 :])
                    parties = [*self.parties]
                    parties[at] = replace(party, stores=stores)
                    yield Setup(tuple(parties), self.rule)

    def policy(self) -> Policy:
        """The same for production."""
        groups = [
            Group(party.name, party.stores, IntragroupRule(party.rule), party.backups)
            for party in self.parties
        ]
        return Policy(tuple(groups), IntergroupRule(self.rule))

    def stable(self, holders: Collection[str], active: Collection[str] = ()) -> bool:
        """Whether a message on these stores is stable; without active: under any active stores."""
        lacking = [party for party in self.parties if not party.has(holders, active)]
        having = len(self.parties) - len(lacking)
        if self.rule == "any":
            return having > 0
        if self.rule == "all":
            return not lacking
        if self.rule == "all-active" and any(party.is_active(active) for party in lacking):
            return False
        return more_than_half(having, len(self.parties))

    def without(self, stores: Collection[str]) -> tuple[str, ...]:
        return tuple(store for store in self.stores if store not in stores)

    def recovers_from(self, destroyed: Collection[str]) -> bool:
        """Whether the other stores know every promise and every message that may be stable."""
        return self.knows_everything(self.without(destroyed))

    def knows_everything(self, stores: Collection[str]) -> bool:
        """Whether these are a stable set, and no stable set is without one of them."""
        return self.stable(stores) and not self.stable(self.without(stores))


def majority_of(names: Sequence[str]) -> Setup:
    return Setup((Party("stores", tuple(names)),))


def drawn(chooser: random.Random, names: Sequence[str]) -> Setup:
    """Some groups of these stores, in this order; stores may be left over."""
    left = list(names)
    parties = []
    for number in range(1, chooser.choice((1, 1, 1, 2, 3)) + 1):
        if not left:
            break
        size = chooser.choice((1, 2, 3, 3, 3, 4, 5))
        spare = chooser.choice((0, 0, 0, 1))
        stores, backups = tuple(left[:size]), tuple(left[size : size + spare])
        parties.append(Party(f"group{number}", stores, chooser.choice(INTRAGROUP), backups))
        del left[: size + spare]
    return Setup(tuple(parties), chooser.choice(INTERGROUP))


def changed(chooser: random.Random, before: Setup, names: Sequence[str]) -> Setup:
    """Another setup that follows: one store replaced, all of them, more, fewer, another rule."""
    spare = [name for name in names if name not in before.everyone]
    parties = list(before.parties)
    at = chooser.randrange(len(parties))
    party = parties[at]
    kind = chooser.choice(("replace", "replace", "grow", "shrink", "group", "move", "rule"))
    if kind == "replace" and spare:
        gone = chooser.randrange(len(party.stores))
        stores = [chooser.choice(spare) if n == gone else s for n, s in enumerate(party.stores)]
        parties[at] = replace(party, stores=tuple(stores))
    elif kind == "grow" and spare:
        parties[at] = replace(party, stores=(*party.stores, chooser.choice(spare)))
    elif kind == "shrink" and len(party.stores) > 1:
        gone_store = chooser.choice(party.stores)
        parties[at] = replace(party, stores=tuple(s for s in party.stores if s != gone_store))
    elif kind == "group" and spare and len(parties) < 3:
        stores_of = chooser.sample(spare, min(len(spare), chooser.choice((1, 3))))
        parties.append(Party(f"group{len(parties) + 1}", tuple(stores_of)))
    elif kind == "move" and len(spare) >= 1:
        parties = [Party("moved", tuple(chooser.sample(spare, min(len(spare), 3))))]
    else:
        parties[at] = replace(party, rule=chooser.choice(INTRAGROUP))
        return Setup(tuple(parties), chooser.choice(INTERGROUP))
    return Setup(tuple(parties), before.rule)
