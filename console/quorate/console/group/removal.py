"""The removal of old messages from the journals of a group's stores, at once at each of them.

quorate.console.commands.journal asks the operator, and shows the result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.console.group.channels import open_channel
from quorate.protocol.errors import QuorateError, Unreachable
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_from_wire
from quorate.transport.failures import errors_of
from quorate.v1.store_pb2 import ReleaseRequest, ReleaseResponse
from quorate.v1.store_pb2_grpc import StoreStub


@dataclass(slots=True)
class Removal:
    """The messages that have gone at each store, and the stores that failed."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row for each source and store of which something has gone, or is kept."""
    failures: dict[StoreAddress, QuorateError] = field(default_factory=dict)
    """By store. Messages may have gone before."""


async def remove(
    stores: Sequence[StoreAddress],
    timeout: float | None,
    topic_pattern: str,
    before_ns: int,
    *,
    unread_too: bool,
) -> Removal:
    """Tell each store to let go of the messages that were sent before a time.

    - timeout: seconds to wait for the answer about each source; None: as long as it takes.
    - topic_pattern: of the topics; empty: all.
    - unread_too: also those that subscriptions have yet to read.
    """
    request = ReleaseRequest(
        protocol_version=PROTOCOL_VERSION,
        topic_pattern=topic_pattern,
        before_ns=before_ns,
        unread_too=unread_too,
    )
    removal = Removal()

    async def one(store: StoreAddress) -> None:
        try:
            async with open_channel(store.address) as channel:
                with errors_of(store.address):
                    call = StoreStub(channel).Release(request)
                    while isinstance(
                        released := await _read(store, call, timeout), ReleaseResponse
                    ):
                        if released.messages or released.kept_because:
                            removal.rows.append(_row(store, released))
        except QuorateError as error:
            removal.failures[store] = error

    await asyncio.gather(*map(one, stores))
    removal.rows.sort(key=lambda row: (row["topic"], row["source"], row["store"]))
    return removal


async def _read(store: StoreAddress, call: Any, timeout: float | None) -> object:
    """Return the next answer, or what stands for the end. Raises Unreachable, AioRpcError."""
    try:
        async with asyncio.timeout(timeout):
            return await call.read()
    except TimeoutError:
        raise Unreachable(store.address, "it did not answer in time") from None


def _row(store: StoreAddress, released: ReleaseResponse) -> dict[str, Any]:
    source = source_from_wire(released.source)
    return {
        "topic": source.topic,
        "source": f"{source.session_id:#x}",
        "store": store.name,
        "messages": released.messages,
        "bytes": released.bytes,
        "retained_from": released.retained_from,
        "kept_because": released.kept_because,
    }
