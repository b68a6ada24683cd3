"""The story of five subscribers, at paces and with filters of their own, while stores die.

Three airports send the departures of 2013, as the demo has them. Each subscriber is compared with
what was sent: all of it that it wants, in each source's order, once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pytest
from tests.end_to_end.processes import Progress
from tests.end_to_end.world import Store, World

from quorate.client import Source, connect
from quorate.client.replay import Gap, Item, ReplayedMessage, StoreLeft, Withdrawn, in_order
from quorate.console.demo import flights
from quorate.subscriber import Subscriber

pytestmark = [
    pytest.mark.processes,
    pytest.mark.expects_log("does not take|lost its quorum|without its data|in limbo"),
]

AIRPORTS = ("EWR", "JFK", "LGA")
_AT_ONCE = 10
_PAUSE_SECONDS = 0.05
_PATIENCE_SECONDS = 120.0
_FLIGHTS_MAX = 150_000
"""Far more than are sent."""

Flight = dict[str, Any]


def departures() -> dict[str, Iterator[bytes]]:
    """Return the payloads of each airport's flights, in the order of their schedule."""
    found: dict[str, list[bytes]] = {f"flights.{airport}": [] for airport in AIRPORTS}
    for topic, payload in islice(flights.messages(None), _FLIGHTS_MAX):
        found[topic].append(payload)
    return {topic: iter(payloads) for topic, payloads in found.items()}


def is_late(flight: Flight) -> bool:
    return flight["carrier"] == "UA" and (flight["dep_delay"] or 0) > 15


def is_far(flight: Flight) -> bool:
    return bool(flight["distance"] >= 1000)


def number_and_origin(flight: bytes) -> bytes:
    """Return a payload with these two fields alone."""
    fields = json.loads(flight)
    return json.dumps(
        {name: fields[name] for name in ("flight", "origin")}, separators=(",", ":")
    ).encode()


@dataclass
class Airport:
    """A source of departures, which goes on until it is told to stop."""

    name: str
    progress: Progress
    flights: Iterator[bytes]
    sent: list[bytes] = field(default_factory=list)
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def topic(self) -> str:
        return f"flights.{self.name}"

    async def run(self, source: Source) -> None:
        """Send until it is stopped. The last flight is one that each reader wants."""
        while not self._stopped.is_set():
            await self._send(source, list(islice(self.flights, _AT_ONCE)))
            # All together send less than the slowest reader takes.
            await asyncio.sleep(_PAUSE_SECONDS)
        rest: list[bytes] = []
        for payload in self.flights:
            rest.append(payload)
            if is_late(flight := json.loads(payload)) and is_far(flight):
                break
        await self._send(source, rest)

    async def _send(self, source: Source, flights: list[bytes]) -> None:
        assert flights, "more flights are wanted than were read"
        await source.send_many(flights, wait_quorum=True)
        await source.flush(timeout=_PATIENCE_SECONDS)
        self.sent += flights
        self.progress.made()

    async def until_sent(self, more: int) -> None:
        wanted = len(self.sent) + more
        await self.progress.until(f"{self.name} goes on", lambda: len(self.sent) >= wanted)

    def stop(self) -> None:
        self._stopped.set()


@dataclass
class Reader:
    """A subscriber, and what it was handed."""

    name: str
    wants: Callable[[Flight], bool]
    options: dict[str, Any]
    shows: Callable[[bytes], bytes] = bytes
    handed: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    moves: int = 0

    def take(self, item: Item) -> None:
        if isinstance(item, ReplayedMessage):
            self.handed.setdefault(item.topic, []).append((item.sequence, item.payload))
        elif isinstance(item, Withdrawn):
            kept = [each for each in self.handed[item.source.topic] if each[0] < item.first]
            self.handed[item.source.topic] = kept
        elif isinstance(item, Gap):
            self.gaps.append(item)

    def told(self, event: object) -> None:
        self.moves += isinstance(event, StoreLeft)

    async def run(self, subscriber: Subscriber, progress: Progress) -> None:
        async for item in subscriber:
            self.take(item)
            progress.made()

    def last(self, airport: str) -> int:
        """Return the last number of an airport that it was handed."""
        handed = self.handed.get(f"flights.{airport}")
        return handed[-1][0] if handed else -1

    def wanted(self, airport: Airport) -> list[tuple[int, bytes]]:
        return [
            (number, self.shows(payload))
            for number, payload in enumerate(airport.sent)
            if self.wants(json.loads(payload))
        ]


