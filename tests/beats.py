"""A service of heartbeats that answers only while it may, for servers that are to seem hung."""

from __future__ import annotations

import asyncio
from typing import Any

from quorate.protocol.heartbeat import Heartbeat
from quorate.transport.heartbeat import Listening

QUICK = Heartbeat(interval=0.05, timeout=0.2)
"""Of clients whose peers are to seem hung soon."""


class Beats(Listening):
    """Answers once `beating` is set."""

    def __init__(self, beating: asyncio.Event) -> None:
        super().__init__()
        self._beating = beating

    async def _beat(self, request: Any, context: Any) -> Any:
        await self._beating.wait()
        return await super()._beat(request, context)
