"""Telling the source of a live stream what was consumed of it, in the background.

For its application and its flow control alone: where a receiver goes on is what stores remember.
"""

from __future__ import annotations

import asyncio
import logging

from quorate.protocol.errors import QuorateError
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver.io.channels import (
    CALL_SECONDS,
    errors_of,
)
from quorate.receiver.io.source_session import Session
from quorate.v1 import source_pb2 as source_v1

log = logging.getLogger("quorate.receiver")


class Confirming:
    """To one source, over one attachment to its live stream."""

    def __init__(self, session: Session, address: str) -> None:
        self._session = session
        self._address = address
        self._told = (0, -1)

    async def run(self) -> None:
        """Tell what is new, as often as stores are told; until cancelled."""
        while True:
            await asyncio.sleep(self._session.options.acknowledge_interval)
            await self.tell()

    async def tell(self) -> None:
        """Tell what was consumed since the last time; a failure is made up for by the next one."""
        session = self._session
        consumed = (session.stream.lineage.epoch, session.acknowledgements.consumed_upto())
        if consumed <= self._told or consumed[1] < session.acknowledgements.start:
            return
        request = source_v1.ConfirmRequest(
            source=source_to_wire(session.source),
            session_id=session.session_id,
            reg_id=session.registration.reg_id,
            source_epoch=consumed[0],
            upto=consumed[1],
            protocol_version=PROTOCOL_VERSION,
        )
        try:
            with errors_of(self._address):
                await session.peers.source(self._address).Confirm(request, timeout=CALL_SECONDS)
        except QuorateError as error:
            log.debug("%s: confirming to %s: %s", session.source, self._address, error)
        else:
            self._told = max(self._told, consumed)
