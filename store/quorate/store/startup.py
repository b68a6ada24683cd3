"""The first reads of a starting store: what it knew when it stopped, from its tables.

Neither the journal nor the index is read: a restart takes no longer with a full journal than with
an empty one. Nothing here decides what follows from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import RangeSet
from quorate.store.rules.ended_sources import EndedSource, restored
from quorate.store.rules.identities import Identities
from quorate.store.rules.identity_records import (
    ENDED_KEYS,
    GONE_KEYS,
    LIFE_KEYS,
    ended_of,
    life_of,
    unpack_end,
    unpack_end_record,
    unpack_life,
)
from quorate.store.rules.lifetimes import (
    Lives,
    Who,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.retention import (
    AGES_KEY,
    Ages,
    unpack_ages,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import (
    Reads,
    Row,
    Storage,
    Table,
)
from quorate.store.storage.large_batches import unfinished
from quorate.store.storage.maintenance_records import (
    LOSS_KEYS,
    REFUSAL_KEYS,
    SCRUB_KEY,
    UNREADABLE_KEYS,
    LossRecord,
    ScrubRecord,
    refusal_reg_id,
    unpack_loss,
    unpack_ranges,
    unpack_scrub,
    unreadable_reg_id,
)
from quorate.store.storage.records import (
    COMMIT_KEY,
    LIMBO_KEYS,
    PEER_KEYS,
    STORE_KEY,
    CommitRecord,
    Held,
    Malformed,
    StoreRecord,
    limbo_reg_id,
    position_of,
    receiver_of,
    unpack_commit,
    unpack_greeting,
    unpack_held,
    unpack_marker,
    unpack_receiver,
    unpack_registration,
    unpack_store,
)
from quorate.store.storage.state_records import (
    Progress,
    prefix_of,
    progress_of_all,
    unpack_progress,
)
from quorate.v1.store_pb2 import Greeting

_ROWS = 1024
_LAST_KEY = b"\xff" * 32


def last_commit(reads: Reads) -> CommitRecord:
    """Return the record of the last commit that survived. Raises Malformed."""
    value = reads.get(Table.META, [COMMIT_KEY])[0]
    return unpack_commit(value) if value is not None else CommitRecord()


def store_record(reads: Reads) -> StoreRecord | None:
    """Return the store's own record; None if it was never started. Raises Malformed."""
    value = reads.get(Table.META, [STORE_KEY])[0]
    return unpack_store(value) if value is not None else None


def peers(reads: Reads) -> dict[str, Greeting]:
    """Return the last greeting of each peer, by the peer's name. Raises Malformed."""
    greetings = (unpack_greeting(value) for _, value in _rows(reads, Table.META, *PEER_KEYS))
    return {greeting.store_name: greeting for greeting in greetings}


def losses(reads: Reads) -> list[LossRecord]:
    """Return the accepted losses in the order in which they were recorded. Raises Malformed."""
    return [unpack_loss(value) for _, value in _rows(reads, Table.META, *LOSS_KEYS)]


def scrub(reads: Reads) -> ScrubRecord:
    """Return how far the scrub has come. Raises Malformed."""
    value = reads.get(Table.META, [SCRUB_KEY])[0]
    return unpack_scrub(value) if value is not None else ScrubRecord()


def ages(reads: Reads) -> Ages:
    """Return when the journal reached which position. Raises Malformed."""
    value = reads.get(Table.META, [AGES_KEY])[0]
    return unpack_ages(value) if value is not None else Ages()


def state_progress(reads: Reads) -> list[tuple[bytes, Progress]]:
    """Return how far rows of the state of the world have come, with what their keys begin with.

    Raises Malformed.
    """
    rows = _rows(reads, Table.STATE, *progress_of_all())
    return [(prefix_of(key), unpack_progress(key, value)) for key, value in rows]


def remove_unfinished(storage: Storage) -> None:
    """Remove the fragments of large batches of which not all came before the store stopped.

    Raises StorageFailed.
    """
    for writes in unfinished(storage):
        storage.write(writes)


