"""What there is in a small world, and which rules hold there: values, and nothing that happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.brute_force.definitions import Configuration, Terms, named

from quorate.protocol.consensus import Behaviour

NONE = -1
Key = tuple[int, ...]


@dataclass(frozen=True)
class Rules:
    """Which rules hold; production has them all. Tests take one out at a time."""

    promise: bool = True
    """A store that has promised an epoch takes nothing of a lower one."""
    lineage: bool = True
    """Begin carries the lineage; without it a store knows only which epochs have begun."""
    begun_only: bool = True
    """What a store holds counts for stability only once it has begun the epoch."""
    from_policies: bool = True
    """A begin record names the policies that it came from."""
    confirmed_late: bool = True
    """A begin forgets where it came from only once it is durable on enough stores of all."""
    brought_up: bool = True
    """A source goes to its own policy alone only once all that was kept is stable under that."""
    both_policies: bool = True
    """Until what was kept is stable under the new policy, both make things stable."""
    limbo: bool = True
    """A store that was wiped is in limbo until it has heard enough peers."""
    remembered_promise: bool = True
    """G1, G2: a late promise that shows a newer begun epoch makes the source register anew."""
    notices: bool = True
    """G3: on its stream a store tells the source which incarnations have been replaced."""
    notices_in_answers: bool = True
    """A store tells the same with its promise and its begin."""
    found_by_unpromised: bool = True
    """Only stores that have promised nothing higher count for finding out what is stable."""
    exit_stable: bool = True
    """A store leaves limbo only after a stable set of peers was heard."""
    exit_blocking: bool = True
    """A store leaves limbo only after a blocking set of peers was heard."""
    exit_promise: bool = True
    """It takes the highest promise of its peers."""
    exit_knowledge: bool = True
    """It takes over what its peers know of stores that were replaced."""
    exit_kept_elsewhere: bool = True
    """Also if it takes no messages it fetches those that would not be stable without it."""
    state_only_is_no_holder: bool = True
    """A store that takes no messages is counted for none, though it has begun."""
    exit_floor: bool = True
    """It fetches all that may be stable, not only what a peer was told is."""


class Store(NamedTuple):
    """What is durable on one store, of one source's stream."""

    promised: int = 0
    begun: int = 0
    held: tuple[int, ...] = ()
    """By number: the epoch of the batch, 0 for none."""
    told: int = NONE
    """The highest that it was told is stable."""
    limbo: bool = False
    life: int = 0
    """Its incarnation: how often it was wiped."""
    confirmed: bool = False
    """Its begin record has forgotten where it came from."""
    knows: tuple[int, ...] = ()
    """By store: the incarnation that it has heard of."""
    takes: bool = True
    """It takes messages; else it keeps state only, and what it took before."""


Answers = tuple[tuple[int, Store], ...]
"""What stores have said, by their numbers."""


class Link(NamedTuple):
    """What a source knows of a store that has begun its epoch, or holds what it kept."""

    acked: int
    life: int
    begun: bool = True
    active: bool = True


class Column(NamedTuple):
    """All that is about one store, so that stores which are alike can change places."""

    store: Store
    entries: tuple[Store | Link | None, ...]
    """By source: what it was answered to a promise or, once it has decided, its link."""
    gave: tuple[Store | None, ...]
    """By store: what this one answered to its inventory."""


class Source(NamedTuple):
    """One registration; its epoch is its place in the state, from 1 on."""

    decided: bool = False
    over: bool = False
    lineage: Terms = ()
    kept_upto: int = NONE
    from_policies: tuple[int, ...] = ()
    to_policies: tuple[int, ...] = ()
    newest: int = 0
    """The newest begun epoch that its decision knew of."""
    sending: bool = False
    confirmed: bool = False
    """It has stores forget where its begin record came from."""
    stable: int = NONE
    knows: tuple[int, ...] = ()


class State(NamedTuple):
    columns: tuple[Column, ...]
    sources: tuple[Source, ...]
    reported: tuple[tuple[int, int], ...] = ()
    """By number: the epoch of the content that an application was told is stable, and the lowest
    epoch that told so."""
    wipes_left: int = 0
    turns_left: int = 0


class Step(NamedTuple):
    """What happened, for people; stores are numbers here."""

    what: str
    source: int
    store: int
    peer: int = NONE

    def __str__(self) -> str:
        return self.what.format(
            epoch=self.source + 1,
            store=named(1 << self.store) if self.store >= 0 else "",
            peer=named(1 << self.peer) if self.peer >= 0 else "",
        )


@dataclass(frozen=True)
class Shape:
    """Who is in a world and how much may happen in it."""

    policies: tuple[Configuration, ...]
    """By source: its own policy; there are as many sources."""
    messages: int = 1
    """How many each source may send of its own."""
    wipes: int = 0
    doomed: int = 0
    """The stores that may be wiped."""
    behaviours: tuple[Behaviour, ...] = (Behaviour.LOWEST, Behaviour.HIGHEST)
    first_began: int = 0
    """The stores at which the first source has begun already; 0: it has yet to register."""
    tells: bool = False
    """stable_upto also travels by itself, not only with messages."""
    leaves: bool = False
    """Sources may take stores for unresponsive, which matters to all-active rules."""
    one_after_another: bool = False
    """A source begins only when the one before it has decided."""
    forwards: bool = False
    """Stores take begins over from each other, and what is stable."""
    proxies: bool = False
    """A store may find out, by what it and others hold, that more is stable."""
    state_only: int = 0
    """The stores that begin as ones which take no messages."""
    turns: int = 0
    """How often a store may be configured otherwise: to take no messages, or to do so again."""
    turning: int = 0
    """The stores that may be."""
    rolls_back: bool = False
    """A store that loses its disk may come back with an older one instead of an empty one."""

    @property
    def everyone(self) -> int:
        mask = 0
        for policy in self.policies:
            mask |= policy.everyone
        return mask

    @property
    def stores(self) -> int:
        return self.everyone.bit_length()
