"""The watchers of a store's directory: each is told of every source that changes.

A watcher is owed at most one entry a source, which it reads when it takes it. So a slow watcher
costs no memory. The content of an entry is no matter of this module.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName

Selects = Callable[[str], bool]
"""A predicate over topics: whether a watcher asked for the topic."""


def by_topic(topic: str) -> Selects:
    """Select one topic."""
    return lambda candidate: candidate == topic


def by_pattern(pattern: str) -> Selects:
    """Select the topics that the regular expression matches whole. Raises InvalidArgument."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise InvalidArgument(
            "topic pattern", f"{pattern!r} is not a regular expression: {error}"
        ) from None
    return lambda candidate: compiled.fullmatch(candidate) is not None


class Watcher:
    """One watcher, with the sources of which it has still to be told."""

    def __init__(self, selects: Selects) -> None:
        self._selects = selects
        self._owed: dict[SourceName, None] = {}
        self._changed = asyncio.Event()

    def owe(self, source: SourceName) -> None:
        """Note that the watcher must be told of the source."""
        if self._selects(source.topic):
            self._owed[source] = None
            self._changed.set()

    def take(self) -> list[SourceName]:
        """Return the sources that are owed; afterwards none is."""
        owed, self._owed = list(self._owed), {}
        self._changed.clear()
        return owed

    def wake(self) -> None:
        """Let `changed` return, though nothing may be owed."""
        self._changed.set()

    async def changed(self) -> None:
        """Return once a source is owed, or after `wake`."""
        await self._changed.wait()


class Directory:
    """All watchers of one store."""

    def __init__(self) -> None:
        self._watchers: set[Watcher] = set()

    @contextmanager
    def watching(self, selects: Selects, known: Iterable[SourceName]) -> Iterator[Watcher]:
        """Return a watcher that is owed all known sources, and every change from now on."""
        watcher = Watcher(selects)
        for source in known:
            watcher.owe(source)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    def changed(self, source: SourceName) -> None:
        """Note that the directory's entry of a source has changed."""
        for watcher in self._watchers:
            watcher.owe(source)

    def wake(self) -> None:
        """Let every waiting watcher's call go on."""
        for watcher in self._watchers:
            watcher.wake()
