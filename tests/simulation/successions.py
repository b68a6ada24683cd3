"""Sources that follow each other, each without a store that the one before it ended with.

So what one of them knows its successor has never heard of, and the next one hears of both: tails,
epochs that a minority has begun, and begins that arrive when others have gone on. Nothing here
checks anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.simulation.network import Network
from tests.simulation.source_actor import SourceInstance
from tests.simulation.source_application import SourceApplication
from tests.simulation.store_actor import StoreActor
from tests.simulation.world import World

Free = Callable[[], None]

LIVES = 6
"""So many follow each other, unless one of them never gets as far as to decide."""
AWAY_SECONDS = 1.5
PATIENCE_SECONDS = 3.0
"""Who has not decided by then, has no successor."""


class Succession:
    """Several sources, one after the other."""

    def __init__(
        self,
        world: World,
        network: Network,
        sources: SourceApplication,
        stores: Sequence[StoreActor],
        wipe: Callable[[StoreActor], None],
        is_over: Callable[[], bool],
    ) -> None:
        """wipe: has a store lose everything, if that is tolerated; is_over: no more faults."""
        self._world = world
        self._network = network
        self._chooser = world.chooser
        self._sources = sources
        self._stores = stores
        self._wipe = wipe
        self._is_over = is_over
        self._lives = LIVES
        self._ends_at = world.now + PATIENCE_SECONDS
        self._late: Free = _nothing
        """Lets arrive what the one before had still to say."""

    def begin(self) -> None:
        """The present source is the first: it ends with one store alone, while it sends."""
        source = self._sources.current
        self._send_until(source, self._chooser.choice(self._stores))

    @property
    def over(self) -> bool:
        return self._lives == 0 or self._world.now > self._ends_at or self._is_over()

    def _live(self, away: StoreActor) -> None:
        """The next one decides without this store, as soon as it has asked the others."""
        source, chooser = self._sources.current, self._chooser
        if self.over or source.over or source.process.paused:
            return
        self._lives -= 1
        self._ends_at = self._world.now + PATIENCE_SECONDS
        self._world.fault("source succeeds", "%s without %s", source.process.name, away.name)
        back = self._away(source, away)
        last = chooser.choice([store for store in self._stores if store is not away])

        def decided() -> None:
            source.on_decided = None
            if self.over:
                return
            if chooser.random() < 0.4:
                self._world.later(chooser.uniform(0.05, 0.2), back)
                seconds = chooser.uniform(0.3, 0.5)
                self._world.later(seconds, lambda: self._send_until(source, last))
            else:
                self._begin_at(source, away, last, back)

        source.on_decided = decided

    def _away(self, source: SourceInstance, away: StoreActor) -> Free:
        """This source does not reach that store, nor may other stores, until it is back."""
        others = [source.process.name]
        if self._chooser.random() < 0.5:
            others += [store.name for store in self._stores if store is not away]
        back = _once(self._part(away.name, others))
        self._world.later(AWAY_SECONDS, back)
        return back

    def _part(self, one: str, others: Sequence[str]) -> Free:
        ways = [*((one, other) for other in others), *((other, one) for other in others)]
        return self._network.block(ways)

    def _send_until(self, source: SourceInstance, last: StoreActor) -> None:
        """It goes on sending to one store alone, and ends."""
        if self.over or source.over:
            return
        name = source.process.name
        self._part(name, [store.name for store in self._stores if store is not last])
        self._world.later(
            self._chooser.uniform(0.05, 0.2), lambda: self._end(source, last, _nothing)
        )

    def _begin_at(
        self, source: SourceInstance, away: StoreActor, last: StoreActor, back: Free
    ) -> None:
        """It ends as it has decided: one store alone hears of it, or all do so late."""
        chooser, name = self._chooser, source.process.name
        alone = chooser.random() < 0.5
        told_late = [store.name for store in self._stores if not (alone and store is last)]
        free = self._network.block([(name, other) for other in told_late])
        # What is never heard at all leaves the minority alone.
        late = _nothing if alone else free

        def end() -> None:
            back()
            self._end(source, last, late)
            if not alone and chooser.random() < 0.5:
                others = [store for store in self._stores if store not in (away, last)]
                self._wipe(chooser.choice(others))

        self._world.later(chooser.uniform(0.005, 0.02), end)

    def _end(self, source: SourceInstance, last: StoreActor, late: Free) -> None:
        """The next one follows, and does not reach the last store of this one."""
        if self._is_over():
            return
        source.kill()
        self._late()
        self._late = late
        seconds = self._chooser.uniform(0.02, 0.3)
        self._sources.restart_after(seconds)
        self._world.later(seconds, lambda: self._live(last))


def _nothing() -> None:
    return


def _once(do: Free) -> Free:
    """The second time it does nothing."""
    left = [do]

    def first() -> None:
        if left:
            left.pop()()

    return first
