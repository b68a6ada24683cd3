"""Telling stores to forget a source: all that they keep of it, or a promise that led to nothing.

The source has stopped before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from quorate.protocol.errors import Fenced, NoQuorum, QuorateError, joined
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.source.events import DeregistrationSucceeded
from quorate.transport.connections import Connections
from quorate.transport.deregister import ANSWER_SECONDS_MAX, deregister_at
from quorate.transport.failures import errors_of
from quorate.v1.store_pb2 import DeregisterRequest

_log = logging.getLogger("quorate.source")

_TAKE_BACK_SECONDS = 1.0


async def deregister(
    source: SourceName,
    epoch: int,
    instance: bytes,
    stores: Sequence[StoreAddress],
    timeout: float,
    connections: Connections,
    succeeded: Callable[[DeregistrationSucceeded], None],
) -> None:
    """Tell every store to forget the source, again and again until the timeout, in seconds.

    Raises Fenced if another instance owns the identity by now, and NoQuorum if some stores did not
    answer or refused.
    """
    failures: dict[str, QuorateError] = {}
    request = DeregisterRequest(
        source=source_to_wire(source),
        epoch=epoch,
        instance=instance,
        protocol_version=PROTOCOL_VERSION,
    )

    async def at(store: StoreAddress) -> None:
        failed = partial(failures.__setitem__, store.name)
        with connections.connect(store.address) as connection:
            answer = await deregister_at(connection.store, store.address, request, failed)
        if answer is not None:
            failures.pop(store.name, None)
            succeeded(DeregistrationSucceeded(store.name, answer.reg_id, answer.last_sequence))

    tasks = {asyncio.ensure_future(at(store)): store for store in stores}
    _, silent = await asyncio.wait(tasks, timeout=timeout)
    for task in silent:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    undone = {tasks[task].name for task in silent} | failures.keys()
    for error in failures.values():
        if isinstance(error, Fenced):
            raise error
    if undone:
        raise NoQuorum(
            f"Deregistering source {source}",
            ", ".join(store.name for store in stores if store.name not in undone),
            ", ".join(store.name for store in stores if store.name in undone),
            joined(failures.values()) or "no answer in time",
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
