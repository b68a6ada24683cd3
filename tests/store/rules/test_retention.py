"""What retention lets go of, what keeps it, and what a crash in between leaves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.store.support import FIRST_LINEAGE, ORDERS, TRADES, World, batch

from quorate.protocol.errors import InvalidArgument, StorageUnreadable
from quorate.protocol.framing import encode_batch
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.ranges import Range
from quorate.protocol.recovery import Marker
from quorate.store.rules import (
    ended_sources,
    retention,
)
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.retention import (
    ACKNOWLEDGED,
    ARCHIVED,
    Ages,
    Bounds,
    Limit,
    Mark,
    SubscriberWaits,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.subscriptions import Slowest
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Table,
    Write,
)
from quorate.store.storage.maintenance_records import BAD_BATCH_KEYS
from quorate.store.storage.memory import MemoryStorage
from quorate.store.storage.reader import read
from quorate.store.storage.records import (
    IndexEntry,
    position_key,
    position_of,
)


class Retaining(World):
    """A world with batches of ten in [0, 99], of which [0, 79] is stable."""

    def filled(self, count: int = 10, stable_upto: int = 79) -> Retaining:
        stream = self.stream()
        for at in range(count):
            self.append(stream, batch(10 * at, 10 * at + 9))
        self.write(self.core.streams.keepalive(stream, stable_upto))
        return self

    @property
    def state(self) -> SourceState:
        return self.core.sources[ORDERS]

    def rows(self) -> list[IndexEntry]:
        return list(index.entries(self.storage, self.state.reg_id, 0, 1000))

    def choose(self, bounds: Bounds, upto: int = 79, old_before: int = 0) -> list[int]:
        going, _ = retention.choose(self.rows(), self.state, bounds, upto, old_before)
        return [row.last for row in going]

    def let_go(self, upto: int) -> None:
        going = [row for row in self.rows() if row.last <= upto]
        self.write(retention.let_go(self.storage, self.state, going))

    def reclaim(self, rows_max: int = 1000) -> int:
        found = retention.reclaim(self.storage, 0, rows_max)
        self.write(found.writes)
        return found.batches

    def journal(self) -> int:
        return len(self.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 10_000))

    def readable(self) -> set[int]:
        """What is held and read back well; nothing may be held that is not."""
        found: set[int] = set()
        for item in self.state.held.ranges:
            at = item.first
            while at <= item.last:
                for each in read(self.storage, self.state.reg_id, ORDERS, Range(at, item.last), 16):
                    assert not each.problem, each
                    found.update(range(each.part.first, each.part.last + 1))
                    at = each.part.last + 1
        return found

    def reopened(self, *, synced: bool = True) -> Retaining:
        if synced:
            self.storage.sync()
        return Retaining(self.storage.crash())


def limit_of(state: SourceState, *until: str, **others: Any) -> int:
    values: dict[str, Any] = {"doubt": "", "positions": {}, "silent": ()} | others
    return retention.limit(state, frozenset(until), **values).upto


# What goes.


def test_the_oldest_batches_go_over_any_bound_and_no_more_than_that() -> None:
    world = Retaining().filled()
    size = world.state.journal_bytes
    assert size == sum(row.size for row in world.rows())
    each = size // 10
    assert world.choose(Bounds(messages=100)) == []
    assert world.choose(Bounds(messages=91)) == []
    assert world.choose(Bounds(messages=90)) == [9]
    assert world.choose(Bounds(messages=75)) == [9, 19]
    assert world.choose(Bounds(messages=70)) == [9, 19, 29]
    assert world.choose(Bounds(bytes=size)) == []
    assert world.choose(Bounds(bytes=size - 1)) == [9]
    assert world.choose(Bounds(bytes=size - 2 * each, messages=50)) == [9, 19, 29, 39, 49]
    assert world.choose(Bounds(seconds=1), old_before=0) == []
    assert world.choose(Bounds(seconds=1), old_before=3) == [9, 19, 29]


def test_so_many_messages_are_kept_however_large_the_batches_are() -> None:
    world = Retaining()
    stream = world.stream()
    for at in range(6):
        world.append(stream, batch(200 * at, 200 * at + 199), stable_upto=200 * at + 199)
    assert world.choose(Bounds(messages=100), upto=1199) == [199, 399, 599, 799, 999]
    assert world.choose(Bounds(messages=200), upto=1199) == [199, 399, 599, 799, 999]
    assert world.choose(Bounds(messages=201), upto=1199) == [199, 399, 599, 799]
    assert world.choose(Bounds(messages=1), upto=1199) == [199, 399, 599, 799, 999]


def test_the_newest_batch_is_kept_that_alone_takes_more_than_it_may() -> None:
    world = Retaining().filled(10, stable_upto=99)
    sizes = [row.size for row in world.rows()]
    every = [row.last for row in world.rows()]
    assert world.choose(Bounds(bytes=1), upto=99) == every[:-1]
    assert world.choose(Bounds(bytes=sizes[-1]), upto=99) == every[:-1]
    assert world.choose(Bounds(bytes=sizes[-1] + sizes[-2] - 1), upto=99) == every[:-1]
    assert world.choose(Bounds(bytes=sizes[-1] + sizes[-2]), upto=99) == every[:-2]


def test_what_is_old_goes_however_little_is_left() -> None:
    world = Retaining().filled(10, stable_upto=99)
    every = [row.last for row in world.rows()]
    assert world.choose(Bounds(seconds=1, messages=50, bytes=1), 99, old_before=10) == every


@pytest.mark.parametrize(
    "bounds", [Bounds(messages=95), Bounds(bytes=1), Bounds(seconds=1), Bounds(messages=10)]
)
def test_whether_the_oldest_goes_is_known_from_its_row_alone(bounds: Bounds) -> None:
    world = Retaining().filled()
    for upto in range(9, 80, 10):
        for old_before in (0, 5, 10):
            oldest = world.rows()[0]
            is_due = retention.is_due(oldest, world.state, bounds, old_before)
            assert is_due == bool(world.choose(bounds, old_before=old_before))
        world.let_go(upto)


def test_nothing_above_the_limit_goes_and_it_is_said_that_this_is_why() -> None:
    world = Retaining().filled()
    going, kept = retention.choose(world.rows(), world.state, Bounds(messages=1), 75, 0)
    assert [row.last for row in going] == [9, 19, 29, 39, 49, 59, 69]
    assert kept, "the batch [70, 79] has a number that must stay"
    _, kept = retention.choose(world.rows(), world.state, Bounds(messages=30), 75, 0)
    assert not kept


def test_what_keeps_messages() -> None:
    state = Retaining().filled().state
    assert limit_of(state) == 79
    assert limit_of(state, doubt="wiped") == -1
    assert limit_of(state, ARCHIVED) == -1
    state.held.archived_upto = 30
    assert limit_of(state, ARCHIVED) == 30
    assert limit_of(state, ACKNOWLEDGED) == 79, "no receiver is registered"
    assert limit_of(state, ACKNOWLEDGED, positions={1: 50, 2: -1}) == -1
    assert limit_of(state, ACKNOWLEDGED, positions={1: 50, 2: 40}) == 40
    assert limit_of(state, ACKNOWLEDGED, ARCHIVED, positions={1: 50}) == 30
    assert limit_of(state, ACKNOWLEDGED, positions={1: 50}, silent=("s2",)) == -1
    assert limit_of(state, positions={1: -1}, silent=("s2",)) == 79, "nobody asked for that"


def test_ages_by_the_stores_own_order_survive_clocks_that_jump() -> None:
    ages = Ages()
    for at in range(0, 1000, 10):
        ages = ages.noted(Mark(at, float(at), 5000.0 + at))
    assert ages.old_before(100.0, 1000.0, 6000.0) == 900
    assert ages.old_before(10_000.0, 1000.0, 6000.0) == 0
    # Ten years forward: only what the store has seen for half of the time goes.
    assert 440 <= ages.old_before(1000.0, 1000.0, 6000.0 + 3e8) <= 500
    # Backwards: nothing does.
    assert ages.old_before(100.0, 1000.0, 0.0) == 0
    # The store was down for very long: the same.
    assert 840 <= ages.old_before(300.0, 1000.0, 6000.0 + 1e6) <= 850


def test_ages_stay_few_and_near() -> None:
    ages = Ages()
    for at in range(0, 100_000, 7):
        ages = ages.noted(Mark(at, float(at), float(at)))
    assert len(ages.marks) < 1000
    for seconds in (50, 500, 5_000, 50_000):
        old_before = ages.old_before(seconds, 99_995.0, 99_995.0)
        age = 99_995 - old_before
        assert seconds <= age <= seconds * 1.1 + 14
    assert retention.unpack_ages(retention.ages_row(ages).value or b"") == ages


# How it goes.


def test_let_go_then_out_of_the_journal() -> None:
    world = Retaining().filled()
    left = sum(row.size for row in world.rows()[4:])
    world.let_go(39)
    held = world.state.held
    assert (held.retained_from, held.ranges.low, held.high) == (40, 40, 99)
    assert world.state.holes() == []
    assert world.state.journal_bytes == left
    assert world.journal() == 10
    assert world.reclaim(3) == 3
    assert world.reclaim(3) == 1
    assert world.reclaim() == 0
    assert world.journal() == 6
    assert world.readable() == set(range(40, 100))
    again = world.reopened()
    assert again.state.held == held
    assert again.readable() == set(range(40, 100))


def test_a_crash_at_any_point_leaves_nothing_that_dangles_and_nothing_that_stays() -> None:
    """After any prefix of the commits the rest can be done, and all that is held is there."""
    for commits in range(5):
        world = Retaining().filled()
        for at, (what, how_much) in enumerate(_STEPS):
            if at == commits:
                world.storage.sync()
            getattr(world, what)(how_much)
        after = world.reopened(synced=False)
        retained_from = after.state.held.retained_from
        assert after.readable() == set(range(retained_from, 100))
        while after.reclaim(1):
            pass
        assert after.journal() == (100 - retained_from) // 10


_STEPS = (("let_go", 29), ("reclaim", 2), ("let_go", 59), ("reclaim", 3), ("reclaim", 100))


class Unreadable(MemoryStorage):
    """Some rows can not be read at present."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: set[tuple[Table, bytes]] = set()

    def get(self, table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        if any((table, key) in self.bad for key in keys):
            raise StorageUnreadable("the database", "block checksum mismatch")
        return super().get(table, keys)


@pytest.mark.parametrize("whole", [True, False], ids=["a whole batch", "a part of one"])
def test_what_can_not_be_read_stays_alone(whole: bool) -> None:
    storage = Unreadable()
    world = Retaining(storage).filled()
    bad = position_key(world.rows()[2].position)
    world.write(world.state.found_unreadable(20, 29))
    lost = Losses("s1", world.core.sources, storage).accept
    if whole:
        world.done(lost(ORDERS, 20, 29, "gone", 7))
    else:
        # Its second half comes from a peer: nothing of it is used any more.
        world.done(lost(ORDERS, 20, 24, "gone", 7))
        world.done(world.core.streams.fill(world.state, batch(25, 29), Range(25, 29)))
    world.let_go(59)
    storage.bad.add((Table.JOURNAL, bad))
    for _ in range(2):
        found = retention.reclaim(storage, 0, 1000)
        world.write(found.writes)
        assert found.unread.keys() == {position_of(bad)}
        assert "checksum mismatch" in found.unread[position_of(bad)]
    assert world.journal() == 5, "[60, 99], and what can not be read"
    assert storage.scan(Table.RELEASED, b"", b"\xff" * 8, 10) != [], "it is still known"
    # It was a passing error.
    storage.bad.clear()
    assert world.reclaim() == 1
    assert world.journal() == 4
    assert world.readable() == set(range(60, 100))


def test_what_was_let_go_of_nobody_knows_what_stays_alone() -> None:
    world = Retaining().filled()
    world.let_go(59)
    bad = position_key(world.rows()[0].position - 2)
    world.write([Write(Table.RELEASED, bad, b"not a row")])
    found = retention.reclaim(world.storage, 0, 1000)
    world.write(found.writes)
    assert (found.batches, list(found.unread)) == (5, [position_of(bad)])
    assert world.journal() == 5


def test_only_what_may_be_unreadable_is_read_before_it_goes() -> None:
    storage = Unreadable()
    world = Retaining(storage).filled()
    rows = world.rows()[:4]
    world.write(world.state.found_unreadable(20, 24))
    trusted = retention.readable(storage, world.state, rows)
    assert trusted == {row.position for row in rows if row.first != 20}
    world.let_go(39)
    storage.bad = {(Table.JOURNAL, position_key(row.position)) for row in rows}
    found = retention.reclaim(storage, 0, 1000, trusted)
    assert (found.batches, list(found.unread)) == (3, [rows[2].position])


def test_a_batch_that_is_corrupt_in_itself_is_no_reason_for_the_disk() -> None:
    storage = Unreadable()
    world = Retaining(storage).filled()
    parts = [Range(20, 39)]
    world.write([Write(Table.JOURNAL, position_key(world.rows()[2].position), b"rot")])
    assert retention.unreadable(storage, world.state.reg_id, parts) == ""
    storage.bad.add((Table.JOURNAL, position_key(world.rows()[3].position)))
    assert "mismatch" in retention.unreadable(storage, world.state.reg_id, parts)
    assert retention.unreadable(storage, world.state.reg_id, [Range(40, 99)]) == ""


def test_all_may_go_and_the_stream_goes_on() -> None:
    world = Retaining().filled(8)
    world.let_go(79)
    world.reclaim()
    state = world.reopened().state
    assert (state.held.high, state.held.ranges.high, state.held.next_sequence) == (79, -1, 80)
    again = world.reopened()
    stream = again.open(retained_from=50)
    assert stream.expected == 80, "what was let go is not sent again"
    again.append(stream, batch(80, 89))
    assert again.readable() == set(range(80, 90))
    registered = again.done(again.receivers.register(ORDERS, 1, 0, 1)).low
    assert registered == 80
    again.write(again.receivers.acknowledge(ORDERS, 1, 1, 79))
    assert again.state.receivers[1].acknowledged_upto == 79


def test_what_is_set_aside_goes_with_its_numbers_and_keeps_its_batch_until_then() -> None:
    world = Retaining()
    stream = world.stream()
    for at in range(5):
        world.append(stream, batch(10 * at, 10 * at + 9), stable_upto=9)
    # The next epoch keeps [0, 24]: a batch is cut, and two are set aside.
    assert world.begin(Lineage((Term(1, 0), Term(2, 25)))) == 25
    stream = world.open(2)
    world.append(stream, batch(25, 59, epoch=2), stable_upto=59)
    world.let_go(24)
    assert world.reclaim() == 2, "of [20, 29] a part is set aside"
    assert world.journal() == 4
    world.let_go(59)
    assert world.reclaim() == 4
    assert world.journal() == 0
    assert world.storage.scan(Table.SET_ASIDE, b"", b"\xff" * 24, 10) == []
    assert world.state.journal_bytes == world.state.held.bytes - world.state.held.released_bytes


def test_what_is_set_aside_twice_leaves_the_journal_twice() -> None:
    """Another epoch kept what one had set aside here: it came again, and is set aside again."""
    world = Retaining()
    stream = world.stream()
    for at in (0, 10):
        world.append(stream, batch(at, at + 9), stable_upto=9)
    world.begin(Lineage((Term(1, 0), Term(2, 10))))
    world.begin(Lineage((Term(1, 0), Term(3, 20))))
    world.append(world.open(3), batch(10, 19))
    world.begin(Lineage((Term(1, 0), Term(4, 10))))
    world.append(world.open(4), batch(10, 19, epoch=4), stable_upto=19)
    world.let_go(19)
    world.reclaim()
    assert world.journal() == 0


def test_what_was_set_aside_and_can_not_be_read_keeps_nobody_from_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Retaining()
    world.append(world.stream(), batch(0, 9), stable_upto=4)
    get = world.storage.get

    def damaged(table: Table, keys: Sequence[bytes]) -> list[bytes | None]:
        if table is Table.SET_ASIDE:
            raise StorageUnreadable("000007.sst", "block checksum mismatch")
        return get(table, keys)

    monkeypatch.setattr(world.storage, "get", damaged)
    assert world.begin(Lineage((Term(1, 0), Term(2, 5)))) == 5


def test_a_batch_with_several_rows_stays_until_the_last_of_them_goes() -> None:
    world = Retaining()
    stream = world.stream()
    world.write(world.core.streams.keepalive(stream, 29))
    world.write(world.core.streams.skip(stream, 0, 9))
    world.append(stream, batch(10, 12))
    world.write(world.core.streams.closed(stream))
    # A peer's batch fills what is around it: it gets two rows.
    world.done(world.core.streams.fill(world.state, batch(0, 29), Range(0, 29)))
    assert [(row.first, row.last, bool(row.size)) for row in world.rows()] == [
        (0, 9, False),
        (10, 12, True),
        (13, 29, False),
    ]
    world.let_go(12)
    assert world.reclaim() == 1
    assert world.readable() == set(range(13, 30))
    world.let_go(29)
    assert world.reclaim() == 1
    assert world.journal() == 0


def test_rows_that_can_not_be_read_are_given_up_when_others_let_them_go() -> None:
    world = Retaining().filled()
    world.write(world.state.found_unreadable(10, 19))
    world.write(retention.take_over(world.storage, world.state, 60))
    state = world.state
    assert not state.unreadable
    assert (state.held.retained_from, list(state.held.ranges)) == (60, [Range(0, 9), Range(20, 99)])
    assert state.released_at(10) == Range(10, 19)
    assert state.released_at(20) is None, "what is still here is served"
    assert state.holes() == []
    assert world.reclaim() == 1
    assert world.readable() == {*range(10), *range(20, 100)}
    world.write(retention.take_over(world.storage, state, 50))
    assert state.held.retained_from == 60


def test_what_turns_out_to_be_unreadable_later_is_given_up_too() -> None:
    """Else the store would be doubted for ever: nobody has what others let go."""
    world = Retaining().filled()
    world.write(retention.take_over(world.storage, world.state, 60))
    world.write(world.state.found_unreadable(10, 19))
    world.write(world.state.found_unreadable(70, 79))
    world.write(retention.take_over(world.storage, world.state, 50))
    state = world.state
    assert list(state.unreadable) == [Range(70, 79)], "that is still needed"
    assert (state.held.retained_from, list(state.held.ranges)) == (60, [Range(0, 9), Range(20, 99)])
    assert not retention.take_over(world.storage, state, 60)


def test_where_the_disk_did_not_give_something_is_known_until_it_does() -> None:
    storage = Unreadable()
    world = Retaining(storage).filled()
    bad = [position_key(row.position) for row in world.rows()[1:3]]
    storage.bad = {(Table.JOURNAL, key) for key in bad}
    world.write(retention.bad_batches(storage, world.state.reg_id, Range(10, 29)))
    assert ("checksum" in retention.still_bad(storage)[0], noted(world)) == (True, 2)
    rows = world.rows()
    trusted = retention.readable(storage, world.state, rows)
    assert trusted == {row.position for row in (rows[0], *rows[3:])}
    storage.bad.remove((Table.JOURNAL, bad[0]))
    why, writes = retention.still_bad(storage)
    world.write(writes)
    assert ("checksum" in why, noted(world)) == (True, 1)
    storage.bad.clear()
    why, writes = retention.still_bad(storage)
    world.write(writes)
    assert (why, noted(world)) == ("", 0)


def noted(world: World) -> int:
    return len(world.storage.scan(Table.META, *BAD_BATCH_KEYS, 100))


def test_what_others_let_go_is_not_lacking() -> None:
    world = Retaining().filled(3, stable_upto=29)
    world.write(retention.take_over(world.storage, world.state, 60))
    held = world.state.held
    assert (held.stable_upto, held.next_sequence, held.high) == (59, 60, 59)
    assert world.state.holes() == []
    assert world.state.has_upto(0) == 59
    assert world.reopened().state.held == held


def test_the_newest_marker_outlives_its_message_and_is_taken_over() -> None:
    world = Retaining()
    stream = world.stream()
    for at in range(3):
        frame = encode_batch(ORDERS, 1, at, [b"x"], 0, f"marker {at}".encode())
        world.append(stream, frame, stable_upto=at)
    world.let_go(2)
    assert world.state.markers == (Marker(2, 1, b"marker 2"),)
    assert world.reopened().state.markers == world.state.markers
    other = Retaining()
    other.stream()
    void = Marker(1, 7, b"of an epoch that is not in force")
    markers = (Marker(2, 1, b"marker 2"), void, Marker(9, 1, b"not let go"))
    other.write(retention.take_over(other.storage, other.state, 3, markers))
    assert other.state.markers == (Marker(2, 1, b"marker 2"),)


def test_archived_only_grows_and_never_above_what_is_stable() -> None:
    world = Retaining().filled()
    assert world.state.held.archived_upto == -1
    world.write(retention.archived(world.state, 50))
    assert retention.archived(world.state, 50) == ()
    assert retention.archived(world.state, 20) == ()
    with pytest.raises(InvalidArgument, match="79"):
        retention.archived(world.state, 80)
    assert world.reopened().state.held.archived_upto == 50


def test_an_ended_source_leaves_the_journal() -> None:
    world = Retaining().filled()
    steps = 0
    while writes := ended_sources.rows_gone(world.storage, world.state.reg_id, 3):
        world.write(writes)
        steps += 1
    assert steps == 4
    assert world.journal() == 10
    assert world.reclaim() == 10
    assert world.journal() == 0
    assert world.storage.scan(Table.RELEASED, b"", b"\xff" * 8, 10) == []


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_things(seed: int) -> None:
    """Batches that overlap, holes, epochs, crashes: what is held is there, nothing else stays."""
    chooser = random.Random(seed)
    world, epoch, upto, lineage = Retaining(), 1, -1, FIRST_LINEAGE
    stream = world.stream()
    for _ in range(80):
        match chooser.choice(("send", "send", "stable", "let go", "reclaim", "epoch", "again")):
            case "send":
                last = upto + chooser.randint(1, 12)
                world.append(stream, batch(upto + 1, last, epoch))
                upto = last
            case "stable" if upto >= 0:
                world.write(world.core.streams.keepalive(stream, chooser.randint(0, upto)))
            case "let go":
                # The last is over by age with all that there is.
                bounds = chooser.choice((Bounds(messages=10), Bounds(messages=40), Bounds(0, 1.0)))
                limit, old_before = limit_of(world.state), world.core.streams.position
                going, _ = retention.choose(world.rows(), world.state, bounds, limit, old_before)
                if going:
                    world.write(retention.let_go(world.storage, world.state, going))
            case "reclaim":
                world.reclaim(chooser.choice((1, 3, 50)))
            case "epoch":
                kept = chooser.randint(world.state.held.stable_upto, upto)
                epoch, lineage = epoch + 1, lineage.extended(kept, epoch + 1)
                world.begin(lineage)
                stream, upto = world.open(epoch, retained_from=kept + 1), kept
            case "again":
                world = world.reopened()
                stream = world.open(epoch, retained_from=upto + 1)
        held = world.state.held
        assert held.retained_from <= held.stable_upto + 1
        assert world.readable() == set(range(held.retained_from, upto + 1))
    while retention.reclaim(world.storage, 0, 1).positions is not None:
        world.reclaim()
    named = {row.position for row in world.rows()}
    named |= {row.position for _, row in index.aside(world.storage, world.state.reg_id)}
    journal = world.storage.scan(Table.JOURNAL, b"", b"\xff" * 8, 10_000)
    assert {key for key, _ in journal} == {position_key(position) for position in named}


# Waiting for subscriptions.

HELD = Limit(79, "what follows is not known to be stable")


def test_messages_wait_for_the_subscription_that_has_read_least() -> None:
    waits = SubscriberWaits()
    assert waits.within(ORDERS, HELD, None, 10.0, now=0.0) is HELD
    assert waits.within(ORDERS, HELD, Slowest("1.2.3.4:5", 79), 10.0, now=0.0) is HELD
    limit = waits.within(ORDERS, HELD, Slowest("1.2.3.4:5", 30), 10.0, now=0.0)
    assert limit == Limit(30, "the subscription of 1.2.3.4:5 has read up to 30 only")


def test_a_wait_lasts_no_longer_than_its_time_however_slowly_subscriptions_read() -> None:
    waits = SubscriberWaits()
    for second in range(10):
        assert waits.within(ORDERS, HELD, Slowest("a", second), 10.0, float(second)).upto == second
        waits.kept(ORDERS, float(second))
    assert waits.within(ORDERS, HELD, Slowest("a", 10), 10.0, now=10.0) is HELD
    other = waits.within(TRADES, HELD, Slowest("a", 10), 10.0, now=10.0)
    assert other.upto == 10, "each source has a wait of its own"


def test_once_subscriptions_keep_nothing_the_next_wait_has_its_whole_time() -> None:
    waits = SubscriberWaits()
    waits.kept(ORDERS, 0.0)
    waits.over(ORDERS)
    assert waits.within(ORDERS, HELD, Slowest("a", 5), 10.0, now=11.0).upto == 5


def test_waits_for_sources_that_are_gone_are_forgotten() -> None:
    waits = SubscriberWaits()
    waits.kept(ORDERS, 0.0)
    waits.kept(TRADES, 0.0)
    waits.forget_all_but({TRADES})
    assert waits.within(ORDERS, HELD, Slowest("a", 5), 10.0, now=11.0).upto == 5
    assert waits.within(TRADES, HELD, Slowest("a", 5), 10.0, now=11.0) is HELD
