"""A scripted world: stores and sources that run the code that ships, and no weather.

For what chance finds too seldom. A script waits for states, not for times, since delays differ by
seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.world.world import World

from quorate.client import ReceiverOptions, SourceOptions, connect
from quorate.console.group.deregistration import deregister, find
from quorate.errors import NoQuorum, QuorateError
from quorate.protocol.identity import SourceName, parse_stores
from quorate.receiver.receiver import Receiver
from quorate.source.receipts import Receipt
from quorate.source.source import Source
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.source_state import SourceState

ORDERS = SourceName("orders", 1)
RECEIVER_SESSION = 20
LIFETIME_SECONDS = 3600.0
OPERATOR_SECONDS = 3.0
"""The time in seconds that an operator gives each step of a command."""
PAUSE_SECONDS = 0.2
"""The time between two messages of a source that sends on."""


@dataclass
class Instance:
    """An instance of the source, in a process of its own."""

    name: str
    """The name of its process."""
    sends: bool
    """Whether it sends one message after another by itself."""
    source: Source | None = None
    """None: it is not open yet."""
    receipts: list[Receipt] = field(default_factory=list)
    error: QuorateError | None = None
    """Why it ended; None: it lives."""
    stays: asyncio.Event = field(default_factory=asyncio.Event)
    """Never set. What waits for it is no garbage, also once its process was killed."""

    async def run(self, stores: str, lifetime: float) -> None:
        """Open the source, and keep it open until it ends by itself."""
        try:
            async with (
                connect(stores) as client,
                client.source(
                    ORDERS.topic,
                    session_id=ORDERS.session_id,
                    take_over=True,
                    options=SourceOptions(state_lifetime=lifetime),
                ) as self.source,
            ):
                while self.sends:
                    await self.publish()
                    await asyncio.sleep(PAUSE_SECONDS)
                await self.stays.wait()
        except QuorateError as error:
            self.error = error

    async def deregister(self) -> None:
        """End the source. Stores that are away do not hear of it from here."""
        assert self.source is not None
        with suppress(NoQuorum):
            await self.source.deregister()

    async def publish(self) -> None:
        """Send a message, and keep its receipt."""
        assert self.source is not None
        payload = b"%s, %d" % (self.name.encode(), len(self.receipts))
        self.receipts.append(await self.source.publish(payload, wait_quorum=True))


@dataclass
class Taker:
    """An instance of the receiver, in a process of its own."""

    name: str
    """The name of its process."""
    lifetime: float
    receiver: Receiver | None = None
    """None: it is not open yet."""
    taken: list[int] = field(default_factory=list)
    """The numbers of the messages that it was handed."""
    error: QuorateError | None = None
    """Why it ended; None: it lives."""

    async def run(self, stores: str) -> None:
        """Take all messages, and acknowledge each by taking the next."""
        try:
            async with (
                connect(stores) as client,
                client.receiver(
                    ORDERS.topic,
                    session_id=RECEIVER_SESSION,
                    start="earliest",
                    delivery="stable",
                    take_over=True,
                    options=ReceiverOptions(state_lifetime=self.lifetime),
                ) as self.receiver,
            ):
                async for message in self.receiver:
                    self.taken.append(message.sequence)
        except QuorateError as error:
            self.error = error

    async def deregister(self) -> None:
        """End the receiver. Stores that are down do not hear of it from here."""
        assert self.receiver is not None
        with suppress(NoQuorum):
            await self.receiver.deregister()


class Script:
    """A calm world, in which nothing happens but what a test says."""

    def __init__(
        self, seed: int, directory: Path, stores: Sequence[str] = "abc", **settings: Any
    ) -> None:
        """Prepare stores with these names and settings."""
        self._settings = settings
        self.world = World(seed, directory)
        ports = {name: 100 + number for number, name in enumerate(stores, 1)}
        self.stores = ",".join(f"{name}=127.0.0.1:{port}" for name, port in ports.items())
        self.names = tuple(stores)
        self.instances: list[Instance] = []
        self.takers: list[Taker] = []

    def __enter__(self) -> Self:
        self.world.__enter__()
        for name in self.names:
            self.start_store(name)
        return self

    def __exit__(self, *raised: object) -> None:
        self.world.__exit__(*raised)

    def start_source(
        self, *away: str, sends: bool = True, lifetime: float = LIFETIME_SECONDS
    ) -> Instance:
        """Start another instance, which takes over.

        - away: stores that it does not reach.
        - sends: whether it sends one message after another.
        - lifetime: seconds of silence after which stores may end it.
        """
        instance = Instance(f"source {len(self.instances) + 1}", sends)
        self.instances.append(instance)
        self.cut(instance.name, *away)
        self.world.start(instance.name, lambda: instance.run(self.stores, lifetime))
        return instance

    def send(self, instance: Instance) -> None:
        """Let an instance send one message, of which it may get a receipt later."""
        self.world.processes[instance.name].loop.create_task(instance.publish())

    def start_receiver(self, lifetime: float = LIFETIME_SECONDS) -> Taker:
        """Start another instance of the receiver, which takes over.

        lifetime: seconds of silence after which stores may end it.
        """
        taker = Taker(f"receiver {len(self.takers) + 1}", lifetime)
        self.takers.append(taker)
        self.world.start(taker.name, lambda: taker.run(self.stores))
        return taker

    def deregister(self, instance: Instance | Taker) -> None:
        """Let the application of a source or a receiver end it."""
        self.world.processes[instance.name].loop.create_task(instance.deregister())

    def deregister_receiver(self) -> int:
        """Let an operator end the receiver. Return how many stores say that it has ended."""
        stores = parse_stores(self.stores)

        async def end() -> int:
            try:
                found = await find(stores, ORDERS, RECEIVER_SESSION, OPERATOR_SECONDS)
                rows, _ = await deregister(found, ORDERS, RECEIVER_SESSION, OPERATOR_SECONDS)
            except QuorateError:
                return 0
            return sum(bool(row["done"]) for row in rows)

        count: int = self.world.finish(self.world.start("operator", end))
        return count

    def wake(self, instance: Instance | Taker) -> None:
        """End the pause of a process."""
        self.world.processes[instance.name].loop.paused_until = 0.0

    def kill(self, instance: Instance | Taker) -> None:
        """End the process of an instance at once."""
        self.world.crash(instance.name)

    # Stores.

    def start_store(self, store: str) -> None:
        """Start a store."""
        self.world.start_store(store, self.stores, **self._settings)

    def wipe(self, store: str) -> None:
        """Let a store lose its disk, and start it again."""
        self.world.crash(store)
        self.world.wipe(store)
        self.start_store(store)

    def restart(self, store: str) -> None:
        """Crash a store, and start it again."""
        self.world.crash(store)
        self.start_store(store)

    def vouches(self, store: str) -> bool:
        """Return whether a store knows the source, and vouches for what it lacks of it."""
        node = self.world.nodes.get(store)
        return node is not None and self._state(store) is not None and not node.in_limbo

    def has_ended(self, store: str) -> bool:
        """Return whether a store has begun the end of the source."""
        core = self._core(store)
        return core is not None and ORDERS in core.identities.ended

    def holds(self, store: str, number: int) -> bool:
        """Return whether a store holds this message of the source."""
        state = self._state(store)
        return state is not None and number in state.held.ranges

    def position(self, store: str) -> int | None:
        """Return how far the receiver has acknowledged, as a store knows; None: it is unknown."""
        state = self._state(store)
        known = state.receivers.get(RECEIVER_SESSION) if state is not None else None
        return None if known is None else known.acknowledged_upto

    def remembers_ends(self, store: str) -> bool:
        """Return whether a store still knows of a receiver that ended."""
        state = self._state(store)
        return state is not None and bool(state.ended)

    def flip(self, store: str) -> None:
        """Turn a bit of the last batch in the journal of a store."""
        disk = self.world.disks.at(self.world.path_of(store) / "rocksdb")
        assert disk is not None
        disk.flip_last()

    def cannot_read(self, store: str) -> bool:
        """Return whether a store has found that it cannot read messages of the source."""
        state = self._state(store)
        return state is not None and bool(state.unreadable)

    def _state(self, store: str) -> SourceState | None:
        core = self._core(store)
        return core.sources.get(ORDERS) if core is not None else None

    def _core(self, store: str) -> StoreCore | None:
        node = self.world.nodes.get(store)
        return node._engine.core if node is not None and node._engine is not None else None

    # Time, and the network.

    def run(self, seconds: float) -> None:
        """Let some time pass."""
        self.world.run_for(seconds)

    def until(self, reached: Callable[[], object], seconds: float = 60.0) -> None:
        """Let time pass until something is so. Raises Stuck if it does not come."""
        self.world.run_until(lambda: bool(reached()), seconds)

    def cut(self, one: str, *others: str) -> Callable[[], None]:
        """Let nothing pass between these, either way, until the answer is called."""
        return self._part([way for other in others for way in ((one, other), (other, one))])

    def mend(self, one: str, other: str) -> None:
        """Let all pass between these again."""
        self.world.network.mend([(one, other), (other, one)])

    def mute(self, sender: str, *others: str) -> Callable[[], None]:
        """Let all wait that the sender says to these, until the answer is called."""
        return self._part([(sender, other) for other in others])

    def _part(self, ways: Sequence[tuple[str, str]]) -> Callable[[], None]:
        for way in ways:
            self.world.network.part(*way)
        return lambda: self.world.network.mend(ways)
