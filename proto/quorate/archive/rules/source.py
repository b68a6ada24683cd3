"""The history of a source, as an archive has it.

How an archive keeps these values is in quorate.archive.histories. Nothing here touches a file.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import ArchivedPlace, Lineage
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class BatchMark:
    """A batch of an archive, by the facts that identify the same batch at a store."""

    first: int
    checksum: int
    """The crc32c that the source computed."""


@dataclass(frozen=True, slots=True)
class ArchivedSource:
    """The archived history of a source. All of it was stable."""

    name: SourceName
    lineage: Lineage
    """The lineage in force up to `last`."""
    first: int
    last: int
    membership: Membership
    """The membership of the newest begun record, when the source was last archived."""
    information: v1.SourceInformation
    promised_epoch: int
    """The highest epoch that any store had promised then."""
    reg_id: int
    losses: tuple[HeldRange, ...] = ()
    """Ranges within [first, last] that the archive lacks.

    An operator accepted their loss, or retention released them before they were archived.
    """
    marker: Marker | None = None
    """The newest application marker of a batch below `first`; None: none is known."""
    last_batch: BatchMark | None = None
    """The batch that was archived last, which ends at its highest number; None: there is none."""

    @property
    def has(self) -> RangeSet:
        """The numbers that the archive has."""
        lost = (Range(each.first, each.last) for each in self.losses)
        return RangeSet([Range(self.first, self.last)]).minus(RangeSet(lost))

    @property
    def place(self) -> ArchivedPlace:
        """The place up to which the archive has the source."""
        return ArchivedPlace(self.last, self.lineage.epoch_at(self.last))

    def problems(self) -> list[str]:
        """Return the contradictions in these values; an empty list if there is none."""
        found: list[str] = []
        if not 0 <= self.first <= self.last:
            return [f"{self.name} ends at {self.last}, before it begins at {self.first}"]
        terms = self.lineage.terms
        if not terms:
            found.append(f"{self.name} has no epoch")
        elif terms[-1].first > self.last:
            found.append(f"{self.name} has an epoch that begins after its last number")
        if any(each.first < self.first or each.last > self.last for each in self.losses):
            found.append(f"{self.name} has losses outside of [{self.first}, {self.last}]")
        return found
