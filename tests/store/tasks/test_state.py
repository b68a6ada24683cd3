"""The maker of the state of the world: the same rows everywhere, whatever happens on the way."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import seams
from tests.store.ended import Heardsay, engine_of
from tests.store.state import (
    TOPIC,
    A,
    B,
    C,
    Maker,
    Message,
    does,
    expected,
    history,
    keyed,
)

from quorate.protocol.bookmarks import Place, Position
from quorate.protocol.identity import SourceName
from quorate.protocol.keying import Missing
from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import Range
from quorate.store.rules.retention import Ages, Bounds
from quorate.store.rules.subscriptions import Subscriptions
from quorate.store.storage.index import entries
from quorate.store.storage.interface import Table, Write
from quorate.store.storage.records import position_key
from quorate.store.storage.rocksdb import RocksStorage
from quorate.store.tasks.retention import Releasing

TRADES = SourceName("trades", 1)


class Crash(BaseException):
    """The death of the store's process."""


def lacks_upto(maker: Maker) -> int:
    progress = maker.making.progress_of(A)
    assert progress is not None
    return progress.lacks_upto


@pytest.mark.parametrize("seed", range(40))
async def test_any_order_of_arrival_makes_the_same_rows(seed: int) -> None:
    chooser = random.Random(seed)
    stories = {source: history(chooser, source) for source in (A, B, C)}
    rows = expected((source.session_id, kept) for source, (_, kept) in stories.items())
    stored = []
    for _ in range(3):
        maker = Maker()
        left = {source: list(events) for source, (events, _) in stories.items()}
        while any(left.values()):
            source = chooser.choice([each for each, events in left.items() if events])
            does(maker, source, left[source].pop(0))
            if chooser.random() < 0.3:
                await maker.step(chooser.choice((A, B, C)))
            if chooser.random() < 0.1:
                await maker.making._look()
        await maker.all()
        assert maker.rows() == rows
        stored.append(maker.in_force())
    assert stored[0] == stored[1] == stored[2]


class Crashing:
    """A storage whose process dies once it has written so often. What it has on the disk varies."""

    def __init__(self, storage: Any, left: int, chooser: random.Random) -> None:
        self._storage = storage
        self._left = left
        self._chooser = chooser
        self._lives = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    @contextmanager
    def living(self) -> Iterator[None]:
        """Nothing is counted, and nobody dies."""
        self._lives = True
        yield
        self._lives = False

    def write(self, writes: Any, columns: Any = ()) -> None:
        if not self._lives:
            if not self._left:
                raise Crash
            self._left -= 1
        self._storage.write(writes, columns)
        if self._chooser.random() < 0.5:
            self._storage.sync_state()


@pytest.mark.parametrize("seed", range(3))
async def test_a_crash_at_any_step_goes_on_there(tmp_path: Path, seed: int) -> None:
    """On a real disk: the store makes rows, dies, and is opened again, until it does not die."""
    chooser = random.Random(seed)
    kept: list[Message] = []
    while len(kept) < 5:
        events, kept = history(chooser, A)
    whole = RocksStorage(tmp_path / "db", create=True)
    maker = Maker(whole)
    for event in events:
        does(maker, A, event)
        await maker.step(A)
    await maker.all()
    wanted, stored = maker.rows(), maker.in_force()
    whole.close()
    deaths = 0
    for lives_for in range(5):
        path = tmp_path / f"db{lives_for}"
        storage = RocksStorage(path, create=True)
        maker = Maker(crashing := Crashing(storage, lives_for, chooser))
        for event in events:
            with crashing.living():
                does(maker, A, event)
            try:
                while await maker.step(A):
                    pass
                await maker.making._look()
            except Crash:
                deaths += 1
                storage.close()
                storage = RocksStorage(path)
                streams = maker.streams
                maker = Maker(crashing := Crashing(storage, lives_for, chooser))
                with crashing.living():
                    for source, stream in streams.items():
                        if source in maker.world.core.sources:
                            maker.reopens(source, stream.epoch)
        with crashing.living():
            await maker.all()
        assert maker.rows() == wanted
        assert maker.in_force() == stored
        storage.close()
    assert deaths


