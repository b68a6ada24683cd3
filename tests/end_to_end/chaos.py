"""Everything that can happen, at random and for a while; then all must become whole.

Faults follow from the seed; what comes of them also depends on the machine.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from tests.end_to_end.checker import Summary
from tests.end_to_end.namespaces import Namespaces
from tests.end_to_end.network import WAYS
from tests.end_to_end.processes import Process
from tests.end_to_end.world import SourceProcess, Store, World

_STORES = ("s1", "s2", "s3")
_OPTIONS = {"retention_bytes_max": 1 << 20, "flight_messages": 2000}

Fault = Callable[[], Awaitable[None]]


class Chaos:
    """Three stores, a source that sends in every way, two receivers; and misfortune."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.faults: Counter[str] = Counter()
        """How often what happened."""
        self._choice = random.Random(seed)
        self._durable = bool(seed % 2)
        self._source: SourceProcess
        self._instances = 0

    async def run(self, seconds: float) -> Summary:
        """Faults for so long; then everything must become whole."""
        await self.world.founded(*_STORES)
        self._source = await self._new_source()
        for session, delivery in ((20, "live"), (21, "stable")):
            receiver = await self.world.receiver(
                delivery, session=session, delivery=delivery, moody=True
            )
            await receiver.start()
        until = time.monotonic() + seconds
        await asyncio.gather(
            self._one_after_the_other(self._faults(), until),
            self._one_after_the_other(
                [self.a_receiver_is_killed, self.a_receiver_is_paused], until
            ),
        )
        self._source.order("quiet")
        return await self.world.end(self._source)

    def _faults(self) -> list[Fault]:
        faults: list[Fault] = [
            self.a_store_is_killed,
            self.a_store_is_wiped,
            self.a_store_is_put_back_from_a_copy,
            self.all_stores_are_killed,
            self.a_store_is_paused,
            self.a_store_is_away_for_long,
            self.the_source_is_killed,
            self.the_source_is_paused,
            self.the_source_and_a_store_are_killed,
            self.a_way_is_stalled,
            self.everything_is_cut,
        ]
        if not self._durable:
            # What a publish store has only one process can send again.
            faults.append(self.the_source_is_replaced_in_its_sleep)
        if isinstance(self.world.network, Namespaces):
            faults += [self.a_minority_is_cut_off, self.two_do_not_hear_each_other]
        return faults

    async def _one_after_the_other(self, faults: Sequence[Fault], until: float) -> None:
        while time.monotonic() < until:
            fault = self._choice.choice(faults)
            self.faults[getattr(fault, "__name__", "?").replace("_", " ")] += 1
            await fault()
            await asyncio.sleep(self._choice.uniform(0.1, 1.0))

    async def _new_source(self) -> SourceProcess:
        """Another process of the same identity, on this host or elsewhere."""
        self._instances += 1
        source = await self.world.source(
            f"source{self._instances}",
            durable=self._durable,
            persistent=True,
            take_over=True,
            options=_OPTIONS,
        )
        await self._start(source)
        return source

    async def _start(self, source: SourceProcess) -> None:
        await source.start(until_open=False)
        source.order("chat")

    # Faults: each takes its time and undoes itself.

    def _store(self) -> Store:
        return self.world.stores[self._choice.choice(_STORES)]

    async def a_store_is_killed(self) -> None:
        store = self._store()
        await store.kill()
        await asyncio.sleep(self._choice.choice((0.0, 1.0)))
        await store.start()

    async def a_store_is_away_for_long(self) -> None:
        store = self._store()
        await store.kill()
        await asyncio.sleep(4.0)
        await store.start()

    async def a_store_is_wiped(self) -> None:
        """Only when it is whole again may the next one be: the policy tolerates no more."""
        store = self._store()
        await store.until_met()
        before = store.facts["incarnation"]
        await store.kill()
        store.wipe()
        await store.start()
        await store.until_it_vouches(other_than=before)

    async def a_store_is_put_back_from_a_copy(self) -> None:
        """After its peers have met it since the copy: otherwise nobody can tell."""
        store = self._store()
        await store.kill()
        store.save()
        await store.start()
        await store.until_met()
        before = store.facts["incarnation"]
        await store.kill()
        store.roll_back()
        await store.start()
        await store.until_it_vouches(other_than=before)

    async def all_stores_are_killed(self) -> None:
        for store in self.world.stores.values():
            await store.kill()
        for store in self.world.stores.values():
            await store.start(until_ready=False)
            await asyncio.sleep(self._choice.choice((0.0, 0.5)))

    async def a_store_is_paused(self) -> None:
        await self._pause(self._store())

    async def the_source_is_killed(self) -> None:
        await self._source.kill()
        await self._start(self._source)

    async def the_source_is_paused(self) -> None:
        await self._pause(self._source)

    async def the_source_is_replaced_in_its_sleep(self) -> None:
        """It can never again make anything stable, as the checker will see."""
        sleeper = self._source
        sleeper.pause()
        self._source = await self._new_source()
        await asyncio.sleep(self._choice.uniform(0.2, 2.0))
        sleeper.resume()
        await asyncio.sleep(self._choice.uniform(0.2, 2.0))
        await sleeper.kill()

    async def the_source_and_a_store_are_killed(self) -> None:
        store = self._store()
        await self._source.kill()
        await store.kill()
        await self._start(self._source)
        await asyncio.sleep(2.0)
        await store.start()

    async def a_receiver_is_killed(self) -> None:
        receiver = self._choice.choice(self.world.receivers)
        await receiver.kill()
        await receiver.start(until_open=False)

    async def a_receiver_is_paused(self) -> None:
        await self._pause(self._choice.choice(self.world.receivers))

    async def a_way_is_stalled(self) -> None:
        name = self._choice.choice((*_STORES, self._source.name))
        self.world.network.stall(name, self._choice.choice(WAYS))
        await asyncio.sleep(self._choice.uniform(0.3, 1.5))
        if self._choice.random() < 0.5:
            self.world.network.cut(name)
        self.world.network.heal(name)

    async def everything_is_cut(self) -> None:
        for name in (*_STORES, self._source.name):
            self.world.network.cut(name)

    async def a_minority_is_cut_off(self) -> None:
        assert isinstance(self.world.network, Namespaces)
        everyone = [*_STORES, self._source.name, "live", "stable"]
        alone = set(self._choice.sample(everyone, 2))
        self.world.network.part(alone, set(everyone) - alone)
        await asyncio.sleep(self._choice.uniform(0.5, 12.0))
        self.world.network.unite()

    async def two_do_not_hear_each_other(self) -> None:
        assert isinstance(self.world.network, Namespaces)
        one, other = self._choice.sample((*_STORES, self._source.name), 2)
        self.world.network.part([one], [other])
        await asyncio.sleep(self._choice.uniform(0.5, 5.0))
        self.world.network.unite()

    async def _pause(self, process: Process) -> None:
        process.pause()
        await asyncio.sleep(self._choice.uniform(0.2, 1.5))
        process.resume()
