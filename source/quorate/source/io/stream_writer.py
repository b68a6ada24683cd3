"""The writer of one store's stream: frame after frame, each once gRPC has taken the one before.

What the application sends until then travels together. The core decides which frame is next.
Nothing waits here: a client may have thousands of sources, with a writer for each store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from quorate.source.protocol.core import SourceCore
from quorate.transport.lanes import Lane


class StreamWriter:
    """Writes to one store until it has said goodbye or is told to stop."""

    def __init__(
        self,
        store: str,
        core: SourceCore,
        lane: Lane,
        idle: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """Begin with nothing written.

        idle: is called when all frames there were are written. failed: gets what a write raises.
        """
        self._store = store
        self._core = core
        self._lane = lane
        self._idle = idle
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._waits = False
        """Whether gRPC has still to take the last frame."""
        self.said_goodbye: asyncio.Future[None] = self._loop.create_future()

    def stop(self) -> None:
        """Write nothing more."""
        self.said_goodbye.cancel()

    def write(self) -> None:
        """Write the next frame, if there is one and the last one was taken."""
        if self._waits or self.said_goodbye.done():
            return
        try:
            self._write_next()
        except Exception as error:
            self._failed(error)

    def _write_next(self) -> None:
        frame = self._core.next_frame(self._store, self._loop.time())
        if frame is not None:
            self._waits = True
            self._lane.write(frame, self._taken)
        elif self._core.streams.holds_back(self._store):
            pass  # The store writes fragments, and says when it has.
        elif self._core.closing:
            self._lane.write(self._core.goodbye_frame())
            self._lane.end()
            self.said_goodbye.set_result(None)
        else:
            self._idle()

    def _taken(self) -> None:
        self._waits = False
        self.write()
