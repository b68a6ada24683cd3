"""The stage of a story: stores, sources and receivers that ship, in a world without chance.

A story says step by step what happens. Everything takes the same time, so that what happens at
several places happens at one moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.transcripts.applications import (
    SOURCE_SESSION,
    TOPIC,
    ReceiverApplication,
    SourceApplication,
    SubscriberApplication,
)
from tests.transcripts.listening import Listener
from tests.transcripts.telling import Story
from tests.world.world import Stuck, World

from quorate.client import ReceiverOptions, SourceOptions
from quorate.client.settings import Stores
from quorate.console.group.repair import accept
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import StoreGroup
from quorate.protocol.ranges import Range
from quorate.store.rules.source_state import SourceState

SEED = 1
PATIENCE_SECONDS = 60.0
SETTLE_SECONDS = 0.3
OPERATOR_SECONDS = 3.0
"""The seconds that an operator gives each step of a command."""
SOURCE = SourceName(TOPIC, SOURCE_SESSION)
ABC = ("a", "b", "c")


class _Still(Random):
    """Chance that is always in the middle."""

    def random(self) -> float:
        return 0.5


class Stage:
    """The world of one story."""

    def __init__(self, directory: Path) -> None:
        """Begin with an empty stage. directory: where the stores' files go."""
        self.world = World(SEED, directory, _Still)
        self.story = Story(lambda: self.world.clock.now)
        self._listener = Listener(self.story, self.is_in_limbo)
        self.world.network.tap = self._listener
        self.world.disks.on_synced = self._listener.synced
        self._addresses: dict[str, str] = {}
        self._settings: dict[str, dict[str, Any]] = {}

    # Who is on it.

    def place_stores(self, *names: str, state_only: Collection[str] = (), **settings: Any) -> None:
        """Say which stores there are. None runs yet.

        state_only: those that keep no messages. settings: of all of them.
        """
        for number, name in enumerate(names, 101):
            self._addresses[name] = f"127.0.0.1:{number}"
            durability = {"durability": "state-only"} if name in state_only else {}
            self._settings[name] = {**settings, **durability}

    def start(self, *names: str) -> None:
        """Start stores."""
        for name in names:
            self.world.start_store(name, self._named(self._addresses), **self._settings[name])

    def open_with(self, *names: str, state_only: Collection[str] = (), **settings: Any) -> None:
        """Begin with stores that have founded a group, which is not told."""
        self.place_stores(*names, state_only=state_only, **settings)
        with self.story.silence():
            self.start(*names)
            self.until(lambda: all(map(self.serves, names)))

    def source(
        self,
        name: str,
        stores: Stores | Sequence[str] = ABC,
        previous: Sequence[Sequence[str]] = (),
        take_over: bool = False,
        **options: Any,
    ) -> SourceApplication:
        """Start an application with a source. It registers by itself."""
        source = SourceApplication(
            self.world,
            self.story,
            name,
            self._stores(stores),
            previous=tuple(self._stores(each) for each in previous),
            take_over=take_over,
            options=SourceOptions(stability_events="message", **options),
        )
        source.start()
        return source

    def registered(self, name: str, *given: Any, **options: Any) -> SourceApplication:
        """Start an application with a source that registers, which is not told."""
        with self.story.silence():
            source = self.source(name, *given, **options)
            self.until(lambda: source.is_registered)
        return source

    def receiver(
        self,
        name: str,
        delivery: str = "stable",
        take_over: bool = False,
        **options: Any,
    ) -> ReceiverApplication:
        """Start an application with a receiver. It registers by itself."""
        receiver = ReceiverApplication(
            self.world,
            self.story,
            name,
            self._stores(ABC),
            delivery=delivery,
            take_over=take_over,
            options=ReceiverOptions(**options),
        )
        receiver.start()
        return receiver

    def subscriber(self, name: str) -> SubscriberApplication:
        """Start an application with a subscriber, which begins with the first messages."""
        subscriber = SubscriberApplication(self.world, self.story, name, self._stores(ABC))
        subscriber.start()
        return subscriber

    def joined(self, name: str, **options: Any) -> ReceiverApplication:
        """Start an application with a receiver that registers, which is not told."""
        with self.story.silence():
            receiver = self.receiver(name, **options)
            self.until(lambda: receiver.receiver is not None)
        return receiver

    def group(self, name: str, *stores: str, backups: Sequence[str] = ()) -> StoreGroup:
        """Return a group of stores."""
        return StoreGroup(name, self._of(*stores), backups=self._of(*backups))

    def _of(self, *stores: str) -> list[StoreAddress]:
        return [StoreAddress(name, self._addresses[name]) for name in stores]

    def _stores(self, stores: Any) -> Any:
        if isinstance(stores, tuple):
            return self._named({name: self._addresses[name] for name in stores})
        return stores

    @staticmethod
    def _named(addresses: dict[str, str]) -> str:
        return ",".join(f"{name}={address}" for name, address in addresses.items())

    # What happens.

    def say(self, words: str) -> None:
        """Let the narrator begin a scene."""
        self.story.say(words)

    def crash(self, *names: str) -> None:
        """End processes at once. Stores keep what they synced."""
        for name in names:
            self.world.crash(name)

    def wipe(self, *stores: str) -> None:
        """Crash stores, and lose their data directories."""
        for name in stores:
            self.world.crash(name)
            self.world.wipe(name)
            self._listener.wiped(name)

    def tell_of_peers(self) -> None:
        """Tell what stores in limbo hear from each other, from now on."""
        self._listener.tells_peers = True

    def accept_loss(self, *stores: str, reason: str, lost: tuple[int, int] | None = None) -> None:
        """Let an operator accept a loss at stores, as `quorate loss accept` does.

        lost: None stands for everything that a store in limbo may lack.
        """
        source, first_and_last = (None, None) if lost is None else (SOURCE, Range(*lost))
        self.world.finish(
            self.world.start(
                "operator",
                lambda: accept(self._of(*stores), source, first_and_last, reason, OPERATOR_SECONDS),
            )
        )

    def pause(self, name: str) -> Callable[[], None]:
        """Let a process do nothing until what is returned is called."""
        loop = self.world.processes[name].loop
        loop.paused_until = float("inf")

        def wake() -> None:
            loop.paused_until = 0.0

        return wake

    def cut(self, name: str, *others: str) -> Callable[[], None]:
        """Let nothing pass between one and the others until what is returned is called."""
        ways = [way for other in others for way in ((name, other), (other, name))]
        for way in ways:
            self.world.network.part(*way)
        return lambda: self.world.network.mend(ways)

    def wait(self, seconds: float = SETTLE_SECONDS) -> None:
        """Let time pass."""
        self.world.run_for(seconds)

    def until(self, reached: Callable[[], bool], *, is_exact: bool = False) -> None:
        """Let time pass until something is so, and what comes of it. is_exact: no longer."""
        try:
            self.world.run_until(reached, PATIENCE_SECONDS)
        except Stuck as stuck:
            raise AssertionError(f"it does not come to that\n{self.story}") from stuck
        if not is_exact:
            self.wait()

    def publish(self, source: SourceApplication, *payloads: str) -> None:
        """Let an application publish messages at once, and wait for what comes of it."""
        source.publish(*payloads)
        self.wait()

    # What is so.

    def is_in_limbo(self, store: str) -> bool:
        """Return whether a store runs and is in limbo."""
        node = self.world.nodes.get(store)
        return node is not None and node.in_limbo

    def serves(self, store: str) -> bool:
        """Return whether a store runs, and vouches for what it lacks."""
        node = self.world.nodes.get(store)
        return node is not None and node.peers is not None and not node.in_limbo

    def state(self, store: str) -> SourceState | None:
        """Return what a store knows of the source; None: it does not run, or knows nothing."""
        node = self.world.nodes.get(store)
        engine = None if node is None else node._engine
        return None if engine is None else engine.core.sources.get(SOURCE)

    def holds(self, store: str, number: int) -> bool:
        """Return whether a store holds a message of the stream."""
        state = self.state(store)
        return state is not None and number in state.held.ranges

    def told_stable(self, store: str) -> int:
        """Return how far a store was told that the stream is stable."""
        state = self.state(store)
        return -1 if state is None else state.held.stable_upto

    def promised(self, store: str) -> int:
        """Return the epoch that a store has promised; 0: none."""
        state = self.state(store)
        return 0 if state is None else state.registration.promised_epoch

    def begun(self, store: str) -> int:
        """Return the epoch that a store has begun; 0: none."""
        state = self.state(store)
        return 0 if state is None else state.registration.begun.epoch