async def test_rows_that_were_not_synced_are_made_again() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"a", b"1", 1), Message(b"b", b"2", 2)])
    maker.stable(A, 1)
    await maker.all()
    maker.world.storage.sync()
    wanted = maker.rows()
    again = Maker(maker.world.storage.crash())
    assert again.rows() == {}
    await again.all()
    assert again.rows() == wanted == {b"ka": b"1", b"kb": b"2"}


async def test_rows_are_on_the_disk_before_their_messages_leave_the_journal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maker = Maker()
    maker.begins(A, 1)
    for first in range(0, 8, 2):
        maker.sends(A, 1, first, [Message(b"%d" % first, b"x", 1), Message(b"same", b"x", 1)])
        maker.stable(A, first + 1)
        await maker.all()
    storage, synced = maker.world.storage, list[str]()
    sync_state = storage.sync_state

    def noted() -> None:
        synced.append("rows")
        sync_state()

    monkeypatch.setattr(storage, "sync_state", noted)
    with ThreadPoolExecutor(1) as executor:
        releasing = releasing_of(maker, executor, maker.making.waits_for_peer)
        await releasing.round()
        assert releasing.messages == 6
        assert synced == ["rows"], "once for all that went"
    again = Maker(storage.crash())
    assert again.rows().keys() >= {b"k0", b"k2", b"k4", b"ksame"}


async def test_retention_waits_for_rows_that_are_yet_to_be_made() -> None:
    """Otherwise stores that crash together let messages go of which none of them has rows."""
    maker = crashed_before_its_rows()
    with ThreadPoolExecutor(1) as executor:
        releasing = releasing_of(maker, executor, maker.making.waits_for_peer)
        await releasing.round()
        assert releasing.messages == 0
        assert releasing.kept_because(A) == "rows are made up to -1 only"
        await maker.all()
        await releasing.round()
        assert releasing.messages == 6
        assert not releasing.kept_because(A)
    assert maker.rows().keys() >= {b"k0", b"k2", b"k4", b"ksame"}


async def test_retention_does_not_wait_for_rows_that_wait_for_a_peer() -> None:
    """The peer may be away for long, and it has the rows of what goes."""
    with ThreadPoolExecutor(1) as executor:
        releasing = releasing_of(crashed_before_its_rows(), executor, lambda source: source == A)
        await releasing.round()
        assert releasing.messages == 6


def crashed_before_its_rows() -> Maker:
    """Return a maker that lacks the rows of all messages that its store has."""
    maker = Maker()
    maker.begins(A, 1)
    for first in range(0, 8, 2):
        maker.sends(A, 1, first, [Message(b"%d" % first, b"x", 1), Message(b"same", b"x", 1)])
        maker.stable(A, first + 1)
    maker.world.storage.sync()
    return Maker(maker.world.storage.crash())


def releasing_of(
    maker: Maker, executor: Executor, rows_wait: Callable[[SourceName], bool]
) -> Releasing:
    """Return the retention of a store that keeps the newest message of each source."""
    peers: Any = Heardsay()
    return Releasing(
        engine_of(maker.world), executor, peers, maker.world.storage,
        lambda _: Bounds(messages=1), 0.0, Ages(), Subscriptions("s1", 1), 0,
        maker.making.place_of, rows_wait,
    )  # fmt: skip


async def test_only_what_is_stable_makes_rows() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"a", b"1", 1), Message(b"a", b"2", 2)])
    await maker.all()
    assert maker.rows() == {}
    maker.stable(A, 0)
    await maker.all()
    assert maker.rows() == {b"ka": b"1"}


async def test_a_store_is_ready_once_it_has_what_was_stable_before() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"a", b"1", 1)])
    maker.stable(A, 0)
    assert not maker.making.is_ready(TOPIC)
    await maker.all()
    assert maker.making.is_ready(TOPIC)
    maker.sends(A, 1, 1, [Message(b"a", b"2", 2)])
    maker.stable(A, 1)
    assert maker.making.is_ready(TOPIC)


