"""The bounds of a whole store: how many sources and receivers it keeps, and how many bytes.

Pure. The caller says how many there are, and decides which identities are new.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.errors import StoreFull


@dataclass(slots=True)
class Capacity:
    """The bounds of one store; 0: no such bound."""

    store: str
    bytes_max: int = 0
    """The bytes of the batches of all sources in the journal."""
    sources_max: int = 0
    receivers_max: int = 0
    """The receivers of all sources together. A receiver of two sources counts twice."""
    refused: int = 0
    """The registrations that were refused since the start."""

    def check_source(self, present: int) -> None:
        """Raise StoreFull if no new source may be registered. present: those that there are."""
        self._check("sources", present, self.sources_max)

    def check_receiver(self, present: int) -> None:
        """Raise StoreFull if no new receiver may be registered. present: those that there are."""
        self._check("receivers", present, self.receivers_max)

    def _check(self, what: str, present: int, most: int) -> None:
        if 0 < most <= present:
            self.refused += 1
            raise StoreFull(self.store, what, most)
