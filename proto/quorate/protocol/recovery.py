"""The decision of a source that registers: from the stores' promises to the messages it keeps.

The rules of protocol.md 4, and nothing else: nothing is sent from here. Lookups are
three-valued: a store that did not answer, or that is in limbo, may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from quorate.protocol.consensus import Behaviour, consensus
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import NO_LINEAGE, Lineage, diverges_at
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet


@dataclass(frozen=True, slots=True)
class Marker:
    """An application marker, committed with the message of this number (protocol.md 18)."""

    sequence: int
    epoch: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Promise:
    """A store's answer to a request for a promise: its whole knowledge of the source."""

    begun_epoch: int = 0
    lineage: Lineage = NO_LINEAGE
    membership: Membership | None = None
    held: tuple[HeldRange, ...] = ()
    stable_upto: int = NOTHING
    limbo: bool = False
    markers: tuple[Marker, ...] = ()
    """The newest stable marker, and all markers above it."""
    losses: tuple[HeldRange, ...] = ()
    """Ranges that an operator has accepted as lost: no store has to have them."""
    retained_from: int = 0
    """The first number that is retained. Numbers below were stable and were released on purpose."""
    takes_data: bool = True
    """False: a state-only store takes no messages (protocol.md 3.4). It may hold older ones."""
    generation: int = 0
    """The generation of the begin: the epoch of the newest end before it, or of that begin itself
    if it is an end (protocol.md 14.4). Nothing that was begun before it counts. 0: none ended."""


@dataclass(frozen=True, slots=True)
class NeedMore:
    """No decision yet: the stores that answered, outside limbo, are not a blocking set."""

    missing: tuple[str, ...]
    """Stores that have not answered, or answered from limbo."""


@dataclass(frozen=True, slots=True)
class Lost:
    """No decision: messages that may have been stable are in no answer."""

    lost: Range
    might_have: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The messages that survive, and the stores that hold them."""

    kept_upto: int
    """The last sequence number that is kept; NOTHING if none is."""
    floor: int
    """The highest sequence number that may have been stable; kept_upto is never below it."""
    stable_upto: int
    """The highest `stable_upto` that any store was told."""
    lineage: Lineage
    """The lineage so far; `lineage.extended(kept_upto, epoch)` is the new one."""
    policies: tuple[Policy, ...]
    """The policies that the newest begun record names; empty if nothing was ever begun."""
    holders: Mapping[str, RangeSet]
    """The kept numbers that each answering store holds. It sets all others aside at begin."""
    marker: Marker | None = None
    """The newest marker among the kept messages."""
    losses: RangeSet = field(default_factory=RangeSet)
    """The accepted losses among the kept numbers that no answering store holds."""
    retained_from: int = 0
    """The first number that a store has to have. Some store released all below on purpose, after
    they were stable. Holders may still have them."""
    generation: int = 0
    """The generation of the newest begin, which the next begin goes on with."""

    @property
    def ended(self) -> bool:
        """Whether the newest begin is an end."""
        return is_end(self.lineage.epoch, self.generation)

    def without(self, store: str) -> Decision:
        """Return the decision for a store that turns out to hold no message any more."""
        holders = {name: held for name, held in self.holders.items() if name != store}
        return replace(self, holders=holders)


def released_below(lineage: Lineage, theirs: Lineage, retained_from: int, stable_upto: int) -> int:
    """Return the number below which a store's release counts: no store has to have those messages.

    theirs, retained_from, stable_upto: the store's answers. A release counts as far as it was
    stable there and the lineages agree. It counts for ever, even if the store is lost since.
    """
    return min(retained_from, stable_upto + 1, diverges_at(lineage, theirs))


def is_end(begun_epoch: int, generation: int) -> bool:
    """Return whether a begin ends a stream: it begins a generation, in its own epoch."""
    return 0 < begun_epoch == generation


def of_generation(promises: Mapping[str, Promise]) -> dict[str, Promise]:
    """Return the promises without the streams that are older than the newest begin's generation."""
    generation = newest_begun(promises.values()).generation
    return {
        store: promise
        if not 0 < promise.begun_epoch < generation
        else Promise(limbo=promise.limbo, takes_data=promise.takes_data)
        for store, promise in promises.items()
    }


class BeginRecord(Protocol):
    """A begin record, as a store reports it of itself or as another store knows it."""

    @property
    def begun_epoch(self) -> int: ...

    @property
    def membership(self) -> Membership | None: ...


