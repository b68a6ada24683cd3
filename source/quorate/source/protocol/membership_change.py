"""A change of the stores: to others of the configuration, or to backups and back.

Pure. It says what to register next, and when. The registration itself is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable

from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import Range
from quorate.source.protocol.backups import Backups
from quorate.source.protocol.catch_up import BringingUp
from quorate.source.protocol.store_cursors import Streams

_CHANGE_SECONDS = 10.0
"""The time, in seconds, after which an unfinished change of the stores counts as a lost quorum."""


class Changing:
    """One source's change of its stores, if one is under way."""

    def __init__(self, declared: Policy, backup_after: float) -> None:
        """Begin without a change. backup_after: seconds until a backup takes a member's place."""
        self._backups = Backups(declared, backup_after)
        self._bringing_up: BringingUp | None = None
        self._until: float | None = None

    # Inputs.

    def decided(self, membership: Membership, own: Policy) -> None:
        """Note the policies of a registration. The own policy catches up until it can stand
        alone."""
        self._bringing_up = None
        if membership.to_policies != (own,):
            self._bringing_up = BringingUp(membership.policies, own)

    def registers(self, now: float, *, to_change: bool) -> None:
        """Note that a registration begins.

        to_change: it changes the stores, and messages accepted meanwhile wait for it.
        """
        self._bringing_up = None
        if to_change:
            self._until = now + _CHANGE_SECONDS

    def complete(self) -> None:
        """Note that enough stores take the stream, so that no message waits for the change."""
        self._until = None

    def joined(self, store: str, now: float, takes_data: bool) -> None:
        """Add a store that takes the stream; a state-only store takes no messages of it."""
        if self._bringing_up is not None:
            self._bringing_up.joined(store, now, takes_data)

    def left(self, store: str) -> None:
        """Drop a store that no longer takes the stream."""
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
        """Note what a store that was due holds; None: it did not answer."""
        if self._bringing_up is not None:
            self._bringing_up.answered(store, held, now, retained_from, vouches=vouches)

    # Results.

    def is_waited_for(self, now: float) -> bool:
        """Return whether messages are accepted although no stores take them yet: a change is under
        way."""
        return self._until is not None and now < self._until

    @property
    def brings_up(self) -> bool:
        """Whether the own policy is in force, but not alone: it may lack what was stable before."""
        return self._bringing_up is not None

    def due(self, now: float) -> list[str]:
        """Return the stores to ask what they hold. Each counts as asked from here on."""
        return self._bringing_up.due(now) if self._bringing_up is not None else []

    def is_brought_up(self, stable_upto: int, kept_upto: int) -> bool:
        """Return whether the own policy may stand alone. kept_upto: the last number that the epoch
        kept."""
        return (
            self._bringing_up is not None
            and stable_upto >= kept_upto
            and self._bringing_up.ready(kept_upto)
        )

    def wanted(self, present: Policy, streams: Streams, now: float) -> Policy | None:
        """Return the policy to go to because stores are away or back; None: the present one is
        right."""
        taking = streams.connected()
        caught_up = {store for store in taking if not streams.cursors[store].catching_up}
        wanted = self._backups.wanted(present, taking, caught_up, now)
        if wanted == present:
            return None
        # A registration needs a blocking set of each policy; without them it would stop the stream.
        blocked = all(policy.blocks(taking & policy.stores) for policy in (present, wanted))
        return wanted if blocked else None
