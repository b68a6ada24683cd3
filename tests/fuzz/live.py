"""A source under the fuzzer: its server for receivers, and its heartbeats, without a network.

A round opens a source at a real store, and calls its server with changed requests. Then the source
still serves a lawful receiver.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from tests.fuzz import corpus
from tests.fuzz.judge import HELD_UP_SECONDS_MAX, Finding, told
from tests.fuzz.mutation import Mutator
from tests.fuzz.store import Call, Refused, read
from tests.fuzz.watching import complaints
from tests.store.support import running

from quorate.client import connect
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.source import Source
from quorate.source.io.live_server import LiveServer, LiveServers

CALLS = 200
"""Calls of one round."""
_MESSAGES = 10
_ANSWERS_SECONDS = 10.0
_ATTACHED_SECONDS = 0.02
"""Seconds for which a receiver stays."""


class Round:
    """One round with a source of its own."""

    def __init__(self, directory: Path, seed: int) -> None:
        """Begin with this seed. directory: is made for the store."""
        self._directory = directory
        self._seed = seed
        self._mutator = Mutator(seed)
        self.findings: list[Finding] = []

    async def run(self) -> list[Finding]:
        """Call the server of a source, and return what is wrong."""
        servers = LiveServers()
        server = servers.at("127.0.0.1:0")
        with complaints() as complained:
            async with running(self._directory) as node:
                source = await Source.open(
                    "orders", stores=f"s1={node.address}", live_servers=servers, timeout=30.0
                )
                for number in range(_MESSAGES):
                    await source.publish(b"%d" % number)
                for _ in range(CALLS):
                    await self._one(server, source)
                await self._look(node.address)
                await source.close()
        for each in complained:
            self._found(each)
        return self.findings

    async def _look(self, address: str) -> None:
        """Find out whether a receiver gets all messages."""
        async with connect(f"s1={address}", timeout=30.0) as client:
            receiver = await client.receiver("orders", start="earliest")
            for number in range(_MESSAGES):
                message = await receiver.receive(timeout=30.0)
                if message is None or message.payload != b"%d" % number:
                    self._found(f"a receiver got {message} instead of {number}")
                    return

    async def _one(self, server: LiveServer, source: Source) -> None:
        kind = self._mutator.random.choice(
            ("AttachRequest", "FetchRequest", "ConfirmRequest", "BeatRequest")
        )
        request, call, began = self._request(kind, source), Call(), time.thread_time()
        try:
            async with asyncio.timeout(_ANSWERS_SECONDS):
                match kind:
                    case "AttachRequest":
                        await _attached(server, request, call)
                    case "FetchRequest":
                        responses: AsyncIterator[Any] = server._fetch(request, call)  # type: ignore[arg-type]
                        await read(responses)
                    case "ConfirmRequest":
                        await server._confirm(request, call)  # type: ignore[arg-type]
                    case _:
                        await server._listening._beat(request, call)  # type: ignore[arg-type]
        except Refused:
            pass
        except Exception as error:
            self._found(f"{kind}: {told(error)}", str(request))
        if (took := time.thread_time() - began) > HELD_UP_SECONDS_MAX:
            self._found(f"{kind}: it took {took:.1f} s of CPU", str(request))

    def _request(self, kind: str, source: Source) -> Any:
        request: Any = corpus.kinds()[kind].FromString(
            self._mutator.random.choice(corpus.inputs(kind))
        )
        if kind != "BeatRequest":
            request.protocol_version = PROTOCOL_VERSION
            if self._mutator.chance(0.9):
                request.source.CopyFrom(source_to_wire(source.name))
        changed: Message = self._mutator.message(request)
        return type(request).FromString(changed.SerializeToString())

    def _found(self, what: str, data: str = "") -> None:
        self.findings.append(Finding("live", self._seed, what, data.encode()))


async def _attached(server: LiveServer, request: Any, call: Call) -> None:
    """Attach a receiver that leaves soon."""
    attaching = asyncio.ensure_future(server._attach(request, call))  # type: ignore[arg-type]
    done, _ = await asyncio.wait((attaching,), timeout=_ATTACHED_SECONDS)
    if done:
        attaching.result()
    else:
        attaching.cancel()
        await asyncio.gather(attaching, return_exceptions=True)


def rounds(directory: Path, first: int, count: int) -> tuple[list[Finding], int]:
    """Run rounds with consecutive seeds. Return what is wrong, and the number of inputs."""
    found: list[Finding] = []
    for seed in range(first, first + count):
        found += asyncio.run(Round(directory / str(seed), seed).run())
    return found, count * CALLS
