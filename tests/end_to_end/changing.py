"""A stream that moves from stores to stores while whoever takes part is killed on the way.

Six stores that know each other; of these the source is configured with some, then with others, and
never tells anybody that a change is over: it may be killed, and start again, at any moment of it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Collection

from tests.end_to_end.checker import Summary
from tests.end_to_end.setups import Setup
from tests.end_to_end.world import SourceProcess, World

_STORES = ("s1", "s2", "s3", "s4", "s5", "s6")
_OPTIONS = {"retention_bytes_max": 1 << 20, "flight_messages": 2000}


THREE = Setup((("s1", "s2", "s3"),))
CHANGES = {
    "grows": Setup((("s1", "s2", "s3", "s4", "s5"),)),
    "shrinks": Setup((("s3", "s4", "s5"),)),
    "moves": Setup((("s1", "s2", "s6"),)),
    "gains a group": Setup((("s1", "s2", "s6"), ("s3", "s4", "s5"))),
    "gains a group that need not keep up": Setup((("s1", "s2", "s6"), ("s3", "s4", "s5")), "any"),
    "loses a group": Setup((("s3", "s4", "s5"),)),
}
ALL = Setup((_STORES,))
"""In the end every store has everything: also those that the stream had left."""


class Changes:
    """One stream, its receivers, and what the source is configured with."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.faults: Counter[str] = Counter()
        """How often what happened."""
        self._choice = random.Random(seed)
        self._setups = [THREE]
        self._source: SourceProcess

    async def begin(self) -> None:
        await self.world.founded(*_STORES)
        durable = self._choice.random() < 0.5
        self._source = await self.world.source(
            durable=durable, persistent=True, take_over=True, options=_OPTIONS
        )
        await self._start()
        for session, delivery in ((20, "live"), (21, "stable")):
            receiver = await self.world.receiver(delivery, session=session, delivery=delivery)
            await receiver.start()

    async def run(self, seconds: float) -> Summary:
        """Changes for so long; then everything must become whole."""
        await self.begin()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            kind = self._choice.choice(list(CHANGES))
            victims = self._choice.choice(
                (("source",), ("store",), ("source", "store"), ("store", "source"), ("wiped",), ())
            )
            await self.change(kind, victims)
            if self._choice.random() < 0.7:
                await self.until_it_goes_on()
        return await self.end()

    async def change(
        self, kind: str, victims: Collection[str], *, in_the_middle: bool = False
    ) -> None:
        """The stream's source starts with other stores; these die on the way.

        in_the_middle: when both the old stores and the new ones make messages stable; otherwise at
        any moment.
        """
        self.faults[f"the stream {kind}"] += 1
        self.faults[f"meanwhile {' and '.join(victims) or 'nobody'} killed"] += 1
        before, after = self._setups[-1], CHANGES[kind]
        await self._go_to(after)
        if in_the_middle:
            await self._source.until_said("event", "MembershipChanged")
        elif self._choice.random() < 0.3:
            await self._source.until_said("opened")
        else:
            await asyncio.sleep(self._choice.uniform(0.0, 1.0))
        store = self.world.stores[self._choice.choice(sorted(before.stores | after.stores))]
        incarnation = store.facts.get("incarnation", "")
        for victim in victims:
            await (self._source if victim == "source" else store).kill()
        if "wiped" in victims:
            store.wipe()
        if "source" in victims:
            await self._start()
        if not store.running:
            await asyncio.sleep(self._choice.choice((0.0, 1.0)))
            await store.start()
        if "wiped" in victims:
            # Only then may the next one be wiped: the policies tolerate no more.
            await store.until_it_vouches(other_than=incarnation)

    async def until_it_goes_on(self) -> None:
        """What is accepted from now on becomes stable."""
        source = self._source
        await self.world.progress.until(
            "the source accepts a message more", lambda: source.accepted_upto >= 0
        )
        number = source.accepted_upto
        await self.world.progress.until(
            f"{number} is stable",
            lambda: max((upto for (upto,) in source.lines("stable")), default=-1) >= number,
        )

    async def end(self) -> Summary:
        """All stores are the stream's, and everything becomes whole."""
        await self._go_to(ALL)
        await self.until_it_goes_on()
        self._source.order("quiet")
        return await self.world.end(self._source)

    async def _go_to(self, setup: Setup) -> None:
        self._setups.append(setup)
        await self._source.kill()
        await self._start()

    async def _start(self) -> None:
        *earlier, present = (setup.written(self.world) for setup in self._setups)
        previous = list(dict.fromkeys(earlier))
        await self._source.start(until_open=False, stores=present, previous=previous)
        self._source.order("chat")
