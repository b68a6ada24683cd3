"""The lanes of one connection to a store: the streams of all sources of a client share one call.

Frames that wait when the call can take more go out in one message, of whichever lanes they are. So
many sources that say little cost about what one does that says as much. The contents of frames and
responses are not known here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

import grpc.aio

from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.lanes import BUNDLE_BYTES, lane_end, lane_frame
from quorate.transport.channels import frames_to
from quorate.transport.failures import error_from_call, errors_of
from quorate.v1.store_pb2 import AppendResponse, AppendResponses, LaneResponse

_log = logging.getLogger("quorate.transport")
_APPEND = "/quorate.v1.Store/Append"

Take = Callable[[AppendResponse], None]
"""Takes a response on a lane. It does not wait, and raises nothing."""

Written = Callable[[], None]
"""Is told that gRPC has taken a frame. It does not wait, and raises nothing."""

Over = Callable[[QuorateError | None], None]
"""Is told once that a lane is over, and why; None: the store ended it."""


class Lane:
    """One lane, as its user has it."""

    def __init__(self, call: _Call, number: int, take: Take, over: Over) -> None:
        """Callers use `Lanes.open`."""
        self._call = call
        self._number = number
        self.take = take
        self.over = over

    def write(self, frame: bytes, written: Written | None = None) -> None:
        """Write a frame. Nothing is written, nor told, once the lane is over.

        written: is told when gRPC has taken the frame; None: nobody waits for that.
        """
        self._call.put(lane_frame(self._number, frame), written)

    def close(self) -> None:
        """Send nothing more on the lane, and hear nothing more of it."""
        self._call.leave(self._number)

    def end(self) -> None:
        """Send nothing more on the lane. The user still hears what the store has to say."""
        self._call.end(self._number)


class Lanes:
    """The lanes to one address. A call that broke off is followed by another one."""

    def __init__(
        self, address: str, channel: Callable[[], grpc.aio.Channel], heard: Callable[[], None]
    ) -> None:
        """Begin without lanes.

        - channel: returns the channel for the next call.
        - heard: is called when the store has said something.
        """
        self._address = address
        self._channel = channel
        self._heard = heard
        self._call: _Call | None = None

    def open(self, take: Take, over: Over) -> Lane:
        """Open a lane. Its user writes the frame that says what it is for. Raises Unreachable."""
        if self._call is None or self._call.is_over:
            with errors_of(self._address):
                self._call = _Call(self._address, self._channel(), self._heard)
        return self._call.open(take, over)

    def break_off(self, error: QuorateError) -> None:
        """End all lanes with this error. The next one is opened on another call."""
        if self._call is not None:
            self._call.break_off(error)
            self._call = None

    async def close(self) -> None:
        """End the call and all its lanes."""
        if self._call is not None:
            await self._call.close()


class _Call:
    """One call with its lanes, until it breaks off."""

    def __init__(self, address: str, channel: grpc.aio.Channel, heard: Callable[[], None]) -> None:
        self._address = address
        self._heard = heard
        self._grpc: grpc.aio.StreamStreamCall[bytes, AppendResponses] = frames_to(
            channel, _APPEND, AppendResponses.FromString
        )
        self._lanes: dict[int, Lane] = {}
        self._last = 0
        self._parts: deque[bytes] = deque()
        """Parts that wait to be written."""
        self._waiting: deque[Written | None] = deque()
        """For the part at the same place: who is told that it was written; None: nobody is."""
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._error: QuorateError | None = None
        self._task = self._loop.create_task(self._run())

    @property
    def is_over(self) -> bool:
        return self._error is not None

    def open(self, take: Take, over: Over) -> Lane:
        self._last += 1
        lane = self._lanes[self._last] = Lane(self, self._last, take, over)
        return lane

    def put(self, part: bytes, written: Written | None) -> None:
        if self._error is None:
            self._parts.append(part)
            self._waiting.append(written)
            self._news.set()

    def leave(self, number: int) -> None:
        if self._lanes.pop(number, None) is not None:
            self.end(number)

    def end(self, number: int) -> None:
        self.put(lane_end(number), None)

    def break_off(self, error: QuorateError) -> None:
        """End all lanes with this error."""
        if self._error is not None:
            return
        self._error = error
        self._waiting.clear()
        self._parts.clear()
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.over(error)
        self._task.cancel()

    async def close(self) -> None:
        self.break_off(Unreachable(self._address, "the connection was closed"))
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        reading = self._loop.create_task(self._read())
        writing = self._loop.create_task(self._write())
        try:
            # The reader learns a little later why a write failed.
            await asyncio.wait({reading})
            error = reading.result()
        except Exception as broken:
            _log.exception("the call that carries the lanes to %s broke", self._address)
            error = Unreachable(self._address, repr(broken))
        finally:
            reading.cancel()
            writing.cancel()
            self._grpc.cancel()
        self.break_off(error)

    async def _read(self) -> QuorateError:
        """Hand responses to the lanes until the call ends. Return why it did."""
        try:
            while isinstance(responses := await self._grpc.read(), AppendResponses):
                self._heard()
                for response in responses.responses:
                    self._hand_over(response)
        except grpc.aio.AioRpcError as error:
            return error_from_call(self._address, error)
        except asyncio.InvalidStateError:
            return Unreachable(self._address, "it did not take the stream")
        return Unreachable(self._address, "it ended the call that carries all streams")

    def _hand_over(self, response: LaneResponse) -> None:
        lane = self._lanes.get(response.lane)
        if lane is None:
            return  # its user has left
        if response.HasField("response"):
            lane.take(response.response)
        else:
            self.leave(response.lane)
            lane.over(None)

    async def _write(self) -> None:
        # A call that broke off says why to its reader.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                while not self._parts:
                    self._news.clear()
                    await self._news.wait()
                await self._write_bundle()

    async def _write_bundle(self) -> None:
        """Write what waits, as much as travels together."""
        parts, waiting = [self._parts.popleft()], [self._waiting.popleft()]
        size = len(parts[0])
        while self._parts and size + len(self._parts[0]) <= BUNDLE_BYTES:
            size += len(self._parts[0])
            parts.append(self._parts.popleft())
            waiting.append(self._waiting.popleft())
        await self._grpc.write(parts[0] if len(parts) == 1 else b"".join(parts))
        for written in waiting:
            if written is not None:
                written()
