"""The operator of a simulated world: accepts as lost what nobody can read any more.

Acts once the faults have stopped and repair had its time. What is lost is seen on the disks; the
stores have the last word, as they refuse to lose what they can read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tests.simulation.asks import AskedDeregister
from tests.simulation.checker import Checker
from tests.simulation.receiver_actor import ReceiverInstance
from tests.simulation.store_actor import StoreActor
from tests.simulation.world import World

from quorate.protocol.errors import NotLost, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.receiver.protocol.deregistration import Ending

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
        # What is below was let go, or may be; but who holds it still, and can not read it, has to
        # be told.
        begins = self._checker.retained_from
        doubted = RangeSet()
        for store in self._stores:
            if (state := store.core.sources.get(self._source)) is not None:
                doubted = doubted.union(state.unreadable)
        lost = RangeSet(
            Range(n, n) for n in range(upto + 1) if n not in there and (n >= begins or n in doubted)
        )
        for part in lost:
            self._checker.loses(part)
            for store in self._stores:
                if self._source in store.core.sources:
                    store.process.start(self._accept(store, part))
        return bool(lost)

    def accept_again(self) -> None:
        """Accept what is lost also at stores that were away, or had deleted the source."""
        for store in self._stores:
            state = store.core.sources.get(self._source)
            for part in state.unreadable if state is not None else ():
                if self._checker.lost.issuperset(range(part.first, part.last + 1)):
                    store.process.start(self._accept(store, part))

    def end_mutual_limbo(self) -> None:
        """Have stores go on that wait for each other, as each of them lost its disk: nobody else
        has anything of the source any more that they could take over."""
        waiting = [store for store in self._stores if store.core.standing.limbo]
        if len(waiting) < 2 or any(self._source in store.core.sources for store in self._stores):
            return
        for store in waiting:
            self._world.reach("limbo ended by an operator", store.name)
            store.engine.writer.submit(store.core.standing.leave_limbo(by_hand=True))

    def deregister_receiver(self, receiver: ReceiverInstance) -> None:
        """Have all stores forget a receiver that may know nothing of it."""
        states = [store.core.sources.get(self._source) for store in self._stores if store.alive]
        epochs = [
            record.epoch
            for state in states
            if state is not None and (record := state.receivers.get(receiver.session_id))
        ]
        asked = AskedDeregister(self._source, receiver.session_id, max(epochs, default=0))
        self._checker.endings.receiver_over(asked.receiver, asked.epoch)
        ending = Ending()
        for store in self._stores:
            if store.alive and epochs:
                store.process.start(self._deregister_receiver(store, receiver, asked, ending))

    async def _deregister_receiver(
        self, store: StoreActor, receiver: ReceiverInstance, asked: AskedDeregister, ending: Ending
    ) -> None:
        with contextlib.suppress(QuorateError):
            untold = ending.answered(store.name, await store.deregister(asked))
            # At stores that were not heard it may have a higher one: then it is not over.
            if asked.epoch >= receiver.epoch:
                self._checker.endings.receiver_forgotten(receiver.name, store.name)
            self._checker.endings.receiver_not_forgotten(receiver.name, untold)

    async def _accept(self, store: StoreActor, part: Range) -> None:
        state = store.core.sources[self._source]
        await store.engine.settled_range(state, part.first, part.last)
        try:
            change = store.losses.accept(self._source, part.first, part.last, REASON, 0)
        except NotLost as error:
            self._world.note("%s: %s", store.name, error)
            return
        await store.engine.made_durable(state, change)
        self._world.reach("loss accepted by an operator", "%s %s", store.name, part)
