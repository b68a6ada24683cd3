"""The other stores of the group, and which queues they dispatch."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.transport.connections import Connections
from quorate.transport.failures import errors_of
from quorate.v1 import queue_pb2 as v1
from quorate.v1.queue_pb2_grpc import QueueStub

_ROUND_SECONDS = 0.5
_ANSWER_SECONDS = 1.0


class Rivals:
    """The other stores of a group. They are asked in rounds, while somebody waits for a queue."""

    def __init__(self, stores: Sequence[StoreAddress], connections: Connections) -> None:
        """Begin without an answer."""
        self._stores = stores
        self._connections = connections
        self._round: asyncio.Task[dict[str, frozenset[str]]] | None = None

    @property
    def names(self) -> list[str]:
        """The names of the stores."""
        return [store.name for store in self._stores]

    async def heard(self) -> Mapping[str, frozenset[str]]:
        """Return, for each store that answers, the queues that it dispatches, or is about to.

        The stores are asked after a while. All that wait share one round.
        """
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._ask_all())
        return await asyncio.shield(self._round)

    async def close(self) -> None:
        """End the round that is under way."""
        if self._round is not None:
            self._round.cancel()
            await asyncio.gather(self._round, return_exceptions=True)

    async def _ask_all(self) -> dict[str, frozenset[str]]:
        await asyncio.sleep(_ROUND_SECONDS)
        answers = await asyncio.gather(*map(self._ask, self._stores))
        return {
            store.name: answer
            for store, answer in zip(self._stores, answers, strict=True)
            if answer is not None
        }

    async def _ask(self, store: StoreAddress) -> frozenset[str] | None:
        with contextlib.suppress(QuorateError), self._connections.connect(store.address) as to:
            with errors_of(store.address):
                call = QueueStub(to.channel).ShowQueues
                response = await call(v1.ShowQueuesRequest(), timeout=_ANSWER_SECONDS)
            return frozenset(
                each.name for each in response.queues if each.dispatches or each.registers
            )
        return None
