"""Confirming to the source of a live stream what was consumed of it, in the background.

Only the source's application and its flow control use this. The place where a receiver goes on is
in the stores.
"""

from __future__ import annotations

import asyncio
import logging

from quorate.protocol.errors import QuorateError
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver.io.channels import CALL_SECONDS
from quorate.receiver.io.source_session import Session
from quorate.transport.delays import pause
from quorate.transport.failures import errors_of
from quorate.v1 import source_pb2 as source_v1

log = logging.getLogger("quorate.receiver")


class Confirming:
    """The confirmations to one source, over one attachment to its live stream."""

    def __init__(self, session: Session, address: str) -> None:
        self._session = session
        self._address = address
        self._told = (0, -1)

    async def run(self) -> None:
        """Confirm what is new, at most once in each acknowledge interval, until cancelled."""
        while True:
            await asyncio.sleep(self._session.options.acknowledge_interval)
            if await self.tell():
                await pause(self._session.consumed, None)

    async def tell(self) -> bool:
        """Confirm what was consumed since the last time. Return False if that failed."""
        session = self._session
        consumed = (session.stream.lineage.epoch, session.acknowledgements.consumed_upto())
        if consumed <= self._told or consumed[1] < session.acknowledgements.start:
            return True
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
            log.debug(
                "%s: %s did not take a confirmation: %s", session.source, self._address, error
            )
            return False
        self._told = max(self._told, consumed)
        return True
