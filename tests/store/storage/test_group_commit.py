from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

import pytest
from tests import seams

from quorate.protocol.errors import QuorateError, StorageFailed
from quorate.store.startup import last_commit
from quorate.store.storage.group_commit import Writer
from quorate.store.storage.interface import (
    Columns,
    Table,
    Write,
)
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.records import CommitRecord


class SlowStorage(MemoryStorage):
    """Syncs when it is let, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()
        self.let.set()
        self.syncing = threading.Event()
        self.write_error: Exception | None = None
        self.sync_error: Exception | None = None
        self.calls: list[str] = []

    def write(self, writes: Iterable[Write], columns: Iterable[Columns] = ()) -> None:
        if self.write_error:
            raise self.write_error
        self.calls.append("write")
        super().write(writes, columns)

    def sync(self) -> None:
        self.syncing.set()
        assert self.let.wait(10)
        if self.sync_error:
            raise self.sync_error
        self.calls.append("sync")
        super().sync()


class Stream:
    def __init__(self) -> None:
        self.told: list[int] = []

    def acknowledge(self, upto: int) -> None:
        self.told.append(upto)


class Setup:
    def __init__(self, pending_bytes_max: int = 1000) -> None:
        self.storage = SlowStorage()
        self.marks: list[int] = []
        self.failures: list[QuorateError] = []
        self.no_room: StorageFailed | None = None
        self.writer = Writer(
            self.storage,
            0,
            lambda: 77,
            self.marks.append,
            self.check_room,
            self.failures.append,
            pending_bytes_max,
        )
        self.writer.start()

    def check_room(self) -> None:
        if self.no_room:
            raise self.no_room

    async def hold_sync(self) -> None:
        """Get the writer into a sync that does not end before `let`."""
        self.storage.let.clear()
        self.writer.submit(row(b"held up"))
        await asyncio.to_thread(self.storage.syncing.wait)


def row(key: bytes, value: bytes = b"value") -> list[Write]:
    return [Write(Table.JOURNAL, key, value)]


async def test_what_is_durable_survives_a_crash() -> None:
    setup = Setup()
    await setup.writer.durable(setup.writer.submit(row(b"a")))
    assert setup.storage.crash().get(Table.JOURNAL, [b"a"]) == [b"value"]
    assert last_commit(setup.storage.crash()) == CommitRecord(1, 77)
    await setup.writer.stop()


async def test_all_that_arrives_during_a_sync_is_one_commit() -> None:
    setup = Setup()
    await setup.hold_sync()
    one, two = Stream(), Stream()
    numbers = {
        setup.writer.submit(row(b"%d" % number), True, stream, number)
        for number in range(10)
        for stream in (one, two)
    }
    assert numbers == {2}
    setup.storage.let.set()
    await setup.writer.durable(2)
    assert (one.told, two.told) == ([9], [9]), "one acknowledgement a stream and commit"
    assert setup.storage.calls == ["write", "sync", "write", "sync"]
    assert setup.writer.sync_durations.count == 2
    await setup.writer.stop()


async def test_columns_are_committed_with_the_rows_beside_them() -> None:
    setup = Setup(pending_bytes_max=200)
    await setup.hold_sync()
    columns = Columns(Table.INDEX, [b"b", b"c"], [b"1" * 100, b"2"])
    number = setup.writer.submit(row(b"a"), columns=columns)
    was_full = setup.writer.full
    alone = setup.writer.submit([], columns=Columns(Table.INDEX, [b"d"], [b"3"]))
    setup.storage.let.set()
    await setup.writer.durable(number)
    assert alone == number == 2
    stored = setup.storage.crash()
    assert stored.get(Table.INDEX, [b"b", b"c", b"d"]) == [b"1" * 100, b"2", b"3"]
    assert stored.get(Table.JOURNAL, [b"a"]) == [b"value"]
    assert (was_full, setup.writer.full) == (True, False)
    await setup.writer.stop()


async def test_nothing_is_acknowledged_before_its_sync() -> None:
    setup = Setup()
    stream = Stream()
    setup.storage.let.clear()
    number = setup.writer.submit(row(b"a"), True, stream, 5)
    await asyncio.to_thread(setup.storage.syncing.wait)
    await asyncio.sleep(0)
    assert (stream.told, setup.marks, setup.writer.committed) == ([], [], 0)
    setup.storage.let.set()
    await setup.writer.durable(number)
    assert (stream.told, setup.marks) == ([5], [number])
    await setup.writer.stop()


async def test_what_need_not_be_synced_is_not() -> None:
    setup = Setup()
    await setup.writer.durable(setup.writer.submit(row(b"a"), sync=False))
    assert setup.storage.calls == ["write"]
    assert setup.marks == [], "only what was synced may be marked"
    await setup.writer.stop()


async def test_lazy_rows_go_with_the_next_commit_which_is_synced() -> None:
    setup = Setup()
    number = setup.writer.submit_lazily(row(b"lazy"))
    assert setup.writer.submit(row(b"a"), sync=False) == number
    await setup.writer.durable(number)
    assert setup.storage.calls == ["write", "sync"]
    assert setup.storage.crash().get(Table.JOURNAL, [b"lazy"]) == [b"value"]
    await setup.writer.stop()


async def test_lazy_rows_are_written_at_once_for_those_who_wait() -> None:
    setup = Setup()
    await setup.writer.durable(setup.writer.submit_lazily(row(b"lazy")))
    assert setup.storage.calls == ["write", "sync"]
    setup.writer.submit_lazily(row(b"lazy"))
    await setup.writer.durable(setup.writer.submit(()))
    assert setup.storage.calls == 2 * ["write", "sync"]
    await setup.writer.stop()


async def test_lazy_rows_are_written_soon_without_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.GROUP_COMMIT_LAZY_SECONDS.replace(monkeypatch, 0.0)
    setup, committed = Setup(), asyncio.Event()
    setup.writer.on_committed = lambda _: committed.set()
    setup.writer.submit_lazily(row(b"lazy"))
    await asyncio.wait_for(committed.wait(), 10)
    assert setup.storage.calls == ["write", "sync"]
    await setup.writer.stop()


async def test_stopping_commits_lazy_rows() -> None:
    setup = Setup()
    setup.writer.submit_lazily(row(b"lazy"))
    await setup.writer.stop()
    assert setup.storage.calls == ["write", "sync"]


async def test_an_acknowledgement_without_rows_waits_for_what_came_before() -> None:
    setup = Setup()
    await setup.hold_sync()
    stream = Stream()
    number = setup.writer.submit((), True, stream, 7)
    await asyncio.sleep(0)
    assert stream.told == []
    setup.storage.let.set()
    await setup.writer.durable(number)
    assert stream.told == [7]
    await setup.writer.stop()


async def test_nothing_at_all_is_durable_with_what_came_before() -> None:
    setup = Setup()
    await setup.writer.durable(setup.writer.submit(()))
    await setup.hold_sync()
    number = setup.writer.submit(())
    assert number == 1, "the commit that is under way"
    waiting = asyncio.create_task(setup.writer.durable(number))
    await asyncio.sleep(0)
    assert not waiting.done()
    later = setup.writer.submit(row(b"a"))
    assert (later, setup.writer.submit(())) == (2, 2)
    setup.storage.let.set()
    await waiting
    await setup.writer.stop()


@pytest.mark.parametrize("when", ["write", "sync", "room"])
async def test_the_first_failure_is_the_end(when: str) -> None:
    setup = Setup()
    await setup.writer.durable(setup.writer.submit(row(b"good")))
    if when == "write":
        setup.storage.write_error = StorageFailed("disk", "full")
    elif when == "sync":
        setup.storage.sync_error = OSError(5, "Input/output error")
    else:
        setup.no_room = StorageFailed("disk", "nearly full")
    stream = Stream()
    number = setup.writer.submit(row(b"bad"), True, stream, 5)
    with pytest.raises(StorageFailed):
        await setup.writer.durable(number)
    assert len(setup.failures) == 1
    assert (stream.told, setup.marks) == ([], [1])

    setup.storage.write_error = setup.storage.sync_error = setup.no_room = None
    with pytest.raises(StorageFailed):
        setup.writer.submit(row(b"after"))
    with pytest.raises(StorageFailed):
        await setup.writer.durable(number + 1)
    with pytest.raises(StorageFailed):
        await setup.writer.room()
    await setup.writer.stop()
    assert setup.storage.get(Table.JOURNAL, [b"after"]) == [None]
    assert setup.storage.crash().get(Table.JOURNAL, [b"good", b"bad"]) == [b"value", None]


async def test_what_waits_is_bounded() -> None:
    setup = Setup(pending_bytes_max=1000)
    await setup.hold_sync()
    before = setup.writer.full
    setup.writer.submit(row(b"a", b"x" * 1000))
    assert (before, setup.writer.full) == (False, True)
    waiting = asyncio.create_task(setup.writer.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    setup.storage.let.set()
    await waiting
    await setup.writer.stop()


async def test_stopping_commits_what_was_submitted() -> None:
    setup = Setup()
    await setup.hold_sync()
    stream = Stream()
    setup.writer.submit(row(b"last"), True, stream, 3)
    setup.storage.let.set()
    await setup.writer.stop()
    assert setup.storage.crash().get(Table.JOURNAL, [b"last"]) == [b"value"]
    assert stream.told == [3]


async def test_one_who_gives_up_waiting_does_not_take_others_along() -> None:
    setup = Setup()
    await setup.hold_sync()
    number = setup.writer.submit(row(b"a"))
    first, second = (asyncio.create_task(setup.writer.durable(number)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    setup.storage.let.set()
    await second
    await setup.writer.stop()
