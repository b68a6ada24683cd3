"""Which store answers for a source that is away, and what it may say is stable (protocol.md 15).

Pure. Every store that takes part computes the same order from the same inventories. The first one
begins after a random wait. A later one begins only if it has seen none begin for long. Safety does
not depend on there being one proxy: two of them give the same answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from hashlib import blake2b

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import NO_LINEAGE, Lineage
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import RangeSet

AWAY_SECONDS = 3.0
"""A source without an activity timeout is away after this."""
WAIT_SECONDS = 1.0
"""The first in the order begins after half to one and a half of this."""
TURN_SECONDS = 12.0
"""The next in the order waits so much longer: a peer's claim is heard within it."""


@dataclass(frozen=True, slots=True)
class Party:
    """A store that can be reached now, as far as one source goes."""

    store: str
    incarnation: bytes
    begun_epoch: int = 0
    lineage: Lineage = NO_LINEAGE
    membership: Membership | None = None
    held: RangeSet = field(default_factory=RangeSet)
    """The numbers of the stream that it holds durably, or that no store needs to hold."""
    stable_upto: int = NOTHING
    limbo: bool = False
    live: bool = False
    """The source streams to it."""
    serves: bool = False
    """It says that it is the proxy."""
    asked: float = 0.0
    """When it was asked for this; it was so at some time since."""
    promised_epoch: int = 0
    takes_data: bool = True
    """It keeps messages of that topic."""

    @property
    def is_promised(self) -> bool:
        """To a later source: it may have decided without what this store has."""
        return self.promised_epoch > self.begun_epoch


@dataclass(frozen=True, slots=True)
class Electorate:
    """The stores that may answer for a source, in their order."""

    order: tuple[Party, ...]
    membership: Membership

    @property
    def serving(self) -> Party | None:
        """The first store in the order that serves already."""
        return next((party for party in self.order if party.serves), None)

    def place(self, store: str) -> int | None:
        """The place of a store in the order."""
        names = [party.store for party in self.order]
        return names.index(store) if store in names else None


def electorate(source: SourceName, parties: Mapping[str, Party]) -> Electorate | None:
    """Return the stores that may answer for a source that is away; None if none may.

    Only stores that have its state, outside limbo, and only with a quorum of such stores.
    """
    if any(party.live for party in parties.values()):
        return None
    epoch = max((party.begun_epoch for party in parties.values()), default=0)
    able = [one for one in parties.values() if one.begun_epoch == epoch and not one.limbo]
    if not epoch or not able:
        return None
    membership = able[0].membership
    names = frozenset(party.store for party in able)
    policies = membership.policies if membership is not None else ()
    if membership is None or not policies or not all(each.stable(names) for each in policies):
        return None
    return Electorate(tuple(sorted(able, key=lambda one: _rank(source, epoch, one))), membership)


def _rank(source: SourceName, epoch: int, party: Party) -> bytes:
    text = f"{source.session_id} {epoch} {source.topic}"
    return blake2b(party.incarnation + text.encode(), digest_size=8).digest()


class Candidacy:
    """One store's part in answering for one source."""

    def __init__(self, me: str, jitter: Callable[[], float]) -> None:
        """jitter: a random number from 0.5 to 1.5."""
        self._me = me
        self._jitter = jitter
        self._begins_at: float | None = None
        self.serves = False

    def give_way(self) -> bool:
        """The source is back. Returns whether this store was its proxy."""
        served, self.serves, self._begins_at = self.serves, False, None
        return served

    def look(self, now: float, among: Electorate | None) -> bool:
        """Begin, go on or end, now that the source is away. Returns whether that has changed."""
        place = among.place(self._me) if among is not None else None
        if among is None or place is None:
            return self.give_way()
        serving = among.serving
        if serving is not None and serving.store != self._me:
            mine = place < (among.place(serving.store) or 0)
            # Of two that serve the first stays; nobody is driven out who does well alone.
            return False if self.serves and mine else self.give_way()
        if self.serves:
            return False
        if self._begins_at is None:
            self._begins_at = now + WAIT_SECONDS * self._jitter() + TURN_SECONDS * place
        self.serves = now >= self._begins_at
        return self.serves


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

    def look(self, now: float, among: Electorate) -> int:
        """The highest number known to be stable, by these answers; they were all heard by now."""
        told = max(party.stable_upto for party in among.order)
        lineage = among.order[0].lineage
        reach = {
            party.store: party.held.contiguous_upto(told + 1)
            for party in among.order
            if party.lineage == lineage and not party.is_promised
        }
        # No rule waits for a state-only store. Messages that it took before it was configured so
        # count like those of any other store.
        active = {party.store for party in among.order if party.takes_data} & reach.keys()
        asked = {party.store: party.asked for party in among.order}
        seen, confirmed = self._seen, told
        if seen is not None and _still_holds(seen, among, reach, active):
            if not all(asked[store] > seen.at for store in seen.holders):
                return told
            confirmed = max(confirmed, seen.upto)
        self._seen = _sighting(now, among, reach, active, told)
        return confirmed


def _sighting(
    now: float, among: Electorate, reach: Mapping[str, int], active: Set[str], told: int
) -> _Sighting | None:
    """As far as the stream is stable if all of this was so at the same time."""
    for upto in sorted(set(reach.values()), reverse=True):
        if upto <= told:
            return None
        holders = frozenset(store for store, reached in reach.items() if reached >= upto)
        if _stable(among, holders, active):
            having = {one.store: one.incarnation for one in among.order if one.store in holders}
            return _Sighting(upto, among.order[0].lineage, having, now)
    return None


def _still_holds(
    seen: _Sighting, among: Electorate, reach: Mapping[str, int], active: Set[str]
) -> bool:
    """Return whether the stores still hold what was seen, of the same stream.

    The policies apply to the stores that are active now, which may have become more.
    """
    incarnations = {party.store: party.incarnation for party in among.order}
    return (
        seen.lineage == among.order[0].lineage
        and all(
            reach.get(store, NOTHING) >= seen.upto and incarnations[store] == incarnation
            for store, incarnation in seen.holders.items()
        )
        and _stable(among, seen.holders.keys(), active)
    )


def _stable(among: Electorate, holders: Set[str], active: Set[str]) -> bool:
    return all(policy.stable(holders, active) for policy in among.membership.policies)
