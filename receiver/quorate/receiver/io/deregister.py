"""Telling stores to forget a receiver: its registration and position with each of its sources.

The receiver's loops have stopped before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import (
    FORMER_DIRECTORY,
    Fenced,
    InLimbo,
    NoQuorum,
    QuorateError,
    joined,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import Word
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.receiver.events import DeregistrationComplete, DeregistrationSucceeded, Event
from quorate.receiver.io.channels import Peers
from quorate.receiver.protocol.deregistration import Ending
from quorate.transport.deregister import deregister_at
from quorate.v1 import store_pb2 as store_v1


@dataclass(frozen=True, slots=True)
class Registered:
    """A receiver's registration with one source."""

    source: SourceName
    epoch: int
    instance: bytes
    stores: tuple[tuple[str, str], ...]
    """Name and address of each store of the source."""
    source_reg_ids: Mapping[str, int]
    """The source's RegID at each store with which the receiver is registered."""


class Deregistration:
    """Ends one receiver at every store of every source."""

    def __init__(self, peers: Peers, session_id: int, tell: Callable[[Event], None]) -> None:
        self._peers = peers
        self._session_id = session_id
        self._tell = tell
        self._failures: dict[str, QuorateError] = {}

    async def run(self, registered: Iterable[Registered], timeout: float) -> None:
        """Tell every store, again and again until the timeout, in seconds.

        Raises Fenced if another instance owns the identity by now, and NoQuorum if some stores did
        not answer or refused.
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
                joined(self._failures.values()) or "no answer in time",
            )

    async def _everywhere(self, registered: Registered) -> None:
        ending, addresses = Ending(), dict(registered.stores)
        telling: dict[asyncio.Future[store_v1.DeregisterResponse | None], str] = {}

        def tell(name: str, pause: float = 0.0) -> None:
            task = self._at(registered, name, addresses[name], pause)
            telling[asyncio.ensure_future(task)] = name

        for name in addresses:
            tell(name)
        try:
            while telling:
                done, _ = await asyncio.wait(telling, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    name, answer = telling.pop(task), task.result()
                    if answer is not None:
                        for each in self._take(registered, ending, name, answer):
                            tell(each, REPEAT.first)
        finally:
            for task in telling:
                task.cancel()
        if ending.told == addresses.keys():
            self._tell(DeregistrationComplete(registered.source))

    def _take(
        self, registered: Registered, ending: Ending, name: str, answer: store_v1.DeregisterResponse
    ) -> frozenset[str]:
        """Note what a store answered; return the stores that are to be told again."""
        source = registered.source
        self._failures.pop(name, None)
        again = ending.answered(name, Word(answer.incarnation, tuple(answer.known_stores)))
        for each in again:
            self._failures[each] = InLimbo(str(source), each, FORMER_DIRECTORY)
        if name not in again:
            reg_id, last = answer.reg_id, answer.last_sequence
            source_reg_id = registered.source_reg_ids.get(name, 0)
            self._tell(DeregistrationSucceeded(source, name, reg_id, last, source_reg_id))
        return again

    async def _at(
        self, registered: Registered, name: str, address: str, pause: float
    ) -> store_v1.DeregisterResponse | None:
        """Tell one store after a pause, in seconds; return None if it refuses for good."""
        await asyncio.sleep(pause)
        request = store_v1.DeregisterRequest(
            source=source_to_wire(registered.source),
            receiver_session_id=self._session_id,
            epoch=registered.epoch,
            instance=registered.instance,
            protocol_version=PROTOCOL_VERSION,
        )
        failed = partial(self._failures.__setitem__, name)
        return await deregister_at(self._peers.store(address), address, request, failed)
