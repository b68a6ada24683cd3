"""The data directory of a stopped store, read only, for audits of what stores have.

Nothing is changed there, not even the log of RocksDB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from quorate.protocol.errors import DataDirectoryCorrupt
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range
from quorate.store import startup
from quorate.store.rules.reg_ids import RegIds
from quorate.store.storage.data_directory import (
    lock_for_reading,
    read_identity,
)
from quorate.store.storage.reader import (
    SetAside,
    StoredBatch,
    read,
    read_aside,
)
from quorate.store.storage.records import (
    Malformed,
    ReceiverRecord,
)
from quorate.store.storage.rocksdb import RocksStorage
from quorate.v1 import messages_pb2 as v1

_BATCHES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class OfflineSource:
    """One source as a stopped store has it."""

    name: SourceName
    reg_id: int
    lineage: Lineage
    held: tuple[HeldRange, ...]
    holes: tuple[Range, ...]
    """The ranges of the stream that the store knows to lack."""
    stable_upto: int
    set_aside: int
    """The number of messages ever set aside because a later epoch did not keep them."""
    receivers: dict[int, ReceiverRecord]
    """The registered receivers, by session ID."""
    retained_from: int
    """The number below which messages were let go."""
    lost: tuple[Range, ...]
    """The ranges that operators accepted as lost."""
    limbo: str
    """Why the store cannot vouch for what it lacks of the source; empty: it can."""
    membership: Membership | None
    """The policies that came with the last begin; None: nothing was begun."""
    information: v1.SourceInformation | None
    """The newest information that the source gave."""


class OfflineStore:
    """The open data directory of a stopped store. The store cannot start until it is closed."""

    def __init__(self, path: Path | str) -> None:
        """Open the directory.

        Raises DataDirectoryInUse, DataDirectoryNewer, DataDirectoryCorrupt, InvalidArgument.
        """
        directory = Path(path)
        self._lock = lock_for_reading(directory)
        try:
            identity = read_identity(directory)
            if identity is None:
                raise DataDirectoryCorrupt(str(path), "no store has used it yet")
            self.store = identity.store
            """The store's name."""
            self._storage = RocksStorage(directory / "rocksdb", read_only=True)
            try:
                record = startup.store_record(self._storage)
                self.limbo = record.limbo if record is not None else ""
                """Why the store as a whole cannot vouch for what it lacks; empty: it can."""
                reg_ids = RegIds(identity.store)
                self._sources = startup.sources(self._storage, reg_ids)
                startup.ended_sources(self._storage, reg_ids, self._sources)
            except Malformed as error:
                raise DataDirectoryCorrupt(str(path), str(error)) from error
        except BaseException:
            os.close(self._lock)
            raise

    def sources(self) -> list[OfflineSource]:
        """Return every source that the store knows, in the order of the names."""
        return [
            OfflineSource(
                name,
                state.reg_id,
                state.lineage,
                state.held_by_epoch(),
                tuple(state.holes()),
                state.held.stable_upto,
                state.held.set_aside,
                dict(state.receivers),
                state.held.retained_from,
                tuple(state.lost()),
                state.limbo,
                state.registration.begun.membership,
                state.registration.information,
            )
            for name, state in sorted(self._sources.items())
        ]

    def batches(self, source: SourceName, first: int = 0) -> Iterator[StoredBatch]:
        """Return every held batch of a source's stream from a number on, in order, checked.

        A corrupt batch comes without its frame and with the problem.
        """
        state = self._sources[source]
        begins = first
        for held in state.held.ranges:
            first = max(begins, held.first)
            while first <= held.last:
                wanted = Range(first, held.last)
                for batch in read(self._storage, state.reg_id, source, wanted, _BATCHES_AT_ONCE):
                    yield batch
                    first = batch.part.last + 1

    def set_aside(self, source: SourceName) -> Iterator[SetAside]:
        """Return the batches that were set aside and are still there, by epoch and number, checked.

        A corrupt batch comes without its frame and with the problem.
        """
        return read_aside(self._storage, self._sources[source].reg_id, source)

    def close(self) -> None:
        """Close the directory, so that the store can start."""
        self._storage.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
