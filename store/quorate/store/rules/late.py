"""What a store takes over late of a source: a begin that it missed, or that an archive remembers.

Values only; what becomes of them is decided in quorate.store.rules.acceptor.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.lineage import Lineage
from quorate.protocol.recovery import Marker
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class Missed:
    """A begin that a peer has taken and this store has not."""

    lineage: Lineage
    membership: v1.Membership
    promised_to: bytes
    """The instance that the epoch was promised to; empty if that is not known any more."""
    information: v1.SourceInformation | None
    reg_id: int = 0
    """That it says that it wants here, or has at the peer; taken if it is free."""
    ended_epoch: int = 0
    """Up to here epochs were of streams that are deleted."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive says of a source whose begin this store has missed, or lost."""

    lineage: Lineage
    membership: v1.Membership
    promised_epoch: int
    """The highest that was known when it was archived."""
    information: v1.SourceInformation | None
    reg_id: int = 0
    """That the source had: if the application chose it, it wants the same here."""
    first: int = 0
    """What is below had been let go by all stores before it could be archived."""
    markers: tuple[Marker, ...] = ()
    """The newest of what is below."""
