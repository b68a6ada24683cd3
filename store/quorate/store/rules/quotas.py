"""The use that each identity makes of a store at a time, and whether that is too much.

Pure: time comes in as an argument, and the caller waits. Which limits an identity has is decided in
quorate.protocol.access.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from quorate.protocol.access import Limits
from quorate.protocol.errors import LimitReached

BURST_SECONDS = 1.0
"""An identity that was quiet may move at once what it may move in so many seconds."""


@dataclass(slots=True)
class Use:
    """The use that one identity makes."""

    limits: Limits
    calls: Counter[str] = field(default_factory=Counter)
    """The calls under way, by connection."""
    subscriptions: int = 0
    free_at: float = 0.0
    """The time from which on the identity may move more bytes."""

    def wait(self, size: int, now: float) -> float:
        """Count bytes that were moved. Return the seconds to wait before more are."""
        rate = self.limits.bytes_per_second
        if not rate:
            return 0.0
        self.free_at = max(self.free_at, now - BURST_SECONDS) + size / rate
        return max(0.0, self.free_at - now)


class Quotas:
    """The use that all identities make of one store."""

    def __init__(self) -> None:
        """Begin with no use."""
        self._uses: dict[str, Use] = {}

    @contextmanager
    def used(
        self, identity: str, limits: Limits, connection: str, *, subscribes: bool
    ) -> Iterator[Use]:
        """Count a call while it is under way. Raises LimitReached if it is one too many."""
        use = self._uses.setdefault(identity, Use(limits))
        most = limits.connections
        if most and connection not in use.calls and len(use.calls) >= most:
            raise LimitReached(identity, "connections", most)
        if subscribes and limits.subscriptions and use.subscriptions >= limits.subscriptions:
            raise LimitReached(identity, "subscriptions", limits.subscriptions)
        use.calls[connection] += 1
        use.subscriptions += subscribes
        try:
            yield use
        finally:
            use.subscriptions -= subscribes
            use.calls[connection] -= 1
            if not use.calls[connection]:
                del use.calls[connection]
            if not use.calls:
                self._uses.pop(identity, None)
