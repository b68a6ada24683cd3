"""A maker of the state of the world over a core, and messages with keys, for several tests."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tests.begun import rebegun
from tests.store.ended import end_for_good, engine_of
from tests.store.support import World

from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import Unreachable
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Keying, Missing
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.times import times_of
from quorate.store import startup
from quorate.store.rpc.state import StateQueries
from quorate.store.rpc.subscription_begins import position_before
from quorate.store.rules.source_state import AppendStream
from quorate.store.rules.state_rows import is_in_force, rows_among
from quorate.store.storage.interface import Table
from quorate.store.storage.state_records import (
    key_of,
    row_of_source,
    rows_of_topic,
    unpack_candidate,
)
from quorate.store.tasks.state import StateMaking
from quorate.v1 import store_pb2 as store_v1

TOPIC = "orders"
READERS = ThreadPoolExecutor(1)
NOW = 1_000
A, B, C = (SourceName(TOPIC, session_id) for session_id in (1, 2, 3))

KEYS = [b"", b"a", b"a\0", b"a\0\xff", b"\0", b"long" * 50, None]

Event = tuple[str, Any]


class Message(NamedTuple):
    """A message of a test."""

    key: bytes | None
    payload: bytes
    time: int
    deleted: bool = False
    expires: int | None = None


def batch_of(source: SourceName, epoch: int, first: int, messages: Sequence[Message]) -> bytes:
    times = times_of([each.time for each in messages])
    return encode_batch(
        source,
        epoch,
        first,
        [each.payload for each in messages],
        times.least_ns,
        attributes=[Attributes(each.key, {}, each.deleted, each.expires) for each in messages],
        later=times.later,
    )


def keyed(*keys: str, missing: Missing = Missing.DROP) -> Callable[[str], Keying | None]:
    """The topic of the tests has these keys."""
    keying = Keying(keys or ("$key",), missing)
    return lambda topic: keying if topic == TOPIC else None


class Maker:
    """A store that makes rows, one step at a time."""

    def __init__(
        self,
        storage: Any = None,
        keying_of: Callable[[str], Keying | None] | None = None,
        peers: Mapping[str, Maker] | None = None,
    ) -> None:
        """peers: other stores, by address; those that are not there do not answer."""
        self.peers = {} if peers is None else peers
        """The other stores, by address."""
        self.away: set[str] = set()
        """The addresses of the stores that do not answer."""
        self.answers_max = 1000
        """How many answers come from a peer before the connection breaks."""
        self.world = World(storage)
        self.keying_of = keying_of or keyed()
        self.making = StateMaking(
            engine_of(self.world),
            _at_once,
            self.keying_of,
            startup.state_progress(self.world.storage),
            lambda: self.peers,
            self._ask,
            self.world.storage.remove_state,
            lambda: self.now,
        )
        self.now = NOW
        self.read_apart = 0
        """How many times queries have left the event loop to read."""
        self.streams: dict[SourceName, AppendStream] = {}

    @property
    def queries(self) -> StateQueries:
        """The queries of its rows."""
        engine = engine_of(self.world)
        return StateQueries(
            engine,
            self.world.storage,
            self.making,
            self._apart,
            partial(position_before, engine, READERS),
            lambda: self.now,
        )

    async def _apart(self, work: Callable[[], Any]) -> Any:
        self.read_apart += 1
        return work()

    async def _ask(
        self, address: str, request: store_v1.StateCandidatesRequest
    ) -> AsyncGenerator[store_v1.StateCandidatesResponse, None]:
        peer, left = self.peers[address], self.answers_max
        if address in self.away:
            raise Unreachable(address, "it is away")
        async for answer in peer.queries.candidates(request, lambda: None):
            if not left:
                raise Unreachable(address, "it broke off")
            left -= 1
            yield answer

    def lets_go(self, source: SourceName, below: int) -> None:
        """Retention has let go what is below, here or at another store, before it came here."""
        stream, held = self.streams[source], self.world.core.sources[source].held
        if stream.expected < below:
            self.world.write(self.world.core.streams.skip(stream, stream.expected, below - 1))
        held.retained_from = below

    def begins(self, source: SourceName, epoch: int) -> None:
        """A new generation of a source begins."""
        self.world.promise(epoch, b"%d" % epoch, source)
        self.world.begin(Lineage((Term(epoch, 0),)), source)
        self.streams[source] = self.world.open(epoch, b"%d" % epoch, source=source)

    def reopens(self, source: SourceName, epoch: int) -> None:
        """A source streams on after the store was started again."""
        self.streams[source] = self.world.open(epoch, b"%d" % epoch, source=source)

    def sends(
        self, source: SourceName, epoch: int, first: int, messages: Sequence[Message]
    ) -> None:
        self.world.append(self.streams[source], batch_of(source, epoch, first, messages))

    def stable(self, source: SourceName, upto: int) -> None:
        """All up to there is stable."""
        self.world.write(self.world.core.streams.keepalive(self.streams[source], upto))

    def ends(self, source: SourceName) -> None:
        """The source ends, and nothing of it is left."""
        state = end_for_good(self.world, source).state
        # In the epoch that it had begun, so that the next generation has the next number.
        epoch, record = state.registration.begun.epoch - 1, state.registration
        state.registration = rebegun(
            replace(record, promised_epoch=epoch), epoch=epoch, generation=epoch
        )

    async def step(self, source: SourceName) -> bool:
        return await self.making._step(source)

    async def all(self) -> None:
        """Make all rows that there are, and remove those of no more use."""
        for source in list(self.world.core.sources):
            while await self.step(source):
                pass
        await self.making._look()

    def rows(self) -> dict[bytes, bytes]:
        """The payload of each row, by key."""
        found = rows_among(self.stored(), self.making.generations(TOPIC), self.now)
        return {key_of(row_of_source(same, row.session_id)): row.payload for same, row in found}

    def stored(self) -> list[tuple[bytes, bytes]]:
        """All that is stored of rows of the topic."""
        kept = self.making.keyed(TOPIC)
        assert kept is not None
        return self.world.storage.scan(Table.STATE, *rows_of_topic(kept.prefix), 10_000)

    def in_force(self) -> list[tuple[bytes, bytes]]:
        """All that is stored of rows, of generations that have not ended."""
        generations = self.making.generations(TOPIC)
        return [row for row in self.stored() if is_in_force(unpack_candidate(*row), generations)]

    def table(self) -> list[bytes]:
        """The keys of all rows, of any topic and keys, and of all places."""
        return [key for key, _ in self.world.storage.scan(Table.STATE, b"", b"\xff", 10_000)]


async def _at_once(work: Callable[[], Any]) -> Any:
    return work()


def expected(
    sources: Iterable[tuple[int, Sequence[Message]]], now: int = NOW
) -> dict[bytes, bytes]:
    """The rows by the rule: sources with their session IDs, and all stable messages of each."""
    last: dict[bytes, list[tuple[int, int, Message]]] = {}
    for session_id, messages in sources:
        of_source = {each.key: each for each in messages if each.key is not None}
        for key, message in of_source.items():
            last.setdefault(key, []).append((message.time, session_id, message))
    rows = {}
    for key, candidates in last.items():
        _, _, newest = max(candidates)
        if not newest.deleted and (newest.expires is None or newest.expires > now):
            rows[b"k" + key] = newest.payload
    return rows


def message(chooser: random.Random, name: str) -> Message:
    return Message(
        chooser.choice(KEYS),
        json.dumps({"name": name, "n": chooser.randrange(4)}).encode(),
        chooser.randrange(20),
        chooser.random() < 0.2,
        chooser.choice([None, None, 500, 5_000]),
    )


def history(chooser: random.Random, source: SourceName) -> tuple[list[Event], list[Message]]:
    """The acts of a source, in the order in which stores see them, and its stable end."""
    events: list[Event] = []
    kept: list[Message] = []
    epoch = 0
    for generation in range(chooser.randint(1, 3)):
        if generation:
            events.append(("ends", None))
        epoch += chooser.randint(1, 3)
        events.append(("begins", epoch))
        kept, sent = [], 0
        messages = [
            message(chooser, f"{source} {epoch} {number}")
            for number in range(chooser.randint(1, 25))
        ]
        while sent < len(messages):
            count = chooser.randint(1, 6)
            events.append(("sends", (epoch, sent, messages[sent : sent + count])))
            sent = min(len(messages), sent + count)
            if chooser.random() < 0.7:
                kept = messages[: chooser.randint(len(kept), sent)]
                if kept:
                    events.append(("stable", len(kept) - 1))
    return events, kept


def does(maker: Maker, source: SourceName, event: Event) -> None:
    kind, what = event
    match kind:
        case "begins":
            maker.begins(source, what)
        case "sends":
            maker.sends(source, *what)
        case "stable":
            maker.stable(source, what)
        case "ends":
            maker.ends(source)
