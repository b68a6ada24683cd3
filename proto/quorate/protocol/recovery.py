"""What a source decides from the stores' promises: what is kept, and the lineage that follows.

The rules of DESIGN 4.2, step 2, and nothing else: no messages are sent from here. Lookups are
three-valued: a store that did not answer, or is in limbo, may hold anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from quorate.protocol.consensus import Behaviour, consensus
from quorate.protocol.limits import NOTHING, SEQUENCE_MAX
from quorate.protocol.lineage import NO_LINEAGE, Lineage, diverges_at
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range, RangeSet


@dataclass(frozen=True, slots=True)
class Marker:
    """What an application committed together with the message of this number (DESIGN 4.5)."""

    sequence: int
    epoch: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Promise:
    """A store's answer to a promise: all that it knows of the source."""

    begun_epoch: int = 0
    lineage: Lineage = NO_LINEAGE
    membership: Membership | None = None
    held: tuple[HeldRange, ...] = ()
    stable_upto: int = NOTHING
    limbo: bool = False
    markers: tuple[Marker, ...] = ()
    """The newest of what is stable, and all above."""
    losses: tuple[HeldRange, ...] = ()
    """Ranges that an operator has accepted as lost: nobody has to have them."""
    retained_from: int = 0
    """Everything below was stable and was let go on purpose, here or at another store."""
    takes_data: bool = True
    """False: a state-only store, which takes no message (DESIGN 4.5), though it may hold some."""
    ended_epoch: int = 0
    """What was begun up to this epoch was of a stream that is deleted: nothing of it counts."""


@dataclass(frozen=True, slots=True)
class NeedMore:
    """No decision yet: the stores that answered, outside limbo, are not a blocking set."""

    missing: tuple[str, ...]
    """Stores that have not answered, or answered from limbo."""


@dataclass(frozen=True, slots=True)
class Lost:
    """No decision: what may have been stable can be found nowhere among the answers."""

    lost: Range
    might_have: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """What survives, and who has it."""

    kept_upto: int
    """The last number of the stream that is kept; NOTHING if none is."""
    floor: int
    """The highest number that may have been stable; kept_upto is never below it."""
    stable_upto: int
    """The highest that any store was told is stable."""
    lineage: Lineage
    """The lineage so far; `lineage.extended(kept_upto, epoch)` is the new one."""
    policies: tuple[Policy, ...]
    """Those that the newest begun record names; empty if nothing was ever begun."""
    holders: Mapping[str, RangeSet]
    """What each answering store holds of what is kept; the rest it sets aside with begin."""
    marker: Marker | None = None
    """The newest that was committed with what is kept."""
    losses: RangeSet = field(default_factory=RangeSet)
    """What of all this an operator has accepted as lost, and no answering store has either."""
    retained_from: int = 0
    """Everything below was stable and was let go on purpose by some store: nobody has to have it,
    though holders may."""

    def without(self, store: str) -> Decision:
        """The same when the store turns out to hold nothing of it any more."""
        holders = {name: held for name, held in self.holders.items() if name != store}
        return replace(self, holders=holders)


def released_below(lineage: Lineage, theirs: Lineage, retained_from: int, stable_upto: int) -> int:
    """As far as what a store says it let go was stable, as it says, in this lineage: what is below
    nobody has to have. The answer holds for ever, whatever became of the store since.
    """
    return min(retained_from, stable_upto + 1, diverges_at(lineage, theirs))


def ended_upto(promises: Iterable[Promise]) -> int:
    """The highest epoch of streams that were deleted before the one that the stores know."""
    return max((promise.ended_epoch for promise in promises), default=0)


def without_ended(promises: Mapping[str, Promise]) -> dict[str, Promise]:
    """The same answers, without what a store still has of a stream that was deleted elsewhere."""
    upto = ended_upto(promises.values())
    return {
        store: promise
        if not 0 < promise.begun_epoch <= upto
        else Promise(limbo=promise.limbo, takes_data=promise.takes_data, ended_epoch=upto)
        for store, promise in promises.items()
    }


def newest_begun(promises: Iterable[Promise]) -> Promise:
    """The answer with the newest begun epoch; of several, one that was confirmed."""

    def newness(promise: Promise) -> tuple[int, int]:
        # A record that forgot where it came from is known to count.
        named = len(promise.membership.policies) if promise.membership else 0
        return promise.begun_epoch, -named

    return max(promises, key=newness, default=Promise())


def decide(
    policy: Policy,
    promises: Mapping[str, Promise],
    behaviour: Behaviour = Behaviour.HIGHEST,
    previous: Sequence[Policy] = (),
) -> Decision | NeedMore | Lost:
    """Decide what is kept, by store name from each store's promise.

    behaviour chooses only above the floor: no setting can reuse a number that may be stable.
    previous: policies of earlier configurations; they are in force while no begun record is found.
    """
    promises = without_ended(promises)
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
    # What is accepted as lost may have been stable, though nobody holds it any more.
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
        # Who is not to have anything has no say in how much of it is kept.
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
    """The floor: as far as each number may be stable, behind those that are known to be.

    Every store that can not vouch for its lacks counts as a holder. A number is reported as stable
    only with all before it, so the floor ends before the first that can not be. What nobody has
    can not be, for those who vouch are a blocking set.
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
        # As far as all of them have it others may only join them.
        upto = min(ends[store] for store in having)
