"""The messages that were there when a receiver subscribed, of each source, as its stores said then.

Pure. It decides what "only what is new" means, once for all sources (protocol.md 9.8). A source
that the directory names later is new as a whole. Where a receiver starts is not decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage


@dataclass(frozen=True, slots=True)
class Seen:
    """The end of one source's stream at one store."""

    begun_epoch: int
    """The last epoch begun at the store; 0: none."""
    next_sequence: int
    """The first number above all that the store had in the lineage of that epoch."""

    def newest(self, lineage: Lineage) -> int:
        """Return the newest of these messages that may belong to this lineage; NOTHING: none does.

        Numbers that the lineage gives to later epochs are other messages.
        """
        later = (term.first for term in lineage.terms if term.epoch > self.begun_epoch)
        return min((self.next_sequence, *later)) - 1


class Subscription:
    """The ends of all streams that the stores' directory named while the receiver subscribed."""

    def __init__(self) -> None:
        self._seen: dict[SourceName, list[Seen]] = {}
        self._is_made = False

    def heard(self, source: SourceName, seen: Seen) -> None:
        """Note what a store's directory says of a source. Nothing counts once it is made."""
        if not self._is_made:
            self._seen.setdefault(source, []).append(seen)

    def made(self) -> None:
        """Note that the receiver has subscribed: what comes from now on is new."""
        self._is_made = True

    def newest(self, source: SourceName, lineage: Lineage) -> int:
        """Return the newest message that a store had then; NOTHING: the source came later."""
        seen = self._seen.get(source, ())
        return max((each.newest(lineage) for each in seen), default=NOTHING)
