"""The begin record: what a begin makes durable at a store (protocol.md 4).

All parts share this value. A source decides it. Stores keep it, and tell it to sources, to each
other and to people. Its form on the wire, in quorate.protocol.wire, is also that on the disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.policy import Membership, Policy


@dataclass(frozen=True, slots=True)
class BeginRecord:
    """The record of one begin of a source's stream."""

    lineage: Lineage = NO_LINEAGE
    """The lineage that the source decided. Its newest epoch is that of the begin."""
    membership: Membership | None = None
    """The policies that came with the begin; None until an epoch was begun."""
    generation: int = 0
    """The epoch of the newest end before the begin, or of the begin itself if it is an end.
    Nothing that was begun before that end counts. 0: the stream never ended."""

    @property
    def epoch(self) -> int:
        """The begun epoch; 0: nothing was begun."""
        return self.lineage.epoch

    @property
    def ended(self) -> bool:
        """Whether the begin is an end: it begins a generation, in its own epoch."""
        return 0 < self.generation == self.epoch

    @property
    def goes_on(self) -> bool:
        """Whether the stream goes on: it was begun, and the begin is no end."""
        return self.epoch > self.generation

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that the record names, each of them once."""
        return self.membership.policies if self.membership is not None else ()

    @property
    def newness(self) -> tuple[int, int]:
        """The key by which the newest begin record is the greatest.

        Of two records of one epoch the one that was confirmed is newer. It forgot the policies that
        it came from, so it names fewer, and it is known to count.
        """
        return self.epoch, -len(self.policies)

    def is_older_than(self, generation: int) -> bool:
        """Return whether something was begun, and nothing of this generation yet."""
        return 0 < self.epoch < generation


NOT_BEGUN = BeginRecord()
"""The record of a source of which nothing was begun."""


def end_in(epoch: int, membership: Membership) -> BeginRecord:
    """Return the record of a begin that ends a stream in this epoch."""
    return BeginRecord(Lineage((Term(epoch, 0),)), membership, epoch)
