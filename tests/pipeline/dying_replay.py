"""A replay that is killed with SIGKILL after so many messages; without Spark, to real stores.

Run by test_replay_sinks.py in a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from datetime import datetime

from quorate.pipeline.jobs.replay import Position, Replayed, ReplayProgress, Slice
from quorate.pipeline.jobs.replay_sinks import TopicsSink
from quorate.protocol.layout import Layout

FIRST_US = 1_790_000_000_000_000


def message(number: int, topic: str = "t", key: bytes | None = None) -> Replayed:
    position = Position(FIRST_US + number, topic, "0x10", number)
    return Replayed(position, 1, b"%d" % number, key, {"n": b"v"} if key else {})


def in_columns(messages: Sequence[Replayed]) -> Slice:
    """A slice of these messages."""

    def in_us(moment: datetime | None) -> int | None:
        return None if moment is None else round(moment.timestamp() * 1e6)

    return Slice(
        [each.position.time_us for each in messages],
        [each.topic for each in messages],
        [each.position.source for each in messages],
        [each.position.sequence for each in messages],
        [each.epoch for each in messages],
        [each.payload for each in messages],
        [each.key for each in messages],
        [each.properties for each in messages],
        [each.deleted for each in messages],
        [in_us(each.expires) for each in messages],
        [each.position.time_us if each.sent_us is None else each.sent_us for each in messages],
    )


def send(sink: TopicsSink, first: int, end: int, at_once: int = 1000) -> ReplayProgress:
    """Hand the messages from `first` on and before `end` to the sink, in slices."""
    progress = ReplayProgress()
    for at in range(first, end, at_once):
        numbers = range(at, min(at + at_once, end))
        sink.take(in_columns([message(number) for number in numbers]), progress)
    return progress


def main(stores: str, to: str, upto: int) -> None:
    with TopicsSink(to, Layout.plain(stores), to) as sink:
        send(sink, 0, upto)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
