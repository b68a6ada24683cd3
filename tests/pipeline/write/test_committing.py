"""What the driver does with what the tasks have written; with real stores and without Spark."""

from __future__ import annotations

import logging
import pickle

import pytest
from tests.pipeline.group import Group, until

from quorate.pipeline.errors import RowsDiffer, RowsRefused, RowsUnaccounted
from quorate.pipeline.rules.chunks import Rows
from quorate.pipeline.rules.resuming import (
    WriteBatch,
    WriteMarker,
    session_id,
)
from quorate.pipeline.write.committing import (
    TaskMessage,
    abort_batch,
    commit_batch,
    roll_up,
)
from quorate.pipeline.write.leftovers import newest_markers
from quorate.pipeline.write.options import (
    WriteOptions,
    write_options,
)
from quorate.pipeline.write.writing import (
    Attempt,
    Written,
    write_partition,
)
from quorate.protocol.errors import InvalidArgument, MessageTooLarge, NoQuorum, NotYetStable
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout

WRITE = WriteBatch("a-write", 5)


def options_for(group: Group, **more: str) -> WriteOptions:
    return write_options({"stores": group.stores, **more}, streaming=True)


def task(
    group: Group, partition: int, *payloads: bytes, topic: str = "t", write: WriteBatch = WRITE
) -> TaskMessage:
    rows = [[(topic, Rows(list(payloads)))]] if payloads else []
    written = write_partition(rows, Attempt(write, partition, 0), options_for(group))
    return TaskMessage(write, partition, tuple(written))


def test_receipts_are_rolled_up() -> None:
    def written(topic: str, partition: int, *, rows: int, already: int, last: int) -> Written:
        source = SourceName(topic, partition)
        return Written(source, rows, already, last, ("a", f"s{partition}"))

    messages = [
        TaskMessage(WRITE, 2, (written("t", 2, rows=1000, already=400, last=1999),)),
        TaskMessage(WRITE, 3, ()),
        TaskMessage(
            WRITE,
            1,
            (
                written("u", 1, rows=5, already=0, last=4),
                written("t", 1, rows=7, already=7, last=6),
            ),
        ),
    ]
    committed = roll_up(messages)
    assert (committed.rows, committed.already) == (1012, 407)
    assert list(committed.last.items()) == [
        (SourceName("t", 1), 6),
        (SourceName("t", 2), 1999),
        (SourceName("u", 1), 4),
    ]
    assert committed.stores == ("a", "s1", "s2")
    assert str(committed).startswith(
        "1,012 rows, 407 of them from earlier attempts, in 3 sources of 2 topics; all stable"
    )


def test_a_batch_that_is_all_there_is_committed(
    own_group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "quorate.pipeline")
    task(own_group, 7, b"of the batch before", write=WriteBatch("a-write", 4))
    task(own_group, 8, b"of another write", write=WriteBatch("another", 5))
    messages = [task(own_group, 0, b"1", b"2"), task(own_group, 1), None]
    committed = commit_batch(options_for(own_group), WRITE, messages)
    assert committed.last == {SourceName("t", session_id("a-write", 0)): 1}
    assert "batch 5 of write a-write: 2 rows, in 1 sources of 1 topics" in caplog.text


@pytest.mark.parametrize("topic", ["t", "another topic"])
def test_rows_that_no_task_has_stop_the_commit(own_group: Group, topic: str) -> None:
    task(own_group, 5, b"1", b"2", topic=topic)
    with pytest.raises(RowsUnaccounted) as raised:
        commit_batch(options_for(own_group, topic="t"), WRITE, [task(own_group, 0, b"1")])
    source = SourceName(topic, session_id("a-write", 5))
    assert raised.value.sources == f"{source} (2 rows)"
    assert (raised.value.batch, raised.value.rows) == (5, 2)


@pytest.mark.expects_log("committed all the same.*t/0x.* \\(2 rows\\)")
def test_who_allows_it_commits_rows_that_no_task_has(own_group: Group) -> None:
    task(own_group, 5, b"1", b"2")
    options = options_for(own_group, failOnRowsDiffer="false")
    assert commit_batch(options, WRITE, [task(own_group, 0, b"1")]).rows == 1


@pytest.mark.expects_log("does not take|lost its quorum")
def test_what_only_one_store_has_and_is_not_stable_is_found(own_group: Group) -> None:
    message = task(own_group, 0, b"1")
    stray = SourceName("t", session_id("a-write", 5))
    source = own_group.open(stray.topic, stray.session_id)
    own_group.pause(1)
    own_group.pause(2)
    source.commit([b"stray"], WriteMarker(WRITE, 1, "0").encoded())
    first = Layout.plain(own_group.addresses[0])
    until("a store has it", lambda: bool(newest_markers(first, lambda name: name == stray, 5.0)))
    with pytest.raises(NotYetStable):
        source.close(timeout=0)
    own_group.resume(1)
    own_group.resume(2)
    with pytest.raises(RowsUnaccounted, match=str(stray)):
        commit_batch(options_for(own_group), WRITE, [message])


def test_a_commit_asks_so_many_stores_that_nothing_stable_is_missed(own_group: Group) -> None:
    message = task(own_group, 0, b"1")
    task(own_group, 5, b"stray")
    own_group.kill(2)
    with pytest.raises(RowsUnaccounted):
        commit_batch(options_for(own_group), WRITE, [message])
    own_group.kill(1)
    with pytest.raises(NoQuorum, match="committing a batch"):
        commit_batch(options_for(own_group, timeout="0.3"), WRITE, [message])


def test_markers_are_the_newest(own_group: Group) -> None:
    for batch in (1, 2, 3):
        task(own_group, 0, b"%d" % batch, write=WriteBatch("a-write", batch))
    name = SourceName("t", session_id("a-write", 0))
    found = newest_markers(options_for(own_group).layout, lambda source: source == name, 5.0)
    markers = {WriteMarker.decoded(name, text) for text in found[name]}
    assert {marker.write.batch for marker in markers if marker is not None} == {3}


def test_rows_that_can_not_be_written_stop_the_commit() -> None:
    options = write_options({"stores": "a:1"}, streaming=True)
    messages = [
        TaskMessage(WRITE, 0, ()),
        TaskMessage(WRITE, 3, (), InvalidArgument("column payload", "is null")),
        TaskMessage(WRITE, 4, (), MessageTooLarge(5, 4)),
    ]
    with pytest.raises(RowsRefused) as raised:
        commit_batch(options, WRITE, pickle.loads(pickle.dumps(messages)))
    error = raised.value
    assert (error.partition, error.detail, error.partitions) == (3, "column payload: is null.", 2)


def test_rows_that_differ_stop_the_commit() -> None:
    options = write_options({"stores": "a:1"}, streaming=True)
    differ = RowsDiffer("t/0x1", "a-write", 5, 2, 100, "1 of them did not come again")
    messages = pickle.loads(pickle.dumps([TaskMessage(WRITE, 2, (), differ)]))
    with pytest.raises(RowsDiffer, match="Partition 2 of batch 5 of write a-write"):
        commit_batch(options, WRITE, messages)


@pytest.mark.expects_log("batch 5 of write a-write failed. The rows that its tasks wrote stay")
def test_an_abort_says_what_stays(caplog: pytest.LogCaptureFixture) -> None:
    written = Written(SourceName("t", 1), 3, 0, 2, ("a",))
    abort_batch(WRITE, [TaskMessage(WRITE, 1, (written,)), None])
    assert "3 rows, in 1 sources of 1 topics" in caplog.text
