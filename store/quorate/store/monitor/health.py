"""The health of a store: whether its process lives, has started, and is ready for clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STARTING = "the store reads its data directory, or asks its peers who it is"


@dataclass(slots=True)
class Health:
    """The health of one store, as the node notes it."""

    limbo: Callable[[], str]
    """Returns why the store as a whole is in limbo; empty: it is not."""
    has_started: bool = False
    """Whether the store serves all calls. It stays so until the process ends."""
    stops_because: str = ""
    """Why the store stops; empty: it does not."""

    @property
    def why_not_started(self) -> str:
        """Why the store has not started yet; empty: it has."""
        return "" if self.has_started else STARTING

    @property
    def why_not_ready(self) -> str:
        """Why no client should be sent to the store now; empty: it is ready."""
        return self.stops_because or self.why_not_started or self.limbo()
