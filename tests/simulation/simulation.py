"""One simulated world from its seed: who is in it, which faults happen, and how it ends.

Faults happen for some virtual seconds; then they stop, and everything must complete in bounded
time. A later kind of fault is one more method in `_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.simulation.checker import Checker, Violation
from tests.simulation.network import Network
from tests.simulation.receiver_actor import ReceiverApplication
from tests.simulation.source_actor import SourceApplication, SourceInstance
from tests.simulation.store_actor import StoreActor
from tests.simulation.world import World

from quorate.protocol.consensus import Behaviour
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Policy
from quorate.receiver.options import AcknowledgeMode

FAULTY_SECONDS = 15.0
COMPLETE_SECONDS = 60.0
CHECK_SECONDS = 0.5
SOURCE = SourceName("orders", 0x10)


class Failed(Exception):
    """A world in which something did not hold; says how to see it again."""

    def __init__(self, seed: int, reason: str, trace: str) -> None:
        super().__init__(f"seed {seed}: {reason}\n{trace}\nseed {seed}: {reason}")
        self.seed = seed
        self.reason = reason


@dataclass(frozen=True)
class Outcome:
    """What a world that ended well is worth."""

    faults: dict[str, int]
    reached: dict[str, int]
    stable: int
    steps: int


def simulate(seed: int) -> Outcome:
    """Run the world of this seed to its end; raises Failed."""
    simulation = Simulation(seed)
    world = simulation.world
    try:
        simulation.run()
    except Exception as error:
        kind = "" if isinstance(error, Violation) else f"{type(error).__name__}: "
        raise Failed(seed, f"{kind}{error}", "\n".join(world.trace)) from error
    return Outcome(
        dict(world.faults),
        dict(world.reached),
        len(simulation.checker.stable_contents),
        world.steps,
    )


class Simulation:
    """A world with its stores, its source and its receivers."""

    def __init__(self, seed: int) -> None:
        self.world = world = World(seed)
        chooser = world.chooser
        self.network = Network(world)
        self.network.failure_rate = chooser.choice((0.0, 0.001, 0.005, 0.02))
        self.network.duplicate_rate = chooser.choice((0.0, 0.01, 0.1))
        self.network.slow_rate = chooser.choice((0.0, 0.01, 0.1))
        names = [f"store{number}" for number in range(1, chooser.choice((3, 3, 3, 5)) + 1)]
        self.checker = Checker(world, SOURCE, Policy.majority_of(names))
        self.stores = [StoreActor(world, self.network, self.checker, name, names) for name in names]
        self.source = SourceApplication(
            world, self.network, self.checker, SOURCE, names, outlives=chooser.random() < 0.4
        )
        self.source.pause_between_sends = chooser.choice((0.05, 0.2, 0.5))
        self.receivers = [
            ReceiverApplication(
                world,
                self.network,
                self.checker,
                f"receiver{number}",
                SOURCE,
                0x20 + number,
                names,
                number % 2 == 0,
                chooser.choice(list(AcknowledgeMode)),
                chooser.choice(list(Behaviour)),
            )
            for number in range(1, chooser.choice((2, 2, 3)) + 1)
        ]
        self._pause_between_faults = chooser.choice((0.15, 0.5, 1.5))
        self._zombies: list[SourceInstance] = []
        self._faulty = True
        self._kinds: tuple[Callable[[], None], ...] = (
            self._crash_store,
            self._crash_store,
            self._crash_stores,
            self._fail_sync,
            self._slow_disk,
            self._partition,
            self._partition,
            self._cut_one_way,
            self._heal,
            self._reset_connections,
            self._crash_source,
            self._pause_source,
            self._strand_source,
            self._strand_source,
            self._pause_store,
            self._crash_receiver,
            self._pause_receiver,
        )
        # Each world has its own weather.
        self._kinds = tuple(chooser.sample(self._kinds, chooser.randint(3, len(self._kinds))))

    def run(self) -> None:
        world = self.world
        world.later(world.chooser.uniform(0.0, 2.0), self._next_fault)
        world.later(CHECK_SECONDS, self._check)
        world.run(FAULTY_SECONDS)
        self._stop_faults()
        deadline = world.now + COMPLETE_SECONDS
        world.run(world.now + 1.0)
        while (unfinished := self._unfinished()) and world.now < deadline:
            world.run(world.now + 1.0)
        if unfinished:
            raise Violation(f"I6: {COMPLETE_SECONDS:g} s after the faults stopped: {unfinished}")
        self.checker.check_end()

    def _check(self) -> None:
        self.checker.check_stores()
        self.world.later(CHECK_SECONDS, self._check)

    # The end of the faults.

    def _stop_faults(self) -> None:
        world = self.world
        world.note("=== the faults stop")
        self._faulty = False
        network = self.network
        network.heal()
        network.failure_rate = network.duplicate_rate = network.slow_rate = 0.0
        for zombie in self._zombies:
            zombie.kill()
        for store in self.stores:
            store.disk.sync_seconds_max = 0.002
            store.disk.fails_next_sync = False
            store.process.wake()
            if not store.alive:
                store.start()
        self.source.current.process.wake()
        for receiver in self.receivers:
            receiver.instance.process.wake()
        world.later(0.5, self._stop_sending)

    def _stop_sending(self) -> None:
        self.source.sending = False

    def _unfinished(self) -> str:
        for receiver in self.receivers:
            receiver.start_if_fenced()
        source = self.source.current
        if source.over or not source.core.complete or self.source.sending:
            return f"the source is not registered: {source.core.error}"
        core = source.core
        if core.window.payloads:
            return "not everything was packed"
        accepted = self.checker.accepted_by(source.number)
        return self.checker.unfinished(core.packed_upto, accepted)

    # Faults.

    def _next_fault(self) -> None:
        if self._faulty:
            world = self.world
            world.chooser.choice(self._kinds)()
            world.later(world.chooser.expovariate(1 / self._pause_between_faults), self._next_fault)

    def _crash_store(self) -> None:
        store = self.world.chooser.choice(self.stores)
        if store.alive:
            self.world.fault("store crash", store.name)
            store.crash()
            self._restart_store(store)

    def _crash_stores(self) -> None:
        for store in self.stores:
            if store.alive:
                self.world.fault("store crash, all at once", store.name)
                store.crash()
                self._restart_store(store)

    def _restart_store(self, store: StoreActor) -> None:
        def restart() -> None:
            if not store.alive:
                store.start()

        self.world.later(self.world.chooser.choice((0.02, 0.3, 1.0, 4.0)), restart)

    def _fail_sync(self) -> None:
        store = self.world.chooser.choice(self.stores)
        if store.alive and not store.disk.fails_next_sync:
            self.world.fault("sync failure", store.name)
            store.disk.fails_next_sync = True

            def restart() -> None:
                if not store.alive:
                    store.start()

            self.world.later(self.world.chooser.uniform(0.5, 4.0), restart)

    def _slow_disk(self) -> None:
        disk = (store := self.world.chooser.choice(self.stores)).disk
        self.world.fault("slow disk", store.name)
        disk.sync_seconds_max = self.world.chooser.choice((0.002, 0.05, 0.5, 2.0))

    def _everyone(self) -> list[str]:
        return [
            *(store.name for store in self.stores),
            *(instance.process.name for instance in self.source.instances[-2:]),
            *(receiver.name for receiver in self.receivers),
        ]

    def _partition(self) -> None:
        names = self._everyone()
        chooser = self.world.chooser
        alone = set(chooser.sample(names, chooser.randint(1, len(names) - 1)))
        self.world.fault("partition", f"{sorted(alone)} alone")
        for one in alone:
            for other in set(names) - alone:
                self.network.block(one, other)
                self.network.block(other, one)
        self.world.later(chooser.choice((0.1, 1.0, 3.0)), self.network.heal)

    def _cut_one_way(self) -> None:
        chooser = self.world.chooser
        sender, recipient = chooser.sample(self._everyone(), 2)
        self.world.fault("one-way partition", f"from {sender} to {recipient}")
        self.network.block(sender, recipient)
        self.world.later(chooser.choice((0.5, 2.0, 6.0)), self.network.heal)

    def _heal(self) -> None:
        self.network.heal()

    def _reset_connections(self) -> None:
        name = self.world.chooser.choice(self._everyone())
        self.world.fault("connections reset", name)
        self.network.reset(name)

    def _crash_source(self) -> None:
        source = self.source.current
        if source.process.alive:
            self.world.fault("source crash", source.process.name)
            source.kill()

    def _strand_source(self) -> None:
        """The source reaches one store at most, but its receivers, and dies with that store."""
        chooser, world, source = self.world.chooser, self.world, self.source.current
        if source.over or source.process.paused:
            return
        last = chooser.choice((None, *self.stores))
        world.fault("source stranded", f"{source.process.name} with {last.name if last else 0}")
        for store in self.stores:
            if store is not last:
                self.network.block(source.process.name, store.name)
                self.network.block(store.name, source.process.name)

        def die() -> None:
            if not self._faulty:
                return
            source.kill()
            if last is not None and last.alive:
                last.crash()
                self._restart_store(last)
            self.network.heal()

        world.later(chooser.choice((0.1, 0.4, 1.0)), die)

    def _pause_source(self) -> None:
        chooser, source = self.world.chooser, self.source.current
        if source.over or source.process.paused:
            return
        if not self.source.may_have_zombies or chooser.random() < 0.3:
            self.world.fault("source pause", source.process.name)
            source.process.pause()
            self.world.later(chooser.choice((0.2, 2.0, 5.0)), source.process.wake)
            return
        take_over = chooser.random() < 0.7
        self.world.fault("zombie", f"{source.process.name}, take_over={take_over}")
        zombie = self.source.replace_paused(take_over)
        self._zombies.append(zombie)

        def wake() -> None:
            self.world.note(f"{zombie.process.name} wakes up")
            zombie.process.wake()

        self.world.later(chooser.choice((0.05, 0.5, 2.0, 5.0)), wake)

    def _pause_store(self) -> None:
        store = self.world.chooser.choice(self.stores)
        if store.alive and not store.process.paused:
            self.world.fault("store pause", store.name)
            store.process.pause()
            self.world.later(self.world.chooser.choice((0.1, 1.0, 4.0)), store.process.wake)

    def _crash_receiver(self) -> None:
        receiver = self.world.chooser.choice(self.receivers)
        if receiver.instance.process.alive:
            self.world.fault("receiver crash", receiver.name)
            receiver.restart()

    def _pause_receiver(self) -> None:
        process = self.world.chooser.choice(self.receivers).instance.process
        self.world.fault("receiver pause", process.name)
        process.pause()
        self.world.later(self.world.chooser.choice((0.1, 1.0, 3.0)), process.wake)
