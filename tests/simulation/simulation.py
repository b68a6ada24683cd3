"""One simulated world from its seed: who is in it, and how it ends.

Faults happen for some virtual seconds; then they stop, and everything must complete in bounded
time. Which faults there are is in quorate's tests.simulation.faults, how many in its weather.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.simulation.checker import Checker
from tests.simulation.endings import AGES
from tests.simulation.faults import Faults
from tests.simulation.network import Network
from tests.simulation.operator import Operator
from tests.simulation.receiver_actor import REPEAT_SECONDS
from tests.simulation.receiver_application import ReceiverApplication
from tests.simulation.source_application import SourceApplication
from tests.simulation.store_actor import StoreActor
from tests.simulation.violation import Violation
from tests.simulation.weather import drawn
from tests.simulation.world import TRACE_LINES, Endless, World

from quorate.protocol.identity import SourceName

STEP_SECONDS = 0.25
LAST_SENDS_SECONDS = 0.3
STALL_SECONDS = 1.0
CHECK_SECONDS = 0.5
SOURCE = SourceName("orders", 0x10)


class Failed(Exception):
    """A world in which something did not hold; says how to see it again."""

    def __init__(self, seed: int, rule: str, reason: str, trace: str) -> None:
        super().__init__(seed, rule, reason, trace)
        self.seed = seed
        self.rule = rule
        """I1 to I6, or the name of an exception."""
        self.reason = reason
        self.trace = trace

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.reason}\n{self.trace}\nseed {self.seed}: {self.reason}"


@dataclass(frozen=True)
class Outcome:
    """What a world that ended well is worth."""

    faults: dict[str, int]
    reached: dict[str, int]
    stable: int
    steps: int


def simulate(seed: int, trace_lines: int = TRACE_LINES, **fixed: Any) -> Outcome:
    """Run the world of this seed to its end, with that of its weather fixed; raises Failed."""
    # Stores say aloud what happens to them; here that is wanted, and the trace has it.
    logging.disable(logging.CRITICAL)
    simulation = Simulation(seed, trace_lines, fixed)
    world = simulation.world
    try:
        simulation.run()
    except Exception as error:
        if isinstance(error, Endless):
            error = Violation("I6", f"it goes on and on: {error}")
        rule = error.rule if isinstance(error, Violation) else type(error).__name__
        reason = str(error) if isinstance(error, Violation) else f"{rule}: {error}"
        raise Failed(seed, rule, reason, world.trace()) from error
    finally:
        logging.disable(logging.NOTSET)
    return Outcome(
        dict(world.faults),
        dict(world.reached),
        len(simulation.checker.stable_contents),
        world.steps,
    )


class Simulation:
    """A world with its stores, its source and its receivers."""

    def __init__(self, seed: int, trace_lines: int, fixed: dict[str, Any]) -> None:
        self.world = world = World(seed, trace_lines)
        self.weather = weather = drawn(world.chooser, seed, fixed)
        self.network = Network(world)
        self.checker = Checker(world, SOURCE, weather.setups, weather.honest, weather.mortality)
        names = weather.stores
        self.stores = [
            StoreActor(
                world,
                self.network,
                self.checker,
                name,
                names,
                weather.founds,
                weather.proxies,
                name in weather.cached,
                weather.mortality,
                lets_go=weather.lets_go,
                state_only=name in weather.state_only,
            )
            for name in names
        ]
        self.source = SourceApplication(world, self.network, self.checker, SOURCE, weather)
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
                mode,
                weather.consensus_of_receivers[number],
                min(REPEAT_SECONDS, (weather.mortality.receivers.kept_for or inf) / 3 / AGES),
            )
            for number, mode in enumerate(weather.modes)
        ]
        self.operator = Operator(world, self.checker, self.stores, SOURCE)
        self.faults = Faults(
            world,
            self.network,
            self.checker,
            weather,
            self.stores,
            self.source,
            self.receivers,
            self.operator,
        )
        world.later(CHECK_SECONDS, self._check)

    def run(self) -> None:
        self.world.run(self.weather.faulty_seconds)
        self.complete()

    def complete(self) -> None:
        """Stop the faults, and see to it that everything completes; raises Violation."""
        world = self.world
        world.note("=== the faults stop")
        self.faults.stop()
        world.run(world.now + LAST_SENDS_SECONDS)
        self._catches_up()
        self.source.sending = False
        if self.checker.beyond:
            world.run(world.now + STALL_SECONDS)
            world.reach("beyond what is tolerated, and honest")
            return
        if self.faults.hung is not None:
            self._register_without(self.faults.hung)
        if "lose_batch" in self.weather.kinds:
            world.run(world.now + STALL_SECONDS)
            if self.operator.accept_losses():
                self.source.all_end()  # the next one has to hear of it
        seconds = self.weather.complete_seconds
        deadline = world.now + seconds
        while (unfinished := self.unfinished()) and world.now < deadline:
            self.operator.accept_again()
            self.operator.end_mutual_limbo()
            world.run(world.now + STEP_SECONDS)
        if unfinished:
            # What is stable and not handed over is worse than what is late.
            rule = "I3" if unfinished.startswith("receiver") else "I6"
            raise Violation(rule, f"{seconds:g} s after the faults stopped: {unfinished}")
        self.checker.check_end()

    def _catches_up(self) -> None:
        """A store that lagged gets to the end of what is stable while the source goes on sending:
        as it was a moment ago, for there is always something new."""
        world, checker, store = self.world, self.checker, self.faults.lagging
        given_up = checker.beyond or self.faults.hung is not None
        if store is None or given_up or "lose_batch" in self.weather.kinds:
            return
        deadline, went_on_at = world.now + self.weather.complete_seconds, 0.0
        while world.now < deadline:
            stable, was = checker.stable_contents, len(checker.stable_contents)
            world.run(world.now + STEP_SECONDS)
            state = store.core.sources.get(SOURCE)
            is_needed = store.name in self.source.current.in_force.stores
            if not is_needed or (state is not None and not state.takes_data):
                return
            goes_on = stable is checker.stable_contents and len(stable) > was
            went_on_at = world.now if goes_on else went_on_at
            if goes_on and state is not None and state.has_upto(0) >= was - 1:
                world.reach("lagging store caught up while the source sent", store.name)
                return
        # If nothing goes on, what is missing is looked at in the end.
        if went_on_at > deadline - STALL_SECONDS:
            raise Violation("I6", f"{store.name} lags for ever while the source sends")

    def _register_without(self, hung: StoreActor) -> None:
        """The next source does not wait for a store that hangs, as the others are enough."""
        world = self.world
        deadline = world.now + self.weather.complete_seconds
        self.source.current.kill()
        while not self._registered() and world.now < deadline:
            world.run(world.now + STEP_SECONDS)
        if not self._registered():
            unfinished = self.source.current.core.registration.unfinished()
            raise Violation("I6", f"nobody registers while {hung.name} hangs: {unfinished}")
        world.reach("registered though a store hangs", hung.name)
        hung.process.wake()

    def _registered(self) -> bool:
        source = self.source.current
        return not source.over and source.core.complete

    def _check(self) -> None:
        self.checker.check_stores()
        self.world.later(CHECK_SECONDS, self._check)

    def unfinished(self) -> str:
        """What is still to be done; empty: nothing is."""
        for receiver in self.receivers:
            if unfinished := receiver.unfinished():
                return unfinished
        if unfinished := self.source.unfinished():
            return unfinished
        source = self.source.current
        core = source.core
        if source.over or not core.complete:
            return f"the source is not registered: {core.error or core.registration.unfinished()}"
        if core.window.payloads:
            return "not everything was packed"
        accepted = self.checker.accepted_by(source.number)
        if source.setup != self.source.setup:
            source.kill()
            return "an old configuration was run at last"
        if not core.registration.final:
            return f"{source.in_force} is not alone in force: {core.registration.membership}"
        if core.window.blocked:
            return "the source waits to send"
        return self.checker.unfinished(source.in_force, core.packed_upto, accepted)
