"""How far micro-batches go; asked as Spark asks, with real stores."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from tests.pipeline.group import Group, numbered, until
from tests.pipeline.read.test_read_part import known

from quorate.pipeline.errors import OffsetsBehind
from quorate.pipeline.options import read_options
from quorate.pipeline.read.cursors import (
    Cursor,
    acknowledge,
    session_id_of,
)
from quorate.pipeline.read.stream_reader import (
    Offsets,
    StreamReader,
)
from quorate.pipeline.schema import ARROW
from quorate.pipeline.stores.client import (
    Stores,
    stub_of,
)
from quorate.protocol.errors import Fenced, InvalidArgument, Unreachable
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_from_wire
from quorate.v1.store_pb2 import InventoryRequest

ALL = ReadAllAvailable()


def stream(group: Group, **options: str) -> StreamReader:
    return StreamReader(read_options({"stores": group.stores, **options}), ARROW)


def payloads(reader: StreamReader, start: Offsets, end: Offsets) -> list[bytes]:
    """What a micro-batch has, read by copies of the reader, as Spark does it."""
    return [
        payload
        for partition in reader.partitions(start, end)
        for batch in pickle.loads(pickle.dumps(reader)).read(partition)
        for payload in batch.column("payload").to_pylist()
    ]


def positions(group: Group, cursor: str) -> dict[SourceName, set[int]]:
    """Of a cursor's sources, at the stores."""
    found: dict[SourceName, set[int]] = {}
    request = InventoryRequest(protocol_version=PROTOCOL_VERSION)
    for address in group.addresses:
        known = (each for answer in stub_of(address).Inventory(request) for each in answer.sources)
        for source, receiver in ((each, receiver) for each in known for receiver in each.receivers):
            if receiver.session_id == session_id_of(cursor):
                name = source_from_wire(source.source)
                found.setdefault(name, set()).add(receiver.acknowledged_upto)
    return found


def test_from_the_beginning_to_what_is_stable(group: Group) -> None:
    name = group.publish("stream-all", numbered(0, 99))
    reader = stream(group, topics="stream-all")
    start = reader.initialOffset()
    assert start == {str(name): 0}
    end = reader.latestOffset(start, ALL)
    assert end == {str(name): 100}
    assert reader.latestOffset(end, ALL) == end
    assert reader.reportLatestOffset() == end
    assert payloads(reader, start, end) == numbered(0, 99)
    assert reader.partitions(end, end) == []


@pytest.mark.expects_log("no store that answered has a source for appear-")
def test_a_topic_and_a_source_that_appear_are_read_from_their_beginning(group: Group) -> None:
    reader = stream(group, topicsPattern="appear-.*")
    start = reader.initialOffset()
    assert start == {}
    group.publish("appear-a", numbered(0, 9))
    first = reader.latestOffset(start, ALL)
    assert first == {"appear-a/0x10": 10}
    group.publish("appear-b", numbered(10, 19))
    group.publish("appear-a", numbered(20, 29), session_id=0x11)
    second = reader.latestOffset(first, ALL)
    assert list(second.items()) == [
        ("appear-a/0x10", 10),
        ("appear-a/0x11", 10),
        ("appear-b/0x10", 10),
    ]
    # Another process, which knows nothing but the two offsets.
    other = stream(group, topicsPattern="appear-.*")
    assert payloads(other, start, first) == numbered(0, 9)
    assert sorted(payloads(other, first, second)) == numbered(10, 29)


