"""Openings: a client returns one for a source or a receiver that is not open yet.

It is awaited, entered with `async with`, or, for a receiver, iterated. How something is opened is
the client's matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from quorate.consumer.consumer import Consumer
from quorate.consumer.job import Job
from quorate.protocol.errors import InvalidArgument
from quorate.receiver.message import Message
from quorate.receiver.receiver import Receiver
from quorate.source.source import Source
from quorate.subscriber.subscriber import Subscriber

T = TypeVar("T", Source, Receiver, Subscriber, Consumer)


class Opening(Generic[T]):
    """A source or a receiver that opens when it is awaited, or entered with `async with`.

    It can be used once. Nothing happens before.
    """

    def __init__(self, call: str, opener: Callable[[], Awaitable[T]]) -> None:
        """Remember how to open. Applications use `Client.source` and `Client.receiver`."""
        self._call = call
        self._opener: Callable[[], Awaitable[T]] = opener
        self._is_used = False
        self._opened: T

    def __await__(self) -> Generator[Any, None, T]:
        """Open, and return what is open."""
        return self._open().__await__()

    async def __aenter__(self) -> T:
        """Open, and close at the end of the block."""
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.__aexit__(kind, error, traceback)

    async def _open(self) -> T:
        if self._is_used:
            raise InvalidArgument(self._call, "was used already; call it again for another one")
        self._is_used = True
        return await self._opener()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say what is missing, to a program that a type checker has not seen."""
            raise AttributeError(
                f"{self._call} is not open yet, and has no {name!r}. Open it first with "
                f"`await {self._call}`, or `async with {self._call} as …`."
            )


class ReceiverOpening(Opening[Receiver]):
    """A receiver that opens when it is awaited, entered with `async with`, or iterated."""

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Open, yield the messages, one by one, and close at the end.

        A loop that is left early closes the receiver, too. The message of its last turn is then not
        acknowledged automatically, as the loop may have failed with it.
        """
        async with self as receiver:
            async for message in receiver:
                yield message


class ConsumerOpening(Opening[Consumer]):
    """A consumer that opens when it is awaited, entered with `async with`, or iterated."""

    async def __aiter__(self) -> AsyncIterator[Job]:
        """Open, yield the jobs, one by one, and close at the end."""
        async with self as consumer:
            async for job in consumer:
                yield job
