"""What the checker knows of a receiver: what its applications were handed, and were done with.

Values; what must hold of them is in tests.simulation.checker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.endings import Life


@dataclass
class Listener:
    """A receiver, as its applications saw it, in one stream of the source."""

    stable_only: bool
    life: Life
    """Of which stream it was handed messages last."""
    next: int = 0
    """What its running instance must be handed next."""
    running: dict[int, bytes] = field(default_factory=dict)
    """What its running instance was handed, without what was withdrawn."""
    handed: dict[int, set[bytes]] = field(default_factory=dict)
    """What any instance of it was handed."""
    consumed: dict[int, set[bytes]] = field(default_factory=dict)
    """What any instance of it was done with."""
    done_upto: int = -1
    """Everything up to here was consumed as it is stable."""
    skipped: set[int] = field(default_factory=set)
    """What was let go, or lost, before it could be handed over, as it was told."""

    def passing_over(self, upto: int) -> int:
        """What it must be handed next, if that was not let go; at most this."""
        following = self.next
        while following < upto and following in self.skipped:
            following += 1
        return following

    def begins_anew(self) -> None:
        """What an instance before was done with says nothing any more: it was to be forgotten."""
        self.consumed.clear()
        self.skipped.clear()
        self.done_upto = -1
