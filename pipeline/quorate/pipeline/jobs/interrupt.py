"""Ending a job by a signal: the first one cleanly, with one line; a second one at once.

Only for the main thread of a program whose purpose the job is. Nothing here knows Spark but for
what py4j, which carries PySpark's calls, would print on the way out.
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
    """Have a signal end what is done in here; a second one ends the process at once.

    remains: what is left of the work then, for people; the job makes it so. Serves as a decorator,
    too. Raises Interrupted. Does nothing in a thread, which no signal reaches.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if received:
            os._exit(128 + number)
        received.append(number)
        raise KeyboardInterrupt

    before = {
        number: handler
        for number in STOPPING_SIGNALS
        # Whoever had a signal ignored (nohup) has meant it.
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
        # Whatever fails on the way out: a call to Java that was cut off makes others fail.
        name = signal.Signals(received[0] if received else signal.SIGINT).name
        raise Interrupted(name, remains) from None
    finally:
        logging.getLogger().removeFilter(_is_not_of_py4j)
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """It writes the trace of an interrupted call to the root logger, and raises it as well."""
    return record.module not in ("java_gateway", "clientserver")


def done_aside(make: Callable[[], T]) -> T:
    """What a function returns that is called in a thread of its own, which dies with the process.

    PySpark takes the handler of SIGINT for itself if a session is made in the main thread; and
    waiting for a thread can be interrupted, without what it waits for being cut off half done.
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
