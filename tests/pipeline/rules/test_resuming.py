"""A write that is repeated, at whatever point it broke off, has each row exactly once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import seams

from quorate.pipeline.errors import RowsDiffer, WriteNotOurs
from quorate.pipeline.rules import resuming
from quorate.pipeline.rules.chunks import NO_ROWS, Chunks, Rows
from quorate.pipeline.rules.resuming import (
    PARTITIONS_MAX,
    Commit,
    Stray,
    WriteBatch,
    WriteMarker,
    WriteProgress,
    partition_of,
    session_id,
    strays,
)
from quorate.pipeline.rules.rows_there import ReadBack, Released, RowSum
from quorate.protocol.attributes import Attributes, encode_attributes
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import (
    BATCH_BYTES_TARGET,
    BATCH_MESSAGES_MAX,
    MARKER_BYTES_MAX,
    SESSION_ID_MAX,
)

WRITE = WriteBatch("a-query", 7)
SOURCE = SourceName("orders", session_id("a-query", 3))


class FakeSource:
    """Takes commits, all or nothing, and dies before one of them if told to."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.marker = b""
        self.commits_left = 10**9

    def commit(self, commit: Commit) -> None:
        if self.commits_left == 0:
            raise ConnectionError("killed")
        self.commits_left -= 1
        assert 0 < len(commit.rows) <= BATCH_MESSAGES_MAX
        assert len(commit.rows) == 1 or sum(commit.rows.sizes()) <= BATCH_BYTES_TARGET
        self.rows += commit.rows.payloads
        self.marker = commit.marker.encoded()

    def survive(self, commits: int) -> FakeSource:
        self.commits_left = commits
        return self


def attempt(
    source: FakeSource,
    parts: Sequence[Rows],
    write: WriteBatch = WRITE,
    released: bool = False,
) -> WriteProgress:
    """What one attempt of a task does."""
    progress = WriteProgress(write, SOURCE, 3, source.marker)
    if progress.found:
        there = ReadBack([Rows(source.rows[-progress.found :])])
        progress.knows(Released(progress.written) if released else there)
    chunks = Chunks()
    for part in parts:
        for chunk in chunks.add(progress.new(part)):
            source.commit(progress.commit(chunk))
    progress.finish()
    if len(rest := chunks.rest()):
        source.commit(progress.commit(rest))
    return progress


def rows(*payloads: bytes) -> Rows:
    return Rows(list(payloads))


def numbered(count: int, size: int = 100) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(count)]


def parted(payloads: list[bytes], rng: random.Random) -> list[Rows]:
    """The same rows in Arrow batches of other sizes."""
    parts = []
    at = 0
    while at < len(payloads):
        size = rng.randint(1, 6000)
        parts.append(Rows(payloads[at : at + size]))
        at += size
    return parts


THOUSANDS = numbered(14_000)
COMMITS = len([*Chunks().add(Rows(THOUSANDS))]) + 1


@pytest.mark.parametrize("crash_after", range(COMMITS + 1))
def test_after_a_crash_at_any_point_a_repetition_completes_it(crash_after: int) -> None:
    source = FakeSource().survive(crash_after)
    if crash_after < COMMITS:
        with pytest.raises(ConnectionError):
            attempt(source, [Rows(THOUSANDS)])
    else:
        attempt(source, [Rows(THOUSANDS)])
    there = len(source.rows)
    progress = attempt(source.survive(COMMITS), parted(THOUSANDS, random.Random(crash_after)))
    assert source.rows == THOUSANDS
    assert (progress.found, progress.rows) == (there, len(THOUSANDS))
    marker = WriteMarker.decoded(SOURCE, source.marker)
    assert marker is not None
    assert marker.rows == len(THOUSANDS)


@given(crashes=st.lists(st.integers(0, 4), max_size=6), seed=st.integers())
@settings(max_examples=30)
def test_any_number_of_crashes_leaves_each_row_once(crashes: list[int], seed: int) -> None:
    rng = random.Random(seed)
    source = FakeSource()
    for commits in crashes:
        try:
            attempt(source.survive(commits), parted(THOUSANDS, rng))
        except ConnectionError:
            continue
    attempt(source.survive(10**9), parted(THOUSANDS, rng))
    assert source.rows == THOUSANDS


