"""Sends many messages through a source, patient while too few stores take the stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from quorate.protocol.errors import NotRegistered

if TYPE_CHECKING:
    from quorate.source import Outgoing, Source

_RETRY_SECONDS = 0.1


async def send_all(source: Source, messages: Sequence[bytes | Outgoing], patience: float) -> None:
    """Until all are accepted, each once.

    Raises NotRegistered after so many seconds in a row without enough stores, and whatever else
    the source fails with.
    """
    upto = source.next_sequence + len(messages)
    deadline = time.monotonic() + patience
    while source.next_sequence < upto:
        left = messages[len(messages) - (upto - source.next_sequence) :]
        try:
            await source.send_many(left)
        except NotRegistered:
            if source.next_sequence > upto - len(left):
                deadline = time.monotonic() + patience
            elif time.monotonic() > deadline:
                raise
            await asyncio.sleep(_RETRY_SECONDS)
