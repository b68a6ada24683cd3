"""Stories of disks that are full, or fail: real file systems, small or broken."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.world import Store, World
from tests.small_disks import command, mount, mount_memory

pytestmark = pytest.mark.processes

_MESSAGE_BYTES = 10_000


@pytest.fixture
def mounts() -> Iterator[contextlib.ExitStack]:
    """Undone last of all, when nothing runs any more."""
    with contextlib.ExitStack() as mounts:
        yield mounts


def _grow(memory: Path) -> None:
    command("mount", "-o", "remount,size=400m", memory)


def _mend(image: Path) -> None:
    mended = subprocess.run(("fsck.ext4", "-f", "-y", image), capture_output=True, check=False)
    assert mended.returncode in (0, 1), mended


async def _until_its_disk_fails(world: World, store: Store) -> None:
    """Three stores, and a source that sends until this one stops; it goes on with the others."""
    source = await world.source(options={"retention_bytes_max": 1 << 20})
    await source.start()
    stable = await world.receiver("stable", session=21, delivery="stable")
    await stable.start()
    last = 0
    while store.running:
        last = await source.send_stable(100, _MESSAGE_BYTES)
        assert last < 20_000, "its disk never fails"
    assert await store.ended() == 1
    assert "stops: " in store.log()
    last = await source.send_stable(100, _MESSAGE_BYTES)
    await stable.until_reached(last)


async def _founded(world: World, directory: Path) -> Store:
    """s3 takes everything until nothing is left."""
    all_of_it = directory / "full.toml"
    all_of_it.write_text("disk_free_min_bytes = 0\n")
    stores = await world.add_stores("s1", "s2", "s3")
    for store in stores:
        await store.start("--config", str(all_of_it), until_ready=False)
    await world.look_at_stores()
    await world.until_founded()
    return stores[2]


@pytest.mark.long
async def test_a_full_disk_stops_one_store_and_nobody_else(
    mounts: contextlib.ExitStack, world: World, tmp_path: Path
) -> None:
    mount_memory(mounts, tmp_path / "s3", 48)
    s3 = await _founded(world, tmp_path)
    await _until_its_disk_fails(world, s3)
    # There is room again.
    _grow(s3.data)
    await s3.start()
    await world.end(world.sources[0])


@pytest.mark.long
async def test_a_disk_with_io_errors_stops_one_store_and_nobody_else(
    mounts: contextlib.ExitStack, world: World, tmp_path: Path
) -> None:
    """The file behind the disk is in memory, and there is less of that than the disk has."""
    behind, disk = tmp_path / "behind", tmp_path / "s3"
    mount_memory(mounts, behind, 32)
    image = behind / "image"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    # Few inodes and a small journal, so that the disk is for data.
    small = ("-N", "256", "-m", "0", "-J", "size=4")
    command("mkfs.ext4", "-q", "-F", *small, image)
    mount(mounts, disk, "-o", "loop", image)
    s3 = await _founded(world, tmp_path)
    await _until_its_disk_fails(world, s3)
    assert "Input/output error" in s3.log() or "Read-only file system" in s3.log()
    # What can be read of it goes to another disk. The old one may be mounted still by processes
    # with mounts of their own, as those in network namespaces have.
    command("umount", disk)
    _grow(behind)
    another = behind / "another"
    command("cp", "--sparse=always", image, another)
    _mend(another)
    command("mount", "-o", "loop", another, disk)
    await s3.start()
    await world.end(world.sources[0])
