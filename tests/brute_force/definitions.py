"""Stability and recovery by the text of protocol.md 3 and 4, over bit masks.

Written from the definitions alone: nothing of quorate.protocol.policy, tracker, recovery or
consensus is used but the names of the rules. A set of stores is a bit mask; store n is bit n.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement, product

from quorate.protocol.consensus import Behaviour
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy

NAMES = "abcdef"
SETS = [frozenset(name for at, name in enumerate(NAMES) if mask >> at & 1) for mask in range(64)]
"""By bit mask: the names of the stores."""

Terms = tuple[tuple[int, int], ...]
"""A lineage: (epoch, the first number that it is in force for), ascending."""


@dataclass(frozen=True)
class Configuration:
    """Groups of stores with their rules, the intergroup rule, and what they mean."""

    groups: tuple[tuple[int, IntragroupRule], ...]
    rule: IntergroupRule

    @staticmethod
    def of_sizes(
        groups: tuple[tuple[int, IntragroupRule], ...], rule: IntergroupRule
    ) -> Configuration:
        """Groups of so many stores each, from the first store on."""
        masks, at = [], 0
        for size, intragroup in groups:
            masks.append((((1 << size) - 1) << at, intragroup))
            at += size
        return Configuration(tuple(masks), rule)

    def __str__(self) -> str:
        groups = "+".join(f"{named(mask)}:{rule.value}" for mask, rule in self.groups)
        return f"{groups}/{self.rule.value}"

    @cached_property
    def everyone(self) -> int:
        """All stores."""
        return sum(mask for mask, _ in self.groups)

    @cached_property
    def sets(self) -> list[int]:
        """Every set of its stores."""
        return [mask for mask in range(self.everyone + 1) if mask & ~self.everyone == 0]

    @cached_property
    def policy(self) -> Policy:
        """The same for production code."""
        return Policy(
            tuple(
                Group(f"g{number}", tuple(named(mask)), rule)
                for number, (mask, rule) in enumerate(self.groups)
            ),
            self.rule,
        )

    def stable(self, holders: int, active: int) -> bool:
        """Whether a message on the holders is stable while these stores are active."""
        complete: list[bool] = []
        taking_part: list[bool] = []
        for members, rule in self.groups:
            size = members.bit_count()
            mine, awake = holders & members, active & members
            majority = mine.bit_count() > size / 2
            complete.append(
                {
                    IntragroupRule.QUORUM: majority,
                    IntragroupRule.ALL: mine == members,
                    IntragroupRule.ALL_ACTIVE: majority and awake & ~mine == 0,
                }[rule]
            )
            taking_part.append(awake.bit_count() > size / 2)
        most = sum(complete) > len(complete) / 2
        return {
            IntergroupRule.ANY: any(complete),
            IntergroupRule.MAJORITY: most,
            IntergroupRule.ALL: all(complete),
            IntergroupRule.ALL_ACTIVE: most
            and all(done for done, part in zip(complete, taking_part, strict=True) if part),
        }[self.rule]

    @cached_property
    def may_be(self) -> dict[int, bool]:
        """By set of holders: whether the message is stable under some set of active stores."""
        return {held: any(self.stable(held, active) for active in self.sets) for held in self.sets}

    def blocks(self, blocking: int) -> bool:
        """Whether no set without these stores may be stable."""
        return not any(self.may_be[held] for held in self.sets if held & blocking == 0)


def named(mask: int) -> str:
    """The names of the stores of a set."""
    return "".join(name for at, name in enumerate(NAMES) if mask >> at & 1)


@lru_cache
def configurations(stores_max: int = 5, groups_max: int = 3) -> tuple[Configuration, ...]:
    """Every configuration of so many stores at most, up to the names of stores and groups."""

    def every() -> Iterator[Configuration]:
        for count in range(1, groups_max + 1):
            kinds = list(product(range(1, stores_max + 1), IntragroupRule))
            for groups in combinations_with_replacement(kinds, count):
                if sum(size for size, _ in groups) <= stores_max:
                    for rule in IntergroupRule:
                        yield Configuration.of_sizes(groups, rule)

    return tuple(every())


def epoch_at(lineage: Terms, number: int) -> int:
    """The epoch that the lineage names for a number; 0 if none."""
    return max((epoch for epoch, first in lineage if first <= number), default=0)


@dataclass(frozen=True)
class Answer:
    """What a store says of a source: by number the epoch of the batch it holds, 0 for none."""

    begun: int
    lineage: Terms
    named: tuple[Configuration, ...]
    """The policies that its begin record names."""
    held: tuple[int, ...]
    told: int
    limbo: bool
    accepted: tuple[int, ...] = ()
    """By number: the epoch of the batch that an operator accepted as lost, 0 for none."""
    retained_from: int = 0
    """What is below was let go, here or at another store."""
    takes: bool = True
    """It takes messages; who does not has no say in how many are kept above the floor."""


@dataclass(frozen=True)
class Recovered:
    """What the definitions give; a floor of None means that no decision may be taken."""

    floor: int | None
    lost: bool = False
    kept_upto: int = -1
    lineage: Terms = ()
    holds: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By store: what it has of what is kept."""
    given_up: frozenset[int] = frozenset()
    """What nobody has and an operator accepted as lost."""
    let_go: int = 0
    """So many numbers, from 0 on, nobody has to have: they were stable, and were let go."""


