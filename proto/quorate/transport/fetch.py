"""The client of the call Fetch: the call itself, for asyncio and for blocking code.

What the answers say is read and checked in quorate.protocol.answers. Which peer is asked, how often
and at what pace, and where the batches go, is each caller's own.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import grpc

from quorate.protocol.answers import Answer, AnswerReading, JoinedAnswer, fetch_request, joined
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range
from quorate.transport.failures import error_from_blocking_call, errors_of
from quorate.v1.messages_pb2 import FetchResponse

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)

_AHEAD = 8
"""Responses that a blocking fetch takes ahead of its caller. A response has many small batches or
one large batch."""


class Reading(Protocol[A_co]):
    """A reader and checker of the responses to one fetch (quorate.protocol.answers)."""

    @property
    def is_over(self) -> bool:
        """The peer said that it has no more."""
        ...

    def answers(self, response: FetchResponse | None) -> Iterator[A_co]:
        """Yield what the next response brings. Raises BrokenAnswer."""
        ...


class FetchCall(Generic[A]):
    """A call of Fetch under way, for asyncio; its answers come response by response."""

    def __init__(
        self,
        reading: Reading[A],
        read: Callable[[], Awaitable[object]],
        close: Callable[[], object],
    ) -> None:
        """read: waits for the next response, and raises QuorateError if the call fails. Anything
        else that it returns means that the call ended. close: ends the call.
        """
        self._reading = reading
        self._read = read
        self.close = close

    @property
    def is_over(self) -> bool:
        """The peer said that it has no more."""
        return self._reading.is_over

    async def answers(self) -> Iterator[A]:
        """Wait for the next response, and return its answers.

        Raises QuorateError: what ended the call. The iterator raises BrokenAnswer.
        """
        response = await self._read()
        return self._reading.answers(response if isinstance(response, FetchResponse) else None)


def fetch(
    stub: Any, address: str, source: SourceName, wanted: Range, silence_seconds: float
) -> FetchCall[Answer]:
    """Ask the store or source behind a stub for a range.

    A peer that says nothing for so many seconds is Unreachable.
    """
    reading = AnswerReading(address, source, wanted)
    return begin_fetch(stub, address, source, wanted, silence_seconds, reading)


def begin_fetch(
    stub: Any,
    address: str,
    source: SourceName,
    wanted: Range,
    silence_seconds: float,
    reading: Reading[A],
    *,
    delivers: bool = False,
) -> FetchCall[A]:
    """Ask as `fetch` does, and read the responses in this way.

    delivers: the messages are to be delivered, so a store withholds poison.
    """
    call = stub.Fetch(fetch_request(source, wanted, delivers=delivers))

    async def read() -> object:
        with errors_of(address):
            try:
                async with asyncio.timeout(silence_seconds):
                    return await call.read()
            except TimeoutError:
                raise _silent(address, silence_seconds) from None

    return FetchCall(reading, read, call.cancel)


class BlockingCall(Protocol):
    """The responses to a call of Fetch under way, for code without asyncio."""

    def __iter__(self) -> Iterator[FetchResponse]: ...

    def cancel(self) -> object: ...


class BlockingFetchCall:
    """A call of Fetch under way, for code without asyncio; iterates over its answers.

    A thread takes responses ahead. The call ends with the context. Iterating raises QuorateError:
    what ended the call before the peer said that it has no more.
    """

    def __init__(self, reading: AnswerReading, call: BlockingCall, silence_seconds: float) -> None:
        """silence_seconds: a peer that says nothing for so long is Unreachable."""
        self._reading = reading
        self._call = call
        self._silence_seconds = silence_seconds
        self._queue: queue.Queue[FetchResponse | QuorateError | None] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._take, name="quorate-fetch", daemon=True)
        self._over = False

    def __enter__(self) -> BlockingFetchCall:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call.cancel()
        while not self._over:
            # The thread may be waiting for room.
            self._over = isinstance(self._queue.get(), QuorateError | None)
        self._thread.join()

    def __iter__(self) -> Iterator[JoinedAnswer]:
        while not self._reading.is_over:
            yield from map(joined, self._reading.answers(self._next()))

    def _next(self) -> FetchResponse | None:
        try:
            response = self._queue.get(timeout=self._silence_seconds)
        except queue.Empty:
            raise _silent(self._reading.address, self._silence_seconds) from None
        self._over = not isinstance(response, FetchResponse)
        if isinstance(response, QuorateError):
            raise response
        return response

    def _take(self) -> None:
        address = self._reading.address
        try:
            for response in self._call:
                self._queue.put(response)
            self._queue.put(None)
        except grpc.RpcError as error:
            self._queue.put(error_from_blocking_call(address, error))
        except BaseException as error:
            self._queue.put(Unreachable(address, repr(error)))


def _silent(address: str, seconds: float) -> Unreachable:
    return Unreachable(address, f"it has said nothing for {seconds:g} s")
