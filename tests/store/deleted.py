"""What tests of deletion share: sources that are deleted at a store, and what its peers say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import grpc.aio
from tests.store.support import FIRST_LINEAGE, INCARNATION, ORDERS, World, batch

from quorate.protocol.errors import Closed
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import membership_to_wire
from quorate.store.engine import Engine
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.identity_records import Tombstone
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.source_tombstones import View
from quorate.store.storage.interface import Columns, Table, Write, with_columns
from quorate.store.storage.maintenance_records import LossRecord
from quorate.store.tasks import lifecycle
from quorate.store.turns import Turn
from quorate.transport.channels import open_channel
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

FSYNC = v1.DURABILITY_FSYNC
EXPIRED, DEREGISTERED = store_v1.DELETION_EXPIRED, store_v1.DELETION_DEREGISTERED
POLICY = Policy.majority_of(["s1", "s2", "s3"])
MEMBERSHIP = membership_to_wire(Membership((POLICY,), (POLICY,)))


def filled(world: World, source: SourceName = ORDERS, reg_id: int = 0) -> SourceState:
    """A source of three stores with messages, a receiver and a marker; it has left."""
    world.promise(1, source=source, reg_id=reg_id)
    world.done(world.core.begin(source, 1, FIRST_LINEAGE, MEMBERSHIP, b"a", INCARNATION))
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


def bury(
    world: World,
    cause: store_v1.Deletion = EXPIRED,
    source: SourceName = ORDERS,
    *,
    blind: bool = False,
    upto: int = 0,
) -> None:
    state, core = world.core.sources[source], world.core
    core.remove(source, Closed("x"))
    world.write(core.identities.bury(state, cause, core.reg_ids, 1.0, blind=blind, upto=upto))


def rows(world: World, table: Table) -> int:
    return len(world.storage.scan(table, b"", b"\xff" * 32, 10_000))


def knowledge(**changes: Any) -> SourceKnowledge:
    return replace(SourceKnowledge(1, b"a", 1, FIRST_LINEAGE), **changes)


def answer(store: str, known: SourceKnowledge | None = None, **changes: Any) -> PeerAnswer:
    sources = {} if known is None else {ORDERS: known}
    return PeerAnswer(store, f"{store}:1", store.encode(), sources=sources, **changes)


def view(*answers: PeerAnswer, complete: bool = True) -> View:
    return View("s1", {each.store: each for each in answers}, complete)


def bury_for_good(world: World) -> None:
    """Nothing of it is left, and the store vouches for that."""
    bury(world)
    identities = world.core.identities
    while not tombstone(world).emptied:
        world.write(identities.purge(ORDERS, world.storage, 9, world.core.reg_ids))
    identities.settled.add(ORDERS)


def tombstone(world: World) -> Tombstone:
    return world.core.identities.tombstones[ORDERS]


def promised_only(world: World) -> None:
    """A source that registered here, and began nothing."""
    world.promise(3)
    bury(world)


def buried(cause: store_v1.Deletion = EXPIRED) -> Tombstone:
    world = World()
    filled(world)
    bury(world, cause)
    return tombstone(world)


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
