"""What stands on the disk of a simulated store, for the checker: what a crash would leave of it.

Reads rows, and decides nothing: what must hold of them is in tests.simulation.checker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from tests.simulation.rules import Setup

from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range
from quorate.store.rules.acceptor import StoreCore
from quorate.store.rules.identity_records import (
    gone_key,
    unpack_end_record,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import Table
from quorate.store.storage.memory import MemoryRows
from quorate.store.storage.reader import StoredBatch, read
from quorate.store.storage.records import (
    Registration,
    receiver_key,
    reg_id_key,
    unpack_held,
    unpack_receiver,
    unpack_registration,
)


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


def batches(
    rows: MemoryRows, reg_id: int, source: SourceName, first: int, last: int
) -> Iterator[StoredBatch]:
    """Yield the batches with numbers from first to last that a store holds in these rows."""
    (row,) = rows.get(Table.HELD, [reg_id_key(reg_id)])
    if row is None:
        return
    for held in unpack_held(row).ranges:
        at, upto = max(held.first, first), min(held.last, last)
        while at <= upto:
            for batch in read(rows, reg_id, source, Range(at, upto), 64):
                at = batch.part.last + 1
                yield batch


def begun_registration(store: StoreOf, source: SourceName, begins_in: int) -> bytes:
    """The key under which a store takes part in a stream of the source; empty: it does not.

    begins_in: the epoch in which that stream began.
    """
    end = store.disk.synced.get(Table.META, [gone_key(source)])[0]
    if end is not None and unpack_end_record(end).registration.begun.ended:
        return b""
    for key, value in store.disk.synced.scan(Table.REGISTRATIONS, b"", b"\xff" * 8, 100):
        known = unpack_registration(value)
        if known.name == source and known.begun.epoch >= max(1, begins_in):
            return key
    return b""


def begun_record(store: StoreOf, source: SourceName) -> Registration | None:
    """What a store remembers of the newest epoch that it has begun."""
    rows = store.disk.synced.scan(Table.REGISTRATIONS, b"", b"\xff" * 8, 100)
    records = [unpack_registration(value) for _, value in rows]
    begun = [each for each in records if each.name == source and each.begun.epoch]
    return max(begun, key=lambda each: each.begun.epoch, default=None)


def alone_in_force(stores: Collection[StoreOf], source: SourceName) -> Setup | None:
    """The rules that the newest begin goes to, once a stable set by them remembers no others."""
    records = {store.label: begun_record(store, source) for store in stores}
    newest = max((each.begun.epoch for each in records.values() if each is not None), default=0)
    confirmed: dict[Setup, set[str]] = {}
    not_yet: set[str] = set()
    for store in stores:
        record = records[store.label]
        is_newest = record is not None and record.begun.epoch == newest
        policies = record.begun.policies if record is not None and is_newest else ()
        if len(policies) == 1:
            confirmed.setdefault(Setup.of(policies[0]), set()).add(store.name)
        else:
            not_yet.add(store.name)
    found = [setup for setup, names in confirmed.items() if setup.stable(names - not_yet)]
    return found[0] if len(found) == 1 else None


def lags(name: str, state: SourceState | None, upto: int) -> str:
    """What a store lacks of what is stable up to there; empty: nothing. state: of the source."""
    if state is None:
        return f"{name} lacks all of {upto}"
    if not state.takes_data:
        is_told = state.held.stable_upto >= upto
        return "" if is_told else f"{name} was not told that {upto} is stable"
    return f"{name} lacks some of {upto}: {state.held}" if state.has_upto(0) < upto else ""


def can_be_read(store: StoreOf, state: SourceState) -> bool:
    """Whether all that the store holds of a source is on its disk, and not destroyed."""
    rows = store.disk.synced
    row = rows.get(Table.HELD, [reg_id_key(state.reg_id)])[0]
    if row is None and state.held.ranges:
        return False  # it is being given back, and is not on the disk yet
    held = batches(rows, state.reg_id, state.name, 0, SEQUENCE_MAX)
    return not any(batch.problem for batch in held)


def holders(
    found: Iterable[tuple[str, dict[int, bytes]]], sequence: int, content: bytes
) -> set[str]:
    """The stores that have this under that number. found: stores, with all that each has."""
    return {store for store, contents in found if contents.get(sequence) == content}


def forgetful(stores: Iterable[StoreOf], source: SourceName) -> set[str]:
    """Return the stores that do not even know that the source has ended."""
    return {store.name for store in stores if store.core.known(source) is None}


def mistaken(
    stores: Collection[StoreOf], source: SourceName, ran_twice: Collection[str]
) -> set[str]:
    """Those that will be in limbo once they hear what a peer remembers of them, or of a copy; and
    of those that ran twice who is: what it heard may be of a copy that ended before it vouched."""
    known = [(store.name, store.core.sources.get(source)) for store in stores]
    in_limbo = {name for name, state in known if state is not None and state.limbo}
    return in_limbo.intersection(ran_twice) | {
        store.name
        for store in stores
        for other in stores
        if (remembered := other.core.standing.peers.get(store.name)) is not None
        and store.core.standing.check_remembered(remembered)
    }


def registered_at(
    stores: Iterable[StoreOf], source: SourceName, session_id: int, epoch: int
) -> set[str]:
    """The stores on whose disks the receiver is registered in this epoch."""
    return {store.label for store in stores if _receiver_epoch(store, source, session_id) == epoch}


def _receiver_epoch(store: StoreOf, source: SourceName, session_id: int) -> int:
    """In which epoch the store has a receiver registered; 0: in none."""
    state, rows = store.core.sources.get(source), store.disk.synced
    if state is None:
        return 0
    known = rows.get(Table.RECEIVERS, [receiver_key(state.reg_id, session_id)])[0]
    return unpack_receiver(known).epoch if known is not None else 0
