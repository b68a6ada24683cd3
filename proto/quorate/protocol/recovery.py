"""The decision of a source that registers: from the stores' promises to the messages it keeps.

The rules of protocol.md 4, and nothing else: nothing is sent from here. Lookups are
three-valued: a store that did not answer, or that is in limbo, may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.consensus import Behaviour, consensus
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.policy import Policy
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

    begun: BeginRecord = NOT_BEGUN
    """The newest begin that the store has."""
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
    begun: BeginRecord
    """The newest begin. `begun.lineage.extended(kept_upto, epoch)` is the new lineage, and the next
    begin goes on with its generation."""
    holders: Mapping[str, RangeSet]
    """The kept numbers that each answering store holds. It sets all others aside at begin."""
    marker: Marker | None = None
    """The newest marker among the kept messages."""
    losses: RangeSet = field(default_factory=RangeSet)
    """The accepted losses among the kept numbers that no answering store holds."""
    retained_from: int = 0
    """The first number that a store has to have. Some store released all below on purpose, after
    they were stable. Holders may still have them."""

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


def of_generation(promises: Mapping[str, Promise]) -> dict[str, Promise]:
    """Return the promises without the streams that are older than the newest begin's generation."""
    generation = newest_begun(promises.values()).begun.generation
    return {
        store: promise
        if not promise.begun.is_older_than(generation)
        else Promise(limbo=promise.limbo, takes_data=promise.takes_data)
        for store, promise in promises.items()
    }


def newest_begun(promises: Iterable[Promise]) -> Promise:
    """Return the answer with the newest begin record."""
    return max(promises, key=lambda each: each.begun.newness, default=Promise())


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
    in_force = tuple(dict.fromkeys((*(newest.begun.policies or previous), policy)))
    vouching = {store for store, promise in promises.items() if not promise.limbo}
    if not all(each.blocks(vouching & each.stores) for each in in_force):
        everyone = frozenset().union(*(each.stores for each in in_force))
        return NeedMore(tuple(sorted(everyone - vouching)))

    lineage = newest.begun.lineage
    holders = {store: lineage.belonging(promise.held) for store, promise in promises.items()}
    stable_upto = max((promise.stable_upto for promise in promises.values()), default=NOTHING)
    accepted = lineage.belonging(loss for each in promises.values() for loss in each.losses)
    # Accepted losses may have been stable, though no store holds them any more.
    known = max(stable_upto, accepted.high)
    floor = _may_be_stable_upto(in_force, holders, vouching, known)
    available = RangeSet(item for held in holders.values() for item in held)
    retained_from = max(
        (
            released_below(lineage, each.begun.lineage, each.retained_from, each.stable_upto)
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
        newest.begun,
        holders,
        marker,
        losses,
        retained_from,
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
