"""Adaptive batching: when gathered messages become a batch, and when a send may go on.

Nothing waits while the fastest quorum of the stores is idle. While it is busy, messages gather, so
that frames grow with the load. No timer paces this, with one exception: while a quorum hangs,
receivers must still get the live stream. How frames reach the stores is not known here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from quorate.protocol.attributes import NO_ATTRIBUTES
from quorate.protocol.errors import NotRegistered, QuorateError
from quorate.protocol.limits import MESSAGE_BYTES_USUAL
from quorate.protocol.timeouts import check_timeout
from quorate.source.io.group_sync import GroupSync
from quorate.source.protocol.admission import send_timed_out
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.frames import Framed, Packed
from quorate.source.protocol.outgoing import Ready
from quorate.source.publish_store import PublishStore

_PATIENCE_SECONDS = 0.005
SYNC_SECONDS = 1.0
"""The time, in seconds, for which a source that ends waits for a sync of its publish store."""


class Packer:
    """The packer: takes batches from the window, through the publish store, to the wire."""

    def __init__(
        self,
        core: SourceCore,
        publish_store: PublishStore,
        released: Callable[[Framed], None],
        failed: Callable[[QuorateError], None],
    ) -> None:
        """Begin with nothing to pack.

        released: gets each frame. failed: gets the error if the publish store cannot keep one.
        """
        self._core = core
        self._window = core.window
        self._publish_store = publish_store
        self._syncs = GroupSync(publish_store, core.window, failed)
        self._released = released
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._late: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._progress = asyncio.Event()
        self.on_progress: Callable[[], None] | None = None
        """Called when waiting senders should look again. The blocking source sets it."""
        self.all_synced = True
        """Whether every sync of the publish store had ended when the packer was stopped."""

    def progressed(self) -> None:
        """Let waiting senders look again."""
        self._progress.set()
        self._progress.clear()
        if self.on_progress is not None:
            self.on_progress()

    def soon(self) -> None:
        """Pack in the loop's next iteration: what is sent until then travels together."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if self._core.packs_soon:
            self._pack()
        elif self._core.can_take and self._late is None:
            self._late = self._loop.call_later(_PATIENCE_SECONDS, self._pack_late)

    def _pack_late(self) -> None:
        self._late = None
        if self._core.can_take:
            self._pack()

    def _pack(self, marker: bytes = b"") -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        packed = self._core.take(marker)
        try:
            with self._window.lock:
                if marker:
                    assert isinstance(packed.batch, bytes)
                    self._publish_store.keep_batch(packed.batch)
                else:
                    self._publish_store.packed(packed.batch)
        except QuorateError as error:
            self._failed(error)
            return
        if self._publish_store.slow:
            self._writing = self._loop.create_task(self._release_synced(packed))
        else:
            self._release(packed)

    async def _release_synced(self, packed: Packed) -> None:
        """Release a batch once it is on the disk of the publish store."""
        try:
            await self._syncs.done()
        except QuorateError:
            return  # which ended the source
        except TimeoutError:
            return  # the source was closed
        self._release(packed)
        self._pump()

    async def synced(self, until: float | None = None) -> None:
        """Wait until all that was accepted before this call is on the publish store's disk.

        until: the loop's time at which the wait ends; None: no limit. Raises StorageFailed,
        TimeoutError.
        """
        await self._syncs.done(until)

    def _release(self, packed: Packed) -> None:
        self._released(self._core.release(packed, self._loop.time()))
        if self._window.full:
            self.soon()
        self.progressed()

    # -- admission --------------------------------------------------------------------------

    async def make_room(self, timeout: float | None = None, patient: bool = False) -> None:
        """Wait until a message may be added to the window. Raise why none is accepted.

        timeout: seconds to wait at most; None: no limit. patient: whether to wait for a quorum.
        """
        async with self._in_turn(timeout) as until:
            await self._room(until, patient)

    def make_room_at_once(self) -> None:
        """Let a message be added to the window now. Raise why none is accepted, or SendTimedOut."""
        core, window = self._core, self._window
        refusal = core.refusal()
        while refusal is None and window.full and core.can_take:
            self._pack()
            refusal = core.refusal()
        if refusal is not None:
            raise refusal
        if window.blocked:
            core.note_lag()
        if self._turn.locked() or window.blocked or (window.full and not core.keeps):
            raise send_timed_out(core.name, 0.0, window, complete=core.complete)
        self._admit()

    @asynccontextmanager
    async def _in_turn(self, timeout: float | None) -> AsyncIterator[float | None]:
        """Wait for those that wait already; then the block has until the time that it is given.

        Raises SendTimedOut if the block raises TimeoutError.
        """
        check_timeout(timeout)
        if self._core.error is not None:
            raise self._core.error
        until = None if timeout is None else self._loop.time() + timeout
        try:
            if until is not None and self._turn.locked():
                if timeout == 0:
                    raise TimeoutError
                async with asyncio.timeout_at(until):
                    await self._turn.acquire()
            else:
                await self._turn.acquire()
            try:
                yield until
            finally:
                self._turn.release()
        except TimeoutError:
            core, seconds = self._core, timeout or 0.0
            raise send_timed_out(core.name, seconds, core.window, complete=core.complete) from None

    async def _until_progress(self, until: float | None) -> None:
        if until is not None and until <= self._loop.time():
            raise TimeoutError
        async with asyncio.timeout_at(until):
            await self._progress.wait()

    async def _room(self, until: float | None, patient: bool) -> None:
        window = self._window
        while True:
            refusal = self._core.refusal()
            if patient and isinstance(refusal, NotRegistered):
                await self._until_progress(until)
            elif refusal is not None:
                raise refusal
            elif window.full and self._core.can_take:
                self._pack()
                # Let the streams write: a sender that never waits would starve them.
                await asyncio.sleep(0)
            elif window.blocked:
                self._core.note_lag()
                await self._until_progress(until)
            elif window.full and not self._core.keeps:
                await self._until_progress(until)
            else:
                break
        self._admit()

    def _admit(self) -> None:
        """Let messages gather up to the end of the batch or of the flight window."""
        self._core.note_exceeded()
        if not self._window.payloads:
            self.soon()
        self._window.gather()

    async def add_all(
        self, messages: Ready, timeout: float | None = None, patient: bool = False
    ) -> int:
        """Add messages that stay together. Return the number of the first.

        timeout, patient: as in make_room, for all of them together.
        """
        window = self._window
        async with self._in_turn(timeout) as until:
            window.reserve(True)
            try:
                first = window.next_sequence
                time_ns = time.time_ns()
                at = 0
                while at < len(messages):
                    await self._room(until, patient)
                    chunk = self._chunk(messages, at)
                    await self._add_chunk(chunk, time_ns, until, patient)
                    at += len(chunk)
            finally:
                window.reserve(False)
                self.progressed()
        return first

    async def commit(
        self, messages: Ready, marker: bytes, timeout: float | None = None, patient: bool = False
    ) -> int:
        """Add messages as a batch of their own, with the marker. Return the number of the first.

        The stream then has all of them and the marker, or none. timeout, patient: as in make_room.
        """
        window = self._window
        async with self._in_turn(timeout) as until:
            window.reserve(True)
            try:
                await self._room(until, patient)
                while not self._core.can_commit:
                    if self._core.can_take:
                        self._pack()
                    else:
                        await self._until_progress(until)
                    await self._room(until, patient)
                first = window.next_sequence
                window.add(messages.payloads, messages.attributes, messages.size, time.time_ns())
                self._pack(marker)
            finally:
                window.reserve(False)
                self.progressed()
        return first

    def _chunk(self, messages: Ready, at: int) -> Ready:
        """Return the messages from `at` on for which there is room. A large one comes alone."""
        window = self._window
        count, size = window.room()
        chunk = messages.part(at, at + count)
        chunk_bytes = chunk.size
        while chunk_bytes > size and len(chunk) > 1:
            # About as many as fit. The last one may pass the limit, as with single sends.
            chunk = chunk.part(0, max(1, len(chunk) * size // chunk_bytes))
            chunk_bytes = chunk.size
        return chunk

    async def _add_chunk(
        self, chunk: Ready, time_ns: int, until: float | None, patient: bool
    ) -> None:
        """Add messages for which there is room, a large one step by step."""
        size = chunk.size
        if size > MESSAGE_BYTES_USUAL and self._publish_store.durable:
            attributes = chunk.attributes[0] if chunk.attributes else NO_ATTRIBUTES
            steps = self._publish_store.keep_large(
                self._window.next_sequence, chunk.payloads[0], attributes, time_ns
            )
            for _ in steps:
                await asyncio.sleep(0)
                await self._room(until, patient)
            self._window.add(chunk.payloads, chunk.attributes, size, time_ns)
        else:
            self._add(chunk, size, time_ns)

    def add_one(self, message: Ready) -> None:
        """Accept a message for which there is room."""
        self._add(message, message.size, time.time_ns())

    def _add(self, messages: Ready, size: int, time_ns: int) -> None:
        """Accept messages; size: their bytes. They are in the publish store before they count."""
        window, store = self._window, self._publish_store
        if store.durable:
            times = [time_ns] * len(messages)
            store.keep_all(window.next_sequence, messages.payloads, messages.attributes, times)
        window.add(messages.payloads, messages.attributes, size, time_ns)

    async def stop(self) -> None:
        """Stop packing."""
        if self._late is not None:
            self._late.cancel()
        until = self._loop.time() + SYNC_SECONDS
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=SYNC_SECONDS)
        self.all_synced = await self._syncs.stop(max(0.0, until - self._loop.time()))
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
