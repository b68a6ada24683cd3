from pathlib import Path

import pytest
from tests import seams

from quorate.protocol.errors import CorruptBatch, DataDirectoryInUse, StorageFailed
from quorate.protocol.framing import encode_batch
from quorate.protocol.identity import SourceName
from quorate.source import FilePublishStore

NAME = SourceName("orders", 0x10)


def batch(first: int, *payloads: bytes) -> bytes:
    return encode_batch(NAME, 1, first, payloads, 0)


def filled(path: Path, batches: int, sync: bool = False) -> FilePublishStore:
    store = FilePublishStore(path, sync)
    store.open()
    store.claim(NAME)
    for number in range(batches):
        store.append(batch(number * 2, b"a", b"b" * number), number * 2 + 1)
    return store


@pytest.mark.parametrize("sync", [False, True])
def test_what_is_not_stable_is_remembered(tmp_path: Path, sync: bool) -> None:
    store = filled(tmp_path / "new", 5, sync)
    store.settle(4)
    store.close()
    remembered = FilePublishStore(tmp_path / "new", sync).open()
    assert remembered.source == NAME
    assert remembered.stable_upto == 4
    assert remembered.batches == [
        batch(4, b"a", b"bb"),
        batch(6, b"a", b"bbb"),
        batch(8, b"a", b"bbbb"),
    ]


def test_it_remembers_who_it_belongs_to_even_when_all_is_stable(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.settle(1)
    store.close()
    remembered = FilePublishStore(tmp_path).open()
    assert (remembered.source, remembered.stable_upto, remembered.batches) == (NAME, 1, [])


def test_segments_that_are_all_stable_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.PUBLISH_STORE_SEGMENT_BYTES.replace(monkeypatch, 1)
    store = filled(tmp_path, 10)
    assert len(list(tmp_path.glob("*.segment"))) == 10
    store.settle(13)
    assert len(list(tmp_path.glob("*.segment"))) == 3
    store.close()
    again = FilePublishStore(tmp_path)
    assert len(again.open().batches) == 3
    again.append(batch(20, b"c"), 20)
    again.close()
    assert len(FilePublishStore(tmp_path).open().batches) == 4


@pytest.mark.parametrize("cut", [1, 50, 64])
@pytest.mark.expects_log("torn bytes")
def test_a_torn_tail_is_cut(tmp_path: Path, cut: int) -> None:
    filled(tmp_path, 3).close()
    segment = next(tmp_path.glob("*.segment"))
    raw = segment.read_bytes()
    segment.write_bytes(raw[:-cut])
    store = FilePublishStore(tmp_path)
    assert len(store.open().batches) == 2
    store.append(batch(4, b"new"), 4)
    store.close()
    assert len(FilePublishStore(tmp_path).open().batches) == 3


def test_damage_in_front_of_good_batches_is_not_a_torn_tail(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    segment = next(tmp_path.glob("*.segment"))
    raw = bytearray(segment.read_bytes())
    raw[90] ^= 1
    segment.write_bytes(raw)
    with pytest.raises(CorruptBatch, match="valid ones follow"):
        FilePublishStore(tmp_path).open()
    assert segment.read_bytes() == raw
    with pytest.raises(CorruptBatch):
        FilePublishStore(tmp_path).open()


def test_a_damaged_mark_only_means_that_more_is_sent_again(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    store.settle(3)
    store.close()
    (tmp_path / "stable").write_bytes(b"\0" * 12)
    remembered = FilePublishStore(tmp_path).open()
    assert remembered.stable_upto == -1
    assert len(remembered.batches) == 2


def test_two_sources_can_not_share_it(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    with pytest.raises(DataDirectoryInUse, match="Stop that process first"):
        FilePublishStore(tmp_path).open()
    store.close()
    FilePublishStore(tmp_path).open()


def test_a_path_that_is_no_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed):
        FilePublishStore(tmp_path / "file").open()
