"""Ending a source for good, and giving a promise back that led to nothing.

The source has stopped before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from quorate.protocol.errors import Fenced, NoQuorum, QuorateError, joined
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.stream_end import StreamEnd
from quorate.protocol.wire import source_to_wire
from quorate.source.events import DeregistrationSucceeded
from quorate.transport.connections import Connections
from quorate.transport.deregister import ANSWER_SECONDS_MAX
from quorate.transport.failures import errors_of
from quorate.transport.stream_end import end_source
from quorate.v1.store_pb2 import DeregisterRequest, DeregisterResponse

_log = logging.getLogger("quorate.source")

_TAKE_BACK_SECONDS = 1.0


async def deregister(
    end: StreamEnd,
    source: SourceName,
    epoch: int,
    instance: bytes,
    timeout: float,
    connections: Connections,
    succeeded: Callable[[DeregistrationSucceeded], None],
) -> None:
    """End the source, as the owner of this epoch, within the timeout, in seconds.

    Raises Fenced if another instance owns the identity by now, and NoQuorum if too few stores have
    begun the end. The others hear of it from their peers.
    """
    request = DeregisterRequest(
        source=source_to_wire(source),
        epoch=epoch + 1,
        instance=instance,
        decided_epoch=epoch,
        protocol_version=PROTOCOL_VERSION,
    )

    async def ask(address: str, asked: DeregisterRequest) -> DeregisterResponse:
        with connections.connect(address) as connection, errors_of(address):
            answer: DeregisterResponse = await connection.store.Deregister(
                asked, timeout=ANSWER_SECONDS_MAX
            )
            return answer

    def told(store: str, answer: DeregisterResponse) -> None:
        succeeded(DeregistrationSucceeded(store, answer.reg_id, answer.last_sequence))

    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await end_source(end, request, ask, told)
    if end.done:
        return
    for error in end.failures.values():
        if isinstance(error, Fenced):
            raise error
    raise NoQuorum(
        f"Deregistering source {source}",
        ", ".join(store for store in end.stores if store not in end.missing),
        ", ".join(end.missing),
        joined(end.failures.values()) or "no answer in time",
    )


async def take_back(
    source: SourceName,
    epoch: int,
    promises: Mapping[str, str],
    instance: bytes,
    connections: Connections,
) -> None:
    """Give promises back that led to nothing; promises: addresses by the store's name.

    The source tries once, for a moment. A promise that a store keeps is harmless.
    """
    request = DeregisterRequest(
        source=source_to_wire(source),
        epoch=epoch,
        unused_promise_to=instance,
        protocol_version=PROTOCOL_VERSION,
    )

    async def at(name: str, address: str) -> None:
        try:
            with connections.connect(address) as connection, errors_of(address):
                await connection.store.Deregister(request, timeout=ANSWER_SECONDS_MAX)
        except QuorateError as error:
            _log.debug("store %s keeps the promise to %s: %s", name, source, error)

    tasks = [asyncio.ensure_future(at(*promise)) for promise in promises.items()]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=_TAKE_BACK_SECONDS)
        for task in late:
            task.cancel()
