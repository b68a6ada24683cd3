"""The status of a store, asked for and put together from its parts.

What people are shown of it is no matter of this module.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable

from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.v1.store_pb2 import StatusRequest, StatusResponse


def status_request(topic_pattern: str = "", subscriptions_max: int = 0) -> StatusRequest:
    """Return the request for a status.

    - topic_pattern: of the sources; empty: all of them.
    - subscriptions_max: how many subscriptions to report at most.
    """
    return StatusRequest(
        protocol_version=PROTOCOL_VERSION,
        topic_pattern=topic_pattern,
        subscriptions_max=subscriptions_max,
    )


async def read_status(
    parts: AsyncIterable[StatusResponse], silence_seconds_max: float | None = None
) -> StatusResponse:
    """Return the whole status.

    silence_seconds_max: the longest wait for the next part; None: any. The whole may take longer: a
    busy store with very many sources has much to say.

    Raises the error of the call, and TimeoutError.
    """
    whole, coming = StatusResponse(), aiter(parts)
    while True:
        try:
            async with asyncio.timeout(silence_seconds_max):
                whole.MergeFrom(await anext(coming))
        except StopAsyncIteration:
            return whole


def status_of(parts: Iterable[StatusResponse]) -> StatusResponse:
    """Return the whole status, for code without asyncio. Raises the error of the call."""
    whole = StatusResponse()
    for part in parts:
        whole.MergeFrom(part)
    return whole
