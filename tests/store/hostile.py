"""A client that sends what it likes, and a check that it holds up no turn of a store's event loop.

The client runs in a thread of its own, without asyncio, so that only the store's work is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.begun import begun_in
from tests.store.support import MEMBERSHIP, running
from tests.store.watchdog import longest_turn, slowness

from quorate.protocol.errors import QuorateError
from quorate.protocol.patterns import PATTERN_LENGTH_MAX, UNICODE_CLASSES_MAX
from quorate.store.node import StoreNode
from quorate.transport.channels import open_blocking_channel
from quorate.transport.failures import error_from_blocking_call, failure_from_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

TURN_SECONDS_MAX = 0.010 * slowness()
"""The longest turn allowed: 10 ms on a machine of the usual speed."""
TRIES = 3
AT_ONCE = 300
PATIENCE_SECONDS = 60.0
"""Seconds after which a client gives a call up, so that no test hangs."""


def named(number: int) -> v1.SourceName:
    return v1.SourceName(topic=f"topic.{number}", session_id=number + 1)


class Hostile:
    """A client in a thread. It sends what it likes, and takes every refusal."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel = open_blocking_channel(address)
        self.stub: Any = StoreStub(self._channel)
        self.refused: list[QuorateError] = []

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def calls(self, method: str, requests: list[Any]) -> list[Any]:
        """Send the requests, many at once, and return the answers there are."""
        answers = []
        for at in range(0, len(requests), AT_ONCE):
            part = requests[at : at + AT_ONCE]
            futures = [getattr(self.stub, method).future(request) for request in part]
            answers += [self._taken(each.result) for each in futures]
        return [answer for answer in answers if answer is not None]

    def call(self, method: str, request: Any) -> None:
        self.calls(method, [request])

    def read(self, method: str, request: Any, responses: int = 1_000_000) -> None:
        """Make a call with many responses, and take so many of them."""
        call = getattr(self.stub, method)(request, timeout=PATIENCE_SECONDS)
        for _ in range(responses):
            if self._taken(lambda: next(call, None)) is None:
                return
        call.cancel()

    def stream(self, method: str, requests: Iterable[Any]) -> None:
        """Send a stream of requests, and take all responses."""
        call = getattr(self.stub, method)(iter(requests), timeout=PATIENCE_SECONDS)
        while self._taken(lambda: next(call, None)) is not None:
            pass

    def append(self, frames: Iterable[v1.Frame]) -> None:
        """Send the frames of one source, and take all responses."""
        bundles = (
            store_v1.AppendFrames(frames=[store_v1.LaneFrame(lane=1, frame=each)])
            for each in frames
        )
        call = self.stub.Append(bundles, timeout=PATIENCE_SECONDS)
        while (responses := self._taken(lambda: next(call, None))) is not None:
            for each in responses.responses:
                if each.response.HasField("failed"):
                    self.refused.append(failure_from_wire(each.response.failed, self._address))

    def _taken(self, take: Callable[[], Any]) -> Any:
        try:
            return take()
        except grpc.RpcError as error:
            self.refused.append(error_from_blocking_call(self._address, error))
            return None


def promise(source: v1.SourceName, epoch: int = 1) -> store_v1.PromiseRequest:
    return store_v1.PromiseRequest(source=source, epoch=epoch, instance=b"a", protocol_version=1)


def append_open(source: v1.SourceName, incarnation: bytes) -> v1.Frame:
    """Return the first frame of a stream of a source that has begun."""
    opened = v1.AppendOpen(
        information=v1.SourceInformation(source=source, address="127.0.0.1:9", epoch=1, version=1),
        instance=b"a",
        incarnation=incarnation,
        protocol_version=1,
    )
    return v1.Frame(open=opened, stable_upto=-1)


def registers(client: Hostile, count: int) -> bytes:
    """Register so many sources at once, and begin them. Return the store's incarnation."""
    sources = [named(number) for number in range(count)]
    answers = client.calls("Promise", [promise(source) for source in sources])
    assert len(answers) == count, client.refused
    begins = [
        store_v1.BeginRequest(
            source=source,
            begin=begun_in(1, MEMBERSHIP),
            instance=b"a",
            incarnation=answers[0].incarnation,
            protocol_version=1,
        )
        for source in sources
    ]
    assert len(client.calls("Begin", begins)) == count, client.refused
    incarnation: bytes = answers[0].incarnation
    return incarnation


def slow_patterns() -> list[str]:
    """Return patterns of all topics, as long and as slow as a store takes them."""
    slow = "|".join([r"\pL"] * UNICODE_CLASSES_MAX)
    return [".*", "(a|b|.)*" * (PATTERN_LENGTH_MAX // 9), slow]


async def held_up(node: StoreNode, acts: Sequence[Callable[[Hostile], None]]) -> list[str]:
    """Let a hostile client act. Return in words which turns of the store were too long."""
    too_long = []
    with Hostile(node.address) as client:
        # The first calls of all load modules.
        await asyncio.to_thread(client.read, "Status", store_v1.StatusRequest(protocol_version=1))
        for act in acts:
            client.refused.clear()
            with longest_turn() as longest:
                await asyncio.to_thread(act, client)
            if longest.seconds >= TURN_SECONDS_MAX:
                words = f"{act.__name__}: {longest.seconds * 1000:.1f} ms in {longest.what}"
                too_long.append(words)
    return too_long


async def hold_up_nobody(
    directory: Path,
    *acts: Callable[[Hostile], None],
    prepare: Callable[[StoreNode], Awaitable[None]] | None = None,
    **overrides: Any,
) -> None:
    """Check that the acts hold up a store in none of its turns, in one of a few tries.

    A virtual machine counts the time that it was not given as time of the thread. That hits a turn
    by chance. A request that is too much for the store holds it up in every try.

    overrides: of the store's configuration.
    """
    tries = []
    for number in range(TRIES):
        async with running(directory / str(number), durability="os", **overrides) as node:
            if prepare:
                await prepare(node)
            tries.append(await held_up(node, acts))
        if not tries[-1]:
            return
    pytest.fail(f"the store was held up in each of {TRIES} tries: {tries}")
