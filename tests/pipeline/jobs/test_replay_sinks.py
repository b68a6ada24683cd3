"""Sending again, with real stores and without Spark; each message once, however often it begins."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest
from tests.pipeline.contents import by_source
from tests.pipeline.dying_replay import in_columns, message, send
from tests.pipeline.group import Group

from quorate.pipeline.errors import FunctionFailed, WriteNotOurs
from quorate.pipeline.jobs.replay import Replayed, ReplayProgress
from quorate.pipeline.jobs.replay_sinks import (
    FunctionSink,
    TopicsSink,
)
from quorate.pipeline.rules.resuming import session_id
from quorate.pipeline.stores.client import Stores
from quorate.pipeline.write.writing import LoopThread
from quorate.protocol.attributes import Attributes
from quorate.protocol.errors import InvalidArgument, MessageTooLarge
from quorate.protocol.framing import read_contents
from quorate.protocol.identity import SourceName
from quorate.protocol.layout import Layout
from quorate.protocol.limits import BATCH_BYTES_TARGET, MESSAGE_BYTES_USUAL
from quorate.protocol.times import nanoseconds_of
from quorate.source.blocking import Source


def sent(group: Group, topic: str) -> list[bytes]:
    [payloads] = by_source(group, topic).values()
    return payloads


def had(group: Group, topic: str) -> list[Attributes]:
    """The attributes of the messages of a topic with one source."""
    stores = Stores(group.addresses)
    [known] = [one for name, one in stores.sources().sources.items() if name.topic == topic]
    return [
        attributes
        for piece in stores.fetch(known.name, known.lineage, 0, known.stable_upto)
        for _, attributes in read_contents(piece.frame, piece.header, piece.first, piece.last)
    ]


def test_a_function_has_each_message() -> None:
    called: list[Replayed] = []
    sink, progress = FunctionSink(called.append), ReplayProgress()
    sink.take(in_columns([message(1), message(2)]), progress)
    sink.flush()
    assert [(each.position, each.payload) for each in called] == [
        (message(number).position, b"%d" % number) for number in (1, 2)
    ]
    assert (progress.messages, progress.bytes) == (2, 2)


def test_messages_before_one_that_fails_count() -> None:
    def fail(each: Replayed) -> None:
        if each.position.sequence == 2:
            raise ValueError("not this one")

    progress = ReplayProgress()
    with pytest.raises(FunctionFailed, match="t/0x10 2: ValueError: not this one"):
        FunctionSink(fail).take(in_columns([message(number) for number in range(5)]), progress)
    assert (progress.messages, progress.last_us) == (2, message(1).position.time_us)


def test_messages_are_stable_at_the_end_with_their_attributes(group: Group) -> None:
    layout = Layout.plain(group.stores)
    with TopicsSink("again", layout, "attributes") as sink:
        assert sink.position is None
        moment = datetime(2026, 1, 31, tzinfo=UTC)
        gone = message(1, "one", b"key")._replace(deleted=True, expires=moment)
        progress = ReplayProgress()
        sink.take(in_columns([gone, message(2, "two")]), progress)
        sink.flush()
    assert (progress.messages, progress.already) == (2, 0)
    assert sink.last == {"again": 1}
    name = SourceName("again", session_id("backtest:attributes", 0))
    stores = Stores(group.addresses)
    [piece] = stores.fetch(name, stores.sources().sources[name].lineage, 0, 1)
    contents = read_contents(piece.frame, piece.header, 0, 1)
    assert [payload for payload, _ in contents] == [b"1", b"2"]
    first, second = (attributes for _, attributes in contents)
    assert first.key == b"key"
    assert first.properties == {
        "n": b"v",
        "original-time": b"2026-09-21T14:13:20.000001+00:00",
        "original-topic": b"one",
    }
    assert (first.deleted, first.expires_ns) == (True, nanoseconds_of(moment))
    assert (second.key, second.properties["original-topic"]) == (None, b"two")
    assert (second.deleted, second.expires_ns) == (False, None)


def test_topics_may_stay_apart(group: Group) -> None:
    with TopicsSink("{topic}.apart", Layout.plain(group.stores), "apart") as sink:
        assert sink.position is None
        each = [message(number, topic) for number, topic in enumerate(["one", "two", "one"])]
        progress = ReplayProgress()
        sink.take(in_columns(each), progress)
        sink.flush()
    assert progress.messages == 3
    assert sink.last == {"one.apart": 1, "two.apart": 0}
    assert sent(group, "one.apart") == [b"0", b"2"]
    assert sent(group, "two.apart") == [b"1"]


def test_a_replay_that_broke_off_goes_on(group: Group) -> None:
    layout = Layout.plain(group.stores)

    class Broken(Exception):
        pass

    def run(upto: int) -> int:
        with TopicsSink("resumed", layout, "resumed") as sink:
            progress = send(sink, 0, upto)
            if upto < 20_000:
                raise Broken
            sink.flush()
        assert progress.messages + progress.already == 20_000
        return progress.messages

    with pytest.raises(Broken):
        run(10_000)
    there = len(sent(group, "resumed"))
    assert 0 < there < 10_000
    assert run(20_000) == 20_000 - there
    assert run(20_000) == 0
    assert sent(group, "resumed") == [b"%d" % number for number in range(20_000)]


@pytest.mark.processes
@pytest.mark.parametrize("upto", [1, 4_096, 4_097, 20_000])
def test_a_replay_that_is_killed_goes_on_and_each_message_is_there_once(
    group: Group, upto: int
) -> None:
    to, program = f"killed.{upto}", [sys.executable, "-m", "tests.pipeline.dying_replay"]
    ended = subprocess.run([*program, group.stores, to, str(upto)])
    assert ended.returncode == -signal.SIGKILL
    for _ in range(2):
        with TopicsSink(to, Layout.plain(group.stores), to) as sink:
            send(sink, 0, 25_000)
            sink.flush()
        assert sent(group, to) == [b"%d" % number for number in range(25_000)]


def test_messages_have_the_time_of_their_source_to_the_microsecond(group: Group) -> None:
    position = message(1).position
    put_back = message(1)._replace(sent_us=position.time_us - 3_000_000)
    with TopicsSink("timed", Layout.plain(group.stores), "timed") as sink:
        sink.take(in_columns([put_back, message(1)._replace(sent_us=-1)]), ReplayProgress())
        sink.flush()
    assert [attributes.properties["original-time"] for attributes in had(group, "timed")] == [
        b"2026-09-21T14:13:17.000001+00:00",
        b"1969-12-31T23:59:59.999999+00:00",
    ]


def test_a_batch_is_as_large_as_a_source_takes_one(group: Group) -> None:
    large = message(1)._replace(payload=bytes(BATCH_BYTES_TARGET + 1))
    too_large = message(6)._replace(payload=bytes(MESSAGE_BYTES_USUAL))
    halves = [message(number)._replace(payload=bytes(BATCH_BYTES_TARGET // 2)) for number in (3, 4)]
    with TopicsSink("large_batches", Layout.plain(group.stores), "large_batches") as sink:
        progress = ReplayProgress()
        sink.take(in_columns([message(0), large, *halves]), progress)
        sink.flush()
        assert progress.messages == 4
        with pytest.raises(MessageTooLarge):
            sink.take(
                in_columns([message(5), too_large._replace(position=message(6).position)]), progress
            )
        sink.flush()
    assert list(map(len, sent(group, "large_batches"))) == [
        *(1, BATCH_BYTES_TARGET + 1, BATCH_BYTES_TARGET // 2, BATCH_BYTES_TARGET // 2, 1)
    ]


def test_a_position_is_where_it_goes_on(group: Group) -> None:
    layout = Layout.plain(group.stores)
    with TopicsSink("positioned", layout, "positioned") as sink:
        send(sink, 7, 8)
        sink.flush()
    with TopicsSink("positioned", layout, "positioned") as sink:
        assert sink.position == message(7).position


def test_an_interruption_waits_for_a_batch_that_is_being_committed() -> None:
    go, ended = threading.Event(), threading.Event()

    async def batch() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await asyncio.to_thread(go.wait, 60)
        ended.set()

    def interrupt(*_: object) -> None:
        assert not ended.is_set()
        go.set()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with LoopThread() as loop, pytest.raises(KeyboardInterrupt):
            loop.run_whole(batch())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.is_set()


def test_what_somebody_else_sends_is_left_alone(group: Group) -> None:
    session = session_id("backtest:foreign", 0)
    with Source.open("foreign", stores=group.stores, session_id=session) as source:
        source.commit([b"mine"], b"an application's")
    with (
        pytest.raises(WriteNotOurs),
        TopicsSink("foreign", Layout.plain(group.stores), "foreign"),
    ):
        pass
    assert sent(group, "foreign") == [b"mine"]


@pytest.mark.parametrize(("to", "name"), [("a\nb", "n"), ("t", ""), ("t", "n" * 300)])
def test_what_can_not_be_is_refused(to: str, name: str) -> None:
    with pytest.raises(InvalidArgument):
        TopicsSink(to, Layout.plain("h:1"), name)
