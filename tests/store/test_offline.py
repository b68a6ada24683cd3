from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.support import ORDERS, Client, batch, running

from quorate.protocol.errors import DataDirectoryInUse, InvalidArgument
from quorate.protocol.framing import read_header
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import HeldRange, Range
from quorate.store.offline import OfflineStore
from quorate.store.storage.data_directory import DataDirectory
from quorate.store.storage.reader import (
    SetAside,
    StoredBatch,
)


@pytest.mark.expects_log("messages aside")
async def test_a_stopped_store_is_read_as_it_is(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        for first in range(0, 100, 10):
            await stream.append(first, first + 9)
        await client.promise(2)
        lineage = Lineage((Term(1, 0), Term(2, 95)))
        await client.begin(lineage)
        stream = await client.open(2, retained_from=95)
        await stream.append(95, 99, epoch=2)
        with pytest.raises(DataDirectoryInUse):
            OfflineStore(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "rocksdb").glob("*.sst")}
    with OfflineStore(tmp_path) as store:
        assert store.store == "s1"
        (source,) = store.sources()
        assert (source.name, source.lineage, source.set_aside) == (ORDERS, lineage, 5)
        assert source.held == (HeldRange(0, 94, 1), HeldRange(95, 99, 2))
        found = list(store.batches(ORDERS))
        assert [item.problem for item in found if item.problem] == []
        assert [(item.part.first, item.part.last) for item in found[-2:]] == [(90, 94), (95, 99)]
        assert found[0].frame == batch(0, 9)
        assert read_header(found[-1].frame).epoch == 2
        # Of the batch that was sent last in epoch 1 the end did not fit any more.
        aside = SetAside(1, StoredBatch(Range(95, 99), batch(90, 99)))
        assert list(store.set_aside(ORDERS)) == [aside]
        with pytest.raises(DataDirectoryInUse):
            DataDirectory(tmp_path, "s1")
    assert {path: path.read_bytes() for path in (tmp_path / "rocksdb").glob("*.sst")} == before
    async with running(tmp_path):
        pass


async def test_holes_are_known(tmp_path: Path) -> None:
    async with running(tmp_path) as node, Client(node.address) as client:
        stream = await client.stream()
        await stream.append(0, 9)
        await stream.close()
        stream = await client.open(retained_from=20, stable_upto=19)
        await stream.append(20, 29)
    with OfflineStore(tmp_path) as store:
        (source,) = store.sources()
        assert source.holes == (Range(10, 19),)
        assert [item.part for item in store.batches(ORDERS)] == [Range(0, 9), Range(20, 29)]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidArgument, match="not a store's data directory: it has no lock"):
            OfflineStore(path)
    assert list(tmp_path.iterdir()) == []
