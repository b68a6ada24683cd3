"""The call Append: the lanes of one client, each with the stream of one source.

The call hands each frame to its lane, and writes together what the lanes have to tell. The effect
of a frame is in quorate.store.rpc.append.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

import grpc.aio

from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.lanes import BUNDLE_BYTES, LANES_MAX
from quorate.store.engine import Engine
from quorate.store.rpc.append import AppendCall, Context
from quorate.store.rpc.long_requests import in_time
from quorate.transport.failures import failure_to_wire
from quorate.transport.heartbeat import Listening
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_log = logging.getLogger("quorate.store.rpc.append")

FIRST_FRAMES_SECONDS = 10.0
"""Seconds within which a call must open a lane. Later the client's heartbeats are listened to."""
_LAST_WORDS_SECONDS = 1.0
BUNDLES_MAX = 16
"""Messages of a client of which a frame waits. As long as there are so many, none is read."""

Pace = Callable[[v1.Frame], Awaitable[None]]
"""Waits if the sender of a frame moves more bytes than it may."""

AdmitLane = Callable[[v1.Frame], AbstractContextManager[Pace | None]]
"""Admits a lane by its first frame, while the context lasts. Raises AccessDenied, LimitReached."""


def admit_all(_: v1.Frame) -> AbstractContextManager[None]:
    """Admit a lane at a store without rules of access."""
    return nullcontext()


