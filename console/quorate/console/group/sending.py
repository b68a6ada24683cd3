"""Sending many messages through a source, with patience while too few stores take the stream."""

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
    """Send all messages, each once, and return when all are accepted.

    patience: seconds in a row without enough stores, after which NotRegistered is raised. Raises
    also the errors of the source.
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