async def test_a_store_does_not_wait_for_rows_of_a_stream_that_ended() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"a", b"1", 1), Message(b"a", b"2", 2)])
    maker.stable(A, 1)
    assert not maker.making.is_ready(TOPIC)
    maker.ends(A)
    maker.begins(A, 4)
    assert maker.making.is_ready(TOPIC)
    maker.sends(A, 4, 0, [Message(b"a", b"3", 3)])
    maker.stable(A, 0)
    await maker.all()
    assert maker.making.is_ready(TOPIC)


async def test_a_store_in_limbo_is_not_ready() -> None:
    maker = Maker()
    maker.begins(A, 1)
    assert maker.making.is_ready(TOPIC)
    maker.world.standing.record = replace(maker.world.standing.record, limbo="it was wiped")
    assert not maker.making.is_ready(TOPIC)


async def test_no_row_of_a_generation_that_ended_is_left() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(key, b"old", 9) for key in (b"a", b"b", b"c")])
    maker.stable(A, 2)
    await maker.all()
    maker.ends(A)
    maker.begins(A, 4)
    maker.sends(A, 4, 0, [Message(b"a", b"new", 1)])
    maker.stable(A, 0)
    while await maker.step(A):
        pass
    assert maker.rows() == {b"ka": b"new"}
    assert len(maker.stored()) == 1, "there is no sweep later for the others"


async def test_messages_that_nobody_has_are_passed() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.stable(A, 4)
    maker.world.write(maker.world.core.streams.skip(maker.streams[A], 0, 4))
    maker.sends(A, 1, 5, [Message(b"a", b"1", 1)])
    maker.stable(A, 5)
    await maker.all()
    assert maker.rows() == {}, "a peer may have them"
    maker.world.core.sources[A].held.retained_from = 5
    await maker.all()
    assert maker.rows() == {b"ka": b"1"}


OLD = [Message(b"k%d" % (number % 40), b"old %d" % number, number) for number in range(60)]


async def lagging(peers: dict[str, Maker]) -> tuple[Maker, Maker]:
    """A store with all messages, and one that came when retention had let some go."""
    new = [Message(b"k%d" % number, b"new %d" % number, 100) for number in range(10)]
    whole, late = Maker(), Maker(peers=peers)
    for maker in (whole, late):
        maker.begins(A, 1)
        if maker is whole:
            maker.sends(A, 1, 0, OLD)
        else:
            maker.stable(A, 59)
            maker.lets_go(A, 60)
        maker.sends(A, 1, 60, new)
        maker.stable(A, 69)
    await whole.all()
    return whole, late


async def test_rows_of_messages_that_retention_let_go_come_from_a_peer() -> None:
    peers: dict[str, Maker] = {}
    whole, late = await lagging(peers)
    peers |= {"1": Maker(), "2": Maker(keying_of=lambda _: None), "3": whole}
    await late.all()
    assert late.rows() == whole.rows()
    assert len(late.rows()) == 40
    assert late.in_force() == whole.in_force()
    assert late.making.progress_of(A) == whole.making.progress_of(A)


async def test_a_peer_that_is_away_is_waited_for() -> None:
    peers: dict[str, Maker] = {}
    whole, late = await lagging(peers)
    peers |= {"1": Maker(), "2": whole}
    late.away = {"2"}
    await late.all()
    assert late.rows() == {}
    assert not late.making.is_ready(TOPIC)
    late.away.clear()
    late.answers_max = 5
    await late.all()
    assert 0 < len(late.stored()) < 40, "it broke off"
    assert not late.making.is_ready(TOPIC)
    late.answers_max = 1000
    await late.all()
    assert late.in_force() == whole.in_force()
    assert late.making.is_ready(TOPIC)


