"""What a store takes over from its peers, and what it fetches from whom.

Pure. Ordinary repair never goes above what is stable: the rest belongs to the source that may come
back to it. The one exception is what the store had acknowledged itself and can not read any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import NO_LINEAGE, Lineage, diverges_at
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker, released_below
from quorate.store.rules.readmission import names_of
from quorate.v1.messages_pb2 import SourceInformation


@dataclass(frozen=True, slots=True)
class PeerView:
    """What a peer said of one source; only the address if it has not said anything yet."""

    address: str
    store: str = ""
    begun_epoch: int = 0
    lineage: Lineage = NO_LINEAGE
    membership: Membership | None = None
    held: tuple[HeldRange, ...] = ()
    stable_upto: int = NOTHING
    answered: bool = False
    promised_to: bytes = b""
    """The instance that the begun epoch was promised to; empty if it does not say."""
    information: SourceInformation | None = None
    reg_id: int = 0
    """That the source has there."""
    retained_from: int = 0
    """Everything below was stable and was let go on purpose."""
    markers: tuple[Marker, ...] = ()
    ended_epoch: int = 0
    """Up to here epochs were of streams that are deleted."""
    incarnation: bytes = b""


@dataclass(frozen=True, slots=True)
class OwnView:
    """What this store knows of the same source itself."""

    store: str
    promised_epoch: int = 0
    begun_epoch: int = 0
    lineage: Lineage = NO_LINEAGE
    held: RangeSet = field(default_factory=RangeSet)
    next_sequence: int = 0
    stable_upto: int = NOTHING
    unreadable: RangeSet = field(default_factory=RangeSet)
    losses: RangeSet = field(default_factory=RangeSet)
    live: bool = False
    """The source streams to this store now."""
    promised_to: bytes = b""
    """The instance that was promised that epoch."""
    address: str = ""
    """Where sources reach this store: some call it so."""
    retained_from: int = 0
    """Everything below was let go, here or elsewhere."""
    takes_data: bool = True
    """It keeps messages of that topic."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A range to be fetched from one peer."""

    peer: PeerView
    wanted: Range


def begin_to_adopt(own: OwnView, peers: Iterable[PeerView]) -> PeerView | None:
    """The peer whose begun record this store missed and takes over; None if it missed none.

    Only one that names this store, and only if it has promised nothing higher: so it is as if the
    source's own promise and begin came late. A backup, or a member for which one stands in, only
    while it can not read something: it takes no begin from the source then, and what it can not
    read need not belong to the stream any more.
    """
    newest = max(
        (peer for peer in peers if peer.begun_epoch > own.begun_epoch and _names(peer, own)),
        key=lambda peer: peer.begun_epoch,
        default=None,
    )
    if newest is None or newest.begun_epoch < own.promised_epoch:
        return None
    if newest.begun_epoch == own.promised_epoch and newest.promised_to != own.promised_to:
        return None  # that epoch was promised to another instance here
    return newest


def _names(peer: PeerView, own: OwnView) -> bool:
    policies = peer.membership.policies if peer.membership else ()
    names = names_of(own.store, (own.address,), (peer.information,))
    named = {store for policy in policies for store in policy.stores}
    if own.unreadable:
        named |= {store for policy in policies for store in policy.backups}
    return not named.isdisjoint(names)


def stable_upto(own: OwnView, peers: Iterable[PeerView]) -> int:
    """How far the stream is stable, in the lineage of this store, as far as anyone was told."""
    told = [
        min(peer.stable_upto, diverges_at(own.lineage, peer.lineage) - 1)
        for peer in peers
        if peer.begun_epoch and own.begun_epoch
    ]
    return max((own.stable_upto, *told))


def retained_from(own: OwnView, peers: Iterable[PeerView]) -> int:
    """What is below need not be had, in the lineage of this store, as far as anyone let it go."""
    told = [
        released_below(own.lineage, peer.lineage, peer.retained_from, peer.stable_upto)
        for peer in peers
        if peer.begun_epoch and own.begun_epoch
    ]
    return max((own.retained_from, *told))


def lacking(own: OwnView, stable: int) -> RangeSet:
    """What this store should have of the stream and can not give: holes, what it can not read,
    and, while the source is away, the end of what is stable. Who keeps no messages should have only
    what it had already."""
    if not own.takes_data:
        return RangeSet(own.unreadable)
    upto = stable if not own.live else min(stable, own.next_sequence - 1)
    begins = own.lineage.terms[0].first if own.lineage.terms else 0
    begins = max(begins, own.retained_from)
    wanted = RangeSet(own.held.holes(begins, upto) if upto >= begins else ())
    for item in own.losses:
        wanted.remove(item.first, item.last)
    # Also what was once lost and turned up again: the store is doubted while it can not read it.
    for item in own.unreadable:
        wanted.add(item.first, item.last)
    return wanted


def errands(wanted: RangeSet, own: OwnView, peers: Sequence[PeerView]) -> list[Errand]:
    """Who is asked for what, in this order: those that say that they have most of it first.

    A range stands under every peer that may have it: what the first one gave is not asked for
    again by whoever runs the errands. Peers that have not said what they have come last, and are
    asked for everything.
    """
    plans: list[tuple[int, list[Errand]]] = []
    for peer in peers:
        if not peer.answered:
            plans.append((-1, [Errand(peer, item) for item in wanted]))
            continue
        parts = wanted.both(own.lineage.belonging(peer.held))
        plans.append((parts.count(), [Errand(peer, part) for part in parts]))
    plans.sort(key=lambda plan: plan[0], reverse=True)
    return [errand for _, found in plans for errand in found]


def comparable_upto(own: OwnView, peer: PeerView) -> int:
    """As far as what this store and a peer hold must be the same."""
    if not (own.begun_epoch and peer.begun_epoch):
        return NOTHING
    upto = min(own.stable_upto, peer.stable_upto)
    return min(upto, diverges_at(own.lineage, peer.lineage) - 1)
