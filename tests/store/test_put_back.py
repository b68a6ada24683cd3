"""A directory that is made from a backup: what it has, and whether its store vouches for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.support import ORDERS, Client, running

from quorate.protocol.errors import DataDirectoryCorrupt, DataDirectoryUsed, Fenced
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import begun_epoch, source_to_wire
from quorate.store import startup
from quorate.store.offline import OfflineStore
from quorate.store.put_back import PUT_BACK_REASON, left_out, put_back
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.records import StoreRecord
from quorate.store.storage.rocksdb import RocksStorage
from quorate.v1.store_pb2 import RegisterReceiverRequest


@pytest.fixture
async def part(tmp_path: Path) -> Path:
    """The directory of a stopped store that has 10 messages and a receiver."""
    path = tmp_path / "part"
    async with running(path) as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        await client.call(
            "RegisterReceiver",
            RegisterReceiverRequest(
                source=source_to_wire(ORDERS),
                session_id=0x20,
                epoch=1,
                instance=b"i",
                protocol_version=PROTOCOL_VERSION,
            ),
        )
    return path


def record(path: Path) -> StoreRecord:
    storage = RocksStorage(path / "rocksdb", read_only=True)
    found = startup.store_record(storage)
    storage.close()
    assert found is not None
    return found


async def test_a_store_of_a_lost_group_vouches_for_what_it_has(part: Path, tmp_path: Path) -> None:
    before = record(part)
    incarnation = put_back(part, tmp_path / "a", "s1", anew_after=5.0)
    after = record(tmp_path / "a")
    assert after.incarnation.hex() == incarnation.replace("-", "")
    assert after.incarnation != before.incarnation
    # A peer that lives on knows the former incarnation, and so contradicts.
    assert (after.limbo, after.former, after.starts, after.blank) == ("", (), 0, False)
    with OfflineStore(tmp_path / "a") as store:
        (source,) = store.sources()
        assert source.limbo == store.limbo == ""
        assert [(each.first, each.last) for each in source.held] == [(0, 9)]
        assert list(source.receivers) == [0x20]
    async with running(tmp_path / "a") as node, Client(node.address) as client:
        assert not node.in_limbo
        assert len((await client.fetch()).messages) == 10
        # Sources may have used higher epochs after the backup.
        with pytest.raises(Fenced):
            await client.promise(left_out(5.0) + 1)
        answer = await client.promise(left_out(5.0) + 2)
        assert (begun_epoch(answer.begun), answer.incarnation) == (1, after.incarnation)


async def test_a_single_store_comes_back_in_limbo(part: Path, tmp_path: Path) -> None:
    before = record(part)
    put_back(part, tmp_path / "a", "s1")
    after = record(tmp_path / "a")
    assert after.limbo == PUT_BACK_REASON
    assert after.former == (before.incarnation,)
    with OfflineStore(tmp_path / "a") as store:
        (source,) = store.sources()
        assert source.limbo == PUT_BACK_REASON
        assert source.name == ORDERS


async def test_a_part_in_limbo_vouches_for_nothing_more(part: Path, tmp_path: Path) -> None:
    put_back(part, tmp_path / "a", "s1")
    put_back(tmp_path / "a", tmp_path / "b", "s1", anew_after=5.0)
    assert record(tmp_path / "b").limbo == PUT_BACK_REASON
    with OfflineStore(tmp_path / "b") as store:
        assert store.sources()[0].limbo == PUT_BACK_REASON


async def test_only_a_blank_directory_is_used(part: Path, tmp_path: Path) -> None:
    (tmp_path / "a" / "lost+found").mkdir(parents=True)
    put_back(part, tmp_path / "a", "s1", anew_after=5.0)
    with pytest.raises(DataDirectoryUsed):
        put_back(part, tmp_path / "a", "s1", anew_after=5.0)


async def test_a_restore_that_was_cut_off_starts_no_store(part: Path, tmp_path: Path) -> None:
    put_back(part, tmp_path / "a", "s1", anew_after=5.0)
    (tmp_path / "a" / "FORMAT").unlink()
    with pytest.raises(DataDirectoryCorrupt, match="no FORMAT"):
        DataDirectory(tmp_path / "a", "s1")


async def test_a_part_that_is_damaged_is_refused(part: Path, tmp_path: Path) -> None:
    (part / "rocksdb" / "CURRENT").write_text("nonsense\n")
    with pytest.raises(DataDirectoryCorrupt):
        put_back(part, tmp_path / "a", "s1", anew_after=5.0)
    assert not (tmp_path / "a" / "FORMAT").exists()


def test_a_second_restore_leaves_out_the_epochs_of_the_first() -> None:
    assert left_out(0.0) == left_out(-3600.0) >= 1_000_000
    assert left_out(3600.0) - left_out(60.0) == 3540
