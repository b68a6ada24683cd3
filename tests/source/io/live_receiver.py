"""A receiver as a source sees one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from quorate.protocol.framing import check_batch, read_payloads
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.source import Source
from quorate.transport.channels import open_channel
from quorate.v1 import messages_pb2 as m
from quorate.v1 import source_pb2 as v1
from quorate.v1.peer_pb2 import BeatRequest
from quorate.v1.peer_pb2_grpc import PeerStub
from quorate.v1.source_pb2_grpc import SourceStub

NAME = m.SourceName(topic="orders", session_id=0x10)
SILENCE = "it said nothing for 0.1 s"
"""The reason for which a source detaches a client that beats once."""


class Client:
    """A receiver at the address of a source."""

    def __init__(self, source: Source | str) -> None:
        address = source if isinstance(source, str) else source._core.information().address
        self.channel = open_channel(address)
        self.stub = SourceStub(self.channel)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()

    def attach(self, delivery: v1.DeliveryLevel = v1.DELIVERY_LEVEL_LIVE, **changes: Any) -> Any:
        fields: dict[str, Any] = {
            "source": NAME,
            "session_id": 0x20,
            "delivery": delivery,
            "protocol_version": PROTOCOL_VERSION,
        }
        return self.stub.Attach(v1.AttachRequest(**(fields | changes)))

    async def beat_once(self, silence: float = 0.1) -> None:
        """Announce heartbeats, and send no further one. The silence, in seconds, counts as hung."""
        beat = BeatRequest(interval_seconds=silence / 2, timeout_seconds=silence)
        await PeerStub(self.channel).Beat(beat)

    async def may_stay_silent(self) -> None:
        """Let no silence count for as long as a test may take on a busy machine."""
        await self.beat_once(600)

    async def fetch(self, first: int, last: int, **changes: Any) -> list[m.FetchAnswer]:
        responses = await self.fetch_responses(first, last, **changes)
        return [answer for response in responses for answer in response.answers]

    async def fetch_responses(self, first: int, last: int, **changes: Any) -> list[m.FetchResponse]:
        fields: dict[str, Any] = {
            "source": NAME,
            "first": first,
            "last": last,
            "protocol_version": PROTOCOL_VERSION,
        }
        return [item async for item in self.stub.Fetch(m.FetchRequest(**(fields | changes)))]


async def batches(call: Any) -> AsyncIterator[tuple[int, int, list[bytes]]]:
    while isinstance(frame := await call.read(), m.Frame):
        if frame.WhichOneof("kind") == "batch":
            header = check_batch(frame.batch)
            yield header.first, header.last, read_payloads(frame.batch, header)
