"""The proxies of a store: it announces each source that is away, and finds out what is stable.

quorate.store.rules.proxy decides; here that is carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.store.engine import Engine
from quorate.store.rules.changes import Agenda
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.proxy import AWAY_SECONDS, Gathering, Party, announcers
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_names import policy_name
from quorate.store.tasks.peer_polling import Peers
from quorate.store.turns import Turn

_log = logging.getLogger("quorate.store.tasks.proxy")


class Proxying:
    """The proxies of one store."""

    def __init__(self, engine: Engine, peers: Peers, *, enabled: bool) -> None:
        self._engine = engine
        self._peers = peers
        self._enabled = enabled
        self._agenda = Agenda(engine.news, engine.core.sources)
        self._gatherings: dict[SourceName, Gathering] = {}

    async def look(self, now: float, turn: Turn) -> None:
        """Begin or end to announce each source, and find out what is stable of it.

        now: on the monotonic clock. turn: the turns of this look.

        Raises StorageFailed.
        """
        if not self._enabled:
            return
        sources = self._engine.core.sources
        answering = self._peers.answering()
        for source in self._agenda.due(now):
            await turn.pause()
            if (state := sources.get(source)) is None:
                self._gatherings.pop(source, None)
            else:
                await self._look_at(state, answering, now)

    def _is_away(self, state: SourceState) -> bool:
        """Return whether a source is silent for too long, and still does not stream."""
        if state.live or not state.registration.begun.epoch:
            return False
        if state.name in self._engine.announced:
            return True
        lives, who = self._engine.core.identities.lives, Who(state.name)
        return lives.silent(who) >= (lives.lifetimes(who).activity_timeout or AWAY_SECONDS)

    async def _look_at(
        self, state: SourceState, answering: Mapping[str, Heard], now: float
    ) -> None:
        is_away = self._is_away(state)
        if not (is_away or state.live):
            self._agenda.again(state.name, now)  # until it is away
        among = self._announcers(state, answering, now) if is_away else ()
        if bool(among) != (state.name in self._engine.announced):
            self._changed(state.name, announced=bool(among))
        if among:
            await self._gather(state, among, now)
        else:
            self._gatherings.pop(state.name, None)

    async def _gather(self, state: SourceState, among: Sequence[Party], now: float) -> None:
        gathering = self._gatherings.setdefault(state.name, Gathering())
        upto = gathering.look(now, among)
        if gathering.waits or not self._engine.is_written(state):
            self._agenda.again(state.name, now)
        writes = self._engine.core.streams.learn_stable(state, upto)
        if writes:
            self._found_stable(state.name, upto, among)
            await self._engine.writer.durable(self._engine.submit(state, writes))

    def _found_stable(self, source: SourceName, upto: int, among: Sequence[Party]) -> None:
        _log.info("%s is stable up to %d, say %d stores", source, upto, len(among))

    def _announcers(
        self, state: SourceState, answering: Mapping[str, Heard], now: float
    ) -> tuple[Party, ...]:
        information, peers = state.registration.information, list[Party]()
        for name, heard in answering.items():
            called = policy_name(name, heard.answer.address, information)
            if (party := _party(state.name, called, heard)) is not None:
                peers.append(party)
        return announcers(self._me(state, now), peers)

    def _me(self, state: SourceState, now: float) -> Party:
        core, record = self._engine.core, state.registration
        durable = self._engine.is_written(state)
        return Party(
            policy_name(core.store, self._engine.address, record.information),
            core.standing.record.incarnation,
            record.begun,
            state.readable().union(state.losses) if durable else RangeSet(),
            state.held.stable_upto,
            bool(core.doubt_of(state)),
            state.live,
            now,
            record.promised_epoch,
            state.takes_data,
        )

    def _changed(self, source: SourceName, *, announced: bool) -> None:
        if announced:
            self._engine.announced.add(source)
            _log.debug("answers for %s, which is away", source)
        else:
            self._engine.announced.discard(source)
            _log.debug("no longer answers for %s", source)
        self._engine.changed(source)


def _party(source: SourceName, called: str, heard: Heard) -> Party | None:
    answer = heard.answer
    known = answer.sources.get(source)
    if known is None or known.begun.ended:
        return None
    return Party(
        called,
        answer.incarnation,
        known.begun,
        RangeSet(Range(item.first, item.last) for item in (*known.held, *known.accepted_losses)),
        known.stable_upto,
        known.limbo or answer.limbo,
        known.live,
        heard.asked,
        known.promised_epoch,
        known.takes_data,
    )