def changed_content(payloads: list[bytes]) -> list[bytes]:
    return [b"x" * len(payloads[0]), *payloads[1:]]


def one_row_less(payloads: list[bytes]) -> list[bytes]:
    return payloads[1:]


@pytest.mark.parametrize("crash_after", range(1, COMMITS))
@pytest.mark.parametrize("change", [changed_content, one_row_less])
@pytest.mark.parametrize("order", [sorted, lambda payloads: payloads[::-1]])
def test_other_rows_are_refused_and_nothing_is_added(
    crash_after: int,
    change: Callable[[list[bytes]], list[bytes]],
    order: Callable[[list[bytes]], list[bytes]],
) -> None:
    source = FakeSource().survive(crash_after)
    with pytest.raises(ConnectionError):
        attempt(source, [Rows(THOUSANDS)])
    there = list(source.rows)
    with pytest.raises(RowsDiffer, match="1 of them did not come again") as raised:
        attempt(source.survive(COMMITS), parted(order(change(THOUSANDS)), random.Random(1)))
    assert source.rows == there
    assert (raised.value.partition, raised.value.rows) == (3, len(there))
    assert (raised.value.batch, raised.value.source) == (7, str(SOURCE))


@given(crashes=st.lists(st.integers(0, 4), max_size=6), seed=st.integers())
@settings(max_examples=30)
def test_a_shuffle_that_brings_rows_in_any_order_leaves_each_row_once(
    crashes: list[int], seed: int
) -> None:
    rng = random.Random(seed)
    source = FakeSource()
    for commits in (*crashes, 10**9):
        shuffled = rng.sample(THOUSANDS, len(THOUSANDS))
        with contextlib.suppress(ConnectionError):
            attempt(source.survive(commits), parted(shuffled, rng))
    assert sorted(source.rows) == THOUSANDS


def test_rows_that_are_equal_are_counted() -> None:
    source = FakeSource()
    attempt(source, [rows(b"a", b"a", b"b")])
    attempt(source, [rows(b"c", b"b", b"a", b"a", b"a", b"b")])
    assert source.rows == [b"a", b"a", b"b", b"c", b"a", b"b"]


def test_a_key_makes_another_row() -> None:
    source = FakeSource()
    attempt(source, [rows(b"a")])
    with pytest.raises(RowsDiffer):
        attempt(source, [Rows([b"a"], keyed(b"k"))])


def test_what_is_held_for_rows_that_do_not_come_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.WRITE_HELD_BYTES_MAX.replace(monkeypatch, 2)
    source = FakeSource()
    attempt(source, [rows(b"a")])
    attempt(source, [rows(b"b", b"c", b"a")])
    with pytest.raises(RowsDiffer, match="more than 2 bytes of other rows came before them"):
        attempt(source, [rows(b"d"), rows(b"e", b"f")])
    assert source.rows == [b"a", b"b", b"c"]


def test_who_allows_it_has_each_row_at_least_once() -> None:
    source = FakeSource()
    attempt(source, [rows(b"a", b"b")])
    progress = WriteProgress(WRITE, SOURCE, 3, source.marker)
    progress.knows(ReadBack([Rows(source.rows)]))
    assert progress.new(rows(b"x", b"b")) == NO_ROWS
    with pytest.raises(RowsDiffer):
        progress.finish()
    assert progress.keep_those_there() == rows(b"x")
    assert progress.new(rows(b"y")) == rows(b"y")
    progress.finish()


@pytest.mark.parametrize("rows_again", range(0, len(THOUSANDS), 2000))
@pytest.mark.parametrize("released", [False, True])
def test_fewer_rows_than_there_are_is_refused(rows_again: int, released: bool) -> None:
    source = FakeSource()
    attempt(source, [Rows(THOUSANDS)])
    with pytest.raises(RowsDiffer):
        attempt(source, [Rows(THOUSANDS[: rows_again or 1])], released=released)
    assert source.rows == THOUSANDS


def test_rows_that_ended_early_without_a_word_are_made_up_for() -> None:
    """As Spark does it when what computes the rows has failed."""
    source = FakeSource()
    for rows_before_the_end in (1, 5000, 5000, 9999):
        attempt(source, [Rows(THOUSANDS[:rows_before_the_end])])
        assert source.rows == THOUSANDS[:rows_before_the_end]
    attempt(source, [Rows(THOUSANDS)])
    assert source.rows == THOUSANDS