def test_limits_share_what_there_is(group: Group) -> None:
    group.publish("limits-a", [b"x" * 99] * 900)
    group.publish("limits-b", [b"x" * 99] * 100)
    reader = stream(group, topicsPattern="limits-.*", maxMessagesPerTrigger="100")
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(100)
    assert reader.latestOffset(start, limit) == {"limits-a/0x10": 90, "limits-b/0x10": 10}
    assert reader.latestOffset(start, ALL) == {"limits-a/0x10": 900, "limits-b/0x10": 100}
    reader = stream(group, topicsPattern="limits-.*", maxBytesPerTrigger="10000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(10_000)
    end = reader.latestOffset(start, ReadMaxBytes(10_000))
    assert end == {"limits-a/0x10": 91, "limits-b/0x10": 10}
    both = stream(
        group,
        topicsPattern="limits-.*",
        maxBytesPerTrigger="10000",
        maxMessagesPerTrigger="500",
    )
    assert both.latestOffset(start, both.getDefaultReadLimit()) == end


def test_a_small_micro_batch_waits_for_more_messages(group: Group) -> None:
    group.publish("small", numbered(0, 4))
    given = {"topics": "small", "minMessagesPerTrigger": "10", "maxTriggerDelay": "1h"}
    reader = stream(group, **given)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    first = reader.latestOffset(start, limit)
    assert first == {"small/0x10": 5}, "the first one does not wait"
    group.publish("small", numbered(5, 13))
    group.publish("small", [], session_id=0x11)
    assert reader.latestOffset(first, limit) == first
    assert reader.latestOffset(first, ALL)["small/0x10"] == 14, "Spark wants all there is"
    group.publish("small", numbered(14, 14))
    assert reader.latestOffset(first, limit)["small/0x10"] == 15
    both = stream(group, **given, maxMessagesPerTrigger="12")
    assert both.getDefaultReadLimit() == ReadMaxRows(12)
    second = both.latestOffset(start, ReadMaxRows(12))
    assert second["small/0x10"] == 12
    assert both.latestOffset(second, ReadMaxRows(12)) == second
    now = stream(group, **given)
    now.prepareForTriggerAvailableNow()
    now.latestOffset(start, limit)
    assert now.latestOffset(second, limit)["small/0x10"] == 15, "a run over what there is ends"


def test_what_comes_after_the_start_of_a_run_over_what_there_is_waits(group: Group) -> None:
    group.publish("now", numbered(0, 9))
    reader = stream(group, topicsPattern="now.*", maxMessagesPerTrigger="6")
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    group.publish("now", numbered(10, 19))
    group.publish("now-later", numbered(0, 9))
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(start, limit)
    assert first == {"now-later/0x10": 0, "now/0x10": 6}
    second = reader.latestOffset(first, limit)
    assert second == {"now-later/0x10": 0, "now/0x10": 10}
    assert reader.latestOffset(second, limit) == second


def test_a_start_at_the_latest_is_the_same_however_often_it_is_asked(group: Group) -> None:
    name = group.publish("moving", numbered(0, 9))
    options = {"topics": "moving", "startingOffsets": "latest", "cursorName": "moving"}
    reader = stream(group, **options)
    start = reader.initialOffset()
    assert start == {str(name): 10}
    group.publish("moving", numbered(10, 19))
    group.publish("moving", numbered(0, 4), session_id=0x11)
    assert reader.initialOffset() == start
    # It stopped before its first batch was done, and Spark knows of nothing.
    again = stream(group, **options)
    assert again.initialOffset() == {str(name): 10, "moving/0x11": 0}
    assert payloads(again, start, again.latestOffset(start, ALL)) == [
        *numbered(10, 19),
        *numbered(0, 4),
    ]


def test_no_stream_begins_behind_what_is_stable(group: Group) -> None:
    name = group.publish("too-far", numbered(0, 9))
    start = json.dumps({str(name): 11})
    with pytest.raises(InvalidArgument, match="the next number that can become stable is 10"):
        stream(group, topics="too-far", startingOffsets=start).initialOffset()
    start = json.dumps({str(name): 10})
    at_the_end = stream(group, topics="too-far", startingOffsets=start)
    assert at_the_end.initialOffset() == {str(name): 10}


def test_a_cursor_is_a_position_in_the_stores(group: Group) -> None:
    name = group.publish("cursor", numbered(0, 99))
    reader = stream(group, topics="cursor", cursorName="mine", maxMessagesPerTrigger="40")
    start = reader.initialOffset()
    assert start == {str(name): 0}
    assert positions(group, "mine") == {name: {-1}}
    first = reader.latestOffset(start, ReadMaxRows(40))
    reader.commit(first)
    assert positions(group, "mine") == {name: {39}}
    second = reader.latestOffset(first, ReadMaxRows(40))
    # Spark tells of the end of a batch late or never; where the next starts says it, too.
    reader.latestOffset(second, ReadMaxRows(40))
    assert positions(group, "mine") == {name: {79}}
    assert stream(group, topics="cursor", cursorName="mine").initialOffset() == {str(name): 80}
    acknowledge(group.stores, "mine", {str(name): 100})
    assert positions(group, "mine") == {name: {99}}


def test_who_takes_a_cursor_over_fences_who_had_it(group: Group) -> None:
    name = group.publish("taken", numbered(0, 9))
    one = stream(group, topics="taken", cursorName="taken")
    start = one.initialOffset()
    other = stream(group, topics="taken", cursorName="taken")
    other.initialOffset()
    with pytest.raises(Fenced):
        one.commit({str(name): 5})
    other.commit({str(name): 4})
    assert positions(group, "taken") == {name: {3}}
    assert start == {str(name): 0}


def test_a_store_that_was_away_hears_of_a_cursor_when_it_is_back(own_group: Group) -> None:
    name = own_group.publish("away", numbered(0, 9))
    reader = stream(own_group, topics="away", cursorName="c")
    start = reader.initialOffset()
    own_group.kill(2)
    other = stream(own_group, topics="away", cursorName="c")
    end = other.latestOffset(other.initialOffset(), ALL)
    own_group.start(2)
    other.commit(end)

    def heard() -> bool:
        # It refuses what it has not heard of, and is told of it with the next look.
        other.latestOffset(end, ALL)
        return positions(own_group, "c") == {name: {9}}

    until("the store has the cursor's position", heard)
    assert start == {str(name): 0}


@pytest.mark.long
def test_a_stream_that_was_begun_anew_is_not_taken_for_the_old_one(own_group: Group) -> None:
    name = own_group.publish("anew", numbered(0, 99))
    reader = stream(own_group, topics="anew")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    with own_group.open("anew") as source:
        source.deregister()
    assert reader.latestOffset(end, ALL) == end
    own_group.publish("anew", numbered(0, 9))
    with pytest.raises(OffsetsBehind, match=r"has to go on with .* at 100"):
        reader.latestOffset(end, ALL)
    # With a store away it may be the one that has the rest.
    own_group.kill(0)
    assert reader.latestOffset(end, ALL) == {str(name): 100}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endingOffsets": '{"a/1": 5}'}, "a stream does not end"),
        ({"endingTimestamp": "5"}, "a stream does not end"),
        ({"startingOffsets": "latest"}, "cursorName: is missing"),
        ({"startingTimestamp": "5"}, "cursorName: is missing"),
        ({"startingOffsets": '{"a/1": "latest"}'}, "cursorName: is missing"),
    ],
)
def test_what_a_stream_can_not_have(options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        StreamReader(read_options({"stores": "a:1", **options}), ARROW)


def test_a_source_that_only_an_archive_has_needs_no_cursor() -> None:
    gone = replace(known(), stores=())
    assert Cursor(Stores(["a:1"]), "c").register([gone]) == {}


def test_names_of_cursors_have_sessions_of_their_own() -> None:
    names: Sequence[str] = ["a", "b", "", "ä"]
    assert len({session_id_of(name) for name in names}) == 4
    assert session_id_of("a") == Cursor(Stores(["a:1"]), "a").session_id


@pytest.mark.expects_log("no store that answered has a source for")
def test_who_waits_for_a_topic_that_there_is_not_is_told_once(
    group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    group.publish("departures", numbered(0, 9))
    reader = stream(group, topics="departurs,departures")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ALL) == {"departures/0x10": 10}
    [said] = [each.getMessage() for each in caplog.records if "answered" in each.message]
    assert "a source for departurs; the query waits" in said
    assert said.endswith("known topics: departures")
    caplog.clear()
    stream(group, topicsPattern="nothing-.*").latestOffset({}, ALL)
    stream(group, topicsPattern="depart.*").latestOffset({}, ALL)
    [said] = [each.getMessage() for each in caplog.records if "answered" in each.message]
    assert "a source for nothing-.*;" in said


def test_a_position_of_a_source_that_there_is_not_is_refused(group: Group) -> None:
    group.publish("from-five", numbered(0, 9))
    reader = stream(group, topics="from-five", startingOffsets='{"form-five/0x10": 5}')
    with pytest.raises(
        InvalidArgument,
        match=r"form-five/0x10 is not one of the sources to read, which are 1: from-five/0x10",
    ):
        reader.initialOffset()


@pytest.mark.expects_log("does not take")  # If the source is not stopped first.
def test_who_names_one_store_goes_on_with_the_others_when_it_dies(own_group: Group) -> None:
    named = own_group.addresses[0]
    name = own_group.publish("named-one", numbered(0, 99))
    given = {"stores": named, "topics": "named-one", "cursorName": "one"}
    reader = StreamReader(read_options(given), ARROW)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    partitions = reader.partitions(start, end)
    own_group.kill(0)
    # A worker has a copy that has asked nobody.
    copy = StreamReader(read_options(given), ARROW)
    batches = [batch for each in partitions for batch in copy.read(each)]
    assert sum(len(batch) for batch in batches) == 100
    own_group.publish("named-one", numbered(100, 149))
    until("it is seen", lambda: reader.latestOffset(end, ALL) == {str(name): 150})
    assert reader._stores.first_since(name, 0) == 0
    with pytest.raises(Unreachable):
        StreamReader(read_options(given), ARROW).initialOffset()
