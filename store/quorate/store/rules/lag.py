"""The lag of a store: the stable messages that its peers have, and that it cannot give yet. Pure.

A store lags in a source once it has lacked such messages for LAG_SECONDS. Peers' answers and times
come in as arguments. The subscriptions of quorate.store.rpc.subscribe end because of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from quorate.protocol.bookmarks import Place, place_at
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage, diverges_at
from quorate.store.rules.peer_knowledge import SourceKnowledge
from quorate.store.rules.source_state import SourceState

LAG_SECONDS = 5.0
"""Seconds for which a store may lack what its peers have before it lags."""


@dataclass(frozen=True, slots=True)
class Lack:
    """Stable messages of a source that a peer can give, and this store cannot."""

    first: int
    """The first number that this store cannot give."""
    upto: Place
    """The last message that the peer can give."""


def lack(
    state: SourceState | None, peer: SourceKnowledge, names: Collection[str] = ()
) -> Lack | None:
    """Return the messages of a source that a peer has and this store lacks; None: there are none.

    - state: None: this store does not know the source. It lacks nothing of a source that is not to
      be here.
    - names: the names that policies may have for this store.
    """
    if peer.begun.ended or not peer.begun.epoch or (state is not None and _has_all(state, peer)):
        return None
    if state is None and (
        peer.begun.membership is None or peer.begun.membership.stores.isdisjoint(names)
    ):
        return None
    lineage = NO_LINEAGE if state is None else state.lineage
    first, upto = (0 if state is None else first_lacked(state)), peer.stable_upto
    agree_before = diverges_at(lineage, peer.begun.lineage)
    if lineage.epoch < peer.begun.epoch:
        first, lineage = min(first, agree_before), peer.begun.lineage
    else:
        upto = min(upto, agree_before - 1)
    if upto < first:
        return None
    held = peer.begun.lineage.belonging(peer.held)
    upto = min(upto, held.high)
    can_go_on = first in held or first < peer.retained_from
    return Lack(first, place_at(lineage, upto)) if can_go_on and first <= upto else None


def _has_all(state: SourceState, peer: SourceKnowledge) -> bool:
    """Return quickly whether this store has as much as a peer, which is so nearly always."""
    held = state.held
    return (
        peer.begun.epoch == state.registration.begun.epoch
        and held.stable_upto >= peer.stable_upto
        and held.ranges.contiguous_upto(held.retained_from) >= peer.stable_upto
    )


def first_lacked(state: SourceState) -> int:
    """Return the first number of a source's stream that this store cannot give as stable.

    What was let go, or accepted as lost, is lacked by nobody.
    """
    held = state.held
    first, before = held.retained_from, -1
    while first != before:
        before = first
        first = state.losses.contiguous_upto(held.ranges.contiguous_upto(first) + 1) + 1
    return min(first, held.stable_upto + 1)


def is_short_of(place: Place, lineage: Lineage, upto: int) -> bool:
    """Return whether a store has yet to reach a place in a stream.

    - lineage: that of the store.
    - upto: the last number that the store can give.
    """
    return place.epoch > lineage.epoch or (place.belongs_to(lineage) and place.sequence > upto)


@dataclass(slots=True)
class _Wanted:
    """The last message that a store lacked when it asked its peers, and the time since then."""

    upto: Place
    since: float


class Lags:
    """The sources of which a store lacks what its peers have."""

    def __init__(self) -> None:
        self._lacks: dict[SourceName, Lack] = {}
        self._wanted: dict[SourceName, _Wanted] = {}
        self._lagging: set[SourceName] = set()
        self.has_asked = False
        """Whether the peers were asked since the start of the store."""

    def __iter__(self) -> Iterator[SourceName]:
        """Iterate over the sources in which the store lags."""
        return iter(self._lagging)

    def lagging(self, source: SourceName) -> Lack | None:
        """Return what the store lacks of a source; None: it does not lag there."""
        return self._lacks[source] if source in self._lagging else None

    def lacks(self) -> Mapping[SourceName, Lack]:
        """Return what the store lacked when it asked its peers, also for a moment only."""
        return self._lacks

    def note(self, source: SourceName, found: Lack | None, now: float) -> bool:
        """Note what the store lacks of a source now. Return whether it lags since now.

        The store has to reach what it lacked when its clock began to run. A store that gets on, but
        stays late, lags as well.

        now: the time in seconds, of a clock that never jumps.
        """
        wanted = self._wanted.get(source)
        if found is None:
            self.forget(source)
            return False
        self._lacks[source] = found
        if wanted is None or found.first > wanted.upto.sequence:
            self._wanted[source] = _Wanted(found.upto, now)
            self._lagging.discard(source)
            return False
        wanted.upto = min(wanted.upto, found.upto, key=lambda place: place.sequence)
        if now < wanted.since + LAG_SECONDS or source in self._lagging:
            return False
        self._lagging.add(source)
        return True

    def forget(self, source: SourceName) -> None:
        """Note that the store lacks nothing of a source."""
        self._lacks.pop(source, None)
        self._wanted.pop(source, None)
        self._lagging.discard(source)


def furthest(one: Lack | None, other: Lack | None) -> Lack | None:
    """Return the lack with the later end: of two peers, the one that can give more."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda each: (each.upto, -each.first))
