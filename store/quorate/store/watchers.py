"""The directory: which sources a store knows, for those who watch it.

Each watcher is owed, at most, one entry a source: what it has not taken yet is overwritten by what
is newer, so a slow one costs no memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName

Selects = Callable[[str], bool]
"""Whether a topic is one that is asked for."""


def by_topic(topic: str) -> Selects:
    return lambda candidate: candidate == topic


def by_pattern(pattern: str) -> Selects:
    """Topics that the regular expression matches whole; raises InvalidArgument."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(
            "topic pattern", f"{pattern!r} is not a regular expression: {error}"
        ) from None
    return lambda candidate: compiled.fullmatch(candidate) is not None


class Watcher:
    """What one watcher has still to be told."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._owed: dict[SourceName, None] = {}
        self._changed = asyncio.Event()

    def owe(self, source: SourceName) -> None:
        """Have the watcher told of the source as it will then be."""
        if self._selects(source.topic):
            self._owed[source] = None
            self._changed.set()

    def take(self) -> list[SourceName]:
        """What is owed; then nothing is."""
        owed, self._owed = list(self._owed), {}
        self._changed.clear()
        return owed

    def wake(self) -> None:
        """Have whoever waits look around, though nothing may be owed."""
        self._changed.set()

    async def changed(self) -> None:
        """Return once something is owed, or after `wake`."""
        await self._changed.wait()


class Directory:
    """All watchers of one store."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    @contextmanager
    def watching(self, selects: Selects, known: Iterable[SourceName]) -> Iterator[Watcher]:
        """A watcher that is owed everything known, and from now on every change."""
        watcher = Watcher(selects)
        for source in known:
            watcher.owe(source)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def changed(self, source: SourceName) -> None:
        """Something that the directory says of a source is no longer so."""
        for watcher in self._watchers:
            watcher.owe(source)

    def wake(self) -> None:
        """Have every watcher's call look around."""
        for watcher in self._watchers:
            watcher.wake()
