"""The operator of a simulated world: accepts as lost what nobody can read any more.

Acts once the faults have stopped and repair had its time. What is lost is seen on the disks; the
stores have the last word, as they refuse to lose what they can read.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.checker import Checker
from tests.simulation.store_actor import StoreActor
from tests.simulation.world import World

from quorate.protocol.errors import NotLost
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet

REASON = "every copy was destroyed"


class Operator:
    """Has a look at all stores, and says the same to each."""

    def __init__(
        self, world: World, checker: Checker, stores: Sequence[StoreActor], source: SourceName
    ) -> None:
        self._world = world
        self._checker = checker
        self._stores = stores
        self._source = source

    def accept_losses(self) -> bool:
        """Accept what nobody has; returns whether there is any."""
        upto = len(self._checker.stable_contents) - 1
        there: set[int] = set()
        for store in self._stores:
            there |= self._checker.on_disk(store, store.disk.synced, 0, upto).keys()
        lost = RangeSet(Range(n, n) for n in range(upto + 1) if n not in there)
        for part in lost:
            self._checker.loses(part)
            for store in self._stores:
                if self._source in store.core.sources:
                    store.process.start(self._accept(store, part))
        return bool(lost)

    async def _accept(self, store: StoreActor, part: Range) -> None:
        state = store.core.sources[self._source]
        await store.engine.settled_range(state, part.first, part.last)
        try:
            change = store.losses.accept(self._source, part.first, part.last, REASON, 0)
        except NotLost as error:
            self._world.note("%s: %s", store.name, error)
            return
        await store.made_durable(state, change)
        self._world.reach("loss accepted by an operator", "%s %s", store.name, part)
