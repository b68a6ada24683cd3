"""Whether this store announces a source that is away, and how far its stream is stable.

Pure; the rules are in protocol.md 15. Every store that has the source's state announces it, and
each finds out by itself what is stable. Two stores never contradict each other in that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from quorate.protocol.begin import NOT_BEGUN, BeginRecord
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import RangeSet

AWAY_SECONDS = 3.0
"""A source without an activity timeout is away after this."""


@dataclass(frozen=True, slots=True)
class Party:
    """A store that can be reached now, as far as one source goes."""

    store: str
    incarnation: bytes
    begun: BeginRecord = NOT_BEGUN
    held: RangeSet = field(default_factory=RangeSet)
    """The numbers of the stream that it holds durably, or that no store needs to hold."""
    stable_upto: int = NOTHING
    limbo: bool = False
    live: bool = False
    """The source streams to it."""
    asked: float = 0.0
    """When it was asked for this; it was so at some time since."""
    promised_epoch: int = 0
    takes_data: bool = True
    """It keeps messages of that topic."""

    @property
    def is_promised(self) -> bool:
        """To a later source: it may have decided without what this store has."""
        return self.promised_epoch > self.begun.epoch


def announcers(me: Party, peers: Iterable[Party]) -> tuple[Party, ...]:
    """Return the stores with the state of a source that is away, this one (`me`) first.

    Empty: this store does not announce the source. It lacks the state, or is in limbo, or the
    source streams to a peer.
    """
    parties = (me, *(peer for peer in peers if peer.store != me.store))
    newest = max(party.begun.epoch for party in parties)
    able = [one for one in parties if one.begun.epoch == newest and not one.limbo]
    if not newest or me not in able or any(party.live for party in parties):
        return ()
    return tuple(able)


@dataclass(frozen=True, slots=True)
class _Sighting:
    upto: int
    lineage: Lineage
    holders: Mapping[str, bytes]
    """Incarnations by name."""
    at: float


class Gathering:
    """How far the stream of a source that is away is stable.

    A number that one store was told is stable, is stable. Beyond that, a number is stable when
    enough stores that have begun the newest epoch hold it *at the same time*. Each was seen to hold
    it, and was asked again after all had been seen. It must still hold it in the same incarnation.
    One look would not do: a store may have been wiped before the other one got the message.

    A store that has promised a later epoch does not count. That epoch may have decided otherwise
    before this store fetched the message as it left limbo.
    """

    def __init__(self) -> None:
        self._seen: _Sighting | None = None

    @property
    def waits(self) -> bool:
        """Whether stores that were seen to hold messages are still to be asked again."""
        return self._seen is not None

    def look(self, now: float, among: Sequence[Party]) -> int:
        """Return the highest number known to be stable, by these answers. All were heard by now.

        among: the stores that announce the source, this one first.
        """
        told = max(party.stable_upto for party in among)
        lineage = among[0].begun.lineage
        reach = {
            party.store: party.held.contiguous_upto(told + 1)
            for party in among
            if party.begun.lineage == lineage and not party.is_promised
        }
        # No rule waits for a state-only store. Messages that it took before it was configured so
        # count like those of any other store.
        active = {party.store for party in among if party.takes_data} & reach.keys()
        asked = {party.store: party.asked for party in among}
        seen, confirmed = self._seen, told
        if seen is not None and _still_holds(seen, among, reach, active):
            if not all(asked[store] > seen.at for store in seen.holders):
                return told
            confirmed = max(confirmed, seen.upto)
        self._seen = _sighting(now, among, reach, active, told)
        return confirmed


def _sighting(
    now: float, among: Sequence[Party], reach: Mapping[str, int], active: Set[str], told: int
) -> _Sighting | None:
    """As far as the stream is stable if all of this was so at the same time."""
    for upto in sorted(set(reach.values()), reverse=True):
        if upto <= told:
            return None
        holders = frozenset(store for store, reached in reach.items() if reached >= upto)
        if _stable(among, holders, active):
            having = {one.store: one.incarnation for one in among if one.store in holders}
            return _Sighting(upto, among[0].begun.lineage, having, now)
    return None


def _still_holds(
    seen: _Sighting, among: Sequence[Party], reach: Mapping[str, int], active: Set[str]
) -> bool:
    """Return whether the stores still hold what was seen, of the same stream.

    The policies apply to the stores that are active now, which may have become more.
    """
    incarnations = {party.store: party.incarnation for party in among}
    return (
        seen.lineage == among[0].begun.lineage
        and all(
            reach.get(store, NOTHING) >= seen.upto and incarnations[store] == incarnation
            for store, incarnation in seen.holders.items()
        )
        and _stable(among, seen.holders.keys(), active)
    )


def _stable(among: Sequence[Party], holders: Set[str], active: Set[str]) -> bool:
    policies = among[0].begun.policies
    return bool(policies) and all(policy.stable(holders, active) for policy in policies)