def sources(reads: Reads, reg_ids: RegIds) -> dict[SourceName, SourceState]:
    """Return every source with its receivers, and claim their RegIDs. Raises Malformed."""
    by_reg_id: dict[int, SourceState] = {}
    for key, value in _rows(reads, Table.REGISTRATIONS):
        reg_id = position_of(key)
        registration = unpack_registration(value)
        reg_ids.claim(reg_id, f"source {registration.name}")
        by_reg_id[reg_id] = SourceState(reg_id, registration, Held(RangeSet()))
    for key, value in _rows(reads, Table.HELD):
        by_reg_id[_known(by_reg_id, position_of(key))].held = unpack_held(value)
    for key, value in _rows(reads, Table.MARKERS):
        reg_id, marker = unpack_marker(key, value)
        by_reg_id[_known(by_reg_id, reg_id)].markers += (marker,)
    for key, value in _rows(reads, Table.META, *LIMBO_KEYS):
        by_reg_id[_known(by_reg_id, limbo_reg_id(key))].limbo = value.decode()
    for key, value in _rows(reads, Table.META, *UNREADABLE_KEYS):
        by_reg_id[_known(by_reg_id, unreadable_reg_id(key))].unreadable = unpack_ranges(value)
    for key, value in _rows(reads, Table.META, *REFUSAL_KEYS):
        by_reg_id[_known(by_reg_id, refusal_reg_id(key))].refused = unpack_ranges(value)
    for key, value in _rows(reads, Table.RECEIVERS):
        source_reg_id, session_id = receiver_of(key)
        state = by_reg_id[_known(by_reg_id, source_reg_id)]
        record = unpack_receiver(value)
        reg_ids.claim(record.reg_id, f"receiver {session_id:#x} of {state.name}")
        state.receivers[session_id] = record
    for key, value in _rows(reads, Table.META, *ENDED_KEYS):
        source_reg_id, session_id = ended_of(key)
        by_reg_id[_known(by_reg_id, source_reg_id)].ended[session_id] = unpack_end(value)
    return {state.name: state for state in by_reg_id.values()}


def identities(
    reads: Reads,
    reg_ids: RegIds,
    sources: dict[SourceName, SourceState],
    lives: Lives,
) -> Identities:
    """Return the lives of all identities, and the sources that have ended.

    The streams before their ends are taken out of `sources`. RegIDs under which something is still
    filed are claimed. Raises Malformed.
    """
    names = {state.reg_id: state.name for state in sources.values()}
    for key, value in _rows(reads, Table.META, *LIFE_KEYS):
        reg_id, receiver = life_of(key)
        if reg_id not in names:
            raise Malformed(f"RegID {reg_id} has a sign of life but no registration")
        lives.restore(Who(names[reg_id], receiver), unpack_life(value))
    return Identities(lives, ended_sources(reads, reg_ids, sources))


def ended_sources(
    reads: Reads, reg_ids: RegIds, sources: dict[SourceName, SourceState]
) -> list[EndedSource]:
    """Return the sources that have ended, and take the streams before their ends out of `sources`.

    Raises Malformed.
    """
    ended = []
    for _, value in _rows(reads, Table.META, *GONE_KEYS):
        record = unpack_end_record(value)
        name = record.registration.name
        former = sources.pop(name, None)
        if former is None and record.reg_id:
            reg_ids.claim(record.reg_id, f"source {name}, which has ended")
        ended.append(restored(record, former))
    return ended


def _known(by_reg_id: dict[int, SourceState], reg_id: int) -> int:
    if reg_id not in by_reg_id:
        raise Malformed(f"RegID {reg_id} has rows but no registration")
    return reg_id


def _rows(reads: Reads, table: Table, first: bytes = b"", last: bytes = _LAST_KEY) -> Iterator[Row]:
    while rows := reads.scan(table, first, last, _ROWS):
        yield from rows
        first = rows[-1][0] + b"\0"
