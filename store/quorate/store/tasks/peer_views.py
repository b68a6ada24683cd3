"""Views of one source at this store and at its peers, put together for repair.

Most of them come from the rounds of quorate.store.tasks.peer_polling. Stores that are named only by
the source's information are asked when needed. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence

import grpc.aio

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.wire import source_to_wire
from quorate.store.engine import Engine
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.repair_plan import (
    OwnView,
    PeerView,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.peer_answers import read_inventory
from quorate.store.tasks.peer_polling import Peers
from quorate.transport.failures import error_from_call
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.store_pb2_grpc import StoreStub

_log = logging.getLogger("quorate.store.tasks.peer_views")

ANSWER_SECONDS_MAX = 5.0
"""Seconds after which a store that does not answer counts as away."""
KEPT_SECONDS = 5.0
"""Seconds for which an answer to a question of this module is used again."""
SILENT_SECONDS = 10.0
"""Seconds for which an address that did not answer is not asked again."""


class Neighbours:
    """The peers of one store, and what each has of a source."""

    def __init__(self, engine: Engine, peers: Peers, address: str) -> None:
        """address: the address at which peers know this store, so that it does not ask itself."""
        self._engine = engine
        self._peers = peers
        self.address = address
        self._asked: dict[tuple[str, SourceName], tuple[float, PeerAnswer]] = {}
        self._silent_since: dict[str, float] = {}

    def answers(self) -> list[PeerAnswer]:
        """Return the latest inventory of each configured peer."""
        own = self._engine.core.store
        return [item.answer for name, item in self._peers.inventories().items() if name != own]

    async def views(self, source: SourceName, fresh: bool = False) -> list[PeerView]:
        """Return what each peer has of a source. fresh: ask them now, instead of using old answers.

        A store that does not answer has a view without content.
        """
        known = {answer.address: answer for answer in self.answers()}
        others = self._addresses(source) - known.keys()
        if not (fresh or others):
            return self._views_of(source, known)
        # A peer that is silent is asked by the polls, and not once more for each source.
        ask = others | known.keys() if fresh else others - self._peers.addresses
        silent = [PeerView(each) for each in sorted(others - ask)]
        answered = await asyncio.gather(*(self._ask(each, source, fresh) for each in sorted(ask)))
        found = {} if fresh else dict(known)
        views: list[PeerView] = []
        for address, answer in zip(sorted(ask), answered, strict=True):
            if answer is not None:
                found[address] = answer
            else:
                views.append(PeerView(address))
        return self._views_of(source, found) + views + silent

    def _views_of(self, source: SourceName, answers: Mapping[str, PeerAnswer]) -> list[PeerView]:
        """Return what these answers, by address, say of a source. One of this store is left out."""
        by_store = {answer.store: answer for answer in answers.values()}
        by_store.pop(self._engine.core.store, None)
        return [view_of(answer, source) for answer in by_store.values()]

    def are_polled(self, source: SourceName) -> bool:
        """Return whether all other stores of a source are peers: news of them comes by itself."""
        return self._addresses(source) <= self._peers.addresses

    def may_have_begun(self, source: SourceName, answers: Sequence[PeerAnswer]) -> bool:
        """Return whether a peer may have a later begin of a source than this store.

        answers: the latest ones of the peers. The first answer of a peer that has yet to answer is
        news. So only stores that are not polled may have one without having said so.
        """
        state = self._engine.core.known(source)
        begun_epoch = state.registration.begun.epoch if state is not None else 0
        return any(
            answer.knowledge(source).begun.epoch > begun_epoch for answer in answers
        ) or not self.are_polled(source)

    def _addresses(self, source: SourceName) -> set[str]:
        """Return the addresses of the peers and of the stores that the source named."""
        state = self._engine.core.known(source)
        information = state.registration.information if state is not None else None
        named = information.stores if information is not None else ()
        own = self._engine.core.store
        addresses = {store.address for store in named if store.name != own}
        return (addresses | self._peers.addresses) - {self.address}

    async def _ask(self, address: str, source: SourceName, fresh: bool) -> PeerAnswer | None:
        now = time.monotonic()
        if not fresh:
            at, known = self._asked.get((address, source), (-KEPT_SECONDS, None))
            if now - at < KEPT_SECONDS:
                return known
            if now - self._silent_since.get(address, -SILENT_SECONDS) < SILENT_SECONDS:
                return None
        answer = await self._inventory(address, source)
        if answer is None:
            self._silent_since[address] = now
        else:
            self._silent_since.pop(address, None)
            self._asked[address, source] = (now, answer)
        return answer

    async def _inventory(self, address: str, source: SourceName) -> PeerAnswer | None:
        request = store_v1.InventoryRequest(
            source=source_to_wire(source), protocol_version=PROTOCOL_VERSION
        )
        try:
            async with self._peers.open_channel(address) as channel:
                call = StoreStub(channel).Inventory(request, timeout=ANSWER_SECONDS_MAX)
                answer, _ = await read_inventory(address, call)
                return answer
        except grpc.aio.AioRpcError as error:
            _log.debug("%s of %s: %s", address, source, error_from_call(address, error))
        except QuorateError as error:
            _log.warning("%s of %s: %s", address, source, error)
        return None


def view_of(answer: PeerAnswer, source: SourceName) -> PeerView:
    """Return a peer's view of one source, from its inventory."""
    knowledge = answer.knowledge(source)
    return PeerView(
        answer.address,
        answer.store,
        knowledge.begun,
        knowledge.held,
        knowledge.stable_upto,
        answered=True,
        promised_to=(
            knowledge.promised_to if knowledge.promised_epoch == knowledge.begun.epoch else b""
        ),
        information=knowledge.information,
        reg_id=knowledge.reg_id,
        retained_from=knowledge.retained_from,
        markers=knowledge.markers,
        incarnation=answer.incarnation,
        finished=knowledge.finished,
    )


def own_view(store: str, state: SourceState | None, address: str = "") -> OwnView:
    """Return this store's own view of a source. address: where others reach this store."""
    if state is None:
        return OwnView(store, address=address)
    record, held = state.registration, state.held
    return OwnView(
        store,
        record.promised_epoch,
        record.begun,
        held.ranges,
        held.next_sequence,
        held.stable_upto,
        state.unreadable,
        state.losses,
        state.live,
        record.promised_to,
        address,
        held.retained_from,
        state.takes_data,
    )
