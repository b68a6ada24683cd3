"""Helpers for tests of ends: sources that have ended at a store, and the answers of its peers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import grpc.aio
from tests.begun import rebegun
from tests.store.support import FIRST_LINEAGE, INCARNATION, ORDERS, World, batch

from quorate.protocol.begin import BeginRecord
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.recovery import Marker
from quorate.store.engine import Engine
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.ended_sources import EndedSource, View
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Columns, Table, Write, with_columns
from quorate.store.storage.maintenance_records import LossRecord
from quorate.store.tasks import lifecycle
from quorate.store.turns import Turn
from quorate.transport.channels import open_channel
from quorate.v1 import messages_pb2 as v1

FSYNC = v1.DURABILITY_FSYNC
POLICY = Policy.majority_of(["s1", "s2", "s3"])
MEMBERSHIP = Membership((POLICY,), (POLICY,))


def filled(world: World, source: SourceName = ORDERS, reg_id: int = 0) -> SourceState:
    """A source of three stores with messages, a receiver and a marker; it has left."""
    world.promise(1, source=source, reg_id=reg_id)
    world.done(world.core.begin(source, BeginRecord(FIRST_LINEAGE, MEMBERSHIP), b"a", INCARNATION))
    stream = world.open(source=source)
    for first in range(0, 30, 10):
        world.append(stream, batch(first, first + 9, source=source))
    state = world.core.sources[source]
    world.write(state.add_marker(Marker(29, 1, b"marker")))
    world.done(world.receivers.register(source, 0x20, 0, 1))
    world.write(world.core.identities.came(state, Lifetimes(5, 50)))
    world.write(world.core.identities.came(state, Lifetimes(5, 50), 0x20))
    world.write(world.core.streams.closed(stream))
    return state


def end(world: World, source: SourceName = ORDERS, epoch: int = 0) -> EndedSource:
    """End the source at this store, in this epoch; 0: in the next one."""
    core, incarnation = world.core, world.standing.record.incarnation
    known = core.known(source)
    epoch = epoch or (known.registration.promised_epoch if known is not None else 0) + 1
    world.done(core.promise_end(source, epoch, b"ends"))
    world.done(core.begin_end(source, epoch, MEMBERSHIP, b"ends", incarnation))
    return core.identities.ended[source]


def end_for_good(world: World, source: SourceName = ORDERS) -> EndedSource:
    """End the source on a stable set, and leave nothing of its stream."""
    known, core = end(world, source), world.core
    world.write(core.identities.became_durable(known, core.reg_ids))
    while not known.emptied:
        world.write(core.identities.purge(known, world.storage, 9, core.reg_ids))
    return known


def rows(world: World, table: Table) -> int:
    return len(world.storage.scan(table, b"", b"\xff" * 32, 10_000))


def knowledge(**changes: Any) -> SourceKnowledge:
    return rebegun(SourceKnowledge(1, b"a", BeginRecord(FIRST_LINEAGE)), **changes)


def answer(store: str, known: SourceKnowledge | None = None, **changes: Any) -> PeerAnswer:
    sources = {} if known is None else {ORDERS: known}
    return PeerAnswer(store, f"{store}:1", store.encode(), sources=sources, **changes)


def ended_knowledge(epoch: int = 2, **changes: Any) -> SourceKnowledge:
    """What a peer says of a source that has ended in this epoch."""
    lineage = Lineage((Term(epoch, 0),))
    membership = Membership((POLICY,), (POLICY,))
    known = SourceKnowledge(epoch, b"ends", BeginRecord(lineage, membership, epoch))
    return rebegun(known, **changes)


def view(*answers: PeerAnswer) -> View:
    return View("s1", {each.store: each for each in answers})


class Instant:
    """Writes at once, as the keeper's writer."""

    failure = None
    committed = 0

    def __init__(self, world: World) -> None:
        self._world = world

    def submit(
        self,
        writes: Sequence[Write],
        *_: object,
        columns: Columns | None = None,
        **__: object,
    ) -> int:
        self._world.write(with_columns(writes, [columns] if columns else []))
        return 0

    async def durable(self, _: int) -> None:
        pass


class Quiet:
    """Answers for nobody."""

    async def look(self, _: float, __: Turn) -> None:
        pass


class Heardsay:
    """What the keeper hears of peers."""

    def __init__(self, *answers: PeerAnswer) -> None:
        self._heard = {each.store: Heard(each, inf, inf, 0.0) for each in answers}
        self.addresses = frozenset(each.address for each in answers)

    def hear(self, answer: PeerAnswer, asked: float) -> None:
        """This one answers what it was asked then."""
        self._heard[answer.store] = Heard(answer, asked, asked, 0.0)
        self.addresses |= {answer.address}

    def inventories(self) -> dict[str, Heard]:
        return self._heard

    def open_channel(self, address: str) -> grpc.aio.Channel:
        """Nobody is there."""
        return open_channel(address)

    answering = inventories


def engine_of(world: World) -> Engine:
    """An engine that writes at once."""
    writer: Any = Instant(world)
    engine = Engine(world.core, world.receivers, writer, world.storage, lambda _: FSYNC)
    engine.lags.has_asked = True
    return engine


def keeping(world: World, *answers: PeerAnswer) -> lifecycle.Keeper:
    """A keeper whose peers have said this."""
    return keeping_with(world, Heardsay(*answers))


def keeping_with(
    world: World,
    heard: Heardsay,
    clock: Callable[[], float] = time.monotonic,
    records: Sequence[LossRecord] = (),
) -> lifecycle.Keeper:
    """A keeper that hears this of its peers. records: what operators accepted at its store."""
    engine = engine_of(world)
    peers: Any = heard
    proxying: Any = Quiet()
    losses = Losses("s1", world.core.sources, world.storage, records)
    return lifecycle.Keeper(engine, peers, proxying, losses, inf, clock)
