"""The call Backup: a copy of the directory of a store that runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.store.support import ORDERS, Client, running

from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.store.offline import OfflineStore
from quorate.transport.channels import open_channel
from quorate.v1.store_pb2 import BackupRequest, BackupResponse
from quorate.v1.store_pb2_grpc import StoreStub


@asynccontextmanager
async def backup(address: str) -> AsyncIterator[AsyncIterator[BackupResponse]]:
    async with open_channel(address) as channel:
        call = StoreStub(channel).Backup(BackupRequest(protocol_version=PROTOCOL_VERSION))
        yield call
        call.cancel()


async def copied(address: str, to: Path) -> tuple[int, int]:
    """Write the backup of a store there; return the bytes that it said, and those that came."""
    said = came = files = 0
    async with backup(address) as answers:
        async for answer in answers:
            match answer.WhichOneof("kind"):
                case "opened":
                    assert answer.opened.store_name == "s1"
                    said = answer.opened.bytes
                case "file":
                    path = to / answer.file.path
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()
                    files += 1
                case "data":
                    with path.open("ab") as file:
                        came += file.write(answer.data)
                case _:
                    assert answer.done.files == files
    return said, came


async def test_a_running_store_is_copied_and_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.append(0, 9)
        said, came = await copied(node.address, tmp_path / "copy")
        assert said == came > 0
        await stream.append(10, 19)
        assert not (tmp_path / "a" / "checkpoint").exists()
    with OfflineStore(tmp_path / "copy") as store:
        (source,) = store.sources()
        assert source.name == ORDERS
        assert [(each.first, each.last) for each in source.held] == [(0, 9)]
        assert [each.problem for each in store.batches(ORDERS)] == [""]


async def test_a_caller_that_leaves_leaves_no_copy_behind(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as node, Client(node.address) as client:
        await (await client.stream()).append(0, 9)
        async with backup(node.address) as answers:
            async for answer in answers:
                assert answer.HasField("opened")
                break
        # One at a time: when the next one begins the one before is gone.
        said, came = await copied(node.address, tmp_path / "copy")
        assert said == came
        assert not (tmp_path / "a" / "checkpoint").exists()


async def test_a_store_removes_what_a_backup_left_when_it_was_killed(tmp_path: Path) -> None:
    async with running(tmp_path / "a"):
        pass
    left = tmp_path / "a" / "checkpoint"
    left.mkdir()
    (left / "FORMAT").touch()
    async with running(tmp_path / "a"):
        assert not left.exists()
