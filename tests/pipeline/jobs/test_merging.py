"""Messages of many sources, merged without Spark."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.pipeline.archive.support import NOON_NS, ORDERS, TRADES, FakeStores, Stream, batch
from tests.pipeline.contents import by_source
from tests.pipeline.group import Group, numbered

from quorate.pipeline.jobs.command import run_backtest
from quorate.pipeline.jobs.merging import MESSAGES_MAX, merged, pieces
from quorate.pipeline.jobs.replay import Position, Replayed
from quorate.pipeline.read.ranges import read_part
from quorate.pipeline.rules.planning import Part, SourceRange
from quorate.pipeline.schema import ARROW
from quorate.protocol.framing import read_header
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.lineage import Lineage, Term

SECOND_NS = 10**9
FIRST = Lineage((Term(1, 0),))


def read_all(streams: dict[SourceName, list[bytes]], *ranges: SourceRange) -> list[Replayed]:
    stores = FakeStores({name: Stream(frames=frames) for name, frames in streams.items()})

    def read(piece: SourceRange) -> Iterator[pa.RecordBatch]:
        return read_part(stores, Part((piece,), 0), ARROW, fail_on_data_loss=True)

    return [message for messages in merged(ranges, read) for message in messages]


def at(second: int, number: int, source: SourceName) -> bytes:
    return batch(number, number, source=source, time_ns=NOON_NS + second * SECOND_NS)


def numbers(messages: list[Replayed]) -> list[tuple[str, int]]:
    return [(each.topic, each.position.sequence) for each in messages]


def test_sources_are_merged_by_time_then_topic_and_number() -> None:
    streams = {
        source: [at(second, number, source) for number, second in enumerate(seconds)]
        for source, seconds in ((ORDERS, (0, 2, 4, 4, 600)), (TRADES, (1, 3, 4, 5)))
    }
    ranges = [
        SourceRange(ORDERS, 0, 2, FIRST),
        SourceRange(ORDERS, 2, 5, FIRST),
        SourceRange(TRADES, 0, 4, FIRST),
    ]
    found = numbers(read_all(streams, *ranges))
    assert found == [
        *(("orders", 0), ("trades", 0), ("orders", 1), ("trades", 1), ("orders", 2)),
        *(("orders", 3), ("trades", 2), ("trades", 3), ("orders", 4)),
    ]


def test_a_clock_that_was_put_back_changes_no_order_and_no_time() -> None:
    frames = [at(second, number, ORDERS) for number, second in enumerate((10, 5, 11))]
    found = read_all({ORDERS: frames}, SourceRange(ORDERS, 0, 3, FIRST))
    assert [each.position.sequence for each in found] == [0, 1, 2]
    positions = [each.position for each in found]
    assert positions == sorted(positions), "a replay can go on behind each of them"
    assert [(each.time - found[0].time).total_seconds() for each in found] == [0, -5, 1]


@pytest.mark.parametrize("seed", range(20))
def test_any_streams_are_merged_as_a_sort_would(seed: int) -> None:
    draw = random.Random(seed)
    streams: dict[SourceName, list[bytes]] = {}
    expected: list[Position] = []
    for session in range(1, draw.randint(2, 12)):
        name = SourceName(draw.choice(["orders", "trades", "a"]), session)
        streams[name], first, latest_us = [], 0, 0
        for _ in range(draw.randint(1, 8)):
            last, second = first + draw.randint(0, 4), draw.randint(0, 5)
            time_ns, passing_ns = NOON_NS + second * SECOND_NS, draw.choice([0, SECOND_NS // 2])
            streams[name].append(
                batch(first, last, source=name, time_ns=time_ns, passing_ns=passing_ns)
            )
            for number in range(first, last + 1):
                latest_us = max(latest_us, (time_ns + passing_ns * (number - first)) // 1000)
                expected.append(Position(latest_us, name.topic, f"{session:#x}", number))
            first = last + 1
    ranges = [
        SourceRange(name, 0, read_header(frames[-1]).last + 1, FIRST)
        for name, frames in streams.items()
    ]
    found = [each.position for each in read_all(streams, *ranges)]
    assert found == sorted(expected)


def test_what_a_message_has_comes_along() -> None:
    frame = batch(0, 3, attributes=True)
    found = read_all({ORDERS: [frame]}, SourceRange(ORDERS, 0, 4, FIRST))
    assert [each.payload for each in found] == [b"message %d" % number for number in range(4)]
    assert [each.key for each in found] == [None, b"key 1", b"key 2", None]
    assert found[1].properties == {"a": b"1", "b": b"\0"}
    assert [each.deleted for each in found] == [False, True, False, False]
    assert [each.expires is None for each in found] == [True, False, False, False]


def test_nothing_to_replay_is_no_error() -> None:
    assert read_all({}) == []


def test_pieces_are_cut_by_messages_and_by_bytes() -> None:
    small = list(pieces([SourceRange(ORDERS, 5, MESSAGES_MAX + 6)], 1e9))
    assert [(each.first, each.until) for each in small] == [
        (5, MESSAGES_MAX + 5),
        (MESSAGES_MAX + 5, MESSAGES_MAX + 6),
    ]
    large = SourceRange(ORDERS, 0, 3, message_bytes=1e6)
    assert [len(each) for each in pieces([large], 2.5e6)] == [2, 1]
    assert [len(each) for each in pieces([large], 10)] == [1, 1, 1]


def test_a_backtest_of_stores_needs_no_spark(group: Group) -> None:
    for session in (1, 2):
        group.publish("merged", numbered(0, 2999), session)
    given = {"name": "merged", "speed": "max", "topics": ["merged"], "until": "2100-01-01"}
    layout = Layout.plain(group.stores)
    report = run_backtest(layout, to="merged.again", told=print, **given)  # type: ignore[arg-type]
    assert (report.progress.messages, report.last) == (6000, {"merged.again": 5999})
    [payloads] = by_source(group, "merged.again").values()
    assert sorted(payloads) == sorted(numbered(0, 2999) * 2)
    again = run_backtest(layout, to="merged.again", told=print, **given)  # type: ignore[arg-type]
    assert (again.progress.messages, again.progress.already) == (0, 0)
    assert isinstance(again.resumed_at, Position)


@pytest.mark.parametrize("module", ["merging", "backtest"])
def test_the_backtest_imports_no_spark(module: str) -> None:
    code = f"import sys, quorate.pipeline.jobs.{module}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
