"""Clients under the fuzzer: a source, a receiver and a subscriber whose peers answer with nonsense.

A real store and real clients speak over a real connection. Some of the answers that a client reads
are changed before it decodes them. The clients may fail only with typed errors, and must close.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.message import Message
from tests import seams
from tests.fuzz.judge import HELD_UP_SECONDS_MAX, Finding, told
from tests.fuzz.mutation import Mutator
from tests.fuzz.watching import complaints
from tests.store.support import running

from quorate.client import Client, ReceiverOptions, SourceOptions, connect
from quorate.errors import QuorateError

_LIES = 0.35
"""The part of the answers that is changed."""
_STEP_SECONDS = 1.0
"""Seconds for which a client tries something."""
_CLOSES_SECONDS = 20.0
_QUICK = ReceiverOptions(registration_interval=0.2, acknowledge_interval=0.02)
_HURRIED = SourceOptions(registration_interval=0.2)


class Liar:
    """A channel whose answers are changed now and then."""

    def __init__(self, channel: grpc.aio.Channel, lies: Lies) -> None:
        self._channel = channel
        self._lies = lies

    def _wrapped(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def call(
            method: str,
            request_serializer: Any = None,
            response_deserializer: Any = None,
            **more: Any,
        ) -> Any:
            read = self._lies.reading(response_deserializer)
            return make(method, request_serializer, read, **more)

        return call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
        return self._wrapped(found) if name in kinds else found


class Lies:
    """One round of lies."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Begin with this seed. directory: is made for the store."""
        self._directory = directory
        self._seed = seed
        self._mutator = Mutator(seed)
        self.inputs = 0
        self.findings: list[Finding] = []

    def reading(self, read: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
        """Return a decoder that decodes another answer now and then."""

        def changed(data: bytes) -> Any:
            message = read(data)
            if not isinstance(message, Message) or not self._mutator.chance(_LIES):
                return message
            self.inputs += 1
            return read(self._mutator.message(message).SerializeToString())

        return changed

    async def run(self) -> list[Finding]:
        """Let a source, a receiver and a subscriber be lied to. Return what is wrong."""
        opened = seams.OPEN_CHANNEL.real()
        with complaints() as complained:
            async with running(
                self._directory, topic=[{"pattern": "orders", "keys": "$key"}]
            ) as node:
                with seams.OPEN_CHANNEL.replaced(lambda *given: Liar(opened(*given), self)):
                    client = connect(f"s1={node.address}", timeout=_STEP_SECONDS)
                    began = time.thread_time()
                    for step in (_sends, _receives, _replays, _queries):
                        await self._tried(step.__name__, step(client))
                    await self._tried("close", client.close(), _CLOSES_SECONDS, must_end=True)
                    if (took := time.thread_time() - began) > 10 * HELD_UP_SECONDS_MAX:
                        self._found(f"the clients took {took:.1f} s of CPU")
        for each in complained:
            self._found(each)
        return self.findings

    async def _tried(
        self, name: str, step: Awaitable[Any], seconds: float = 0.0, *, must_end: bool = False
    ) -> None:
        try:
            async with asyncio.timeout(seconds or 2 * _STEP_SECONDS):
                await step
        except TimeoutError:
            if must_end:
                self._found(f"{name} does not end")
        except QuorateError:
            pass
        except Exception as error:
            self._found(f"{name}: {told(error)}")

    def _found(self, what: str) -> None:
        self.findings.append(Finding("lies", self._seed, what))


async def _sends(client: Client) -> None:
    source = await client.source("orders", session_id=0x10, options=_HURRIED)
    for number in range(20):
        await source.send(b'{"id": %d}' % number, key=b"k%d" % (number % 3))
    await source.flush(timeout=_STEP_SECONDS)


async def _receives(client: Client) -> None:
    receiver = await client.receiver("orders", session_id=0x20, options=_QUICK)
    for _ in range(20):
        await receiver.receive(timeout=_STEP_SECONDS)


async def _replays(client: Client) -> None:
    replay = await client.subscriber("orders", where="id > 3", end="now")
    async for _ in replay:
        pass


async def _queries(client: Client) -> None:
    state = client.state("orders", timeout=_STEP_SECONDS)
    await state.query(where="id > 1")
    await state.count()


def rounds(directory: Path, first: int, count: int) -> tuple[list[Finding], int]:
    """Run rounds with consecutive seeds. Return what is wrong, and the number of inputs."""
    found: list[Finding] = []
    inputs = 0
    for seed in range(first, first + count):
        lies = Lies(directory / str(seed), seed)
        found += asyncio.run(lies.run())
        inputs += lies.inputs
    return found, inputs
