"""Blocking callers run coroutines on one background loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading

import pytest

from quorate.protocol.errors import Closed
from quorate.transport.blocking import run_blocking, shared_loop


def test_the_result_and_the_thread() -> None:
    async def where() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert run_blocking(where()) == "quorate-loop"


def test_there_is_one_loop_for_all_threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        loops = set(pool.map(lambda _: id(shared_loop()), range(50)))
    assert loops == {id(shared_loop())}


def test_errors_come_out_as_they_are() -> None:
    async def fail() -> None:
        raise Closed("the source")

    with pytest.raises(Closed, match="the source is closed"):
        run_blocking(fail())


def test_a_timeout_cancels_what_it_no_longer_waits_for() -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(TimeoutError):
        run_blocking(wait(), timeout=0.01)
    assert cancelled.wait(5)


def test_an_interrupt_cancels_too(monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupted(_: object, timeout: float | None = None) -> None:
        assert timeout is None
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures.Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_blocking(wait())
    assert cancelled.wait(5)
