"""A change of the stores: to others that the configuration names, or to backups and back.

Pure. Says what has to be registered next, and when; how that is done is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import Range
from quorate.source.protocol.backups import Backups
from quorate.source.protocol.catch_up import BringingUp
from quorate.source.protocol.store_cursors import Streams

_CHANGE_SECONDS = 10.0
"""So long may a change of the stores take before it counts as a lost quorum."""


class Changing:
    """How far one source is with changing its stores, if it is."""

    def __init__(self, declared: Policy, backup_after: float) -> None:
        """backup_after: seconds for which a member may be away before a backup stands in."""
        self._backups = Backups(declared, backup_after)
        self._bringing_up: BringingUp | None = None
        self._until: float | None = None

    # What happens.

    def decided(self, membership: Membership, own: Policy) -> None:
        """A registration goes to these policies; the own one is brought up until it is alone."""
        self._bringing_up = None
        if membership.to_policies != (own,):
            self._bringing_up = BringingUp(membership.policies, own)

    def registers(self, now: float, *, to_change: bool) -> None:
        """A registration begins. to_change: messages that are accepted meanwhile wait for it."""
        self._bringing_up = None
        if to_change:
            self._until = now + _CHANGE_SECONDS

    def complete(self) -> None:
        """Enough stores take the stream: nothing waits any more."""
        self._until = None

    def joined(self, store: str, now: float, takes_data: bool) -> None:
        """The store takes the stream, or what there is to know of it."""
        if self._bringing_up is not None:
            self._bringing_up.joined(store, now, takes_data)

    def left(self, store: str) -> None:
        """The store does not take the stream any more."""
        if self._bringing_up is not None:
            self._bringing_up.left(store)

    def answered(
        self,
        store: str,
        held: Iterable[Range] | None,
        now: float,
        retained_from: int,
        *,
        vouches: bool = True,
    ) -> None:
        """What the store that was due holds; None if it did not say."""
        if self._bringing_up is not None:
            self._bringing_up.answered(store, held, now, retained_from, vouches=vouches)

    # What follows.

    def is_waited_for(self, now: float) -> bool:
        """Messages are accepted, though nothing takes them, for the stores are being changed."""
        return self._until is not None and now < self._until

    @property
    def brings_up(self) -> bool:
        """The own policy is in force, but not alone: it may lack what was stable before."""
        return self._bringing_up is not None

    def due(self, now: float) -> list[str]:
        """Stores to be asked what they hold; each counts as asked from here."""
        return self._bringing_up.due(now) if self._bringing_up is not None else []

    def is_brought_up(self, stable_upto: int, kept_upto: int) -> bool:
        """Whether the own policy may stand alone. kept_upto: where the epoch began."""
        return (
            self._bringing_up is not None
            and stable_upto >= kept_upto
            and self._bringing_up.ready(kept_upto)
        )

    def wanted(self, present: Policy, streams: Streams, now: float) -> Policy | None:
        """The policy to go to, because of who is away or back; None if the present one is right."""
        taking = streams.connected()
        caught_up = {store for store in taking if not streams.cursors[store].catching_up}
        wanted = self._backups.wanted(present, taking, caught_up, now)
        if wanted == present:
            return None
        # A registration needs blocking sets: without them it would stop what still goes on.
        blocked = all(policy.blocks(taking & policy.stores) for policy in (present, wanted))
        return wanted if blocked else None
