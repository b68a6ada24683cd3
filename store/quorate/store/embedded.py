"""A store inside an application: on the application's event loop, without signal handlers.

This module is for applications. `quorate store run` and `quorated` run a store as a process.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from quorate.store.configuration import StoreConfiguration as StoreConfiguration
from quorate.store.node import StoreNode
from quorate.store.rules.batch_check import BatchCheck, OfferedBatch, OfferedMessage

__all__ = [
    "BatchCheck",
    "OfferedBatch",
    "OfferedMessage",
    "serve",
]


@asynccontextmanager
async def serve(
    configuration: StoreConfiguration, check: BatchCheck | None = None
) -> AsyncIterator[StoreNode]:
    """Run a store while the block lasts. The block begins once the store serves.

    check: refuses what sources may not send; None: the store takes all that is valid. If the store
    fails meanwhile, `wait` of the node raises the error. Raises what opening the data directory
    raises, and InvalidArgument if the store cannot listen.

    Example:
        async with serve(StoreConfiguration(name="a", data_directory="a", peers=())) as node:
            print(node.address)
    """
    node = StoreNode(configuration, check=check)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()
