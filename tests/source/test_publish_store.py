"""The publish store on a disk: what it keeps, what it gives back, and what it says of damage."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import seams

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.errors import (
    NotKept,
    PublishStoreDamaged,
    PublishStoreInUse,
    QuorateError,
    StorageFailed,
)
from quorate.protocol.fragments import LargeBatch, header_of
from quorate.protocol.framing import encode_batch, read_contents
from quorate.protocol.identity import SourceName
from quorate.source import FilePublishStore
from quorate.source.publish_store import Remembered

NAME = SourceName("orders", 0x10)
OTHER_BOOT = bytes(range(16))


def batch(first: int, *payloads: bytes, time: int = 7, marker: bytes = b"") -> bytes:
    return encode_batch(NAME, 1, first, payloads, time, marker)


def opened(path: Path, sync: bool = False, next_sequence: int = 0) -> FilePublishStore:
    store = FilePublishStore(path, sync)
    store.open()
    store.claim(NAME)
    store.goes_on(next_sequence, ())
    return store


def keep(store: FilePublishStore, sequence: int, payload: bytes, time: int = 7) -> None:
    """What a send does."""
    tail = store.tail
    if tail.next != sequence:
        store.rewind(sequence)
    tail.next = sequence + 1
    try:
        tail.write(payload)
        tail.times[sequence - tail.first] = time
        tail.sizes[sequence - tail.first] = len(payload) + 1
    except (ValueError, IndexError):
        tail.next = sequence
        store.keep_all(sequence, (payload,), (), (time,))


def filled(path: Path, batches: int, sync: bool = False) -> FilePublishStore:
    """Two messages a batch, and each batch is noted."""
    store = opened(path, sync)
    for number in range(batches):
        keep(store, number * 2, b"a")
        keep(store, number * 2 + 1, b"b" * number)
        store.packed(batch(number * 2, b"a", b"b" * number))
    return store


def remembered(path: Path) -> Remembered:
    """What a source of the next process is given."""
    store = FilePublishStore(path)
    try:
        return store.open()
    finally:
        store.close()


def contents(path: Path) -> dict[int, tuple[bytes, Attributes]]:
    """Payload and attributes of what it gives back, by number."""
    found: dict[int, tuple[bytes, Attributes]] = {}
    for each in remembered(path).batches:
        header = header_of(each)
        assert not found or header.first == max(found) + 1
        if isinstance(each, LargeBatch):
            messages = [each.message()]
        else:
            messages = read_contents(each, header, header.first, header.last)
        found |= dict(enumerate(messages, header.first))
    return found


def newest(path: Path) -> Path:
    return max(path.glob("*.segment"))


# -- what it keeps --------------------------------------------------------------------------


@pytest.mark.parametrize("sync", [False, True])
def test_what_is_not_stable_is_remembered(tmp_path: Path, sync: bool) -> None:
    store = filled(tmp_path / "new", 5, sync)
    store.syncing()()
    store.settle(4)
    store.close()
    found = remembered(tmp_path / "new")
    assert (found.source, found.stable_upto, found.next_sequence) == (NAME, 4, 10)
    # The time and the epoch of each are those that it was packed with.
    assert found.batches == [batch(5, b"bb"), batch(6, b"a", b"bbb"), batch(8, b"a", b"bbbb")]


def test_what_was_never_packed_is_remembered_under_its_numbers(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    keep(store, 4, b"")
    store.keep_all(5, [b"5", b"6"], [NO_ATTRIBUTES, Attributes(b"six")], [7, 7])
    keep(store, 7, b"7")
    store.close()
    expected = [b"a", b"", b"a", b"b", b"", b"5", b"6", b"7"]
    attributes = [Attributes(b"six" if number == 6 else None) for number in range(8)]
    assert contents(tmp_path) == dict(enumerate(zip(expected, attributes, strict=True)))


def test_a_batch_with_empty_keys_alone_is_made_again(tmp_path: Path) -> None:
    store, own = opened(tmp_path), Attributes(b"")
    store.keep_all(0, [b"x"], [own], [5])
    packed = encode_batch(NAME, 1, 0, [b"x"], 5, b"", [own])
    store.packed(packed)
    store.close()
    assert remembered(tmp_path).batches == [packed]


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("is_packed", [False, True])
def test_each_message_keeps_its_time(tmp_path: Path, sync: bool, is_packed: bool) -> None:
    """Whether it was packed or not: a batch has its times again, byte for byte."""
    store, epoch = opened(tmp_path, sync), int(is_packed)
    keep(store, 0, b"0", 20)
    keep(store, 1, b"1", 10)
    store.keep_all(2, [b"2", b"3"], [Attributes(b"k"), NO_ATTRIBUTES], [30, 30])
    own = [NO_ATTRIBUTES, NO_ATTRIBUTES, Attributes(b"k"), NO_ATTRIBUTES]
    payloads = [b"0", b"1", b"2", b"3"]
    batch = encode_batch(NAME, epoch, 0, payloads, 10, b"", own, [10, 0, 20, 20])
    if is_packed:
        store.packed(batch)
    store.syncing()()
    store.close()
    assert remembered(tmp_path).batches == [batch]


def test_many_that_were_never_packed_become_batches_of_the_usual_size(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep_all(0, [b"x"] * 9000, [], [7] * 9000)
    for number in range(9000, 9010):
        keep(store, number, bytes(100_000))
    keep(store, 9010, bytes(1_200_000))
    store.close()
    lasts = [header_of(each).last for each in remembered(tmp_path).batches]
    assert lasts[:2] == [4095, 8191]
    assert lasts[-2:] == [9009, 9010]
    assert all(len(each) < 512 * 1024 for each in remembered(tmp_path).batches[:-1])


def test_a_commit_is_kept_as_a_whole_with_its_marker(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.keep_batch(batch(2, b"c", b"d", marker=b"mark"))
    keep(store, 4, b"e")
    store.close()
    assert remembered(tmp_path).batches[1] == batch(2, b"c", b"d", marker=b"mark")


def test_a_number_that_is_kept_again_replaces_what_was_behind_it(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.keep_all(0, [b"0", b"1", b"2"], [], [7] * 3)
    # The call that kept these was interrupted before the source counted them.
    store.keep_all(3, [b"no", b"no", b"no"], [], [8] * 3)
    keep(store, 3, b"3")
    store.packed(batch(0, b"0", b"1", b"2", b"3"))
    store.close()
    assert contents(tmp_path) == {n: (b"%d" % n, NO_ATTRIBUTES) for n in range(4)}


def test_it_keeps_what_stores_kept_of_the_stream(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    store = FilePublishStore(tmp_path)
    store.open()
    store.goes_on(9, [batch(0, b"a", b""), batch(3, b"b", b"4", b"5"), batch(6, b"6", b"7", b"8")])
    keep(store, 9, b"9")
    store.close()
    found = contents(tmp_path)
    assert sorted(found) == list(range(10))
    assert found[4] == (b"4", NO_ATTRIBUTES)
    assert found[8] == (b"8", NO_ATTRIBUTES)


def test_it_goes_on_further_up_if_all_before_is_stable(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    store = FilePublishStore(tmp_path)
    store.open()
    store.settle(99)
    store.goes_on(100, ())
    keep(store, 100, b"x")
    assert store.unstable_messages == 1
    store.close()
    assert contents(tmp_path) == {100: (b"x", NO_ATTRIBUTES)}
    assert remembered(tmp_path).next_sequence == 101


def test_it_remembers_who_it_belongs_to_even_when_all_is_stable(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.settle(1)
    store.close()
    assert remembered(tmp_path) == Remembered(NAME, 1, [], 2)


def test_a_new_one_cannot_tell_where_the_stream_goes_on(tmp_path: Path) -> None:
    assert remembered(tmp_path) == Remembered()


def test_a_forgotten_one_is_as_good_as_new(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    store.forget()
    store.close()
    assert remembered(tmp_path) == Remembered()


# -- segments -------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that have room for little more than one message."""
    seams.PUBLISH_STORE_ROOM_FIRST.replace(monkeypatch, 100)
    seams.PUBLISH_STORE_ROOM_MAX.replace(monkeypatch, 100)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("sync", [False, True])
