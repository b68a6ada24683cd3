"""A scripted world: the actors of the simulated world without weather; a test says what happens.

For what chance finds too seldom. Delays still differ by seed: a script waits for states, not for
times. What must hold is checked as in every world. Nothing here knows what a script is about.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.simulation.acknowledging import Acknowledging
from tests.simulation.disk import Snapshot
from tests.simulation.endings import IMMORTAL
from tests.simulation.receiver_actor import ReceiverInstance
from tests.simulation.rules import majority_of
from tests.simulation.simulation import SOURCE, Simulation
from tests.simulation.source_actor import SourceInstance
from tests.simulation.store_actor import StoreActor
from tests.simulation.violation import Violation
from tests.simulation.world import TRACE_LINES

from quorate.protocol.consensus import Behaviour
from quorate.store.rules.retention import Bounds
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Table

Free = Callable[[], None]

NEVER_SECONDS = 1e9
WAIT_SECONDS = 10.0
STEP_SECONDS = 0.000_05
"""Less than anything takes that goes over the network or to a disk: nothing is seen too late."""
LOOK_SECONDS = 0.25

CALM = {
    "setups": (majority_of(["store1", "store2", "store3"]),),
    "kinds": (),
    "pause_between_sends": NEVER_SECONDS,
    "failure_rate": 0.0,
    "duplicate_rate": 0.0,
    "slow_rate": 0.0,
    "honest": True,
    "founds": True,
    "state_only": (),
    "cached": (),
    "mortality": IMMORTAL,
    "attributes": False,
    "outlives": False,
    "consensus": Behaviour.HIGHEST,
    "modes": (Acknowledging.EACH,) * 2,
    "consensus_of_receivers": (Behaviour.MAJORITY,) * 2,
}


def play(script: Callable[[Script], None], seed: int, **fixed: Any) -> None:
    """Have this happen, and then everything complete; raises Violation."""
    logging.disable(logging.CRITICAL)
    try:
        world = Script(seed, fixed)
        script(world)
        world.complete()
    finally:
        logging.disable(logging.NOTSET)


class Script:
    """A calm world, in which nothing is sent, cut, killed or started but by the script.

    It has two receivers, of which the first is handed only what is stable.
    """

    def __init__(self, seed: int, fixed: dict[str, Any]) -> None:
        self._simulation = simulation = Simulation(seed, TRACE_LINES, {**CALM, **fixed})
        self.world = simulation.world
        self.network = simulation.network
        self.checker = simulation.checker
        self.endings = simulation.checker.endings
        self.stores = {store.name: store for store in simulation.stores}
        self.sources = simulation.source
        # Who runs next, and with what, is the script's to say.
        self.sources.sending = False

    # Waiting.

    def run(self, seconds: float) -> None:
        self.world.run(self.world.now + seconds)

    def until(self, what: Callable[[], object], step: float = STEP_SECONDS) -> None:
        """Let things happen until this is so; raises Violation if it does not come."""
        deadline = self.world.now + WAIT_SECONDS
        while not what():
            if self.world.now > deadline:
                raise Violation("I6", f"waiting in vain: {self._simulation.unfinished()}")
            self.run(step)

    # The source.

    @property
    def source(self) -> SourceInstance:
        """The newest instance."""
        return self.sources.current

    def start_source(self, *away: str, take_over: bool = True) -> SourceInstance:
        """A new instance, which does not reach these."""
        self.cut(f"source{len(self.sources.instances) + 1}", *away)
        self.sources.start(take_over)
        return self.source

    def restart_source(self) -> None:
        """The newest instance has failed: its supervisor does what the error says."""
        self.sources.bury_current()
        self.sources.restart_after(LOOK_SECONDS)

    def until_complete(self) -> None:
        """The newest instance accepts messages."""
        self.until(lambda: self.source.core.complete)

    def send(self, *stores: str) -> int:
        """Send a message; returns its number once these stores have it."""
        assert self.source.send()
        number = self.source.core.window.next_sequence - 1
        self.until(lambda: all(self.has(store, number) for store in stores))
        return number

    def send_stable(self) -> int:
        """Send a message; returns its number as soon as the source knows that it is stable."""
        number = self.send()
        self.until(lambda: self.source.core.stable_upto >= number)
        return number

    def until_decided(self, source: SourceInstance, then: Callable[[], object]) -> None:
        """The source has decided; this happens before anybody is told to begin."""
        decided: list[bool] = []

        def strike() -> None:
            source.on_decided = None
            decided.append(True)
            then()

        source.on_decided = strike
        self.until(lambda: decided)

    # Stores.

    def state(self, store: str) -> SourceState:
        """What a store knows of the source."""
        return self.stores[store].core.sources[SOURCE]

    def knows(self, store: str) -> bool:
        return SOURCE in self.stores[store].core.sources

    def has(self, store: str, sequence: int) -> bool:
        """The store has this number durably."""
        actor = self.stores[store]
        return sequence in self.checker.on_disk(actor, actor.disk.synced, sequence, sequence)

    def begun(self, store: str) -> int:
        return self.state(store).registration.begun.epoch

    def promised(self, store: str) -> int:
        return self.state(store).registration.promised_epoch

    def wipe(self, store: str) -> None:
        """It starts again with nothing."""
        actor = self.stores[store]
        assert self.checker.beyond or self.checker.tolerates(store)
        self.checker.destroys(store)
        actor.wipe()
        actor.start()

    def let_go(self, store: str) -> None:
        """The store lets the oldest half go of what is stable, or more."""
        actor, state = self.stores[store], self.state(store)
        bounds = Bounds(messages=max(1, (state.held.stable_upto + 1) // 2))
        actor.process.start(actor.upkeep.let_go(state, bounds))
        self.until(lambda: state.held.retained_from > 0)

    def copy(self, store: str) -> Snapshot:
        """A backup of its disk."""
        return self.stores[store].disk.snapshot()

    def put_back(self, store: str, copy: Snapshot, *witnesses: str) -> None:
        """It is stopped, and its disk has again what it had. witnesses: who can tell."""
        assert self.checker.tolerates(store)
        self.checker.destroys(store)
        self.stores[store].put_back(copy, witnesses)

    def double(self, store: str, copy: Snapshot, *witnesses: str) -> StoreActor:
        """Another process runs on a copy of its disk, beside it. witnesses: who can tell."""
        assert self.checker.tolerates(store)
        self.checker.copied(store)
        double = self.stores[store].double(copy, witnesses)
        self.network.double(store, double.label)
        return double

    def end_copy(self, double: StoreActor) -> None:
        """It ends for good, and the store that it is a copy of goes on alone."""
        self.network.undouble(double.name)
        self.checker.goes(double, self.network.on_its_way(double.label))
        double.go()

    def take_its_place(self, double: StoreActor) -> None:
        """The store that it is a copy of ends for good, and it goes on alone."""
        store = self.stores[double.name]
        self.network.undouble(store.name)
        self.checker.goes(store, self.network.on_its_way(store.label))
        store.put_back(double.go(), ())
        store.start()

    def flip(self, store: str) -> None:
        """One certain bit of the last batch in the journal turns; the second time, back again."""
        actor = self.stores[store]
        assert store in self.checker.failed or self.checker.tolerates(store)
        key, value = actor.disk.synced.scan(Table.JOURNAL, b"", b"\xff" * 8, 10_000)[-1]
        self.checker.destroys(store)
        actor.disk.flip(key, 8 * len(value) - 1)

    # Receivers.

    def receiver(self, number: int) -> ReceiverInstance:
        return self._simulation.receivers[number].instance

    def start_receiver(self, number: int) -> ReceiverInstance:
        """The next instance of one that was killed."""
        self._simulation.receivers[number].start_now()
        return self.receiver(number)

    def start_second_receiver(self, number: int) -> ReceiverInstance:
        """The next instance of one that goes on."""
        self._simulation.receivers[number].start_second(take_over=True)
        return self.receiver(number)

    def asked_long_ago(self, receiver: ReceiverInstance) -> Free:
        """It asked all stores when none knew it. It registers once the answer is called."""
        receiver.holds_back = True
        self.until(lambda: receiver.has_asked)
        registration = receiver.registration
        registration.epoch, registration.ended_epoch = 1, 0
        return partial(setattr, receiver, "holds_back", False)

    def deregister_receiver(self, receiver: ReceiverInstance) -> None:
        """An operator has all stores forget it."""
        self._simulation.operator.deregister_receiver(receiver)

    def acknowledged(self, store: str, number: int) -> int | None:
        """Where a store has this receiver; None: it does not know it."""
        known = self.state(store).receivers.get(self.receiver(number).session_id)
        return None if known is None else known.acknowledged_upto

    def until_handed(self, receiver: ReceiverInstance, sequence: int) -> None:
        """It was handed everything up to here."""
        self.until(lambda: receiver.registered and receiver.stream.next > sequence)

    # The network.

    def cut(self, one: str, *others: str) -> Free:
        """Nothing passes between these, either way."""
        ways = [(one, other) for other in others]
        return self.network.block([*ways, *((other, one) for _, other in ways)])

    def mute(self, sender: str, *recipients: str) -> Free:
        """Nothing passes that way; what is sent waits."""
        return self.network.block([(sender, recipient) for recipient in recipients])

    def withhold(self, sender: str, recipient: str) -> Free:
        """What waits on its way there now comes later, though the way may be free before."""
        return self.network.withhold(sender, recipient)

    # The end.

    def all_done(self) -> bool:
        return not self._simulation.unfinished()

    def complete(self) -> None:
        """Nothing stands in the way any more: what is to be done must get done."""
        self._simulation.complete()
