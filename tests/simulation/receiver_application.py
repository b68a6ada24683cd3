"""The application of a simulated receiver: starts instances of it, now and then two at once.

Nothing here decides which of them goes on: stores do.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tests.simulation.acknowledging import Acknowledging
from tests.simulation.checker import Checker
from tests.simulation.network import Network
from tests.simulation.receiver_actor import REPEAT_SECONDS, ReceiverInstance
from tests.simulation.world import World

from quorate.protocol.consensus import Behaviour
from quorate.protocol.identity import SourceName


class ReceiverApplication:
    """Keeps one receiver running."""

    def __init__(
        self,
        world: World,
        network: Network,
        checker: Checker,
        name: str,
        source: SourceName,
        session_id: int,
        stores: Sequence[str],
        stable: bool,
        mode: Acknowledging,
        consensus: Behaviour,
        repeat_seconds: float = REPEAT_SECONDS,
    ) -> None:
        """repeat_seconds: so often it shows that it lives."""
        self.name = name
        self.world = world
        self._started = 0
        self._make = partial(
            ReceiverInstance,
            world,
            network,
            checker,
            name,
            source,
            session_id,
            stores,
            stable,
            mode,
            consensus,
            repeat_seconds,
            self._look,
        )
        checker.receivers.added(name, stable_only=stable)
        self.former: list[ReceiverInstance] = []
        """Those that go on though a newer one was started."""
        self.instance = self._new(take_over=False)

    def _new(self, *, take_over: bool) -> ReceiverInstance:
        number, self._started = self._started, self._started + 1
        return self._make(number, take_over)

    def restart(self) -> None:
        """The process dies; its supervisor starts it again."""
        self.restart_after(self.world.chooser.uniform(0.01, 2.0))

    def restart_after(self, seconds: float) -> None:
        """The same, after so long."""
        self.instance.kill()
        self.world.later(seconds, self.start_now)

    def start_now(self) -> None:
        if not self.instance.process.alive:
            self.instance = self._new(take_over=False)

    # Two at once.

    def start_second(self, *, take_over: bool) -> None:
        """Somebody starts it once more, while it goes on."""
        self.former.append(self.instance)
        self.instance = self._new(take_over=take_over)

    def _look(self) -> None:
        """Whoever was refused or fenced ends, as an application that is told so."""
        newest = self.instance
        for one in [one for one in self.former if one.over]:
            self.former.remove(one)
            one.kill()
            if newest.registered and not newest.over:
                self.world.reach("second receiver took over from a living one", self.name)
        if self.former and (newest.fenced or newest.refused):
            if newest.refused:
                self.world.reach("second receiver refused beside a living one", self.name)
            newest.kill()
            self.instance = self.former.pop()
        ended = self.instance.fenced or self.instance.refused
        if ended and not self.instance.process.alive:
            self.restart()

    def unfinished(self) -> str:
        """Who goes on though it was replaced; empty: nobody does."""
        return f"{self.name} runs twice" if self.former else ""

    def wake(self) -> None:
        """Whatever of it was paused goes on."""
        for one in (*self.former, self.instance):
            one.process.wake()
