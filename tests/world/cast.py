"""The stores and applications of a simulated world, and how each is started."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.world.applications import (
    accept_losses,
    end_source,
    publish_all,
    query_all,
    subscribe,
)
from tests.world.changes import change_stores
from tests.world.group import Change, StoresOfWorld, addresses_of
from tests.world.receivers import read_all, receive, receive_live
from tests.world.seen import Handed, Seen, Stream
from tests.world.world import Process, World

from quorate.protocol.identity import SourceName
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_identity import Standing

SUBSCRIBER = "subscriber"
OPERATOR = "operator"
CHANGE = "change of the stores"
RECEIVER_SESSION = 20
LIVE_SESSION = 30


class Cast:
    """The stores and applications of one world."""

    def __init__(self, world: World, seen: Seen, random: Random) -> None:
        """Start everybody."""
        self.world = world
        self.seen = seen
        self.group = StoresOfWorld(seen.circumstances.layout)
        self.over = asyncio.Event()
        """Set once the sources have nothing more to send."""
        self._random = random
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
        return list(self.group.names)

    @property
    def holders(self) -> list[str]:
        """The names of the stores that are to have all messages."""
        members = self.group.opening.layout.policy.stores
        return sorted(members - {self.seen.circumstances.state_only})

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
            if self.seen.circumstances.has_live_receivers:
                live = f"live receiver of {topic}"
                self._mains[live] = self._receiving_live(topic, LIVE_SESSION + number)
                self.receivers.append(live)
        self._mains[SUBSCRIBER] = lambda: subscribe(self.group.opening, self.topics, self.seen)

    def _publishing(self, streams: list[Stream]) -> Callable[[], Coroutine[Any, Any, None]]:
        chance = Random(self._random.random())
        return lambda: publish_all(self.group.opening, streams, self.seen, chance, self.over)

    def _receiving(self, topic: str, session: int) -> Callable[[], Coroutine[Any, Any, None]]:
        return lambda: receive(self.group.opening, topic, session, self.seen)

    def _receiving_live(self, topic: str, session: int) -> Callable[[], Coroutine[Any, Any, None]]:
        return lambda: receive_live(self.group.opening, topic, session, self.seen)

    def start(self, name: str) -> Process:
        """Start one that does not run. One that runs goes on under another name."""
        if name in self._mains:
            return self.world.start(name, self._mains[name])
        settings = self.seen.circumstances.settings_of(name)
        if settings.get("durability") == "os":
            self.world.disks.rely_on_cache(self.world.path_of(name) / "rocksdb")
        return self.world.start_store(name, self.group.text_for(name), **settings)

    def start_if_down(self, name: str) -> None:
        """Start one that crashed, or that has stopped because its disk failed."""
        if name not in self.everybody:
            return  # The store was retired, or the command is done.
        process = self.world.processes.get(name)
        if process is not None and process.task.done():
            self.world.crash(name)
            process = None
        if process is None:
            self.start(name)

    def end_source(self, stream: Stream) -> Process:
        """Let an operator end a source."""
        return self.world.start(
            OPERATOR, lambda: end_source(self.group.addresses(), stream, self.seen)
        )

    def accept_losses(self, seconds: float) -> None:
        """Let an operator accept what every store has lost, within so many seconds."""
        for stream in self.seen.streams:
            if stream.lost:
                accepting = self.world.start(
                    OPERATOR,
                    lambda: accept_losses(self.group, stream, self.seen),  # noqa: B023
                )
                self.world.finish(accepting, seconds)

    # Changes of the stores.

    def begin_change(self, change: Change) -> None:
        """Let an operator begin to change the stores."""
        self._mains[CHANGE] = lambda: change_stores(self.group, change, self, self.seen)
        self.start(CHANGE)

    def changes(self) -> bool:
        """Return whether a change of the stores is under way. One that is done is taken away."""
        if self.group.change is not None:
            return True
        self._mains.pop(CHANGE, None)
        return False

    def add_store(self, name: str) -> None:
        """Start a further store, on a blank disk."""
        self.start(name)

    def open_anew(self) -> None:
        """Open all applications again, with the stores that are configured now."""
        for name in [*self.applications, *self.formers]:
            if name != CHANGE and name in self.world.processes:
                self.world.crash(name)
                if name in self._mains:
                    self.start(name)

    def retire_store(self, name: str) -> None:
        """Stop a store for good."""
        if name in self.world.processes:
            self.world.crash(name)

    def restart_store(self, name: str) -> None:
        """Start a store again, as its configuration has changed."""
        if name in self.world.processes:
            self.world.crash(name)
        self.start(name)

    @property
    def formers(self) -> list[str]:
        """The names of the processes that were replaced and may wake up."""
        return [name for name in self.world.processes if name.startswith("former ")]

    def operator_works(self) -> bool:
        """Return whether an operator's command runs."""
        process = self.world.processes.get(OPERATOR)
        return process is not None and not process.task.done()

    def serves(self, store: str) -> bool:
        """Return whether the store runs, and vouches for what it lacks."""
        node = self.world.nodes.get(store)
        return node is not None and node.peers is not None and not node.in_limbo

    def standing(self, store: str) -> Standing | None:
        """Return what a store knows of itself and its peers; None: it has not begun."""
        node = self.world.nodes.get(store)
        return None if node is None or node._engine is None else node._engine.core.standing

    def is_in_limbo(self, store: str) -> bool:
        """Return whether a store runs, and does not vouch for what it lacks."""
        node = self.world.nodes.get(store)
        return node is not None and node.in_limbo

    def holds_all(self, store: str) -> bool:
        """Return whether the store holds all that is stable in the newest life of each source."""
        states = self.states(store)
        return all(
            (state := states.get(SourceName(each.topic, each.session_id))) is not None
            and state.registration.begun.epoch >= each.life.epoch
            and state.has_upto(state.held.retained_from) >= each.life.last
            for each in self.seen.streams
        )

    def states(self, store: str) -> dict[SourceName, SourceState]:
        """Return what the store knows of the sources; empty if it does not run."""
        node = self.world.nodes.get(store)
        return {} if node is None or node._engine is None else node._engine.core.sources

    def has_taken_all(self) -> bool:
        """Return whether receivers and the subscriber have all that was reported as stable."""
        circumstances = self.seen.circumstances
        return all(
            min(each.life.taken_upto, each.life.replayed_upto) >= each.life.last
            and (each.life.live_upto >= each.life.last or not circumstances.has_live_receivers)
            for each in self.seen.streams
        )

    def read_all(self, seconds: float) -> None:
        """Let a new receiver of each topic read everything, within so many seconds."""
        for topic in self.topics:
            streams = [each for each in self.seen.streams if each.topic == topic]
            reading = self.world.start(
                "reader",
                lambda: read_all(self.group.opening, topic, streams),  # noqa: B023
            )
            self.world.finish(reading, seconds)

    def query_all(self, seconds: float) -> None:
        """Let an application ask all stores for the rows of each topic."""
        if not self.seen.circumstances.has_rows:
            return
        stores = addresses_of("".join(self.holders))
        for topic in self.topics:
            streams = [each for each in self.seen.streams if each.topic == topic]
            asking = self.world.start(
                "reader",
                lambda: query_all(stores, topic, streams, self.seen),  # noqa: B023
            )
            self.world.finish(asking, seconds)

    def reached(self) -> Counter[str]:
        """Return how often states were reached that are rare."""
        reached = Counter(self.seen.reached)
        for stream in self.seen.streams:
            reached["ranges that live receivers were told are taken back"] += sum(
                not isinstance(item, Handed) for live in stream.live for item in live.items
            )
            reached["ranges that receivers were told are gone"] += sum(
                len(taken.gaps) for taken in stream.taken
            )
            reached["ranges that the subscriber was told are gone"] += len(stream.skipped)
            reached["streams that were read back from behind 0"] += bool(
                stream.read and stream.read[0].number
            )
            reached["streams that began anew"] += len(stream.lives) > 2
            reached["ends by owners"] += sum(
                end.is_done and end.by == "its owner" for end in stream.ends
            )
            reached["ends with stable messages"] += sum(
                bool(life.stable) for life in stream.lives[:-1]
            )
            reached["sources that expired"] += not stream.ends and bool(stream.told_of_ends)
        for store in self.stores:
            for state in self.states(store).values():
                reached["streams of which a store let messages go"] += state.held.retained_from > 0
                reached["messages set aside at a store"] += state.held.set_aside > 0
                reached["streams of several epochs"] += len(state.lineage.terms) > 1
        reached["worlds with live receivers"] += self.seen.circumstances.has_live_receivers
        reached["worlds with rows"] += self.seen.circumstances.has_rows
        reached["worlds with a state-only store"] += bool(self.seen.circumstances.state_only)
        reached["worlds with retention"] += self.seen.circumstances.kept_messages > 0
        return reached
