"""The look at how far peers are ahead: after each round of polling, source by source.

quorate.store.rules.lag decides what a lag is. Subscriptions are woken, and decide what follows.
"""

from __future__ import annotations

import logging
import time

from quorate.protocol.identity import SourceName
from quorate.store.engine import Engine
from quorate.store.rules.changes import Agenda
from quorate.store.rules.lag import Lack, furthest, lack
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.readmission import names_of
from quorate.store.tasks.peer_polling import Peers
from quorate.store.turns import Turn

_log = logging.getLogger("quorate.store.tasks.lag")


class LagWatch:
    """Notes in which sources one store lags behind its peers."""

    def __init__(self, engine: Engine, peers: Peers) -> None:
        self._engine = engine
        self._peers = peers
        self._agenda = Agenda(engine.news, engine.core.sources)

    async def run(self) -> None:
        """Look after each round of polling, until cancelled."""
        while True:
            await self._peers.next_round()
            try:
                await self.look()
            except Exception:
                _log.exception("the look at the peers failed unexpectedly; another follows")

    async def look(self) -> None:
        """Note in which sources the store lags by now, and wake the subscriptions to those."""
        engine, lags, now = self._engine, self._engine.lags, time.monotonic()
        answers = [each.answer for each in self._peers.answering().values()]
        turn = Turn()
        self._agenda.owe(lags.lacks())
        for source in self._agenda.due(now):
            await turn.pause()
            if lags.note(source, self._lack(source, answers), now):
                _log.info("the store lags: peers have more of %s than it has", source)
                for tail in (engine.stable_tail, engine.tail):
                    tail.changed(source)
        lags.has_asked = True
        if engine.limbo_reason(None):
            engine.stable_tail.wake()
            engine.tail.wake()

    def _lack(self, source: SourceName, answers: list[PeerAnswer]) -> Lack | None:
        core, found = self._engine.core, None
        state = core.sources.get(source)
        if state is None and source in core.identities.ended:
            return None  # it has ended here
        for answer in answers:
            peer = answer.knowledge(source)
            names: set[str] = set()
            if state is None:
                names = names_of(core.store, (self._engine.address,), (peer.information,))
            found = furthest(found, lack(state, peer, names))
        return found
