"""Tasks that this machine runs, without Spark: in processes of their own, or in threads.

A task is one that quorate.pipeline.archive.tasks lets Spark run. A worker ends when the job does,
however that ends. Nothing here knows what a task does.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from quorate.pipeline.archive.tasks import Entry, Run
from quorate.pipeline.errors import TaskFailed

P = TypeVar("P")

_THREADS = 8


def in_processes(count: int) -> Run:
    """Return a function that runs tasks in so many processes, for work that needs the processor.

    A single task runs in this process. The function raises TaskFailed if a task failed.
    """

    def run(parts: Sequence[P], task: Callable[[P], Iterator[Entry]]) -> list[Entry]:
        if len(parts) < 2:
            return _here(parts, task)
        # A fork would copy the threads of gRPC in the middle of their work.
        context = multiprocessing.get_context("spawn")
        ended, ending = context.Pipe(duplex=False)
        workers = min(count, len(parts))
        pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(ended,))
        try:
            return _all(pool, parts, task)
        except BrokenProcessPool as error:
            why = "a process that ran tasks has ended; was there too little memory?"
            raise TaskFailed(why) from error
        finally:
            ending.close()  # tasks that still run end by this
            pool.shutdown(cancel_futures=True)
            ended.close()

    return run


def in_threads(parts: Sequence[P], task: Callable[[P], Iterator[Entry]]) -> list[Entry]:
    """Run tasks in threads, for tasks that mostly wait for stores. Raises TaskFailed."""
    pool = ThreadPoolExecutor(_THREADS, "quorate-task")
    try:
        return _all(pool, parts, task)
    finally:
        # Tasks that still run end with the process.
        pool.shutdown(wait=False, cancel_futures=True)


def _all(pool: Executor, parts: Sequence[P], task: Callable[[P], Iterator[Entry]]) -> list[Entry]:
    futures = [pool.submit(_here, (part,), task) for part in parts]
    for future in as_completed(futures):
        future.result()  # the first failure ends the job
    return [entry for future in futures for entry in future.result()]


def _here(parts: Sequence[P], task: Callable[[P], Iterator[Entry]]) -> list[Entry]:
    try:
        return [entry for part in parts for entry in task(part)]
    except Exception as error:
        raise TaskFailed(f"{type(error).__name__}: {error}") from error


def _begin(ended: Connection) -> None:
    """Prepare a worker: it leaves signals to the job, and ends with it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_job, args=(ended,), daemon=True).start()


def _end_with_the_job(ended: Connection) -> None:
    job = multiprocessing.parent_process()
    assert job is not None
    wait([ended, job.sentinel])
    os._exit(1)
