"""A replay that is killed with SIGKILL after so many messages; without Spark, to real stores.

Run by test_replay_sinks.py in a process of its own.
"""

from __future__ import annotations

import os
import signal
import sys

from quorate.pipeline.jobs.replay import (
    Position,
    Replayed,
)
from quorate.pipeline.jobs.replay_sinks import TopicsSink
from quorate.protocol.layout import Layout

FIRST_US = 1_790_000_000_000_000


def message(number: int, topic: str = "t", key: bytes | None = None) -> Replayed:
    position = Position(FIRST_US + number, topic, "0x10", number)
    return Replayed(position, 1, b"%d" % number, key, {"n": b"v"} if key else {})


def main(stores: str, to: str, upto: int) -> None:
    with TopicsSink(to, Layout.plain(stores), to) as sink:
        for number in range(upto):
            sink.take(message(number))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