def readers() -> list[Reader]:
    return [
        Reader("all", lambda _: True, {}),
        Reader("late", is_late, {"where": "carrier = 'UA' AND dep_delay > 15"}),
        Reader("paced", lambda _: True, {"rate": "8000/s"}),
        Reader(
            "selected",
            is_far,
            {"where": "distance >= 1000", "select": "flight, origin", "rate": "4x"},
            number_and_origin,
        ),
        Reader("durable", lambda _: True, {"delivered": "durable", "rate": "2MB/s"}),
    ]


@asynccontextmanager
async def running(reader: Reader, world: World, first_store: int) -> AsyncIterator[Subscriber]:
    names = [*world.stores]
    turned = names[first_store % 3 :] + names[: first_store % 3]
    async with connect(world.addresses_of(*turned)) as client:
        opening = client.subscriber(
            topic_pattern="flights[.].*",
            on_event=reader.told,
            chooser=in_order,
            **reader.options,
        )
        async with opening as subscriber:
            yield subscriber


async def killed_and_back(store: Store, airports: list[Airport], *, wiped: bool) -> None:
    """Kill a store, and start it again once the others have gone on. Wait until it is whole."""
    incarnation = store.facts["incarnation"]
    await store.kill()
    await asyncio.gather(*(airport.until_sent(200) for airport in airports))
    if wiped:
        store.wipe()
    await store.start()
    if wiped:
        await store.until_it_vouches(other_than=incarnation)
    await store.progress.until(
        f"{store.name} takes every source",
        lambda: all(
            store.of(session).get("stable_upto", -1) >= len(airport.sent) - 3 * _AT_ONCE
            for session, airport in enumerate(airports, 1)
        ),
    )


async def until_handed(world: World, everyone: list[Reader], numbers: dict[str, int]) -> None:
    """Wait until each reader was handed these numbers of each airport, or later ones."""
    await world.progress.until(
        "every subscriber goes on",
        lambda: all(reader.last(name) >= numbers[name] for reader in everyone for name in numbers),
    )


@pytest.mark.long
async def test_five_subscribers_are_handed_what_was_sent_while_stores_die(world: World) -> None:
    stores = await world.founded("s1", "s2", "s3")
    departing = await asyncio.to_thread(departures)
    airports = [Airport(name, world.progress, departing[f"flights.{name}"]) for name in AIRPORTS]
    everyone = readers()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(world.addresses))
        sending: list[asyncio.Task[None]] = []
        for session, airport in enumerate(airports, 1):
            opening = client.source(airport.topic, session_id=session)
            source = await stack.enter_async_context(opening)
            sending.append(asyncio.create_task(airport.run(source)))

        reading = [
            asyncio.create_task(
                reader.run(
                    await stack.enter_async_context(running(reader, world, at)), world.progress
                )
            )
            for at, reader in enumerate(everyone)
        ]
        for wiped in (False, True):
            for store in stores:
                await killed_and_back(store, airports, wiped=wiped)
                store.pause()
                await until_handed(
                    world, everyone, {each.name: len(each.sent) for each in airports}
                )
                store.resume()
        for airport in airports:
            airport.stop()
        await asyncio.gather(*sending)
        await until_handed(world, everyone, {each.name: len(each.sent) - 1 for each in airports})
        for task in reading:
            task.cancel()
    for reader in everyone:
        assert reader.gaps == []
        assert reader.moves >= 2, reader.name
        for airport in airports:
            assert reader.handed[airport.topic] == reader.wanted(airport), reader.name
