"""The writing of one task: it opens a source for each topic of its rows, and sends them.

quorate.pipeline.rules.resuming decides which rows to write; here is the I/O around it. While the
task lives, a thread of its own runs an event loop. The task's thread takes rows from Spark, and
waits while a source has too many messages that are not stable. Nothing keeps running after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from quorate.pipeline.errors import AttemptSuperseded, MessagesGone, RowsDiffer
from quorate.pipeline.rules.chunks import Chunks, Rows
from quorate.pipeline.rules.resuming import (
    WriteBatch,
    WriteProgress,
    session_id,
)
from quorate.pipeline.rules.rows_there import ReadBack, Released, RowsThere
from quorate.pipeline.stores.client import call_fetch
from quorate.pipeline.stores.fetch import fetch
from quorate.pipeline.write.options import WriteOptions
from quorate.protocol.answers import Piece
from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import Fenced, InvalidArgument, QuorateError
from quorate.protocol.framing import read_messages
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
from quorate.protocol.tls import tls_of_environment
from quorate.source import Source, SourceOptions
from quorate.source.protocol.outgoing import Ready, ready_of
from quorate.source.source import commit_ready, lineage_of, receipt_of
from quorate.transport.delays import lacks_quorum, retrying

_log = logging.getLogger("quorate.pipeline")

T = TypeVar("T")

TOPICS_MAX = 1000
"""Most topics of one task, because each is a source with connections of its own."""

WAITING_BYTES_MAX = 32 * 1024 * 1024
"""Bytes of rows that may wait for full chunks, over all topics of a task."""

_FLIGHT_BYTES = 8 * 1024 * 1024
_RETENTION_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of Spark to write a partition of a batch."""

    write: WriteBatch
    partition: int
    number: int


@dataclass(frozen=True, slots=True)
class Written:
    """The rows of one topic that a task has written; all of them are stable."""

    source: SourceName
    rows: int
    already: int
    """Number of these rows that were written before this attempt."""
    last: int
    """The sequence number of the last row."""

    stores: tuple[str, ...]
    """Names of the stores that had the last row when it was found stable."""