def recover(
    own: Configuration,
    answers: Mapping[int, Answer],
    behaviour: Behaviour,
    previous: Collection[Configuration] = (),
) -> Recovered:
    """Return the decision that these answers demand, by the text of protocol.md 4.

    previous: configurations before the source's own; they matter while no begun record is found.
    """
    # Of records of one epoch the one that has forgotten where it came from is known to count.
    newest = max(answers.values(), key=lambda a: (a.begun, -len(a.named)), default=None)
    lineage = newest.lineage if newest else ()
    in_force = {own, *(newest.named if newest and newest.begun else previous)}
    vouching = sum(1 << store for store, each in answers.items() if not each.limbo)
    if not all(each.blocks(vouching & each.everyone) for each in in_force):
        return Recovered(None)
    holds = {store: _belonging(each.held, lineage) for store, each in answers.items()}

    def may_have_been_stable(number: int) -> bool:
        holders = sum(1 << store for store, numbers in holds.items() if number in numbers)
        return any(each.may_be[(holders | ~vouching) & each.everyone] for each in in_force)

    accepted = frozenset[int]().union(*(_belonging(a.accepted, lineage) for a in answers.values()))
    # What was accepted as lost may have been stable, too: its numbers are not given away.
    floor = max([-1, *accepted, *(each.told for each in answers.values())])
    # A number is reported as stable only with all before it.
    while may_have_been_stable(floor + 1):
        floor += 1
    found = frozenset[int]().union(*holds.values())
    let_go = max((_let_go(each, lineage) for each in answers.values()), default=0)
    if not (found | accepted).issuperset(range(let_go, floor + 1)):
        return Recovered(floor, lost=True)
    survives = floor
    while survives + 1 in found:
        survives += 1
    ends = {
        store: max(holds[store], default=-1)
        for store, each in answers.items()
        if not each.limbo and each.takes
    }
    agreed = _agreed(own, ends, behaviour) if ends else floor
    kept_upto = min(max(floor, agreed), survives)
    kept = frozenset(range(kept_upto + 1))
    return Recovered(
        floor,
        False,
        kept_upto,
        lineage,
        {store: numbers & kept for store, numbers in holds.items()},
        (accepted - found) & frozenset(range(let_go, floor + 1)),
        let_go,
    )


def _let_go(answer: Answer, lineage: Terms) -> int:
    """How many numbers, from 0 on, a store let go that were stable and are those of the lineage."""
    count = 0
    while (
        count < answer.retained_from
        and count <= answer.told
        and epoch_at(answer.lineage, count) == epoch_at(lineage, count)
    ):
        count += 1
    return count


def _belonging(epochs: tuple[int, ...], lineage: Terms) -> frozenset[int]:
    """The numbers whose batches belong to the stream."""
    return frozenset(n for n, epoch in enumerate(epochs) if epoch and epoch == epoch_at(lineage, n))


def _agreed(own: Configuration, ends: Mapping[int, int], behaviour: Behaviour) -> int:
    """How much of what survives above the floor the consensus behaviour asks for."""
    match behaviour:
        case Behaviour.HIGHEST:
            return 1 << 60
        case Behaviour.LOWEST:
            return min(ends.values())
        case Behaviour.MAJORITY:
            reached_by_groups = []
            for members, _ in own.groups:
                for number in sorted(set(ends.values()), reverse=True):
                    there = sum(1 for s, end in ends.items() if members >> s & 1 and end >= number)
                    if there > members.bit_count() / 2:
                        reached_by_groups.append(number)
                        break
            return max(reached_by_groups, default=min(ends.values()))
