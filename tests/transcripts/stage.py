"""Where a scenario is played: stores, sources and receivers of the simulation, without weather."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.simulation.receiver_actor import ReceiverApplication
from tests.simulation.rules import Setup, majority_of
from tests.simulation.source_actor import (
    REGISTRATION_SECONDS,
    RETENTION_BYTES_MAX,
    PublishStore,
    SourceInstance,
)
from tests.simulation.store_actor import StoreActor
from tests.transcripts.telling import Story, TellingChecker, TellingNetwork, TellingWorld

from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.protocol.identity import SourceName
from quorate.receiver.options import AcknowledgeMode
from quorate.source.options import SourceOptions

SOURCE = SourceName("orders", 0x10)
PATIENCE_SECONDS = 20.0
_STEP_SECONDS = 0.0005


class Stage:
    """One scenario's world."""

    def __init__(self, stores: Sequence[str] = ("store1", "store2", "store3")) -> None:
        self.story = Story()
        self.world = TellingWorld(self.story)
        self.network = TellingNetwork(self.world)
        self.setup = majority_of(stores)
        self.checker = TellingChecker(self.world, SOURCE, [self.setup])
        self.stores = {
            name: StoreActor(self.world, self.network, self.checker, name, stores, founds=True)
            for name in stores
        }
        self._sources = 0

    # Who is on it.

    def source(
        self,
        take_over: bool = False,
        consensus: Behaviour = Behaviour.HIGHEST,
        setup: Setup | None = None,
        retention_bytes: int = RETENTION_BYTES_MAX,
    ) -> SourceInstance:
        """A new instance of the source starts; nothing outlived the one before."""
        self._sources += 1
        return SourceInstance(
            self.world,
            self.network,
            self.checker,
            SOURCE,
            self._sources,
            setup or self.setup,
            (),
            SourceOptions(
                registration_interval=REGISTRATION_SECONDS,
                retention_bytes_max=retention_bytes,
                flight_messages=40,
                consensus=consensus,
            ),
            PublishStore(outlives=False),
            take_over,
        )

    def registered_source(self, setup: Setup | None = None) -> SourceInstance:
        """The same, and it has registered."""
        source = self.source(setup=setup)
        self.until(lambda: source.core.complete)
        return source

    def source_as_ever(self, retention_bytes: int = RETENTION_BYTES_MAX) -> SourceInstance:
        """A first source that has registered with all stores, which needs not be told again."""
        self.story.silent = True
        source = self.source(retention_bytes=retention_bytes)
        self.until(lambda: source.core.complete)
        self.story.silent = False
        stores = ", ".join(source.setup.stores)
        self.say(f"{source.process.name} has registered with {stores}.")
        return source

    def receiver(self, mode: AcknowledgeMode = AcknowledgeMode.AUTOMATIC) -> ReceiverApplication:
        """A receiver that is handed messages at once."""
        return ReceiverApplication(
            self.world,
            self.network,
            self.checker,
            "receiver",
            SOURCE,
            0x20,
            list(self.stores),
            False,
            mode,
            Behaviour.MAJORITY,
        )

    def restart(
        self,
        receiver: ReceiverApplication,
        request_maximum: int,
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

    def stable(self, source: SourceInstance, upto: int) -> Callable[[], bool]:
        return lambda: source.core.stable_upto >= upto

    @staticmethod
    def has_taken(receiver: ReceiverApplication, upto: int) -> Callable[[], bool]:
        """The receiver's application was handed everything up to here."""
        return lambda: receiver.instance.registered and receiver.instance.stream.next > upto
