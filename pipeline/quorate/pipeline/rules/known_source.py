"""A source, as the stores that answered know it together."""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.protocol.recovery import Marker
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class KnownSource:
    """A source, as the stores that answered know it together.

    The best informed store is the one that was told the highest `stable_upto`, and among equals
    the one that began the newest epoch.
    """

    name: SourceName
    lineage: Lineage
    """The lineage at the best informed store. It is in force for all that is stable."""
    stable_upto: int
    """The highest `stable_upto` that any store was told; -1: nothing is stable."""
    held: RangeSet
    """The stable messages of the stream that at least one store holds."""
    high: int
    """The highest number that any store holds, stable or not; -1: none."""
    information: v1.SourceInformation
    """The newest information on the source that any store has."""
    live: bool
    """The source streams to at least one store."""
    stores: tuple[str, ...]
    """Addresses of the stores that know the source."""
    membership: v1.Membership
    """The policies of the stream, as the best informed store has them."""
    promised_epoch: int
    """The highest epoch that any store has promised."""
    reg_id: int
    """The RegID at the best informed store."""
    losses: tuple[HeldRange, ...]
    """Ranges that an operator accepted as lost at any store, and that no store holds."""
    retained_from: int = 0
    """At least one store has released the numbers below this one by retention."""
    markers: tuple[Marker, ...] = ()
    """The newest stable application markers, as the best informed store has them."""
    message_bytes: float = 0.0
    """The mean bytes of a message that stores hold; 0: none holds any."""
    archived_upto: int = -1
    """Each store that knows the source was told that an archive has it up to here, or further."""

    @property
    def earliest(self) -> int:
        """The sequence number at which reading from the beginning starts.

        From there on, each number was never released, or at least one store still holds it.
        """
        gone = self.held.holes(0, self.retained_from - 1)
        return gone[-1].last + 1 if gone else 0

    @property
    def until(self) -> int:
        """One past the last stable sequence number."""
        return self.stable_upto + 1
