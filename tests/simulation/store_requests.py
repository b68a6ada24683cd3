"""How a simulated store answers sources and receivers: production's own Requests, watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quorate.protocol.errors import ContentConflict
from quorate.store.rpc.requests import (
    AskedBegin,
    AskedPosition,
    AskedPromise,
    AskedReceiver,
    Requests,
)
from quorate.store.rules.acceptor import Promised
from quorate.store.rules.receivers import Registered
from quorate.store.rules.source_state import Change
from quorate.store.storage.interface import Write

if TYPE_CHECKING:
    from tests.simulation.store_actor import StoreActor


class SimulatedRequests(Requests):
    """As it is, but that what is taken is told to who checks, at once."""

    def __init__(self, store: StoreActor) -> None:
        super().__init__(store.engine, store.upkeep.keeper, store.losses)
        self._label = store.label
        self._checker = store.checker

    def _promise(self, asked: AskedPromise) -> Change[Promised]:
        change = super()._promise(asked)
        if not change.answer.limbo:
            self._checker.endings.sign(self._label)
        return change

    def _begin(self, asked: AskedBegin) -> Change[int]:
        try:
            change = super()._begin(asked)
        except ContentConflict as error:
            self._checker.conflict(error)
            raise
        self._checker.changes(self._label, asked.begin.epoch, "begins")
        self._checker.endings.sign(self._label)
        return change

    def _register(self, asked: AskedReceiver) -> Change[Registered]:
        change = super()._register(asked)
        self._checker.endings.sign(self._label, asked.session_id)
        return change

    def _move(self, session_id: int, asked: AskedPosition) -> tuple[Write, ...]:
        writes = super()._move(session_id, asked)
        self._checker.receivers.moved(self._label, session_id, (asked.epoch, asked.instance))
        self._checker.endings.sign(self._label, session_id)
        return writes
