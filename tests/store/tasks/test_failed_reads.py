"""Whatever a store fails to read while it changes what it holds, it is left as it was.

In production a block whose checksum is wrong fails whoever reads it, of any table. Each change here
is made again and again, and each time the next one of its reads fails: half a change in memory
would be answered for, and be gone with the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.store.support import (
    FIRST_LINEAGE,
    INCARNATION,
    MEMBERSHIP,
    ORDERS,
    World,
    batch,
    information,
)

from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import StorageFailed
from quorate.protocol.limits import NOTHING
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.store.rules import retention
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.acceptor import Archived
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.source_state import (
    AppendStream,
    SourceState,
)
from quorate.store.storage.index import entries
from quorate.store.storage.interface import (
    Row,
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.records import position_key

SECOND_LINEAGE = Lineage((Term(1, 0), Term(2, 25)))


class FailingStorage(MemoryStorage):
    """Fails to read once."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.fails_at = NOTHING

    def _read(self) -> None:
        self.reads += 1
        if self.reads == self.fails_at:
            raise StorageFailed("the database", "block checksum mismatch")

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        self._read()
        return super().get(table, keys)

    def scan(self, table: Table, first: bytes, last: bytes, limit: int) -> list[Row]:
        self._read()
        return super().scan(table, first, last, limit)

    def at_or_before(self, table: Table, key: bytes) -> Row | None:
        self._read()
        return super().at_or_before(table, key)


class Setup:
    """A store with [0, 39] but for [14, 15], stable up to 19; [10, 13] and [16, 19] are rotten."""

    def __init__(self) -> None:
        self.storage = FailingStorage()
        self.world = world = World(self.storage)
        self.core = world.core
        self.stream: AppendStream = world.stream()
        for first, last in ((0, 9), (10, 13), (16, 19), (20, 29), (30, 39)):
            if first == 16:
                world.write(self.core.streams.keepalive(self.stream, 19))
                world.write(self.core.streams.skip(self.stream, 14, 15))
            world.append(self.stream, batch(first, last))
        self.state: SourceState = self.core.sources[ORDERS]
        for first in (10, 16):
            (rotten,) = entries(self.storage, self.state.reg_id, first, first)
            world.write([Write(Table.JOURNAL, position_key(rotten.position), b"rot")])
            world.write(self.state.found_unreadable(first, first + 3))
        self.losses = Losses("s1", self.core.sources, self.storage, [])

    def seen(self) -> object:
        """All that is answered from memory."""
        state = self.core.sources[ORDERS]
        return (
            state is self.state,
            state.registration,
            state.held_row(),
            list(state.unreadable),
            state.markers,
            state.limbo,
            list(state.losses),
            state.stream,
            self.stream.expected,
            self.core.streams.position,
            list(self.losses.records),
        )


def _append_again(setup: Setup) -> Any:
    """A source sends what the store can not read any more."""
    setup.core.streams.closed(setup.stream)
    setup.stream = setup.world.open()
    setup.stream.expected = 10
    return lambda: setup.core.streams.append_held(setup.stream, batch(10, 19))


def _fill(setup: Setup) -> Any:
    return lambda: setup.core.streams.fill(setup.state, batch(8, 21), Range(0, 39))


def _begin(setup: Setup) -> Any:
    setup.world.promise(2, b"b", take_over=True)
    return lambda: setup.core.begin(
        ORDERS, BeginRecord(SECOND_LINEAGE, MEMBERSHIP), b"b", INCARNATION
    )


def _accept_a_loss(setup: Setup) -> Any:
    return lambda: setup.losses.accept(ORDERS, 10, 19, "gone, says Ada", 7)


def _take_over_what_was_let_go(setup: Setup) -> Any:
    return lambda: retention.take_over(setup.storage, setup.state, 18)


def _let_go(setup: Setup) -> Any:
    setup.world.promise(2, b"b", take_over=True)
    setup.world.done(
        setup.core.begin(ORDERS, BeginRecord(SECOND_LINEAGE, MEMBERSHIP), b"b", INCARNATION)
    )
    going = list(entries(setup.storage, setup.state.reg_id, 0, 9))
    return lambda: retention.let_go(setup.storage, setup.state, going)


def _leave_limbo(setup: Setup) -> Any:
    setup.core.streams.closed(setup.stream)
    setup.world.write(setup.state.enter_limbo("wiped"))
    adoption = Adoption(1, b"a", BeginRecord(FIRST_LINEAGE), stable_upto=30, retained_from=18)
    return lambda: setup.core.leave_limbo(setup.state, adoption)


def _take_up_an_archive(setup: Setup) -> Any:
    """Its source had gone on elsewhere from 25 on, after others had let go what is below 18."""
    setup.world.write(retention.take_over(setup.storage, setup.state, 18))
    archived = Archived(BeginRecord(SECOND_LINEAGE, MEMBERSHIP), 2, information(), 0, 18, ())
    return lambda: setup.core.take_up(ORDERS, archived)


@pytest.mark.parametrize(
    "prepare",
    [
        _take_up_an_archive,
        _append_again,
        _fill,
        _begin,
        _accept_a_loss,
        _take_over_what_was_let_go,
        _let_go,
        _leave_limbo,
    ],
)
def test_a_read_that_fails_leaves_a_store_as_it_was(prepare: Callable[[Setup], Any]) -> None:
    reads = failed = 0
    while True:
        setup = Setup()
        change = prepare(setup)
        before = setup.seen()
        setup.storage.reads, setup.storage.fails_at = 0, reads + 1
        try:
            change()
        except StorageFailed:
            assert setup.seen() == before, f"read {reads + 1} failed"
            failed += 1
        if setup.storage.reads <= reads:
            break  # it has not so many
        reads += 1
    assert setup.seen() != before, "it changes something"
    assert failed, "it reads something that it can not do without"