def test_segments_that_are_all_stable_are_used_again_or_removed(tmp_path: Path, sync: bool) -> None:
    store = opened(tmp_path, sync)
    for number in range(10):
        keep(store, number, bytes(70))
    assert len(list(tmp_path.glob("*.segment"))) == 10
    store.settle(7)
    assert len(list(tmp_path.glob("*.segment"))) == (2 if sync else 10)
    for number in range(10, 30):
        keep(store, number, b"%d" % number * 35)
        store.settle(number - 1)
    assert len(list(tmp_path.glob("*.segment"))) <= (3 if sync else 10)
    assert len(list(tmp_path.glob("*.notes"))) <= (3 if sync else 10)
    assert store.bytes_on_disk <= 2000
    store.close()
    assert contents(tmp_path) == {29: (b"29" * 35, NO_ATTRIBUTES)}


@pytest.mark.usefixtures("small")
def test_the_rest_of_an_earlier_use_is_no_message(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(40):
        keep(store, number, b"")
        keep(store, number + 1, b"x")  # the next round keeps this number again
        if number < 39:
            store.settle(number)
    store.close()
    assert contents(tmp_path) == {39: (b"", NO_ATTRIBUTES), 40: (b"x", NO_ATTRIBUTES)}


@pytest.mark.usefixtures("small")
def test_spare_segments_are_not_kept_without_end(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(40):
        keep(store, number, bytes(70))
    store.settle(38)
    assert len(list(tmp_path.glob("*.segment"))) <= 18
    store.close()


def test_a_message_that_is_larger_than_a_segment_has_one_of_its_own(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    keep(store, 2, bytes(8_000_000))
    keep(store, 3, b"small")
    store.close()
    assert [len(payload) for payload, _ in contents(tmp_path).values()] == [1, 0, 8_000_000, 5]


def test_a_full_disk_refuses_the_message_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path, 2)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "posix_fallocate", full)
        with pytest.raises(NotKept, match=r"No space left.*was not accepted"):
            keep(store, 4, bytes(100_000))
    keep(store, 4, bytes(100_000))
    store.close()
    assert sorted(contents(tmp_path)) == [0, 1, 2, 3, 4]


# -- damage ---------------------------------------------------------------------------------


def test_a_message_that_was_not_entered_does_not_count(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    keep(store, 4, b"not returned")
    store.close()
    with newest(tmp_path).open("r+b") as segment:
        segment.seek(64 + 8 * (64 * 1024 // 64) + 4 * 4)
        segment.write(bytes(4))
    assert sorted(contents(tmp_path)) == [0, 1, 2, 3]
    again = opened(tmp_path, next_sequence=4)
    keep(again, 4, b"again")
    again.close()
    assert contents(tmp_path)[4] == (b"again", NO_ATTRIBUTES)


def change(path: Path, what: bytes) -> None:
    """Damage one byte of a message."""
    raw = path.read_bytes()
    assert raw.count(what) == 1
    path.write_bytes(raw.replace(what, b"?" + what[1:]))


@pytest.mark.parametrize("sync", [False, True])
def test_a_damaged_message_is_not_sent_again_as_it_is(tmp_path: Path, sync: bool) -> None:
    store = opened(tmp_path, sync)
    store.keep_all(0, [b"zero", b"one", b"two"], [], [7] * 3)
    store.packed(batch(0, b"zero", b"one", b"two"))
    store.close()
    change(newest(tmp_path), b"one")
    before = newest(tmp_path).read_bytes()
    message = "the number 1" if sync else "numbers 0 to 2"
    for _ in range(2):
        with pytest.raises(PublishStoreDamaged, match=message):
            FilePublishStore(tmp_path).open()
    assert newest(tmp_path).read_bytes() == before


@pytest.mark.parametrize("sync", [False, True])
def test_a_damaged_time_is_not_sent_again_as_it_is(tmp_path: Path, sync: bool) -> None:
    store = opened(tmp_path, sync)
    store.keep_all(0, [b"zero", b"one", b"two"], [], [7] * 3)
    store.packed(batch(0, b"zero", b"one", b"two"))
    store.close()
    with newest(tmp_path).open("r+b") as segment:
        segment.seek(64 + 8)
        segment.write(b"?")
    with pytest.raises(PublishStoreDamaged, match="the number 1" if sync else "numbers 0 to 2"):
        FilePublishStore(tmp_path).open()


def test_a_damaged_commit_is_named(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.keep_batch(batch(2, b"see", b"d", marker=b"mark"))
    store.close()
    change(newest(tmp_path), b"see")
    with pytest.raises(PublishStoreDamaged, match="the number 2"):
        remembered(tmp_path)


# -- a host that goes down ------------------------------------------------------------------


@pytest.fixture
def rebooted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the next process run after a restart of the host."""
    return lambda: seams.PUBLISH_STORE_BOOT_ID.replace(monkeypatch, lambda: OTHER_BOOT)


@pytest.mark.usefixtures("small")
@pytest.mark.expects_log("the host went down")
def test_what_was_not_synced_is_dropped_from_the_first_damage_on(
    tmp_path: Path, rebooted: Callable[[], None]
) -> None:
    store = opened(tmp_path, sync=True)
    for number in range(8):
        keep(store, number, b"payload %d" % number * 4)
    store.close()
    change(sorted(tmp_path.glob("*.segment"))[3], b"payload 3" * 4)
    rebooted()
    found = remembered(tmp_path)
    assert (found.next_sequence, sorted(contents(tmp_path))) == (3, [0, 1, 2])
    again = opened(tmp_path, sync=True, next_sequence=3)
    keep(again, 3, b"again")
    again.close()
    assert contents(tmp_path)[3] == (b"again", NO_ATTRIBUTES)


@pytest.mark.usefixtures("small")
@pytest.mark.expects_log("the host went down")
def test_without_sync_what_notes_vouch_for_outlives_the_host_if_it_can(
    tmp_path: Path, rebooted: Callable[[], None]
) -> None:
    store = filled(tmp_path, 8)
    keep(store, 16, b"nobody can tell")
    store.close()
    rebooted()
    found = remembered(tmp_path)
    assert found.batches == [batch(2 * n, b"a", b"b" * n) for n in range(8)]
    # More may be missing than anybody can tell.
    assert found.next_sequence is None
    change(sorted(tmp_path.glob("*.segment"))[-1], b"b" * 7)
    again = opened(tmp_path, next_sequence=14)
    keep(again, 14, b"again")
    again.close()
    assert sorted(contents(tmp_path)) == list(range(15))
    assert contents(tmp_path)[14] == (b"again", NO_ATTRIBUTES)


@pytest.mark.usefixtures("small")
@pytest.mark.expects_log("the host went down")
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_segments_that_never_reached_the_disk_are_missed_by_nobody(
    tmp_path: Path, rebooted: Callable[[], None], gone: int
) -> None:
    store = opened(tmp_path)
    for number in range(3):
        keep(store, number, bytes(70))
        store.packed(batch(number, bytes(70)))
    store.close()
    sorted(tmp_path.glob("*.segment"))[gone].unlink()
    rebooted()
    assert sorted(contents(tmp_path)) == list(range(gone))


def emptied(_: bytes) -> bytes:
    return b""


def zeroed(content: bytes) -> bytes:
    return bytes(len(content))


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def random(content: bytes) -> bytes:
    return bytes(number * 167 % 251 for number in range(len(content)))


@pytest.mark.parametrize("damage", [emptied, zeroed, truncated, random])
@pytest.mark.parametrize("file", ["source", "*.segment"])
def test_a_damaged_file_is_named_and_nothing_stays_locked(
    tmp_path: Path, file: str, damage: Callable[[bytes], bytes]
) -> None:
    filled(tmp_path, 2).close()
    path = next(tmp_path.glob(file))
    content = path.read_bytes()
    path.write_bytes(damage(content))
    store = FilePublishStore(tmp_path)
    for _ in range(2):
        with pytest.raises(PublishStoreDamaged, match="keep a copy") as raised:
            store.open()
        assert raised.value.file == path.name
    path.write_bytes(content)
    assert len(remembered(tmp_path).batches) == 2


@pytest.mark.parametrize("damage", [zeroed, truncated, random])
@pytest.mark.expects_log("stable is damaged")
def test_a_damaged_mark_only_means_that_more_is_sent_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    store = filled(tmp_path, 2)
    store.settle(3)
    store.close()
    mark = tmp_path / "stable"
    mark.write_bytes(damage(mark.read_bytes()))
    found = remembered(tmp_path)
    assert found.stable_upto == -1
    assert len(found.batches) == 2


def test_segments_without_a_source_are_damage(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    (tmp_path / "source").unlink()
    with pytest.raises(PublishStoreDamaged, match="source is missing"):
        remembered(tmp_path)


@pytest.mark.usefixtures("small")
def test_a_segment_that_is_gone_is_missed(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for number in range(3):
        keep(store, number, bytes(70))
    store.close()
    sorted(tmp_path.glob("*.segment"))[1].unlink()
    with pytest.raises(
        PublishStoreDamaged, match="begins at 2, but the segment before it ends at 0"
    ):
        remembered(tmp_path)


@pytest.mark.parametrize("name", ["extra.segment", "-1.segment"])
def test_a_foreign_file_is_named(tmp_path: Path, name: str) -> None:
    filled(tmp_path, 1).close()
    (tmp_path / name).write_bytes(b"?")
    with pytest.raises(PublishStoreDamaged, match="no number"):
        remembered(tmp_path)


def test_a_name_that_was_not_given_yet_is_given_again(tmp_path: Path) -> None:
    filled(tmp_path, 1).close()
    (tmp_path / "00000000000000000007.new").write_bytes(b"half")
    assert len(remembered(tmp_path).batches) == 1
    assert not list(tmp_path.glob("*.new"))


# -- who uses it ----------------------------------------------------------------------------


def test_two_sources_can_not_share_it(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    with pytest.raises(PublishStoreInUse, match="publish store of its own"):
        FilePublishStore(tmp_path).open()
    store.close()
    remembered(tmp_path)


def test_a_path_that_is_no_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed):
        FilePublishStore(tmp_path / "file").open()


def test_an_unforeseen_error_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(tmp_path, 1).close()
    with monkeypatch.context() as disk:
        disk.setattr(Path, "read_bytes", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            FilePublishStore(tmp_path).open()
    assert not isinstance(remembered(tmp_path), QuorateError)
