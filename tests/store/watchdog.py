"""A watchdog over an event loop: how long the longest of its turns was.

It counts the processor time of the loop's own thread. So a busy machine makes no turn longer, and
clients that run in other threads do not count.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass
class Longest:
    """The longest turn so far."""

    seconds: float = 0.0
    what: str = ""
    """The callback that ran in it, for people."""


USUAL_SECONDS = 0.004
"""Processor seconds of a hundred thousand additions on a machine of the usual speed."""


def slowness() -> float:
    """Return how many times as long as usual this machine takes for the same work: 1 at least."""
    return max(1.0, min(_additions() for _ in range(20)) / USUAL_SECONDS)


def _additions() -> float:
    began, total = time.thread_time(), 0
    for number in range(100_000):
        total += number
    return time.thread_time() - began


def _name(handle: asyncio.Handle) -> str:
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    return repr(task) if isinstance(task, asyncio.Task) else repr(handle)


@contextmanager
def longest_turn() -> Iterator[Longest]:
    """Watch the turns of the loop that runs now, in this thread, until the block ends.

    The garbage collector rests: how long it takes depends on what the whole test run has made.
    """
    longest, thread = Longest(), threading.get_ident()
    real = asyncio.events.Handle._run

    def run(handle: asyncio.Handle) -> Any:
        if threading.get_ident() != thread:
            return real(handle)
        began = time.thread_time()
        try:
            return real(handle)
        finally:
            seconds = time.thread_time() - began
            if seconds > longest.seconds:
                longest.seconds, longest.what = seconds, _name(handle)

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as to:
            to.setattr(asyncio.events.Handle, "_run", run)
            yield longest
    finally:
        gc.enable()
