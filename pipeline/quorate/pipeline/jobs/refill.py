"""A client of the call Restore, for code without asyncio.

Nothing here knows of archives: batches go in, and what the store said comes out.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import grpc

from quorate.pipeline.stores.client import channel_to
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.ranges import HeldRange
from quorate.protocol.wire import held_from_wire
from quorate.transport.failures import error_from_blocking_call, failure_from_wire
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

_AHEAD = 16
"""So many batches wait for a store at most."""
_LOOK_SECONDS = 0.2


@dataclass(slots=True)
class Answered:
    """What a store said in one call."""

    upto: int = -1
    """What is above the source sends itself."""
    lacking: tuple[HeldRange, ...] = ()
    limbo: bool = True
    written: int = 0
    held_already: int = 0


class Sender:
    """One call of Restore, on a thread of its own."""

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
        """Send a batch; they must ascend. Waits while the store is behind; if the call has failed,
        `finish` says so."""
        self._put(frame)

    def finish(self) -> Answered:
        """Return when the store has everything that it was sent; raises what it refuses with."""
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

    # On the thread.

    def _call(self) -> None:
        call = StoreStub(channel_to(self._address)).Restore(self._requests())
        done = False
        try:
            for response in call:
                done = self._take(response) or done
            if not done:
                raise Unreachable(self._address, "it ended the call without a word")
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
            yield store_v1.RestoreRequest(batch=frame)

    def _take(self, response: store_v1.RestoreResponse) -> bool:
        """Whether it is the last one; raises what the store refuses with."""
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
    """Tell a store what is to come, and have it say what it lacks; raises what it refuses with."""
    return Sender(address, request).finish()