class _Bundle:
    """One message of the client: how many of its frames wait."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting = 0


class _Lane:
    """One lane: the frames that wait, and who serves them."""

    def __init__(self, lanes: Lanes, number: int) -> None:
        self._lanes = lanes
        self.number = number
        self._frames: deque[tuple[_Bundle, v1.Frame]] = deque()
        self._news = asyncio.Event()
        self._is_ended = False
        self._admitted = ExitStack()
        self._pace: Pace | None = None
        self._is_open = False
        self.stream = AppendCall(lanes.engine, self, lanes.address, lanes.listening)
        self.task = asyncio.create_task(self._run())

    def put(self, bundle: _Bundle, frame: v1.Frame) -> None:
        """Take a frame of this message."""
        if self._is_ended:
            return
        bundle.waiting += 1
        self._frames.append((bundle, frame))
        self._news.set()

    def end(self) -> None:
        """Note that no more frames come."""
        self._is_ended = True
        self._news.set()

    # -- called by the stream ---------------------------------------------------------------

    def peer(self) -> str:
        """Return the connection of the client."""
        return self._lanes.peer()

    async def read(self) -> v1.Frame | None:
        """Return the next frame; None: none comes. Raises AccessDenied, LimitReached."""
        while not self._frames:
            if self._is_ended:
                return None
            self._news.clear()
            await self._news.wait()
        bundle, frame = self._frames.popleft()
        self._lanes.taken(bundle)
        if not self._is_open:
            self._is_open = True
            # The frames that follow are of the stream that the first one opens.
            self._pace = self._admitted.enter_context(self._lanes.admit(frame))
        if self._pace is not None:
            await self._pace(frame)
        return frame

    def tells(self) -> None:
        """Note that the stream has something to tell."""
        self._lanes.tells(self)

    async def _run(self) -> None:
        failure: QuorateError | None = None
        try:
            with self._admitted:
                await self.stream.run()
        except QuorateError as error:
            failure = error
        except Exception:
            _log.exception("a stream of %s broke", self.peer())
        finally:
            self._lanes.left(self, failure)
            while self._frames:
                self._lanes.taken(self._frames.popleft()[0])


class Lanes:
    """One call of Append, from its first frame to its end."""

    def __init__(
        self,
        engine: Engine,
        context: Context,
        address: str,
        listening: Listening,
        admit: AdmitLane,
        refused: Callable[[QuorateError], None],
    ) -> None:
        """Begin without lanes.

        - listening: to the client, whose streams end when it is silent.
        - admit: admits a lane.
        - refused: notes the error of a lane that ends with one.
        """
        self.engine = engine
        self.address = address
        self.listening = listening
        self.admit = admit
        self.peer = context.peer
        self._context = context
        self._refused = refused
        self._lanes: dict[int, _Lane] = {}
        self._last = 0
        self._bundles = 0
        """Messages of which a frame waits."""
        self._room = asyncio.Event()
        self._telling: dict[_Lane, None] = {}
        """The lanes that have something to tell, in their order."""
        self._last_words: deque[store_v1.LaneResponse] = deque()
        self._news = asyncio.Event()
        self._ended = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_flushing = False

    def stop(self) -> None:
        """End the call once its lanes are over. They end by themselves."""
        self._ended.set()

    async def run(self) -> None:
        """Serve the call. Raises the error with which it must fail."""
        frames = await in_time(self._context.read(), FIRST_FRAMES_SECONDS, "append")
        reading = asyncio.create_task(self._read(frames))
        sending = asyncio.create_task(self._send())
        for task in (reading, sending):
            task.add_done_callback(lambda _: self._ended.set())
        try:
            await self._ended.wait()
            for lane in self._lanes.values():
                lane.end()
            if self._lanes:
                await self._is_empty.wait()
            self._is_flushing = True
            self._news.set()
            await asyncio.wait((sending,), timeout=_LAST_WORDS_SECONDS)
            if reading.done():
                reading.result()
        finally:
            tasks = [reading, sending, *(lane.task for lane in self._lanes.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, frames: Any) -> None:
        """Hand frames to their lanes until the client sends no more."""
        while frames is not grpc.aio.EOF:
            bundle = _Bundle()
            for each in frames.frames:
                self._hand_over(bundle, each)
            if bundle.waiting:
                self._bundles += 1
            while self._bundles >= BUNDLES_MAX:
                self._room.clear()
                await self._room.wait()
            frames = await self._context.read()

    def _hand_over(self, bundle: _Bundle, sent: store_v1.LaneFrame) -> None:
        lane = self._lanes.get(sent.lane)
        if lane is None:
            is_late = sent.lane <= self._last or self._ended.is_set()
            if is_late or not sent.HasField("frame"):
                return  # the lane is over, or so is the call
            lane = self._open(sent.lane)
        if sent.HasField("frame"):
            lane.put(bundle, sent.frame)
        else:
            lane.end()

    def _open(self, number: int) -> _Lane:
        if len(self._lanes) >= LANES_MAX:
            raise InvalidArgument("append", f"more than {LANES_MAX:,} lanes are open")
        self._last = number
        lane = self._lanes[number] = _Lane(self, number)
        self._is_empty.clear()
        return lane

    # -- called by lanes --------------------------------------------------------------------

    def taken(self, bundle: _Bundle) -> None:
        """Note that a frame of this message waits no longer."""
        bundle.waiting -= 1
        if not bundle.waiting:
            self._bundles -= 1
            self._room.set()

    def tells(self, lane: _Lane) -> None:
        """Note that a lane has something to tell."""
        self._telling[lane] = None
        self._news.set()

    def left(self, lane: _Lane, failure: QuorateError | None) -> None:
        """Note that a lane is over. failure: why; None: its client has ended it."""
        del self._lanes[lane.number]
        self._telling.pop(lane, None)
        last = lane.stream.responses()
        if failure is not None:
            self._refused(failure)
            last.append(store_v1.AppendResponse(failed=failure_to_wire(failure)))
        self._last_words += _on_lane(lane.number, last)
        self._last_words.append(store_v1.LaneResponse(lane=lane.number))
        self._news.set()
        if not self._lanes:
            self._is_empty.set()

    # -- telling ----------------------------------------------------------------------------

    async def _send(self) -> None:
        """Write what lanes have to tell, until the call ends."""
        while True:
            if responses := self._responses():
                await self._context.write(store_v1.AppendResponses(responses=responses))
            elif self._is_flushing:
                return
            else:
                self._news.clear()
                await self._news.wait()

    def _responses(self) -> list[store_v1.LaneResponse]:
        """Return what there is to tell, as much as travels together."""
        found, size = list[store_v1.LaneResponse](), 0
        while size < BUNDLE_BYTES and (self._last_words or self._telling):
            if self._last_words:
                new = [self._last_words.popleft()]
            else:
                lane = next(iter(self._telling))
                del self._telling[lane]
                new = _on_lane(lane.number, lane.stream.responses())
            size += sum(each.ByteSize() for each in new)
            found += new
        return found


def _on_lane(number: int, responses: list[store_v1.AppendResponse]) -> list[store_v1.LaneResponse]:
    return [store_v1.LaneResponse(lane=number, response=each) for each in responses]
