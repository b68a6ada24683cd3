"""A source that compresses: stores keep less, and everybody reads the same messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.source.fake_store import FakeStore
from tests.source.real_stores import RealStores, crash
from tests.source.support import contents, open_source

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.framing import read_header
from quorate.source import FilePublishStore, Outgoing, SourceOptions

ZSTD = SourceOptions(compression="zstd", registration_interval=0.3)
ROWS = [b'{"year": 2013, "carrier": "UA", "flight": %d}' % number for number in range(500)]


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[RealStores]:
    stores = RealStores(tmp_path / "stores")
    await stores.start("abc")
    yield stores
    await stores.stop_all()


async def test_batches_travel_compressed_and_small_ones_as_they_are(
    stores: list[FakeStore],
) -> None:
    async with await open_source(stores, options=ZSTD) as source:
        await source.publish(b"x")
        await source.send_many([Outgoing(row, b"key") for row in ROWS])
        await source.commit(ROWS, b"mark")
        await source.flush()
        assert source.marker == b"mark"
        assert [each.payload for each in contents(stores[0])] == [b"x", *ROWS, *ROWS]
        headers = [read_header(frame) for _, _, _, frame in stores[0].batches]
        assert [header.is_compressed for header in headers] == [False, True, True]
        assert headers[-1].marker == b"mark"


async def test_what_is_not_compressed_unless_asked(stores: list[FakeStore]) -> None:
    async with await open_source(stores) as source:
        await source.send_many(ROWS)
        await source.flush()
        assert not any(read_header(frame).is_compressed for _, _, _, frame in stores[0].batches)


@pytest.mark.expects_log("does not take|lost its quorum")
async def test_it_goes_on_after_a_crash_with_a_publish_store(
    real: RealStores, tmp_path: Path
) -> None:
    path = tmp_path / "publish"
    source = await real.open("abc", options=ZSTD, publish_store=FilePublishStore(path))
    await source.send_many(ROWS)
    await source.flush()
    await real.stop("abc")
    await crash(source)
    source._engine.publish_store.close()
    await real.start("abc")
    again = await real.open("abc", options=ZSTD, publish_store=FilePublishStore(path))
    assert again.next_sequence == len(ROWS)
    await again.send_many(ROWS)
    await again.flush()
    await crash(again)
    again._engine.publish_store.close()
    # A new publish store takes over what the stores have, which is compressed.
    other = FilePublishStore(tmp_path / "other")
    async with await real.open("abc", publish_store=other) as last:
        await last.publish(b"end")
        await real.until_held("abc", dict(enumerate([*ROWS, *ROWS, b"end"])))


def test_only_what_is_known_is_an_option() -> None:
    with pytest.raises(InvalidArgument, match="compression: 'lz77' is none of zstd"):
        SourceOptions(compression="lz77")
    assert SourceOptions(compression=None).compression is None
