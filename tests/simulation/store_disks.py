"""What stands on the disk of a simulated store, for the checker: what a crash would leave of it.

Reads rows, and decides nothing: what must hold of them is in tests.simulation.checker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from quorate.protocol.identity import SourceName
from quorate.store.core import StoreCore
from quorate.store.life_records import gone_key, unpack_tombstone
from quorate.store.records import (
    receiver_key,
    unpack_held,
    unpack_receiver,
    unpack_registration,
)
from quorate.store.storage import MemoryRows, Table


class DiskOf(Protocol):
    @property
    def synced(self) -> MemoryRows: ...


class StoreOf(Protocol):
    """What the checker looks at of a store."""

    name: str
    label: str
    core: StoreCore

    @property
    def alive(self) -> bool: ...

    @property
    def disk(self) -> DiskOf: ...


def begun_registration(store: StoreOf, source: SourceName, begins_in: int) -> bytes:
    """The key under which a store takes part in a stream of the source; empty: it does not.

    begins_in: the epoch in which that stream began.
    """
    for key, value in store.disk.synced.scan(Table.REGISTRATIONS, b"", b"\xff" * 8, 100):
        known = unpack_registration(value)
        if known.name == source and known.begun_epoch >= max(1, begins_in):
            return key
    return b""


def forgetful(stores: Iterable[StoreOf], source: SourceName) -> set[str]:
    """Those that do not even know that they have deleted the source."""
    return {
        store.name
        for store in stores
        if source not in store.core.sources and source not in store.core.identities.tombstones
    }


def has_messages(store: StoreOf, source: SourceName, begins_in: int) -> bool:
    """Whether the store has messages of that stream."""
    key = begun_registration(store, source, begins_in)
    held = store.disk.synced.get(Table.HELD, [key])[0] if key else None
    return held is not None and bool(unpack_held(held).ranges)


def receiver_epoch(store: StoreOf, source: SourceName, session_id: int) -> int:
    """In which epoch the store has a receiver registered, or had when it deleted the source, as it
    would give that back; 0: in none."""
    state, rows = store.core.sources.get(source), store.disk.synced
    if state is None:
        deleted = rows.get(Table.META, [gone_key(source)])[0]
        row = unpack_tombstone(deleted).receivers.get(session_id) if deleted is not None else None
        return row.epoch if row is not None else 0
    known = rows.get(Table.RECEIVERS, [receiver_key(state.reg_id, session_id)])[0]
    return unpack_receiver(known).epoch if known is not None else 0
