"""The stores and applications of a simulated world, and how each is started."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.world.applications import publish_all, read_all, receive, subscribe
from tests.world.seen import Seen, Stream
from tests.world.world import Process, World

from quorate.protocol.identity import SourceName
from quorate.store.rules.source_state import SourceState

ADDRESSES = {name: f"127.0.0.1:{100 + number}" for number, name in enumerate("abc", 1)}
STORES = ",".join(f"{name}={address}" for name, address in ADDRESSES.items())
SUBSCRIBER = "subscriber"
RECEIVER_SESSION = 20


class Cast:
    """The stores and applications of one world."""

    def __init__(self, world: World, seen: Seen, random: Random, settings: dict[str, Any]) -> None:
        """Start everybody. settings: those of the stores that are not as usual."""
        self.world = world
        self.seen = seen
        self.over = asyncio.Event()
        """Set once the sources have nothing more to send."""
        self._random = random
        self._settings = settings
        self._mains: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        self.topics = sorted({stream.topic for stream in seen.streams})
        self.sources: list[str] = []
        self.receivers: list[str] = []
        self._add_applications()
        for name in self.everybody:
            self.start(name)

    @property
    def stores(self) -> list[str]:
        """The names of the stores."""
        return list(ADDRESSES)

    @property
    def applications(self) -> list[str]:
        """The names of the applications."""
        return list(self._mains)

    @property
    def everybody(self) -> list[str]:
        """The names of all."""
        return [*self.stores, *self.applications]

    def _add_applications(self) -> None:
        """One process has all sources of a topic, and one is a receiver of all of them."""
        for number, topic in enumerate(self.topics):
            streams = [each for each in self.seen.streams if each.topic == topic]
            source, receiver = f"source of {topic}", f"receiver of {topic}"
            session = RECEIVER_SESSION + number
            self._mains[source] = self._publishing(streams)
            self._mains[receiver] = self._receiving(topic, session)
            self.sources.append(source)
            self.receivers.append(receiver)
        self._mains[SUBSCRIBER] = lambda: subscribe(STORES, self.topics, self.seen)

    def _publishing(self, streams: list[Stream]) -> Callable[[], Coroutine[Any, Any, None]]:
        chance = Random(self._random.random())
        return lambda: publish_all(STORES, streams, self.seen, chance, self.over)

    def _receiving(self, topic: str, session: int) -> Callable[[], Coroutine[Any, Any, None]]:
        return lambda: receive(STORES, topic, session, self.seen)

    def start(self, name: str) -> Process:
        """Start one that does not run. One that runs goes on under another name."""
        if name in self._mains:
            return self.world.start(name, self._mains[name])
        return self.world.start_store(name, STORES, **self._settings)

    def start_if_down(self, name: str) -> None:
        """Start one that crashed, or that has stopped because its disk failed."""
        process = self.world.processes.get(name)
        if process is not None and process.task.done():
            self.world.crash(name)
            process = None
        if process is None:
            self.start(name)

    def serves(self, store: str) -> bool:
        """Return whether the store runs, and vouches for what it lacks."""
        node = self.world.nodes.get(store)
        return node is not None and node.peers is not None and not node.in_limbo

    def holds_all(self, store: str) -> bool:
        """Return whether the store holds all that was reported as stable."""
        states = self.states(store)
        return all(
            (state := states.get(SourceName(each.topic, each.session_id))) is not None
            and state.held.ranges.contiguous_upto(0) >= each.last
            for each in self.seen.streams
        )

    def states(self, store: str) -> dict[SourceName, SourceState]:
        """Return what the store knows of the sources; empty if it does not run."""
        node = self.world.nodes.get(store)
        return {} if node is None or node._engine is None else node._engine.core.sources

    def has_taken_all(self) -> bool:
        """Return whether receivers and the subscriber have all that was reported as stable."""
        return all(
            (not each.stable or (bool(each.replayed) and each.replayed[-1][0] >= each.last))
            and each.taken_upto >= each.last
            for each in self.seen.streams
        )

    def read_all(self, seconds: float) -> None:
        """Let a new receiver of each topic read everything, within so many seconds."""
        for topic in self.topics:
            streams = [each for each in self.seen.streams if each.topic == topic]
            reading = self.world.start("reader", lambda: read_all(STORES, topic, streams))  # noqa: B023
            self.world.finish(reading, seconds)

    def reached(self) -> Counter[str]:
        """Return how often states were reached that are rare."""
        reached = Counter(self.seen.reached)
        for store in self.stores:
            for state in self.states(store).values():
                reached["messages set aside at a store"] += state.held.set_aside > 0
                reached["streams of several epochs"] += len(state.lineage.terms) > 1
        return reached
