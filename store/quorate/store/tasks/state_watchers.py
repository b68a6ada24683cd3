"""The watchers of the state of the world: each is told which keys of its topic have changed.

A watcher is owed each key at most once, and a bounded number of them. How its rows are read is no
matter of this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

KEYS_MAX = 100_000
"""The most keys that one watcher is owed. One that is owed more looks for them in the rows."""


class KeyWatcher:
    """One watcher, with the keys of which it has still to be told."""

    def __init__(self) -> None:
        self._keys: dict[bytes, None] = {}
        self._woken = asyncio.Event()
        self.has_missed = False
        """Whether keys have changed that the watcher is not told."""

    def owe(self, keys: Iterable[bytes] | None) -> None:
        """Note that these keys have changed. None: nobody knows which."""
        if keys is None or len(self._keys) > KEYS_MAX:
            self.has_missed = True
        else:
            self._keys.update(dict.fromkeys(keys))
        self._woken.set()

    def take(self) -> list[bytes]:
        """Return the keys that are owed. Afterwards they no longer are, and none is missed."""
        keys, self._keys = list(self._keys), {}
        self.has_missed = False
        self._woken.clear()
        return keys

    def wake(self) -> None:
        """Let `woken` return, though nothing may be owed."""
        self._woken.set()

    async def woken(self) -> None:
        """Return once a key is owed, or after `wake`."""
        await self._woken.wait()


class KeyWatchers:
    """All watchers of one store's state of the world."""

    def __init__(self) -> None:
        self._of_topics: dict[str, dict[KeyWatcher, None]] = {}

    @contextmanager
    def watching(self, topic: str) -> Iterator[KeyWatcher]:
        """Return a watcher that is owed every key of a topic that changes from now on."""
        watcher = KeyWatcher()
        self._of_topics.setdefault(topic, {})[watcher] = None
        try:
            yield watcher
        finally:
            self._of_topics[topic].pop(watcher, None)
            if not self._of_topics[topic]:
                del self._of_topics[topic]

    def has(self, topic: str) -> bool:
        """Return whether somebody watches a topic."""
        return topic in self._of_topics

    def changed(self, topic: str, keys: Iterable[bytes] | None) -> None:
        """Note that keys of a topic have changed. None: nobody knows which."""
        for watcher in self._of_topics.get(topic, ()):
            watcher.owe(keys)

    def wake(self) -> None:
        """Let every waiting watcher go on."""
        for of_topic in self._of_topics.values():
            for watcher in of_topic:
                watcher.wake()
