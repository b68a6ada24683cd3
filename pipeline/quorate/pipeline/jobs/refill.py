"""A client of the call Restore, for code without asyncio.

It sends batches to a store, and returns the store's answer. Nothing here knows of archives.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from quorate.pipeline.stores.client import channel_to
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.fragments import fragments_of, split
from quorate.protocol.limits import WHOLE_BATCH_BYTES_MAX
from quorate.protocol.ranges import HeldRange
from quorate.protocol.wire import held_from_wire
from quorate.transport.failures import error_from_blocking_call, failure_from_wire
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import Fragment
from quorate.v1.store_pb2_grpc import StoreStub

_AHEAD = 16
"""Most batches that wait for a store."""
_LOOK_SECONDS = 0.2


@dataclass(slots=True)
class Answered:
    """The answer of a store to one call."""

    upto: int = -1
    """The last number that the store takes. The source itself sends the higher ones."""
    lacking: tuple[HeldRange, ...] = ()
    limbo: bool = True
    written: int = 0
    held_already: int = 0


class Sender:
    """One call of Restore, which runs in a thread of its own."""

    def __init__(self, address: str, request: store_v1.RestoreOpen) -> None:
        self._address = address
        self._opening = request
        self._frames: queue.Queue[bytes | None] = queue.Queue(_AHEAD)
        self._over = threading.Event()
        self._answered = Answered()
        self._error: QuorateError | None = None
        self._thread = threading.Thread(target=self._call, name="quorate-restore", daemon=True)
        self._thread.start()

    def send(self, frame: bytes) -> None:
        """Send a batch. Batches must be in ascending order.

        The method waits while the store is behind. If the call has failed, `finish` raises it.
        """
        self._put(frame)

    def finish(self) -> Answered:
        """Wait until the store has everything, and return its answer. Raises the store's error."""
        self._put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._answered

    def _put(self, frame: bytes | None) -> None:
        while not self._over.is_set():
            try:
                self._frames.put(frame, timeout=_LOOK_SECONDS)
                return
            except queue.Full:
                continue

    # In the thread.

    def _call(self) -> None:
        call = StoreStub(channel_to(self._address)).Restore(self._requests())
        done = False
        try:
            for response in call:
                done = self._take(response) or done
            if not done:
                raise Unreachable(self._address, "it ended the call without an answer")
        except QuorateError as error:
            self._error = error
        except grpc.RpcError as error:
            self._error = error_from_blocking_call(self._address, error)
        finally:
            self._over.set()
            call.cancel()

    def _requests(self) -> Iterator[store_v1.RestoreRequest]:
        yield store_v1.RestoreRequest(open=self._opening)
        while not self._over.is_set():
            try:
                frame = self._frames.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if frame is None:
                return
            if len(frame) <= WHOLE_BATCH_BYTES_MAX:
                yield store_v1.RestoreRequest(batch=frame)
                continue
            for at, data in fragments_of(split(frame)):
                fragment = Fragment(at=at, size=len(frame), data=data)
                yield store_v1.RestoreRequest(fragment=fragment)

    def _take(self, response: store_v1.RestoreResponse) -> bool:
        """Take a response; return whether it is the last one. Raises the store's error."""
        answered = self._answered
        match response.WhichOneof("kind"):
            case "failed":
                raise failure_from_wire(response.failed, self._address)
            case "opened":
                answered.upto = response.opened.upto
            case "done":
                done = response.done
                answered.lacking = held_from_wire(done.lacking)
                answered.limbo = done.limbo
                answered.written = done.written
                answered.held_already = done.held_already
                return True
        return False


def ask(address: str, request: store_v1.RestoreOpen) -> Answered:
    """Announce a source to a store, and return what the store lacks. Raises the store's error."""
    return Sender(address, request).finish()
