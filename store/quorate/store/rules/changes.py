"""The sources of a store that changed, and the sources that are due to be looked at. Pure.

A store may have very many sources, almost all of which are still. A task that looks at its sources
over and over has an agenda. So its work grows with the sources that change, not with all of them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from heapq import heappop, heappush
from math import inf

from quorate.protocol.identity import SourceName


class Changes:
    """The sources of a store that changed since its start, here or at a peer."""

    def __init__(self) -> None:
        self._last: dict[SourceName, int] = {}
        """The number of each source's last change, ascending."""
        self._complete_since = 0
        self.count = 0
        """The number of changes so far. It tells moments apart, for `since`."""

    def __len__(self) -> int:
        return len(self._last)

    def __iter__(self) -> Iterator[SourceName]:
        """Iterate over all sources that changed and are remembered."""
        return iter(self._last)

    def note(self, source: SourceName) -> None:
        """Note that a source has changed, or is no longer there."""
        self.count += 1
        self._last.pop(source, None)
        self._last[source] = self.count

    def last(self, source: SourceName) -> int:
        """Return a number that differs once a source has changed again."""
        return self._last.get(source, 0)

    def since(self, count: int) -> list[SourceName] | None:
        """Return the sources that changed after a moment; None: that is no longer known."""
        if not self._complete_since <= count <= self.count:
            return None
        found = list[SourceName]()
        for source, number in reversed(self._last.items()):
            if number <= count:
                break
            found.append(source)
        return found[::-1]

    def forget_all_but(self, sources: Container[SourceName]) -> None:
        """Forget the sources that are gone. Earlier changes are no longer known."""
        for source in [each for each in self._last if each not in sources]:
            del self._last[source]
        self._complete_since = self.count


class Agenda:
    """The sources that one task has to look at: they changed, or their time has come."""

    def __init__(self, changes: Changes, known: Iterable[SourceName] = ()) -> None:
        """known: the sources that are due at first."""
        self._changes = changes
        self._seen = changes.count
        self._owed = dict.fromkeys(known)
        self._times: list[tuple[float, SourceName]] = []
        """The times of `again` as a heap; those that no longer count are among them."""
        self._at: dict[SourceName, float] = {}

    def again(self, source: SourceName, at: float) -> None:
        """Note that a source is due at this time, or earlier if it changes before."""
        if at < self._at.get(source, inf):
            self._at[source] = at
            heappush(self._times, (at, source))

    def owe(self, sources: Iterable[SourceName]) -> None:
        """Note that these sources are due now."""
        self._owed.update(dict.fromkeys(sources))

    def due(self, now: float) -> Iterator[SourceName]:
        """Yield the sources that are due, each once. Those not taken stay due.

        A source that becomes due meanwhile is not among them.
        """
        self._collect(now)
        for source in list(self._owed):
            del self._owed[source]
            yield source

    def _collect(self, now: float) -> None:
        changed, self._seen = self._changes.since(self._seen), self._changes.count
        for source in self._changes if changed is None else changed:
            self._at.pop(source, None)
            self._owed[source] = None
        while self._times and self._times[0][0] <= now:
            at, source = heappop(self._times)
            if self._at.get(source) == at:
                del self._at[source]
                self._owed[source] = None
