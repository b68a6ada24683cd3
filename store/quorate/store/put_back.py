"""The making of a data directory from a backup: `quorate store restore`.

The directory has what the store had, under a new incarnation. So no promise of the former one binds
it. A source that lives on has to register again, and so has a receiver.

Sources went on after the backup, in epochs that it does not know. No such epoch may be given to
other messages: clients that live on would take them for those that they have. So a store that
founds its group anew leaves epochs out.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from quorate.disk.files import sync_directory, write_synced
from quorate.protocol.errors import DataDirectoryCorrupt, DataDirectoryUsed, StorageFailed
from quorate.store import startup
from quorate.store.rules.lifetimes import Lifetimes, Lives, Observed
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.store_identity import Standing
from quorate.store.storage import checkpoint
from quorate.store.storage.data_directory import FORMAT_FILE
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.records import Malformed, Registration, StoreRecord, peer_key
from quorate.store.storage.rocksdb import RocksStorage

PUT_BACK_REASON = (
    "its data directory was put back from a backup, and it asks its peers for the rest"
)


_REGISTRATIONS = 2**20
"""The epochs of each source that are left out, apart from one for each second."""


def left_out(seconds: float) -> int:
    """Return how many epochs of each source to leave out so long after a backup.

    A source may register once a second in the mean. A later restore of the same backup leaves out
    the epochs of the earlier one, too.
    """
    return _REGISTRATIONS + max(0, int(seconds))


def put_back(part: Path, directory: Path, store: str, anew_after: float | None = None) -> str:
    """Make the data directory of a store from its part of a backup. Return the new incarnation.

    anew_after: seconds since the backup, if all disks of the group are lost. Then the store knows
    no less than anyone, and vouches for that. None: it comes back in limbo, and its peers tell it
    what it lacks.

    Raises DataDirectoryUsed unless the directory is blank, StorageFailed, DataDirectoryCorrupt.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if {each.name for each in directory.iterdir()} - {"lost+found"}:
            raise DataDirectoryUsed(str(directory), store)
        *files, last = checkpoint.files(part)
        for file in files:
            _copy(part / file.path, directory / file.path)
        incarnation = _renew(directory, store, anew_after)
        # Without this file no store starts there. So a restore that was cut off has no effect.
        write_synced(directory / FORMAT_FILE, (part / last.path).read_bytes())
        sync_directory(directory)
        sync_directory(directory.parent)
    except OSError as error:
        raise StorageFailed(str(directory), str(error)) from error
    return str(uuid.UUID(bytes=incarnation))


def _copy(path: Path, to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    with path.open("rb") as source, to.open("wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    sync_directory(to.parent)
    sync_directory(to.parent.parent)


def _renew(directory: Path, store: str, anew_after: float | None) -> bytes:
    """Give a directory that was put back its own incarnation, and return that."""
    storage = RocksStorage(directory / "rocksdb")
    try:
        record = startup.store_record(storage)
        if record is None:
            raise Malformed("it has no record of the store")
        standing = Standing(store, record, startup.peers(storage))
        sources = (
            _doubted(storage, store)
            if anew_after is None
            else _anew(storage, store, left_out(anew_after))
        )
        storage.write([*_identity(standing, vouches=anew_after is not None), *sources])
        storage.sync()
        return standing.record.incarnation
    except Malformed as error:
        raise DataDirectoryCorrupt(str(directory), str(error)) from error
    finally:
        storage.close()


def _identity(standing: Standing, *, vouches: bool) -> Iterator[Write]:
    """Yield the rows of the store as a whole."""
    incarnation = uuid.uuid4().bytes
    if not vouches:
        yield from standing.enter_limbo(PUT_BACK_REASON, incarnation)
        return
    # It names no former incarnation. So a peer that lives on contradicts it, and it is in limbo.
    standing.record = StoreRecord(incarnation, limbo=standing.record.limbo)
    yield standing.row()
    for peer in standing.peers:
        yield Write(Table.META, peer_key(peer), None)


def _doubted(storage: RocksStorage, store: str) -> Iterator[Write]:
    """Yield the rows of the sources of a store that is in limbo."""
    reg_ids = RegIds(store)
    sources = startup.sources(storage, reg_ids)
    for state in sources.values():
        yield from state.enter_limbo(PUT_BACK_REASON)
    lives = Lives(Observed(0.0, 0.0), lambda _: Lifetimes())
    yield from startup.identities(storage, reg_ids, sources, lives).enter_limbo(PUT_BACK_REASON)


def _anew(storage: RocksStorage, store: str, epochs: int) -> Iterator[Write]:
    """Yield the rows of the sources of a store that founds its group anew.

    epochs: the number of epochs that no source gets.
    """
    reg_ids = RegIds(store)
    sources = startup.sources(storage, reg_ids)
    ended = startup.ended_sources(storage, reg_ids, sources)
    for state in sources.values():
        state.registration = _skipping(state.registration, epochs)
        yield state.registration_row()
    for known in ended:
        known.state.registration = _skipping(known.state.registration, epochs)
        yield known.row()


def _skipping(record: Registration, epochs: int) -> Registration:
    """Return a record with a promise to nobody that leaves out so many epochs."""
    return replace(
        record,
        promised_epoch=record.promised_epoch + epochs,
        promised_to=b"",
        by_take_over=False,
        taken_over=True,
    )
