"""The pace of a replay, with a clock that does as it is told."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from tests.pipeline.dying_replay import in_columns

from quorate.pipeline.jobs.command import parse_speed
from quorate.pipeline.jobs.replay import (
    FLAT_OUT,
    SLICE_MESSAGES_MAX,
    Pace,
    Position,
    Replayed,
    ReplayProgress,
    Slice,
    replay,
)
from quorate.protocol.errors import InvalidArgument


class FakeClock:
    """Time passes only while somebody sleeps, or works."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.time += seconds
        self.slept += seconds


class FakeSink:
    """Notes when each message came, and when it was told to send."""

    def __init__(self, clock: FakeClock, cost: float = 0.0, already: int = 0) -> None:
        self._clock = clock
        self._cost = cost
        self._already = already
        self.came: list[tuple[float, int]] = []
        self.slices: list[int] = []
        """The number of messages of each slice."""
        self.waiting: list[int] = []
        self.sent: list[tuple[float, list[int]]] = []

    def take(self, messages: Slice, progress: ReplayProgress) -> None:
        self.slices.append(len(messages))
        for row, sequence in enumerate(messages.sequences):
            if sequence < self._already:
                progress.already += 1
                continue
            self.came.append((self._clock.time - 1000.0, sequence))
            self.waiting.append(sequence)
            self._clock.time += self._cost
            progress.add(messages.part(row, row + 1), 1)

    def flush(self) -> None:
        if self.waiting:
            self.sent.append((self._clock.time - 1000.0, self.waiting))
            self.waiting = []


def at(*seconds: float) -> list[Replayed]:
    """Messages that were sent at these times."""
    return [
        Replayed(Position(round(time * 1e6) + 5 * 10**15, "t", "0x10", number), 1, b"12", None, {})
        for number, time in enumerate(seconds)
    ]


def run(messages: list[Replayed], sink: FakeSink, clock: FakeClock, speed: float) -> ReplayProgress:
    progress = ReplayProgress()
    slices = [in_columns(messages)] if messages else []
    replay(slices, sink, Pace(speed), clock, progress, lambda _: None)
    return progress


@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0, 1000.0])
def test_messages_come_as_far_apart_as_they_did_times_the_speed(speed: float) -> None:
    clock = FakeClock()
    sink = FakeSink(clock)
    times = [0.0, 10.0, 25.0, 3600.0]
    progress = run(at(*times), sink, clock, speed)
    assert [number for _, number in sink.came] == [0, 1, 2, 3]
    for (came, _), time in zip(sink.came, times, strict=True):
        assert came == pytest.approx(time / speed, abs=0.0021)
    assert progress.seconds == pytest.approx(3600.0 / speed, abs=0.0021)
    assert (progress.messages, progress.bytes, progress.original_seconds) == (4, 8, 3600.0)


def test_flat_out_waits_for_nothing() -> None:
    clock = FakeClock()
    sink = FakeSink(clock)
    run(at(0.0, 10.0, 86_400.0), sink, clock, FLAT_OUT)
    assert (len(sink.came), clock.slept) == (3, 0.0)


def test_nothing_stays_behind_while_it_is_waited() -> None:
    clock = FakeClock()
    sink = FakeSink(clock)
    run(at(0.0, 0.0, 0.001, 5.0, 5.0, 9.0), sink, clock, 1.0)
    assert [numbers for _, numbers in sink.sent] == [[0, 1, 2], [3, 4], [5]]
    assert [when for when, _ in sink.sent] == pytest.approx([0.0, 5.0, 9.0], abs=0.0021)


def test_what_was_late_is_made_up_for() -> None:
    clock = FakeClock()
    sink = FakeSink(clock, cost=2.0)
    progress = run(at(0.0, 1.0, 2.0, 30.0), sink, clock, 1.0)
    assert [came for came, _ in sink.came] == pytest.approx([0.0, 2.0, 4.0, 30.0], abs=0.0021)
    assert progress.behind_max == pytest.approx(2.0)
    assert progress.behind == 0.0


def test_what_is_there_already_takes_no_time() -> None:
    clock = FakeClock()
    sink = FakeSink(clock, already=2)
    progress = run(at(0.0, 0.0, 0.0, 1.0), sink, clock, 1.0)
    assert (progress.already, progress.messages) == (2, 2)


def test_the_time_before_the_first_message_does_not_count() -> None:
    clock = FakeClock()

    def late() -> Iterator[Slice]:
        clock.time += 60.0
        yield in_columns(at(0.0, 2.0))

    progress = ReplayProgress()
    replay(late(), FakeSink(clock), Pace(1.0), clock, progress, lambda _: None)
    assert progress.seconds == pytest.approx(2.0, abs=0.0021)


def test_messages_that_are_due_together_are_handed_over_together() -> None:
    clock = FakeClock()
    sink = FakeSink(clock)
    many = [0.0] * 10_000 + [5.0] * SLICE_MESSAGES_MAX
    run(at(*many), sink, clock, 1.0)
    assert [number for _, number in sink.came] == list(range(len(many)))
    assert sink.slices[:4] == [1, 2, 4, 8], "a sink may be slow, so the first slices are small"
    assert sink.slices[-1] == SLICE_MESSAGES_MAX
    assert len(sink.slices) < 20
    late = {when for when, number in sink.came if number >= 10_000}
    assert list(late) == pytest.approx([5.0], abs=0.0021)


def test_a_slow_sink_gets_few_messages_at_once() -> None:
    clock = FakeClock()
    sink = FakeSink(clock, cost=0.02)
    run(at(*[0.0] * 300), sink, clock, 1.0)
    assert max(sink.slices) <= 4


def test_a_slice_tells_its_messages_and_what_is_behind_a_position() -> None:
    messages = [each._replace(sent_us=each.position.time_us - 1) for each in at(0.0, 1.0, 1.0, 2.0)]
    whole = in_columns(messages)
    assert list(whole) == messages
    assert list(whole.part(1, 3)) == messages[1:3]
    assert whole.part(0, 9) is whole
    assert whole.only("t") is whole
    assert list(whole.only("other")) == []
    assert [whole.rows_upto(each.position) for each in messages] == [1, 2, 3, 4]
    assert whole.rows_upto(messages[0].position._replace(time_us=0)) == 0


def test_progress_is_told_once_a_second() -> None:
    clock = FakeClock()
    said: list[str] = []
    replay(
        [in_columns(at(*range(10)))],
        FakeSink(clock),
        Pace(2.0),
        clock,
        ReplayProgress(),
        said.append,
    )
    assert 4 <= len(said) <= 5
    assert said[0].startswith("3 messages, 3/s, at 2128-06-11 08:53:22")


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_a_speed_is_above_0(speed: float) -> None:
    with pytest.raises(InvalidArgument, match="speed"):
        Pace(speed)


def test_a_speed_as_people_write_it() -> None:
    assert (parse_speed("max"), parse_speed("2.5")) == (FLAT_OUT, 2.5)
    for text in ("0", "-1", "fast", "nan"):
        with pytest.raises(InvalidArgument, match="neither a number above 0 nor max"):
            parse_speed(text)


def test_the_order_is_time_topic_source_number() -> None:
    ordered = [
        Position(1, "b", "0x1", 5),
        Position(2, "a", "0x1", 9),
        Position(2, "a", "0x2", 0),
        Position(2, "b", "0x1", 0),
        Position(2, "b", "0x1", 1),
    ]
    shuffled = [ordered[place] for place in (3, 0, 4, 2, 1)]
    assert sorted(shuffled) == ordered