class LoopThread:
    """An event loop that runs in a thread during the `with` block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="quorate-write", daemon=True
        )
        self._unended: set[asyncio.Task[Any]] = set()
        """Tasks that no interruption may cut off."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait for the coroutine. An exception that interrupts the wait cancels it."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def run_whole(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Wait until the coroutine has ended. A KeyboardInterrupt is raised only after that."""
        try:
            return asyncio.run_coroutine_threadsafe(self._whole(coroutine), self._loop).result()
        except KeyboardInterrupt:
            # The loop runs what it was given in order, so the coroutine has begun before this.
            asyncio.run_coroutine_threadsafe(self._settled(), self._loop).result()
            raise

    async def _whole(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._unended.add(task)
        try:
            return await coroutine
        finally:
            self._unended.discard(task)

    async def _settled(self) -> None:
        await asyncio.gather(*self._unended, return_exceptions=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(_cancel_all(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def write_partition(
    batches: Iterable[Iterable[tuple[str, Rows]]], attempt: Attempt, options: WriteOptions
) -> list[Written]:
    """Write the rows of a partition that are not written yet. On return all rows are stable.

    batches: rows by topic, as Spark hands them over.
    Raises RowsDiffer, AttemptSuperseded, WriteNotOurs, and the errors of opening and of sending.
    """
    with LoopThread() as loop:
        task = _Task(attempt, options)
        try:
            for batch in batches:
                loop.run(task.add(list(batch)))
            return loop.run(task.finish())
        finally:
            loop.run(task.close())


class _Task:
    """All topics of one attempt. Its methods run on the event loop."""

    def __init__(self, attempt: Attempt, options: WriteOptions) -> None:
        self._attempt = attempt
        self._options = options
        self._topics: dict[str, _Topic] = {}

    async def add(self, parts: Sequence[tuple[str, Rows]]) -> None:
        """Take rows by topic; wait while the sources have too many messages in flight."""
        new = [topic for topic, _ in parts if topic not in self._topics]
        if len(self._topics) + len(new) > TOPICS_MAX:
            raise InvalidArgument(
                "topics",
                f"a task has rows of more than {TOPICS_MAX:,} topics; repartition by topic before "
                "writing",
            )
        self._topics |= {
            topic: _Topic(SourceName(topic, self._session), self._attempt, self._options)
            for topic in new
        }
        await asyncio.gather(*(self._topics[topic].open() for topic in new))
        for topic, rows in parts:
            await self._topics[topic].add(rows)
        if sum(topic.waiting_bytes for topic in self._topics.values()) > WAITING_BYTES_MAX:
            for one in self._topics.values():
                await one.flush()

    @property
    def _session(self) -> int:
        return session_id(self._attempt.write.write_id, self._attempt.partition)

    async def finish(self) -> list[Written]:
        """Write the waiting rows, and return when all rows are stable."""
        topics = self._topics.values()
        await asyncio.gather(*(topic.finish() for topic in topics))
        return await asyncio.gather(*(topic.written() for topic in topics))

    async def close(self) -> None:
        await asyncio.gather(*(topic.close() for topic in self._topics.values()))


class _Topic:
    """One topic of one attempt: its source and its progress."""

    def __init__(self, name: SourceName, attempt: Attempt, options: WriteOptions) -> None:
        self._name = name
        self._attempt = attempt
        self._options = options
        self._chunks = Chunks()
        self._source: Source | None = None
        self._progress: WriteProgress | None = None

    async def open(self) -> None:
        """Open the source. It takes the identity over from any earlier attempt."""
        options = self._options
        try:
            self._source = await Source.open(
                self._name.topic,
                stores=options.layout,
                session_id=self._name.session_id,
                take_over=True,
                options=SourceOptions(
                    flight_bytes=_FLIGHT_BYTES,
                    retention_bytes_max=_RETENTION_BYTES,
                    state_lifetime=options.state_lifetime,
                ),
                timeout=options.timeout,
                tls=tls_of_environment(os.environ),
            )
        except Fenced as error:
            raise self._superseded() from error
        progress = WriteProgress(
            self._attempt.write, self._name, self._attempt.partition, self._source.marker
        )
        if progress.found:
            progress.knows(await self._there(self._source, progress))
        self._progress = progress

    async def _there(self, source: Source, progress: WriteProgress) -> RowsThere:
        """Return the rows of the batch that the source has: its newest messages."""
        until = source.next_sequence
        await self._stable(source, until - 1)
        addresses = [store.address for store in self._options.layout.stores]
        try:
            return await asyncio.to_thread(
                _read_back, addresses, self._name, lineage_of(source), until, progress.found
            )
        except MessagesGone:
            return Released(progress.written)

    @property
    def waiting_bytes(self) -> int:
        return self._chunks.bytes

    async def add(self, rows: Rows) -> None:
        assert self._progress is not None
        try:
            new = self._progress.new(rows)
        except RowsDiffer as error:
            new = self._kept_besides(error)
        await self._write(new)

    async def _write(self, rows: Rows) -> None:
        for chunk in self._chunks.add(rows):
            await self._commit(chunk)

    async def flush(self) -> None:
        """Write the rows that wait for a full chunk."""
        await self._commit(self._chunks.rest())

    async def finish(self) -> None:
        """Write what waits once no more rows come. Raises RowsDiffer."""
        if self._progress is not None:
            try:
                self._progress.finish()
            except RowsDiffer as error:
                await self._write(self._kept_besides(error))
        await self.flush()

    def _kept_besides(self, error: RowsDiffer) -> Rows:
        """Return the rows to write besides those that are there, if the options allow any."""
        if self._options.fail_on_rows_differ:
            raise error
        assert self._progress is not None
        _log.warning(
            "rows may be in the topic twice, as the option failOnRowsDiffer says: %s", error
        )
        return self._progress.keep_those_there()

    async def _commit(self, rows: Rows) -> None:
        """Send the rows until the source accepts them, also while too few stores are there.

        Raises NotRegistered if that lasts too long.
        """
        if not len(rows):
            return
        assert self._source is not None
        assert self._progress is not None
        commit = self._progress.commit(rows)
        marker = commit.marker.encoded()
        ready = ready_of(commit.rows.payloads, commit.rows.attributes)
        try:
            await commit_patiently(self._source, ready, marker, self._options.timeout)
        except Fenced as error:
            raise self._superseded() from error

    async def written(self) -> Written:
        """Return what is written of this topic, once it is stable."""
        source, progress = self._source, self._progress
        assert source is not None
        assert progress is not None
        last = source.next_sequence - 1
        loop = asyncio.get_running_loop()
        await self._stable(source, last)
        receipt = await receipt_of(source, last, loop.time())
        return Written(self._name, progress.rows, progress.found, last, receipt.stores)

    async def _stable(self, source: Source, last: int) -> None:
        try:
            await source.wait_stable(last, self._options.timeout)
        except Fenced as error:
            raise self._superseded() from error

    async def close(self) -> None:
        """Close the source, without waiting for messages that are not stable."""
        if self._source is None:
            return
        # If a message is not stable, the attempt has already failed with an error that says more.
        with contextlib.suppress(QuorateError):
            await self._source.close(timeout=0)

    def _superseded(self) -> AttemptSuperseded:
        return AttemptSuperseded(str(self._name), self._attempt.partition, self._attempt.number)


def _read_back(
    addresses: Sequence[str], source: SourceName, lineage: Lineage, until: int, count: int
) -> ReadBack:
    """Read the last messages before `until`; they are stable. Raises MessagesGone."""
    pieces = fetch(call_fetch, addresses, source, lineage, until - count, until - 1)
    return ReadBack(map(_rows_of, pieces))


def _rows_of(piece: Piece) -> Rows:
    payloads, attributes = read_messages(piece.frame, piece.header)
    first = piece.header.first
    return Rows(payloads, attributes or [])[piece.first - first : piece.last + 1 - first]


async def commit_patiently(source: Source, messages: Ready, marker: bytes, patience: float) -> None:
    """Commit messages that were checked already, also while too few stores take the stream.

    patience: seconds of that, after which NotRegistered is raised.
    """
    committing = retrying(REPEAT, patience=patience, again=lacks_quorum)
    await committing(commit_ready, source, messages, marker)
