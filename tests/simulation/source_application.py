"""The application of a simulated source: starts its instances, now and then two at once, and sends.

It keeps a publish store that outlives its instances, or one that does not. Nothing here decides
what is stable.
"""

from __future__ import annotations

from functools import partial

from tests.simulation.checker import Checker
from tests.simulation.network import Network
from tests.simulation.publish_store import PublishStore
from tests.simulation.rules import Setup
from tests.simulation.source_actor import (
    BACKUP_SECONDS,
    REGISTRATION_SECONDS,
    RETENTION_BYTES_MAX,
    SourceInstance,
)
from tests.simulation.weather import LASTING, Weather
from tests.simulation.world import World

from quorate.protocol.errors import Fenced, MissingMessages, SourceActive, SourceDeleted
from quorate.protocol.identity import SourceName
from quorate.protocol.pacing import ReceiverPacing
from quorate.source.options import SourceOptions

GIVE_UP_SECONDS = 0.02
"""Less than any supervisor takes to start the next instance."""


class SourceApplication:
    """Starts instances of one source, one after the other; a paused one may come back."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        name: SourceName,
        weather: Weather,
    ) -> None:
        self.world = world
        options = SourceOptions(
            registration_interval=REGISTRATION_SECONDS,
            retention_bytes_max=RETENTION_BYTES_MAX,
            flight_messages=40,
            consensus=weather.consensus,
            backup_after=BACKUP_SECONDS,
            receiver_pacing=(
                ReceiverPacing(messages=weather.receiver_pacing)
                if weather.receiver_pacing
                else None
            ),
        )
        self._checker = checker
        self._setups = weather.setups
        self._setup_at = 0
        self._oldest_at = 0
        """Nobody runs a configuration from before this one any more."""
        self._named_from = 0
        """The oldest that a newer one still says it follows on."""
        self._new = partial(
            SourceInstance,
            world,
            network,
            checker,
            name,
            options=options,
            sends_attributes=weather.attributes,
        )
        self._publish_store = PublishStore(weather.outlives)
        self.instances: list[SourceInstance] = []
        self._former: list[SourceInstance] = []
        """Those that go on though a newer one was started."""
        self.sending = True
        self._starting = False
        self._pause = weather.pause_between_sends
        self._may_be_deleted = (
            weather.mortality not in LASTING or "deregister_source" in weather.kinds
        )
        self.start(take_over=False)
        world.later(0.0, self._go_on)

    @property
    def setup(self) -> Setup:
        """The newest that was ever used."""
        return self._setups[self._setup_at]

    @property
    def may_run_twice(self) -> bool:
        """A publish store on the disk is locked by the process that has it open."""
        return not self._publish_store.outlives

    @property
    def runs_an_old_configuration(self) -> bool:
        """Its stores may have been left by the stream: once they forget, they let it begin anew."""
        return any(not each.over and each.setup != self.setup for each in self.instances)

    @property
    def runs_twice(self) -> bool:
        return bool(self._former)

    @property
    def to_come(self) -> tuple[Setup, ...]:
        """What it is configured with now, and what may follow."""
        return self._setups[self._setup_at :]

    def settles(self) -> None:
        """What was before the present configuration nobody runs any more."""
        self._oldest_at = self._setup_at
        # Where deletions take the record that stores which were switched off need not be heard,
        # nobody goes on naming them.
        if self.world.chooser.random() < 0.5 or self._may_be_deleted:
            self._named_from = self._setup_at

    def start(self, take_over: bool) -> None:
        self._starting = False
        store = self._publish_store if self._publish_store.outlives else PublishStore(False)
        number = len(self.instances) + 1
        at = self._choose_setup()
        self.current = self._new(
            number=number,
            setup=self._setups[at],
            previous=self._setups[self._named_from : at],
            publish_store=store,
            take_over=take_over,
        )
        self.instances.append(self.current)

    def change_setup(self, at: int) -> None:
        """The next instance is configured with this setup of the weather."""
        self._setup_at = at

    def _choose_setup(self) -> int:
        """Which configuration the next instance has: the newest, a newer one, or one from before
        that somebody still runs."""
        chooser = self.world.chooser
        if not self.sending:
            return self._setup_at
        if self._setup_at + 1 < len(self._setups) and chooser.random() < 0.4:
            self._setup_at += 1
        elif (
            self._setup_at > self._oldest_at
            and not self._checker.beyond
            and chooser.random() < 0.15
        ):
            self.world.reach("an old configuration is run")
            return self._setup_at - 1
        return self._setup_at

    def bury_current(self) -> None:
        """The newest instance has failed, and ends."""
        self._bury(self.current)

    def _bury(self, instance: SourceInstance) -> None:
        store, error = self._publish_store, instance.core.error
        instance.give_up()
        self.world.later(GIVE_UP_SECONDS, instance.kill)
        if isinstance(error, SourceDeleted):
            self.world.reach("told that all was deleted", instance.process.name)
            self._checker.require(self._checker.is_over(), "I1", f"it is not: {error}")
        missing = isinstance(error, MissingMessages | SourceDeleted)
        if missing and store.outlives and self._checker.is_over():
            # As its operator would: what the stores deleted, it can not go on with.
            self._checker.forgets()
            store.forget()

    def restart_after(self, seconds: float) -> None:
        """The application's supervisor starts it again."""
        if not self._starting:
            self._starting = True
            self.world.later(seconds, self._restart)

    def _restart(self) -> None:
        if self.current.over or self.current.leaving:
            self.start(take_over=False)
        self._starting = False

    def replace_paused(self, take_over: bool) -> SourceInstance:
        """The instance hangs and is given up for dead; returns it."""
        zombie = self.current
        zombie.process.pause()
        self.start(take_over)
        return zombie

    # Two at once.

    def start_second(self, take_over: bool) -> None:
        """Somebody starts it once more, while it goes on."""
        self._former.append(self.current)
        self.start(take_over)

    def _look_at_both(self) -> None:
        """Whoever is refused or fenced ends, as an application that is told so."""
        for one in [one for one in self._former if one.over]:
            self._former.remove(one)
            if isinstance(one.core.error, Fenced):
                self.world.reach("second source took over from a living one", one.process.name)
            one.kill()
        if self._former and self.current.over and not self.current.leaving:
            if isinstance(self.current.core.error, SourceActive):
                name = self.current.process.name
                self.world.reach("second source refused beside a living one", name)
            self._bury(self.current)
            self.current = self._former.pop()

    def unfinished(self) -> str:
        """Who goes on though it was replaced; empty: nobody does."""
        self._look_at_both()
        names = ", ".join(one.process.name for one in self._former)
        return f"{names} goes on beside {self.current.process.name}" if names else ""

    def all_end(self) -> None:
        """Also who goes on though it was started once more."""
        for one in (*self._former, self.current):
            one.kill()

    def wake(self) -> None:
        """Whatever of it was paused goes on."""
        for one in (*self._former, self.current):
            one.process.wake()

    def _go_on(self) -> None:
        chooser = self.world.chooser
        # Also one that goes on beside several that were refused.
        alive = dict.fromkeys((*self.instances[-3:], *self._former, self.current))
        for instance in alive:
            if self.sending and not instance.over and not instance.process.paused:
                for _ in range(chooser.randint(1, 5)):
                    if not instance.send():
                        break
        self._look_at_both()
        if self.current.over and not self.current.leaving:
            self.bury_current()
            self.restart_after(chooser.uniform(0.02, 0.4))
        self.world.later(chooser.expovariate(1 / self._pause), self._go_on)