async def test_the_next_peer_is_asked_if_one_is_away() -> None:
    peers: dict[str, Maker] = {}
    whole, late = await lagging(peers)
    peers |= {"1": Maker(), "2": whole}
    late.away = {"1"}
    await late.all()
    assert late.in_force() == whole.in_force()
    assert late.making.is_ready(TOPIC)


async def test_a_peer_whose_rows_have_yet_to_come_that_far_is_waited_for() -> None:
    """Otherwise rows that it will have are lacking here for good."""
    peers: dict[str, Maker] = {}
    whole, late = await lagging(peers)
    behind = Maker()
    behind.begins(A, 1)
    behind.sends(A, 1, 0, OLD[:30])
    behind.stable(A, 29)
    await behind.all()
    peers |= {"1": Maker(), "2": behind}
    await late.all()
    assert late.making.waits_for_peer(A)
    assert not late.making.is_ready(TOPIC)
    behind.sends(A, 1, 30, OLD[30:])
    behind.stable(A, 59)
    await behind.all()
    await late.all()
    assert not late.making.waits_for_peer(A)
    assert late.in_force() == whole.in_force()
    assert lacks_upto(late) == NOTHING


async def test_rows_that_no_peer_has_are_lacking() -> None:
    peers: dict[str, Maker] = {}
    _, late = await lagging(peers)
    _, other = await lagging({"1": late})
    peers["1"] = other
    await late.all()
    assert len(late.rows()) == 10
    assert lacks_upto(late) == 59
    await other.all()
    assert other.in_force() == late.in_force(), "a store that lacks as much gives nothing"
    assert lacks_upto(other) == 59
    peers = {"1": late}
    whole, third = await lagging(peers)
    peers["2"] = whole
    await third.all()
    assert third.in_force() == whole.in_force(), "it takes the rows of the store that lacks less"


@pytest.mark.expects_log("cannot be read")
async def test_an_unreadable_batch_holds_up_its_source_alone() -> None:
    maker = Maker()
    for source in (A, B):
        maker.begins(source, 1)
        maker.sends(source, 1, 0, [Message(b"a", b"1", 1)])
        maker.sends(source, 1, 1, [Message(str(source).encode(), b"2", 1)])
        maker.stable(source, 1)
    storage, state = maker.world.storage, maker.world.core.sources[A]
    (entry,) = entries(storage, state.reg_id, 1, 1)
    key = position_key(entry.position)
    (good,) = storage.get(Table.JOURNAL, [key])
    storage.write([Write(Table.JOURNAL, key, b"rot")])
    await maker.all()
    assert set(maker.rows()) == {b"ka", b"k" + str(B).encode()}
    assert list(state.unreadable) == [Range(1, 1)]
    storage.write([Write(Table.JOURNAL, key, good)])
    await maker.all()
    assert len(maker.rows()) == 3


async def test_positions_that_are_reached() -> None:
    maker = Maker()

    def reached(source: SourceName, epoch: int, sequence: int) -> bool:
        return maker.making.lacked(TOPIC, Position({source: Place(epoch, sequence)})) is None

    maker.begins(A, 2)
    maker.sends(A, 2, 0, [Message(b"a", b"1", 1), Message(b"a", b"2", 2)])
    maker.stable(A, 0)
    await maker.all()
    assert reached(A, 2, 0)
    assert not reached(A, 2, 1)
    assert not reached(A, 3, 0), "of an epoch that this store has not heard of"
    assert not reached(B, 1, 0), "of a source that this store has not heard of"
    assert reached(TRADES, 1, 7), "no source of the topic"
    assert reached(A, 1, 7), "of a generation that ended"
    maker.ends(A)
    assert reached(A, 2, 1), "of a source that ended"


