"""The making of a store's data directory without starting the store: `quorate store init`."""

from __future__ import annotations

import uuid

from quorate.protocol.errors import DataDirectoryCorrupt, DataDirectoryUsed
from quorate.store import startup
from quorate.store.configuration import StoreConfiguration
from quorate.store.rules.store_identity import (
    NEW_REASON,
    Standing,
)
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.records import (
    Malformed,
    StoreRecord,
)
from quorate.store.storage.rocksdb import RocksStorage


def initialize(configuration: StoreConfiguration, new: bool) -> str:
    """Make the directory, and return the store's incarnation.

    new: the store founds a group. A directory with which no store was ever started may be made
    again. Raises DataDirectoryUsed if a store was started with it, and what opening it raises.
    """
    directory = DataDirectory(configuration.data_directory, configuration.name)
    try:
        storage = RocksStorage(directory.database, create=directory.is_new)
        try:
            made = startup.store_record(storage)
            # No other store has heard of one that never started: its record may still change.
            if made is not None and not (made.blank and made.starts == 0):
                raise DataDirectoryUsed(str(directory.path), configuration.name)
            incarnation = uuid.UUID(bytes=made.incarnation) if made is not None else uuid.uuid4()
            record = StoreRecord(incarnation.bytes, limbo="" if new else NEW_REASON, blank=not new)
            storage.write((Standing(configuration.name, record, {}).row(),))
            storage.sync()
            return str(incarnation)
        except Malformed as error:
            raise DataDirectoryCorrupt(str(directory.path), str(error)) from error
        finally:
            storage.close()
    finally:
        directory.close()
