"""The watchers of a store's directory: each is told of every source that changes.

A watcher is owed at most one entry a source, which it reads when it takes it. So a slow watcher
costs no memory. A watcher tries its pattern when it takes, in slices: neither many sources nor a
slow pattern holds up the event loop. The content of an entry is no matter of this module.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from quorate.protocol.identity import SourceName
from quorate.protocol.patterns import topic_pattern
from quorate.store.turns import Turn

_CACHED = 4096
"""The topics of which a watcher remembers whether its pattern matches."""
_TRIED_MAX = 100
"""The patterns that are tried at once to find whether a topic is watched."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics that a watcher asked for."""

    selects: Callable[[str], bool]
    topic: str | None = None
    """The one topic; None: a pattern selects them."""
    is_quick: bool = False
    """Whether `selects` takes next to no time, so that other topics do not wake the watcher."""


def by_topic(topic: str) -> Selection:
    """Select one topic."""
    return Selection(topic.__eq__, topic)


def by_pattern(pattern: str) -> Selection:
    """Select the topics that the regular expression matches whole. Raises InvalidArgument."""
    return Selection(functools.lru_cache(_CACHED)(topic_pattern(pattern).matches))


class Watcher:
    """One watcher, with the sources of which it has still to be told."""

    def __init__(self, selection: Selection, known: Iterable[SourceName]) -> None:
        """known: the sources that the watcher is owed first; others may be among them."""
        self.selects = selection.selects
        self._is_quick = selection.is_quick
        if (topic := selection.topic) is not None:
            # Many receivers watch one topic each. To each of them almost all sources are others.
            known = (source for source in known if source.topic == topic)
        self._owed = dict.fromkeys(known)
        self._changed = asyncio.Event()

    @property
    def owed(self) -> int:
        """The number of sources that the watcher would look at if it took them now."""
        return len(self._owed)

    def owe(self, source: SourceName) -> None:
        """Note that the watcher must be told of the source, if it asked for the topic."""
        if self._is_quick and not self.selects(source.topic):
            return
        self._owed[source] = None
        self._changed.set()

    async def take(self) -> AsyncIterator[SourceName]:
        """Return the sources that are owed now; afterwards they no longer are."""
        owed, self._owed = self._owed, {}
        self._changed.clear()
        turn = Turn()
        for source in owed:
            if self.selects(source.topic):
                yield source
            await turn.pause()

    def wake(self) -> None:
        """Let `changed` return, though nothing may be owed."""
        self._changed.set()

    async def changed(self) -> None:
        """Return once a source is owed, or after `wake`."""
        await self._changed.wait()


class Directory:
    """All watchers of one store."""

    def __init__(self) -> None:
        # Dictionaries in the place of sets: watchers are told in the order in which they came.
        self._of_topics: dict[str, dict[Watcher, None]] = {}
        self._of_patterns: dict[Watcher, None] = {}
        self.changes = 0
        """The number of changes so far."""

    @contextmanager
    def watching(self, selection: Selection, known: Iterable[SourceName]) -> Iterator[Watcher]:
        """Return a watcher that is owed all known sources, and every change from now on."""
        watcher = Watcher(selection, known)
        topic = selection.topic
        among = self._of_patterns if topic is None else self._of_topics.setdefault(topic, {})
        among[watcher] = None
        try:
            yield watcher
        finally:
            among.pop(watcher, None)
            if topic is not None and not among:
                self._of_topics.pop(topic, None)

    def watches(self, topic: str) -> bool:
        """Return whether a watcher has asked for a topic.

        Every acknowledgement asks this, so not all of very many patterns are tried. Then the answer
        is yes.
        """
        patterns = self._of_patterns
        return (
            topic in self._of_topics
            or len(patterns) > _TRIED_MAX
            or any(each.selects(topic) for each in patterns)
        )

    def changed(self, source: SourceName) -> None:
        """Note that the directory's entry of a source has changed."""
        self.changes += 1
        for watcher in (*self._of_topics.get(source.topic, ()), *self._of_patterns):
            watcher.owe(source)

    def wake(self) -> None:
        """Let every waiting watcher's call go on."""
        for watcher in itertools.chain(self._of_patterns, *self._of_topics.values()):
            watcher.wake()
