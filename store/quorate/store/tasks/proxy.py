"""The proxy: this store answers for a source that is away, if it is elected.

quorate.store.rules.proxy_election decides on the proxy and on stability; here it is carried out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range, RangeSet
from quorate.protocol.wire import membership_from_wire
from quorate.store.engine import Engine
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.peer_knowledge import Heard
from quorate.store.rules.proxy_election import (
    AWAY_SECONDS,
    Candidacy,
    Electorate,
    Gathering,
    Party,
    electorate,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_names import policy_name
from quorate.store.tasks.peer_polling import Peers
from quorate.store.turns import Turn
from quorate.transport.delays import around_one

_log = logging.getLogger("quorate.store.tasks.proxy")


@dataclass(slots=True)
class _Part:
    """This store's part in answering for one source."""

    candidacy: Candidacy
    gathering: Gathering = field(default_factory=Gathering)


class Proxying:
    """The proxies of one store."""

    def __init__(
        self,
        engine: Engine,
        peers: Peers,
        *,
        enabled: bool,
        jitter: Callable[[], float] = around_one,
    ) -> None:
        """jitter: a random number from 0.5 to 1.5."""
        self._engine = engine
        self._peers = peers
        self._enabled = enabled
        self._jitter = jitter
        self._parts: dict[SourceName, _Part] = {}

    async def look(self, now: float, turn: Turn) -> None:
        """Begin, go on or end being the proxy of each source.

        now: on the monotonic clock. turn: the turns of this look.

        Raises StorageFailed.
        """
        if not self._enabled:
            return
        sources = self._engine.core.sources
        for gone in self._parts.keys() - sources.keys():
            del self._parts[gone]
        answering = self._peers.answering()
        for state in list(sources.values()):
            await turn.pause()
            if sources.get(state.name) is not state:
                continue
            if self._is_away(state):
                await self._look_at(state, answering, now)
                continue
            part = self._parts.pop(state.name, None)
            if part is not None and part.candidacy.give_way():
                self._changed(state.name, serves=False)

    def _is_away(self, state: SourceState) -> bool:
        if state.live or not state.registration.begun_epoch:
            return False
        lives, who = self._engine.core.identities.lives, Who(state.name)
        return lives.silent(who) >= (lives.lifetimes(who).activity_timeout or AWAY_SECONDS)

    async def _look_at(
        self, state: SourceState, answering: Mapping[str, Heard], now: float
    ) -> None:
        part = self._parts.get(state.name)
        if part is None:
            me = self._my_name(state)
            part = self._parts[state.name] = _Part(Candidacy(me, self._jitter))
        among = self._electorate(state, answering, part.candidacy.serves, now)
        if part.candidacy.look(now, among):
            self._changed(state.name, serves=part.candidacy.serves)
        if part.candidacy.serves and among is not None:
            await self._gather(state, part, among, now)

    async def _gather(self, state: SourceState, part: _Part, among: Electorate, now: float) -> None:
        upto = part.gathering.look(now, among)
        writes = self._engine.core.streams.learn_stable(state, upto)
        if writes:
            self._found_stable(state.name, upto, among)
            await self._engine.writer.durable(self._engine.submit(state, writes))

    def _found_stable(self, source: SourceName, upto: int, among: Electorate) -> None:
        _log.info("%s is stable up to %d, say %d stores", source, upto, len(among.order))

    def _electorate(
        self, state: SourceState, answering: Mapping[str, Heard], serves: bool, now: float
    ) -> Electorate | None:
        parties = [self._me(state, serves, now)]
        information = state.registration.information
        for name, heard in answering.items():
            called = policy_name(name, heard.answer.address, information)
            if (party := _party(state.name, called, heard)) is not None:
                parties.append(party)
        return electorate(state.name, {party.store: party for party in parties})

    def _my_name(self, state: SourceState) -> str:
        engine = self._engine
        return policy_name(engine.core.store, engine.address, state.registration.information)

    def _me(self, state: SourceState, serves: bool, now: float) -> Party:
        core, record = self._engine.core, state.registration
        membership = membership_from_wire(record.membership) if record.membership else None
        durable = self._engine.is_written(state)
        return Party(
            self._my_name(state),
            core.standing.record.incarnation,
            record.begun_epoch,
            record.lineage,
            membership,
            state.readable().union(state.losses) if durable else RangeSet(),
            state.held.stable_upto,
            bool(core.doubt_of(state)),
            state.live,
            serves,
            now,
            record.promised_epoch,
            state.takes_data,
        )

    def _changed(self, source: SourceName, *, serves: bool) -> None:
        if serves:
            self._engine.proxy_of.add(source)
            _log.info("answers for %s, which is away", source)
        else:
            self._engine.proxy_of.discard(source)
            _log.info("no longer answers for %s", source)
        self._engine.directory.changed(source)


def _party(source: SourceName, called: str, heard: Heard) -> Party | None:
    answer = heard.answer
    known = answer.sources.get(source)
    if known is None or known.deletion:
        return None
    return Party(
        called,
        answer.incarnation,
        known.begun_epoch,
        known.lineage,
        known.membership,
        RangeSet(Range(item.first, item.last) for item in (*known.held, *known.accepted_losses)),
        known.stable_upto,
        known.limbo or answer.limbo,
        known.live,
        known.proxy,
        heard.asked,
        known.promised_epoch,
        known.takes_data,
    )
