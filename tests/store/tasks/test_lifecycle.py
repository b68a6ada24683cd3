"""The keeper of a store's identities beside a disk that is slow, or can not be read everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.store.ended import (
    Heardsay,
    Quiet,
    answer,
    end,
    end_for_good,
    ended_knowledge,
    engine_of,
    filled,
    keeping,
    keeping_with,
    knowledge,
    rows,
)
from tests.store.support import ORDERS, TRADES, World

from quorate.protocol.errors import StorageUnreadable
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.storage.interface import (
    Reads,
    Row,
    Table,
)
from quorate.store.storage.records import position_of
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.turns import Turn
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


class PartlyUnreadable:
    """Does not give the index of these RegIDs."""

    def __init__(self, reads: Reads, *reg_ids: int) -> None:
        self._reads = reads
        self.reg_ids = set(reg_ids)

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._reads.get(table, keys)

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        if table is Table.INDEX and position_of(first[:8]) in self.reg_ids:
            raise StorageUnreadable("the disk", "checksum mismatch")
        return self._reads.scan(table, first, last, limit)

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        return self._reads.at_or_before(table, key)


class Looks(Quiet):
    """How often the keeper came to its last step."""

    count = 0

    async def look(self, _: float, __: Turn) -> None:
        self.count += 1


def without_grace(world: World, reads: Reads, last_step: Looks) -> Keeper:
    """Its keeper, which removes at once what is left of an ended source."""
    engine = engine_of(world)
    engine.reads = reads
    peers: Any = Heardsay()
    proxying: Any = last_step
    losses = Losses("s1", world.core.sources, world.storage)
    return Keeper(engine, peers, proxying, losses, 0.0)


@pytest.mark.expects_log(
    "orders/0x10, which has ended, stays on disk: .*checksum mismatch.*replace"
)
async def test_an_ended_source_that_can_not_be_read_keeps_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    reads = PartlyUnreadable(world.storage, filled(world).reg_id)
    filled(world, TRADES)
    for known in (end(world), end(world, TRADES)):
        world.write(world.core.identities.became_durable(known, world.core.reg_ids))
    last_step = Looks()
    keeper = without_grace(world, reads, last_step)
    for _ in range(3):
        await keeper.look(0.0)
    assert last_step.count == 3
    assert world.core.identities.ended[TRADES].emptied
    assert len(caplog.records) == 1
    # It is looked at again all the while.
    reads.reg_ids.clear()
    for _ in range(2):
        await keeper.look(0.0)
    assert world.core.identities.ended[ORDERS].emptied
    assert rows(world, Table.INDEX) == 0


class Counted(Heardsay):
    """Counts how often the keeper asks what peers have said."""

    asked = 0

    def answering(self) -> dict[str, Heard]:
        self.asked += 1
        return self.inventories()


async def test_what_an_end_voids_stays_until_enough_peers_have_begun_that_end() -> None:
    world = World()
    filled(world)
    end(world)
    await keeping(world, answer("s2", knowledge())).look(0.0)
    assert rows(world, Table.RECEIVERS) == 1
    await keeping(world, answer("s2", ended_knowledge())).look(0.0)
    assert rows(world, Table.RECEIVERS) == 0


async def test_an_end_that_every_store_has_is_not_looked_at_again() -> None:
    world = World()
    filled(world)
    known = end_for_good(world)
    told = ended_knowledge(known.epoch, settled=True)
    heard = Counted(answer("s2", told), answer("s3", told))
    keeper = keeping_with(world, heard)
    counts = []
    for _ in range(4):
        before = heard.asked
        await keeper.look(0.0)
        counts.append(heard.asked - before)
    assert known.is_over
    assert counts == [2, 2, 1, 1], "one question of each look is of no single source"


async def test_the_end_of_a_receiver_waits_also_for_a_store_that_the_source_has_left() -> None:
    """Receivers deal with whom it named last: that one may be back with their old positions."""
    world = World()
    state = filled(world)
    named = [v1.StoreEntry(name=name) for name in ("s1", "s2", "s3", "s9")]
    information = v1.SourceInformation(epoch=1, version=2, stores=named)
    state.registration = replace(state.registration, information=information)
    identities = world.core.identities
    world.write(identities.end_receiver(state, 0x20, 1, world.core.reg_ids))
    knows = knowledge(ended_receivers=(store_v1.EndedReceiver(session_id=0x20, epoch=1),))
    heard = Heardsay()
    keeper = keeping_with(world, heard, lambda: 1.0)
    for store, is_settled in (("s2", False), ("s3", False), ("s9", True)):
        heard.hear(answer(store, knows), 2.0)
        await keeper.look(0.0)
        assert state.ended[0x20].settled == is_settled
