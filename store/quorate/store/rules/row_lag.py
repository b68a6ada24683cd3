"""How long the rows of the state of the world take to have what is stable. Pure.

Of each source that is behind, one number is noted with the time at which it was stable. Once the
rows have it, the time that they took is known, and the next number is noted.
"""

from __future__ import annotations

from dataclasses import dataclass

from quorate.protocol.identity import SourceName


@dataclass(slots=True)
class _Noted:
    upto: int
    """A number that was stable, and that the rows did not have."""
    since: float
    """The time at which it was noted, in seconds."""
    took: float = 0.0
    """The seconds that the rows took for the number before it."""


class RowLag:
    """The lag of the rows of one store, by source."""

    def __init__(self) -> None:
        self._noted: dict[SourceName, _Noted] = {}

    def note(self, source: SourceName, rows_upto: int, stable_upto: int, now: float) -> None:
        """Note how far rows have come in a source, and how far it is stable."""
        if rows_upto >= stable_upto:
            self._noted.pop(source, None)
        elif (noted := self._noted.get(source)) is None:
            self._noted[source] = _Noted(stable_upto, now)
        elif rows_upto >= noted.upto:
            self._noted[source] = _Noted(stable_upto, now, now - noted.since)
        else:
            # A source that began anew may never come to the number.
            noted.upto = min(noted.upto, stable_upto)

    def seconds(self, source: SourceName, now: float) -> float:
        """Return the seconds that the rows of a source are behind."""
        noted = self._noted.get(source)
        return 0.0 if noted is None else max(noted.took, now - noted.since)

    def forget(self, source: SourceName) -> None:
        """Forget a source that has ended."""
        self._noted.pop(source, None)
