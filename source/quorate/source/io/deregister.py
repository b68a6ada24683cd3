"""Having stores forget a source: all that is stored of it, or a promise that led to nothing.

Calls on their own; the source has stopped by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import grpc.aio

from quorate.protocol.errors import Fenced, NoQuorum, QuorateError
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.source.events import DeregistrationSucceeded
from quorate.transport.channels import open_channel
from quorate.transport.failures import error_from_call
from quorate.v1.store_pb2 import DeregisterRequest, DeregisterResponse
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.source")

_ANSWER_SECONDS = 3.0
_RETRY_SECONDS = 0.1
_TAKE_BACK_SECONDS = 1.0


async def deregister(
    source: SourceName,
    epoch: int,
    instance: bytes,
    stores: Sequence[StoreAddress],
    timeout: float,
    succeeded: Callable[[DeregistrationSucceeded], None],
) -> None:
    """Have every store forget the source; those that do not answer are tried until the timeout.

    Raises Fenced if another instance owns the identity by now, NoQuorum if some did not do it.
    """
    failures: dict[str, QuorateError] = {}
    request = DeregisterRequest(
        source=source_to_wire(source),
        epoch=epoch,
        instance=instance,
        protocol_version=PROTOCOL_VERSION,
    )

    async def at(store: StoreAddress) -> None:
        answer = await _persistently(request, store, failures)
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
            "; ".join(str(error) for error in failures.values()) or "no answer in time",
        )


async def _persistently(
    request: DeregisterRequest, store: StoreAddress, failures: dict[str, QuorateError]
) -> DeregisterResponse | None:
    async with open_channel(store.address) as channel:
        while True:
            try:
                return await _ask(StoreStub(channel), request, store.address)
            except QuorateError as error:
                failures[store.name] = error
                if not error.retryable:
                    return None
            await asyncio.sleep(_RETRY_SECONDS)


async def take_back(
    source: SourceName, epoch: int, promises: Mapping[str, str], instance: bytes
) -> None:
    """Give promises back that led to nothing; promises: addresses by the store's name.

    Only once, and for a moment: what stays behind is harmless.
    """
    request = DeregisterRequest(
        source=source_to_wire(source),
        epoch=epoch,
        unused_promise_to=instance,
        protocol_version=PROTOCOL_VERSION,
    )

    async def at(name: str, address: str) -> None:
        try:
            async with open_channel(address) as channel:
                await _ask(StoreStub(channel), request, address)
        except QuorateError as error:
            _log.debug("store %s keeps the promise to %s: %s", name, source, error)

    tasks = [asyncio.ensure_future(at(*promise)) for promise in promises.items()]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=_TAKE_BACK_SECONDS)
        for task in late:
            task.cancel()


async def _ask(stub: StoreStub, request: DeregisterRequest, address: str) -> DeregisterResponse:
    try:
        answer: DeregisterResponse = await stub.Deregister(request, timeout=_ANSWER_SECONDS)
    except grpc.aio.AioRpcError as error:
        raise error_from_call(address, error) from error
    return answer