@given(crashes=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 14_000)), max_size=6))
@settings(max_examples=30)
def test_crashes_and_early_ends_together_leave_each_row_once(
    crashes: list[tuple[int, int]],
) -> None:
    source = FakeSource()
    for commits, rows_before_the_end in crashes:
        there = len(source.rows)
        try:
            attempt(source.survive(commits), [Rows(THOUSANDS[:rows_before_the_end])])
        except ConnectionError:
            continue
        except RowsDiffer:
            assert rows_before_the_end < there
    attempt(source.survive(10**9), [Rows(THOUSANDS)])
    assert source.rows == THOUSANDS


# -- rows that no store has any longer ------------------------------------------------------------


def test_released_rows_may_come_back_whole_in_another_order() -> None:
    source = FakeSource()
    attempt(source, [Rows(THOUSANDS)])
    shuffled = random.Random(1).sample(THOUSANDS, len(THOUSANDS))
    assert attempt(source, [Rows(shuffled)], released=True).found == len(THOUSANDS)
    assert source.rows == THOUSANDS


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (changed_content(THOUSANDS), "their content differs"),
        ([*THOUSANDS, b"more"], "1 more came"),
    ],
)
def test_released_rows_that_come_back_otherwise_are_refused(again: list[bytes], why: str) -> None:
    source = FakeSource()
    attempt(source, [Rows(THOUSANDS)])
    with pytest.raises(RowsDiffer, match=why):
        attempt(source, [Rows(again)], released=True)
    assert source.rows == THOUSANDS


def test_batches_follow_each_other_in_one_source() -> None:
    source = FakeSource()
    for batch in (7, 8, 11):
        attempt(source, [rows(b"%d" % batch)], WriteBatch("a-query", batch))
    attempt(source, [rows(b"11")], WriteBatch("a-query", 11))
    assert source.rows == [b"7", b"8", b"11"]


def test_an_earlier_batch_is_there_whatever_its_rows_are() -> None:
    source = FakeSource()
    attempt(source, [rows(b"8")], WriteBatch("a-query", 8))
    assert attempt(source, [rows(b"other")], WRITE).rows == 0
    assert source.rows == [b"8"]


@pytest.mark.parametrize(
    "marker",
    [
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{}",
        b'{"quorate-write":1}',
        b'{"quorate-write":2,"write":"a-query"}',
        WriteMarker(WriteBatch("other", 7), 1, "0").encoded(),
    ],
)
def test_a_source_of_somebody_else_is_refused(marker: bytes) -> None:
    with pytest.raises(WriteNotOurs):
        WriteProgress(WRITE, SOURCE, 3, marker)


