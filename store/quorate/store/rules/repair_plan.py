"""The plan of a repair: the begin to adopt from a peer, and the ranges to fetch from each peer.

Pure functions. A repair fetches only stable messages. Messages above stable_upto are left to the
source, which may send them again. The one exception are messages that the store had acknowledged
and can no longer read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import diverges_at
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker, released_below
from quorate.store.rules.readmission import names_of
from quorate.v1.messages_pb2 import SourceInformation


@dataclass(frozen=True, slots=True)
class PeerView:
    """One source as a peer reported it; only the address if the peer has not answered yet."""

    address: str
    store: str = ""
    begun: BeginRecord = NOT_BEGUN
    held: tuple[HeldRange, ...] = ()
    stable_upto: int = NOTHING
    answered: bool = False
    promised_to: bytes = b""
    """The instance that the begun epoch was promised to; empty: the peer does not say."""
    information: SourceInformation | None = None
    reg_id: int = 0
    """The RegID that the source has at the peer."""
    retained_from: int = 0
    """The lowest number not let go. Everything below was stable."""
    markers: tuple[Marker, ...] = ()
    incarnation: bytes = b""
    finished: bool = False
    """Whether the source is finished at the peer."""


@dataclass(frozen=True, slots=True)
class OwnView:
    """One source as this store knows it."""

    store: str
    promised_epoch: int = 0
    begun: BeginRecord = NOT_BEGUN
    held: RangeSet = field(default_factory=RangeSet)
    next_sequence: int = 0
    stable_upto: int = NOTHING
    unreadable: RangeSet = field(default_factory=RangeSet)
    losses: RangeSet = field(default_factory=RangeSet)
    live: bool = False
    """Whether the source streams to this store now."""
    promised_to: bytes = b""
    """The instance that the promised epoch was promised to."""
    address: str = ""
    """The address at which sources reach this store. Some policies name the store by it."""
    retained_from: int = 0
    """The lowest number not let go, here or elsewhere."""
    takes_data: bool = True
    """Whether the store keeps messages of the topic."""


@dataclass(frozen=True, slots=True)
class Errand:
    """A range to fetch from one peer."""

    peer: PeerView
    wanted: Range


def begin_to_adopt(own: OwnView, peers: Iterable[PeerView]) -> PeerView | None:
    """Return the peer whose begin this store missed and should adopt; None if it missed none.

    The begin must name this store, or the source must say that it sends to this replica. And the
    store must have promised no higher epoch. Then adopting is as if the source's own promise and
    begin came late.

    A store that the begin names only as a backup adopts it only while it has unreadable messages.
    The source sends it no begin, and the new lineage may say that these messages are void.

    A store that knows nothing of a source adopts no begin of a finished one. It may have been the
    first store to forget it.
    """
    is_new = not own.promised_epoch
    newest = max(
        (
            peer
            for peer in peers
            if peer.begun.epoch > own.begun.epoch
            and _names(peer, own)
            and not (is_new and peer.finished)
        ),
        key=lambda peer: peer.begun.epoch,
        default=None,
    )
    if newest is None or newest.begun.epoch < own.promised_epoch:
        return None
    if newest.begun.epoch == own.promised_epoch and newest.promised_to != own.promised_to:
        return None  # that epoch was promised to another instance here
    return newest


def _names(peer: PeerView, own: OwnView) -> bool:
    policies = peer.begun.policies
    names = names_of(own.store, (own.address,), (peer.information,))
    named = {store for policy in policies for store in policy.stores}
    backups = {store for policy in policies for store in policy.backups}
    if own.unreadable:
        named |= backups
    if peer.information is not None and peer.information.epoch == peer.begun.epoch:
        named |= {entry.name for entry in peer.information.stores} - backups
    return not named.isdisjoint(names)


def stable_upto(own: OwnView, peers: Iterable[PeerView]) -> int:
    """Return how far the stream is stable in this store's lineage, as far as any store knows."""
    told = [
        min(peer.stable_upto, diverges_at(own.begun.lineage, peer.begun.lineage) - 1)
        for peer in peers
        if peer.begun.epoch and own.begun.epoch
    ]
    return max((own.stable_upto, *told))


def retained_from(own: OwnView, peers: Iterable[PeerView]) -> int:
    """Return the number below which some store has let go of messages of this lineage.

    This store need not fetch the messages below it.
    """
    told = [
        released_below(own.begun.lineage, peer.begun.lineage, peer.retained_from, peer.stable_upto)
        for peer in peers
        if peer.begun.epoch and own.begun.epoch
    ]
    return max((own.retained_from, *told))


def lacking(own: OwnView, stable: int) -> RangeSet:
    """Return the numbers that this store should have of the stream and cannot serve.

    These are the holes and the unreadable numbers. While the source is away, the stable numbers
    above the last held one count as well. A state-only store repairs only its unreadable numbers.
    """
    if not own.takes_data:
        return RangeSet(own.unreadable)
    upto = stable if not own.live else min(stable, own.next_sequence - 1)
    begins = own.begun.lineage.terms[0].first if own.begun.lineage.terms else 0
    begins = max(begins, own.retained_from)
    wanted = RangeSet(own.held.holes(begins, upto) if upto >= begins else ())
    for item in own.losses:
        wanted.remove(item.first, item.last)
    # An accepted loss may be held again: while it is unreadable, the store does not vouch.
    for item in own.unreadable:
        wanted.add(item.first, item.last)
    return wanted


def errands(wanted: RangeSet, own: OwnView, peers: Sequence[PeerView]) -> list[Errand]:
    """Return the ranges to ask each peer for. The peer that has most of them comes first.

    A range appears under every peer that may have it. The caller skips the parts that an earlier
    peer gave. Peers that have not answered come last, and are asked for everything.
    """
    plans: list[tuple[int, list[Errand]]] = []
    for peer in peers:
        if not peer.answered:
            plans.append((-1, [Errand(peer, item) for item in wanted]))
            continue
        parts = wanted.both(own.begun.lineage.belonging(peer.held))
        plans.append((parts.count(), [Errand(peer, part) for part in parts]))
    plans.sort(key=lambda plan: plan[0], reverse=True)
    return [errand for _, found in plans for errand in found]


def comparable_upto(own: OwnView, peer: PeerView) -> int:
    """Return the highest number up to which this store and a peer must hold the same messages."""
    if not (own.begun.epoch and peer.begun.epoch):
        return NOTHING
    upto = min(own.stable_upto, peer.stable_upto)
    return min(upto, diverges_at(own.begun.lineage, peer.begun.lineage) - 1)