async def test_a_topic_that_gets_keys_later_and_then_others() -> None:
    maker = Maker(keying_of=lambda _: None)
    payloads = [b'{"id": 1}', b'{"id": 2}', b'{"id": 1, "more": 2}', b"none"]
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"key", payload, 1) for payload in payloads])
    maker.stable(A, 3)
    await maker.all()
    assert maker.table() == []
    by_key = Maker(maker.world.storage)
    await by_key.all()
    assert by_key.rows() == {b"kkey": b"none"}
    by_id = Maker(maker.world.storage, keyed("id"))
    assert by_id.rows() == {}
    await by_id.all()
    assert by_id.rows() == {b"j[1]": payloads[2], b"j[2]": payloads[1]}
    (progress,) = by_id.making._progress
    assert progress.left_out == 1
    assert len(by_id.table()) == 3, "the rows of the other keys are gone"
    with_null = Maker(maker.world.storage, keyed("id", missing=Missing.NULL))
    await with_null.all()
    assert with_null.rows()[b"j[null]"] == b"none"
    without = Maker(maker.world.storage, lambda _: None)
    await without.all()
    assert without.table() == []


async def test_a_topic_whose_rows_are_being_removed_goes_on_there() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"%d" % number, b"x", 1) for number in range(9)])
    maker.stable(A, 8)
    await maker.all()
    with pytest.raises(Crash):
        await Maker(Crashing(maker.world.storage, 0, random.Random(1)), lambda _: None).all()
    after = Maker(maker.world.storage, lambda _: None)
    assert len(after.table()) == 1, "the place is still there"
    await after.all()
    assert after.table() == []


async def test_a_deletion_goes_once_its_message_left_the_journal() -> None:
    maker = Maker()
    maker.begins(A, 1)
    maker.begins(B, 1)
    maker.sends(A, 1, 0, [Message(b"a", b"old", 1), Message(b"b", b"old", 1)])
    maker.sends(B, 1, 0, [Message(b"a", b"", 2, deleted=True), Message(b"b", b"x", 2, expires=9)])
    maker.stable(A, 1)
    maker.stable(B, 1)
    await maker.all()
    assert maker.rows() == {}
    assert len(maker.stored()) == 4, "they hide the older ones"
    maker.world.core.sources[B].held.retained_from = 1
    await maker.making._look()
    assert len(maker.stored()) == 2, "the one that expired is still in the journal"
    maker.world.core.sources[B].held.retained_from = 2
    await maker.making._look()
    assert maker.stored() == []


async def test_rows_give_way_only_while_batches_come() -> None:
    """A store that makes rows anew, and to which nobody sends, makes them as fast as it can."""
    maker = Maker()
    maker.begins(A, 1)
    assert not maker.making._is_written_to()
    maker.sends(A, 1, 0, [Message(b"a", b"{}", 1)])
    assert maker.making._is_written_to()
    assert not maker.making._is_written_to(), "no batch has come since"


async def test_the_maker_gives_way_after_each_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with much to do makes rows when it has less."""
    maker, rests = Maker(), list[dict[bytes, bytes]]()
    may_go_on = asyncio.Event()

    async def rest(_: float) -> None:
        rests.append(maker.rows())
        await may_go_on.wait()

    seams.STATE_MAKING_GIVE_WAY.replace(monkeypatch, rest)
    maker.begins(A, 1)
    maker.sends(A, 1, 0, [Message(b"a", b"{}", 1)])
    maker.stable(A, 0)
    making = asyncio.create_task(maker.making.run())
    await maker.making.moved()
    maker.sends(A, 1, 1, [Message(b"b", b"{}", 1)])
    maker.stable(A, 1)
    await asyncio.sleep(0)
    assert rests == [{b"ka": b"{}"}]
    may_go_on.set()
    await maker.making.moved()
    making.cancel()
    assert maker.rows() == {b"ka": b"{}", b"kb": b"{}"}


async def test_rows_that_wait_are_behind_by_the_time_that_they_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peers: dict[str, Maker] = {}
    whole, late = await lagging(peers)
    peers |= {"2": whole}
    late.away, now = {"2"}, [100.0]
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now[0])
    await late.all()
    state = late.world.core.sources[A]
    now[0] += 30
    assert late.making.behind_seconds(state) == 30
    late.away.clear()
    await late.all()
    assert late.making.behind_seconds(state) == 0
