"""Asking stores which message of a source was the first since a time.

What their answers mean is decided in quorate.receiver.protocol.start_position.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver.io.channels import Peers
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1

log = logging.getLogger("quorate.receiver")


async def locate(
    peers: Peers, source: SourceName, addresses: Mapping[str, str], time_ns: int, seconds: float
) -> dict[str, int]:
    """Return the first number since this time, by store; a store that fails is left out.

    - addresses: those of the stores to ask, by name.
    - time_ns: nanoseconds since 1970 UTC, by the clock of the source.
    - seconds: the longest wait for an answer.
    """
    request = store_v1.LocateRequest(
        source=source_to_wire(source), time_ns=time_ns, protocol_version=PROTOCOL_VERSION
    )

    async def ask(store: str, address: str) -> tuple[str, int] | None:
        try:
            with errors_of(address):
                answer = await peers.store(address).Locate(request, timeout=seconds)
        except QuorateError as error:
            log.info("%s: store %s does not find the time: %s", source, store, error)
            return None
        return store, answer.sequence

    answers = await asyncio.gather(*(ask(*each) for each in addresses.items()))
    return dict(each for each in answers if each is not None)