def newness(record: BeginRecord) -> tuple[int, int]:
    """Return the key by which the newest begin record is the greatest.

    Of two records of one epoch the one that was confirmed is newer. It forgot the policies that it
    came from, so it names fewer, and it is known to count.
    """
    named = len(record.membership.policies) if record.membership else 0
    return record.begun_epoch, -named


def newest_begun(promises: Iterable[Promise]) -> Promise:
    """Return the answer with the newest begin record."""
    return max(promises, key=newness, default=Promise())


def decide(
    policy: Policy,
    promises: Mapping[str, Promise],
    behaviour: Behaviour = Behaviour.HIGHEST,
    previous: Sequence[Policy] = (),
) -> Decision | NeedMore | Lost:
    """Decide which messages are kept, from the promise of each store by its name.

    behaviour: how much to keep above the floor. No setting can reuse a number that may be stable.

    previous: the policies of earlier configurations. They are in force if no store has begun.
    """
    promises = of_generation(promises)
    newest = newest_begun(promises.values())
    policies = newest.membership.policies if newest.membership else ()
    in_force = tuple(dict.fromkeys((*(policies or previous), policy)))
    vouching = {store for store, promise in promises.items() if not promise.limbo}
    if not all(each.blocks(vouching & each.stores) for each in in_force):
        everyone = frozenset().union(*(each.stores for each in in_force))
        return NeedMore(tuple(sorted(everyone - vouching)))

    lineage = newest.lineage
    holders = {store: lineage.belonging(promise.held) for store, promise in promises.items()}
    stable_upto = max((promise.stable_upto for promise in promises.values()), default=NOTHING)
    accepted = lineage.belonging(loss for each in promises.values() for loss in each.losses)
    # Accepted losses may have been stable, though no store holds them any more.
    known = max(stable_upto, accepted.high)
    floor = _may_be_stable_upto(in_force, holders, vouching, known)
    available = RangeSet(item for held in holders.values() for item in held)
    retained_from = max(
        (
            released_below(lineage, each.lineage, each.retained_from, each.stable_upto)
            for each in promises.values()
        ),
        default=0,
    )
    holes = RangeSet(available.holes(retained_from, floor))
    losses = holes.both(accepted)
    if missing := next(iter(holes.minus(losses)), None):
        everyone = frozenset().union(*(each.stores for each in in_force))
        return Lost(missing, tuple(sorted(everyone - vouching)))

    survives_upto = available.contiguous_upto(floor + 1)
    if survives_upto > floor and behaviour is not Behaviour.HIGHEST:
        # A state-only store, which takes no messages, does not count for how much is kept.
        asked = {store for store in vouching if promises[store].takes_data}
        ends = {store: holders[store].high for store in asked}
        agreed = consensus(behaviour, policy, ends) if ends else floor
        survives_upto = min(max(floor, agreed), survives_upto)
    for held in holders.values():
        held.remove(survives_upto + 1, SEQUENCE_MAX)
    marker = _newest_marker(lineage, promises.values(), survives_upto)
    return Decision(
        survives_upto,
        floor,
        stable_upto,
        lineage,
        policies,
        holders,
        marker,
        losses,
        retained_from,
        newest.generation,
    )


def _newest_marker(lineage: Lineage, promises: Iterable[Promise], kept_upto: int) -> Marker | None:
    kept = (
        marker
        for promise in promises
        for marker in promise.markers
        if marker.sequence <= kept_upto and lineage.epoch_at(marker.sequence) == marker.epoch
    )
    return max(kept, key=lambda marker: marker.sequence, default=None)


def _may_be_stable_upto(
    policies: Sequence[Policy], holders: Mapping[str, RangeSet], vouching: set[str], known: int
) -> int:
    """Return the floor: the last number that may be stable, from `known` on.

    Every store that does not vouch counts as a holder. A number is reported as stable only with all
    numbers before it, so the floor ends before the first number that cannot be stable. A number
    that no store has cannot be stable, because the vouching stores are a blocking set.
    """
    upto = known
    while True:
        ends = {store: held.contiguous_upto(upto + 1) for store, held in holders.items()}
        having = {store for store, end in ends.items() if end > upto}
        if not having or not any(
            policy.stable((policy.stores - vouching) | (having & policy.stores))
            for policy in policies
        ):
            return upto
        # Up to the lowest of their ends, the set of holders can only grow.
        upto = min(ends[store] for store in having)
