"""Having stores forget a receiver: its registration and its position, with every source it had.

Calls on their own; the receiver's loops have stopped by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quorate.protocol.errors import Fenced, NoQuorum, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver.events import DeregistrationComplete, DeregistrationSucceeded, Event
from quorate.receiver.peers import CALL_SECONDS, Peers, errors_of
from quorate.v1 import store_pb2 as store_v1

RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Registered:
    """A receiver's registration with one source."""

    source: SourceName
    epoch: int
    instance: bytes
    stores: tuple[tuple[str, str], ...]
    """Name and address of each store of the source."""


class Deregistration:
    """Ends one receiver at every store of every source."""

    def __init__(self, peers: Peers, session_id: int, tell: Callable[[Event], None]) -> None:
        self._peers = peers
        self._session_id = session_id
        self._tell = tell
        self._failures: dict[str, QuorateError] = {}

    async def run(self, registered: Iterable[Registered], timeout: float) -> None:
        """Tell every store; those that do not answer are tried until the timeout.

        Raises Fenced if another instance owns the identity by now, NoQuorum if some did not do it.
        """
        tasks = [asyncio.ensure_future(self._everywhere(each)) for each in registered]
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=timeout)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for error in self._failures.values():
            if isinstance(error, Fenced):
                raise error
        if late or self._failures:
            raise NoQuorum(
                f"Deregistering receiver {self._session_id:#x}",
                "",
                ", ".join(sorted(self._failures)),
                "; ".join(map(str, self._failures.values())) or "no answer in time",
            )

    async def _everywhere(self, registered: Registered) -> None:
        done = await asyncio.gather(
            *(self._at(registered, name, address) for name, address in registered.stores)
        )
        if all(done):
            self._tell(DeregistrationComplete(registered.source))

    async def _at(self, registered: Registered, name: str, address: str) -> bool:
        request = store_v1.DeregisterRequest(
            source=source_to_wire(registered.source),
            receiver_session_id=self._session_id,
            epoch=registered.epoch,
            instance=registered.instance,
            protocol_version=PROTOCOL_VERSION,
        )
        while True:
            try:
                with errors_of(address):
                    answer = await self._peers.store(address).Deregister(
                        request, timeout=CALL_SECONDS
                    )
            except QuorateError as error:
                self._failures[name] = error
                if not error.retryable:
                    return False
                await asyncio.sleep(RETRY_SECONDS)
                continue
            self._failures.pop(name, None)
            self._tell(
                DeregistrationSucceeded(
                    registered.source, name, answer.reg_id, answer.last_sequence
                )
            )
            return True
