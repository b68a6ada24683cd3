"""The disks of simulated worlds fail as disks do."""

from __future__ import annotations

from random import Random

import pytest
from tests.world.disk import Disk

from quorate.protocol.errors import StorageFailed
from quorate.store.storage.interface import Row, Table, Write


def commit(disk: Disk, number: int) -> None:
    """Write two rows at once."""
    disk.write([Write(Table.JOURNAL, b"%d%s" % (number, part), b"row") for part in (b"a", b"b")])


def rows(disk: Disk) -> list[bytes]:
    """Return the keys of the rows that are there."""
    return [key for key, _ in all_rows(disk)]


def all_rows(disk: Disk) -> list[Row]:
    """Return all rows."""
    return disk.scan(Table.JOURNAL, b"", b"\xff", 100)


def test_a_crash_keeps_what_was_synced_and_some_of_the_last_commits_whole() -> None:
    kept = set()
    for seed in range(50):
        disk = Disk()
        commit(disk, 0)
        disk.sync()
        for number in (1, 2):
            commit(disk, number)
        kept.add(tuple(rows(disk.crashed(Random(seed)))))
    one = (b"0a", b"0b")
    two = (*one, b"1a", b"1b")
    assert kept == {one, two, (*two, b"2a", b"2b")}


def test_what_a_crash_kept_outlives_the_next_one() -> None:
    for seed in range(20):
        disk = Disk()
        commit(disk, 0)
        after = disk.crashed(Random(seed))
        assert rows(after.crashed(Random(seed + 1))) == rows(after)


def test_after_a_failed_sync_no_sync_succeeds() -> None:
    disk = Disk()
    commit(disk, 0)
    disk.fails_next_sync = True
    with pytest.raises(StorageFailed):
        disk.sync()
    disk.fails_next_sync = False
    with pytest.raises(StorageFailed):
        disk.sync()


def test_a_flip_turns_one_bit_of_a_synced_row_and_a_crash_keeps_it() -> None:
    disk = Disk()
    assert not disk.flip(Random(0))
    commit(disk, 0)
    disk.sync()
    assert disk.flip(Random(0))
    turned = [value for _, value in all_rows(disk) if value != b"row"]
    assert len(turned) == 1
    bits = int.from_bytes(turned[0], "big") ^ int.from_bytes(b"row", "big")
    assert bits.bit_count() == 1
    assert all_rows(disk.crashed(Random(0))) == all_rows(disk)
