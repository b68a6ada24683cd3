"""Adaptive batching: when gathered messages become a batch, and when a send may go on.

Nothing waits while the fastest quorum of the stores is idle. While it is busy, messages gather, so
that frames grow with the load. No timer paces this, with one exception: while a quorum hangs,
receivers must still get the live stream. How frames reach the stores is not known here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from quorate.protocol.errors import NotRegistered, QuorateError
from quorate.source.protocol.core import SourceCore
from quorate.source.protocol.frames import Packed
from quorate.source.protocol.outgoing import Ready
from quorate.source.publish_store import PublishStore

_PATIENCE_SECONDS = 0.005


class Packer:
    """The packer: takes batches from the window, through the publish store, to the wire."""

    def __init__(
        self,
        core: SourceCore,
        publish_store: PublishStore,
        released: Callable[[bytes], None],
        failed: Callable[[QuorateError], None],
    ) -> None:
        """Begin with nothing to pack.

        released: gets each frame. failed: gets the error if the publish store cannot keep one.
        """
        self._core = core
        self._window = core.window
        self._publish_store = publish_store
        self._released = released
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._late: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._progress = asyncio.Event()

    def progressed(self) -> None:
        """Let waiting senders look again."""
        self._progress.set()
        self._progress.clear()

    def soon(self) -> None:
        """Pack in the loop's next iteration: what is sent until then travels together."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._scheduled = False
        if not self._core.can_take:
            return
        if self._window.full or self._core.idle_quorum():
            self._pack()
        elif self._late is None:
            self._late = self._loop.call_later(_PATIENCE_SECONDS, self._pack_late)

    def _pack_late(self) -> None:
        self._late = None
        if self._core.can_take:
            self._pack()

    def _pack(self, marker: bytes = b"") -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
        packed = self._core.take(time.time_ns(), marker)
        if self._publish_store.slow:
            self._writing = self._loop.create_task(self._write(packed))
            return
        try:
            self._publish_store.append(packed.batch, packed.last)
        except QuorateError as error:
            self._failed(error)
            return
        self._release(packed)

    async def _write(self, packed: Packed) -> None:
        write = partial(self._publish_store.append, packed.batch, packed.last)
        try:
            await self._loop.run_in_executor(None, write)
        except QuorateError as error:
            self._failed(error)
            return
        self._release(packed)
        self._pump()

    def _release(self, packed: Packed) -> None:
        self._released(self._core.release(packed, self._loop.time()))
        self.progressed()

    # -- admission --------------------------------------------------------------------------

    async def make_room(self) -> None:
        """Wait until a message may be added to the window. Raise why none is accepted."""
        async with self._turn:
            await self._room(patient=False)

    async def _room(self, patient: bool) -> None:
        window = self._window
        while True:
            refusal = self._core.refusal()
            if patient and isinstance(refusal, NotRegistered):
                await self._progress.wait()
            elif refusal is not None:
                raise refusal
            elif window.full:
                if self._core.can_take:
                    self._pack()
                    # Let the streams write: a sender that never waits would starve them.
                    await asyncio.sleep(0)
                else:
                    await self._progress.wait()
            elif window.blocked:
                self._core.note_lag()
                await self._progress.wait()
            else:
                break
        self._core.note_exceeded()
        if not window.payloads:
            self.soon()
        window.gather()

    async def add_all(self, messages: Ready, patient: bool = False) -> int:
        """Add messages that stay together. Return the number of the first.

        patient: the messages were accepted already, so the call waits for a lost quorum.
        """
        window = self._window
        async with self._turn:
            window.reserved = True
            window.refresh()
            try:
                first = window.next_sequence
                at = 0
                while at < len(messages):
                    await self._room(patient)
                    at = self._fill(messages, at)
            finally:
                window.reserved = False
                window.refresh()
        return first

    async def commit(self, messages: Ready, marker: bytes) -> int:
        """Add messages as a batch of their own, with the marker. Return the number of the first.

        The stream then has all of them and the marker, or none.
        """
        window = self._window
        async with self._turn:
            window.reserved = True
            window.refresh()
            try:
                await self._room(patient=False)
                while not self._core.can_commit:
                    if self._core.can_take:
                        self._pack()
                    else:
                        window.pause_at = 0
                        await self._progress.wait()
                    await self._room(patient=False)
                first = window.next_sequence
                window.add(messages.payloads, messages.attributes, messages.size)
                self._pack(marker)
            finally:
                window.reserved = False
                window.refresh()
        return first

    def _fill(self, messages: Ready, at: int) -> int:
        """Add messages from `at` on as far as there is room. Return where it stopped."""
        window = self._window
        count, size = window.room()
        chunk = messages.part(at, at + count)
        chunk_bytes = chunk.size
        while chunk_bytes > size and len(chunk) > 1:
            # About as many as fit. The last one may pass the limit, as with single sends.
            chunk = chunk.part(0, max(1, len(chunk) * size // chunk_bytes))
            chunk_bytes = chunk.size
        window.add(chunk.payloads, chunk.attributes, chunk_bytes)
        window.pause_at = 0
        return at + len(chunk)

    async def stop(self) -> None:
        """Stop packing."""
        if self._late is not None:
            self._late.cancel()
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