def test_the_largest_marker_fits() -> None:
    write = WriteBatch("ß" * (resuming.WRITE_ID_BYTES_MAX // 2), 2**63 - 1)
    marker = WriteMarker(write, 2**63 - 1, "f" * 16)
    assert len(marker.encoded()) <= MARKER_BYTES_MAX
    assert WriteMarker.decoded(SOURCE, marker.encoded()) == marker


@pytest.mark.parametrize("write_id", ["", "x" * (resuming.WRITE_ID_BYTES_MAX + 1)])
def test_a_write_needs_a_name_that_fits(write_id: str) -> None:
    with pytest.raises(InvalidArgument, match="writeId"):
        WriteBatch(write_id, 0)


# -- sums --------------------------------------------------------------------------------------

Row = tuple[bytes, Attributes]
some_attributes = st.builds(
    Attributes,
    st.none() | st.binary(max_size=3),
    st.dictionaries(st.sampled_from("ab"), st.binary(max_size=3), max_size=2),
    st.booleans(),
    st.none() | st.integers(-2, 2),
)
a_row = st.tuples(st.binary(max_size=3), some_attributes)


def made(each: Sequence[Row]) -> Rows:
    return Rows([payload for payload, _ in each], [attributes for _, attributes in each])


def keyed(*keys: bytes | None) -> list[Attributes]:
    return list(map(Attributes, keys))


def in_order(each: Sequence[Row]) -> list[tuple[bytes, bytes]]:
    return sorted((payload, encode_attributes(own)) for payload, own in each)


def sum_of(*parts: Rows) -> str:
    running = RowSum()
    for part in parts:
        running.add(part)
    return running.text


@given(st.lists(a_row, max_size=5), st.integers(0, 5))
def test_a_sum_does_not_depend_on_how_rows_are_cut(each: list[Row], at: int) -> None:
    assert sum_of(made(each)) == sum_of(made(each[:at]), made(each[at:]))


@given(
    st.lists(a_row, max_size=4).flatmap(
        lambda one: st.tuples(st.just(one), st.lists(a_row, min_size=len(one), max_size=len(one)))
    )
)
@settings(max_examples=200)
def test_only_the_same_rows_are_found_among_those_there(pair: tuple[list[Row], list[Row]]) -> None:
    one, other = pair
    there = ReadBack([made(one)])
    more = there.take(made(other))
    assert (len(more) == 0 and there.left == 0) == (in_order(one) == in_order(other))
    assert len(more) == there.left
    if in_order(one) == in_order(other):
        assert sum_of(made(one)) == sum_of(made(other))


def test_the_sum_sees_content_and_no_order() -> None:
    there = sum_of(Rows(THOUSANDS))
    assert sum_of(Rows(THOUSANDS[::-1])) == there
    assert sum_of(Rows(changed_content(THOUSANDS))) != there
    assert sum_of(Rows(THOUSANDS, keyed(b"k") * len(THOUSANDS))) != there


def test_rows_without_attributes_are_the_same_whether_there_are_columns_or_not() -> None:
    empty = Rows([b"1", b"2"], keyed(None, None))
    assert sum_of(rows(b"1", b"2")) == sum_of(empty)
    assert ReadBack([rows(b"1", b"2")]).take(empty) == NO_ROWS


def test_a_sum_goes_on_from_its_text() -> None:
    running = RowSum(1, sum_of(rows(b"one")))
    running.add(rows(b"two"))
    assert (running.rows, running.text) == (2, sum_of(rows(b"one", b"two")))


def test_sums_stay_as_they_are() -> None:
    # Stored in markers: a change of what is computed would refuse every write under way.
    assert sum_of(rows(b"one", b"two")) == "000000007d6d668c"
    assert sum_of(Rows([b"one"], [Attributes(b"key", {"name": b"value"})])) == "0000000081241ffc"


# -- identities --------------------------------------------------------------------------------


@given(st.text(min_size=1, max_size=40), st.integers(0, PARTITIONS_MAX - 1))
def test_a_session_tells_its_partition(write_id: str, partition: int) -> None:
    session = session_id(write_id, partition)
    assert 0 < session <= SESSION_ID_MAX
    assert session_id(write_id, partition) == session
    assert partition_of(write_id, session) == partition
    assert partition_of(write_id + "x", session) is None


def test_sessions_stay_as_they_are() -> None:
    # A query that is restarted with a newer version must find its sources again.
    assert session_id("a-query", 3) == 0xFC68771B3F5E0003


def test_too_many_partitions_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="65,535"):
        session_id("a-query", PARTITIONS_MAX)


def test_no_session_of_a_write_is_all_ones() -> None:
    assert partition_of("a-query", (session_id("a-query", 0) | 0xFFFF)) is None


# -- strays ------------------------------------------------------------------------------------


def test_rows_that_no_task_reported_are_found() -> None:
    def source(partition: int, topic: str = "orders") -> SourceName:
        return SourceName(topic, session_id("a-query", partition))

    here = WriteMarker(WRITE, 5, "d")
    earlier = replace(here, write=WriteBatch("a-query", 6))
    other = replace(here, write=WriteBatch("another", 7))
    found = {
        source(0): [here.encoded()],
        source(1): [earlier.encoded(), here.encoded()],
        source(2): [earlier.encoded()],
        source(3): [other.encoded()],
        source(4): [b"an application's"],
        source(5): [b""],
        source(6): [],
        source(0, "trades"): [replace(here, rows=2).encoded()],
    }
    assert strays(WRITE, found, [source(0)]) == [
        Stray(source(1), 5),
        Stray(source(0, "trades"), 2),
    ]
    assert strays(WRITE, found, found) == []
