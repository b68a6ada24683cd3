"""The end of a job by a signal: the first signal ends it cleanly, a second one at once.

This is only for the main thread of a program that runs one job. Of Spark, this knows only py4j,
which carries PySpark's calls, and silences it when a job ends.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TypeVar

from quorate.pipeline.errors import Interrupted

T = TypeVar("T")

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible(remains: str) -> Iterator[None]:
    """Let a signal end the `with` block. A second signal ends the process at once.

    remains: a text for people about what is left of the work, which the job must make true.
    It also serves as a decorator. It does nothing in a thread, since no signal reaches threads.
    Raises Interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    owner = os.getpid()

    def stop(number: int, _: FrameType | None) -> None:
        if os.getpid() != owner:
            return  # A child that is about to become another program, as Java, is not the job.
        if received:
            os._exit(128 + number)
        received.append(number)
        raise KeyboardInterrupt

    before = {
        number: handler
        for number in STOPPING_SIGNALS
        # A user who had a signal ignored (nohup) meant it.
        if (handler := signal.getsignal(number)) is not signal.SIG_IGN
    }
    for number in before:
        signal.signal(number, stop)
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not received and not isinstance(error, KeyboardInterrupt):
            raise
        # Any error counts as the interruption: a call to Java that was cut off makes others fail.
        name = signal.Signals(received[0] if received else signal.SIGINT).name
        raise Interrupted(name, remains) from None
    finally:
        logging.getLogger().removeFilter(_is_not_of_py4j)
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False for py4j's log of an interrupted call, which it raises as an error anyway."""
    return record.module not in ("java_gateway", "clientserver")


def done_aside(make: Callable[[], T]) -> T:
    """Call a function in a thread of its own, which ends with the process; return its result.

    In the main thread, PySpark would take over the handler of SIGINT when it makes a session. A
    signal can also interrupt the wait for the thread without cutting the function off.
    """
    made: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            made.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="quorate-start", daemon=True)
    thread.start()
    thread.join()
    for error in failed:
        raise error
    return made[0]
