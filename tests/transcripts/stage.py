"""Where a scenario is played: stores, sources and receivers of the simulation, without weather."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from tests.simulation.acknowledging import Acknowledging
from tests.simulation.disk import Snapshot
from tests.simulation.publish_store import PublishStore
from tests.simulation.receiver_actor import ReceiverInstance
from tests.simulation.receiver_application import ReceiverApplication
from tests.simulation.rules import Setup, majority_of
from tests.simulation.source_actor import (
    REGISTRATION_SECONDS,
    RETENTION_BYTES_MAX,
    SourceInstance,
)
from tests.simulation.store_actor import StoreActor
from tests.simulation.world import Process
from tests.transcripts.telling import (
    APPLICATION,
    Story,
    TellingChecker,
    TellingNetwork,
    TellingWorld,
)

from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.protocol.identity import SourceName
from quorate.source.options import SourceOptions

SOURCE = SourceName("orders", 0x10)
PATIENCE_SECONDS = 20.0
_STEP_SECONDS = 0.0005


class Stage:
    """One scenario's world."""

    def __init__(
        self,
        stores: Sequence[str] = ("store1", "store2", "store3"),
        setups: Sequence[Setup] = (),
        founds: bool = True,
        state_only: Collection[str] = (),
    ) -> None:
        """setups: how the source is configured, one after the other; founds: an operator did.

        state_only: stores that take no messages.
        """
        self.story = Story()
        self.world = TellingWorld(self.story)
        self.network = TellingNetwork(self.world)
        self.story.silent = self._founded = founds
        self._setups = tuple(setups) or (majority_of(stores),)
        self.checker = TellingChecker(self.world, SOURCE, self._setups)
        self.network.in_limbo = self.in_limbo
        self.network.unchecked = self.unchecked
        self.stores: dict[str, StoreActor] = {}
        self.stores |= {
            name: StoreActor(
                self.world,
                self.network,
                self.checker,
                name,
                stores,
                founds,
                True,
                state_only=name in state_only,
            )
            for name in stores
        }
        self.story.silent = False
        self._sources = 0

    # Who is on it.

    def source(
        self,
        take_over: bool = False,
        consensus: Behaviour = Behaviour.HIGHEST,
        configured: int = 0,
        retention_bytes: int = RETENTION_BYTES_MAX,
        backup_after: float = 10.0,
    ) -> SourceInstance:
        """A new instance of the source starts; nothing outlived the one before.

        configured: the number of its setup; those before it are named as its predecessors.
        """
        self._sources += 1
        return SourceInstance(
            self.world,
            self.network,
            self.checker,
            SOURCE,
            self._sources,
            self._setups[configured],
            self._setups[:configured],
            SourceOptions(
                registration_interval=REGISTRATION_SECONDS,
                retention_bytes_max=retention_bytes,
                flight_messages=40,
                backup_after=backup_after,
                consensus=consensus,
            ),
            PublishStore(outlives=False),
            take_over,
        )

    def by_hand(self) -> Process:
        """A process that is a source to the stores; the scenario says what it does."""
        self._sources += 1
        return Process(self.world, f"source{self._sources}")

    def registered_source(self, configured: int = 0) -> SourceInstance:
        """The same, and it has registered."""
        source = self.source(configured=configured)
        self.until(lambda: source.core.complete)
        return source

    def source_as_ever(
        self, retention_bytes: int = RETENTION_BYTES_MAX, backup_after: float = 10.0
    ) -> SourceInstance:
        """A first source that has registered with all stores, which needs not be told again."""
        self.story.silent = True
        source = self.source(retention_bytes=retention_bytes, backup_after=backup_after)
        self.until(lambda: source.core.complete)
        self.story.silent = False
        stores = ", ".join(self._setups[0].stores)
        self.say(f"{source.process.name} has registered with {stores}.")
        return source

    def receiver(
        self,
        mode: Acknowledging = Acknowledging.AUTOMATIC,
        *,
        stable: bool = False,
        name: str = "receiver",
    ) -> ReceiverApplication:
        """A receiver that is handed messages at once; stable: only once they are stable."""
        return ReceiverApplication(
            self.world,
            self.network,
            self.checker,
            name,
            SOURCE,
            0x20,
            list(self.stores),
            stable,
            mode,
            Behaviour.MAJORITY,
        )

    def second_receiver(self, receiver: ReceiverApplication, name: str) -> None:
        """Another instance with the same identity, beside it; it is told of under this name."""
        receiver.start_second(take_over=False)
        second = receiver.instance
        second.process.name = name
        self.checker.receivers.called(receiver.name, second.number, name)

    def until_fenced(self, instance: ReceiverInstance) -> None:
        """Its application is told that another one has its identity."""
        self.until(lambda: instance.fenced)
        self.story.tell(instance.process.name, APPLICATION, "Fenced")

    def restart(
        self,
        receiver: ReceiverApplication,
        request_maximum: int | None = None,
        choose_start: Callable[[StartingPoint], int] | None = None,
    ) -> None:
        """The receiver's process starts again, with these options."""
        receiver.start_now()
        receiver.instance.options = replace(
            receiver.instance.options, request_maximum=request_maximum, choose_start=choose_start
        )

    # What happens.

    def say(self, text: str) -> None:
        self.story.say(text)

    def send(self, source: SourceInstance, count: int = 1) -> None:
        """The application sends messages at once, so that they travel together."""
        for _ in range(count):
            assert source.send()

    def kill(self, source: SourceInstance) -> None:
        """The source's process dies."""
        self.say(f"{source.process.name} dies.")
        source.kill()

    def crash(self, *stores: str) -> None:
        """These stores' hosts lose power; what was synced is still there."""
        for name in stores:
            self.stores[name].crash()

    def wipe(self, *stores: str) -> None:
        """These stores come back without their data."""
        for name in stores:
            self.stores[name].crash()
            self.stores[name].disk.wipe()
            self.checker.lost_disk(name)

    def copy(self, store: str) -> Snapshot:
        """What a copy of the store's data directory has now."""
        return self.stores[store].disk.snapshot()

    def put_back(self, store: str, copy: Snapshot) -> None:
        """The store's host is down, and its data directory is again what the copy has."""
        self.stores[store].put_back(copy, ())
        self.checker.put_back(store, copy.rows)

    def leave_limbo(self, store: str, reason: str) -> None:
        """An operator has the store go on with what it has."""
        actor = self.stores[store]
        change = actor.losses.left_limbo(None, reason, 0)
        writes = [*change.writes, *actor.core.standing.leave_limbo()]
        for state in actor.core.sources.values():
            state.limbo = ""
            writes.append(state.limbo_row())
        actor.engine.writer.submit(writes)

    def accept_loss(self, store: str, first: int, last: int, reason: str) -> None:
        """An operator accepts that these numbers are lost."""
        actor = self.stores[store]
        change = actor.losses.accept(SOURCE, first, last, reason, 0)
        actor.engine.writer.submit(change.writes)

    def in_limbo(self, store: str) -> bool:
        if store not in self.stores:
            # It is just being made.
            return not self._founded
        return bool(self.stores[store].core.standing.limbo)

    def unchecked(self, store: str) -> bool:
        """It was just started, and does not answer yet."""
        return store in self.stores and bool(self.stores[store].core.standing.unchecked)

    def proxies(self) -> list[str]:
        """The stores that answer for the source."""
        return [name for name, store in self.stores.items() if SOURCE in store.engine.announced]

    def start(self, *stores: str) -> None:
        for name in stores:
            self.stores[name].start()

    def until(self, condition: Callable[[], bool]) -> None:
        """Let things happen until this is so."""
        deadline = self.world.now + PATIENCE_SECONDS
        while not condition():
            assert self.world.now < deadline, f"it does not come to that\n{self.story}"
            self.world.run(self.world.now + _STEP_SECONDS)

    def settle(self, seconds: float = 0.02) -> None:
        """Let what is under way arrive."""
        self.world.run(self.world.now + seconds)

    def cut(self, one: str, *others: str) -> Callable[[], None]:
        """Nothing passes between one and the others any more, until what is returned is called."""
        pairs = [(one, other) for other in others]
        return self.network.block([*pairs, *((other, one) for one, other in pairs)])

    def holds(self, store: str, number: int) -> Callable[[], bool]:
        """The store's disk has this number."""

        def holds() -> bool:
            actor = self.stores[store]
            return number in self.checker.on_disk(actor, actor.disk.synced, number, number)

        return holds

    def told_stable(self, store: str) -> int:
        """How far the store was told that the stream is stable."""
        state = self.stores[store].core.sources.get(SOURCE)
        return state.held.stable_upto if state is not None else -1

    def stable(self, source: SourceInstance, upto: int) -> Callable[[], bool]:
        return lambda: source.core.stable_upto >= upto

    @staticmethod
    def has_taken(receiver: ReceiverApplication, upto: int) -> Callable[[], bool]:
        """The receiver's application was handed everything up to here."""
        return lambda: receiver.instance.registered and receiver.instance.stream.next > upto
