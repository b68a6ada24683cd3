"""The requests of sources and receivers, without the wire: each is checked, written, and answered.

An answer is returned once its rows are durable, and if it still holds by then. The rules are in
quorate.store.rules.acceptor and quorate.store.rules.receivers. The wire format is in
quorate.store.rpc.service.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quorate.protocol.application import UNNAMED, Application
from quorate.protocol.begin import BeginRecord
from quorate.protocol.errors import ContentConflict, InLimbo, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import HeldRange
from quorate.store.engine import Engine
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.acceptor import Promised
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Who,
)
from quorate.store.rules.receivers import Registered
from quorate.store.rules.source_state import Change
from quorate.store.storage.interface import Write
from quorate.store.tasks.lifecycle import Keeper
from quorate.store.tasks.loss_exchange import learn_losses
from quorate.store.turns import Turn

_log = logging.getLogger("quorate.store.rpc.requests")


class AskedPromise(NamedTuple):
    """A request for the promise of an epoch."""

    source: SourceName
    epoch: int
    instance: bytes
    take_over: bool
    decided_epoch: int
    reg_id: int = 0


class AskedBegin(NamedTuple):
    """A request to begin an epoch."""

    source: SourceName
    begin: BeginRecord
    instance: bytes
    incarnation: bytes
    """The incarnation of this store that made the promise, as the source heard it."""
    losses: Sequence[HeldRange]
    """The accepted losses of which the source heard in its promises."""


class AskedReceiver(NamedTuple):
    """A request to register a receiver. quorate.store.rules.receivers explains the fields."""

    source: SourceName
    session_id: int
    epoch: int
    instance: bytes
    take_over: bool
    lifetimes: Lifetimes
    ended_epoch: int
    reg_id: int = 0
    waited_for: bool = True
    asks_only: bool = False
    """Whether the store only answers, and registers nothing."""
    is_open: bool = False
    application: Application = UNNAMED


class AskedPosition(NamedTuple):
    """A request to move a receiver's position."""

    source: SourceName
    epoch: int
    upto: int
    source_epoch: int
    instance: bytes


class Granted(NamedTuple):
    """A promise, and the incarnation of the store that made it."""

    promised: Promised
    incarnation: bytes


class RegisteredReceiver(NamedTuple):
    """The answer to a receiver's registration."""

    answer: Registered
    limbo: bool
    """Whether the store is in limbo, and so does not vouch for the positions in the answer."""


class Moved(NamedTuple):
    """The positions that were not moved, or not as far as requested."""

    refused: list[tuple[SourceName, QuorateError]]
    shortened: list[AskedPosition]


class Requests:
    """The requests of sources and receivers to one store.

    Each method raises the errors of the rules, and StorageFailed.
    """

    def __init__(self, engine: Engine, keeper: Keeper, losses: Losses) -> None:
        self._engine = engine
        self._keeper = keeper
        self._losses = losses

    # Sources.

    async def promise(self, asked: AskedPromise) -> Granted:
        """Promise an epoch to a source, durable on return."""
        await self._keeper.make_way(asked.source)
        incarnation = self._incarnation
        change = self._promise(asked)
        promised = await self._engine.made_durable(change.answer.state, change)
        source = promised.registration.name
        self._check_still(incarnation, source)
        _tell_kept(str(source), asked.reg_id, promised.state.reg_id)
        if promised.limbo:
            _log.info("in limbo for %s: %s", source, promised.limbo)
        elif change.writes:
            _log.debug("promised epoch %d to %s", asked.epoch, source)
        return Granted(promised, incarnation)

    def _promise(self, asked: AskedPromise) -> Change[Promised]:
        source, epoch, instance, take_over, decided_epoch, reg_id = asked
        core = self._engine.core
        change = core.promise(source, epoch, instance, reg_id, take_over, decided_epoch)
        if not change.answer.limbo:
            # Before the promise is durable, so that the source is not deleted meanwhile.
            core.identities.lives.heard(Who(source))
        return change

    async def begin(self, asked: AskedBegin) -> int:
        """Begin an epoch, durable on return. Return how many messages were set aside."""
        engine, source, epoch = self._engine, asked.source, asked.begin.epoch
        await self._keeper.make_way(source)
        if (state := engine.core.known(source)) is not None:
            await engine.settled(state)
        live = engine.core.sources.get(source)
        before = live.registration.begun.generation if live is not None else -1
        incarnation = self._incarnation
        try:
            change = self._begin(asked)
        except ContentConflict as conflict:
            if (state := engine.core.sources.get(source)) is not None:
                engine.met_conflict(state, conflict)
            raise
        state = engine.core.sources[source]
        if learnt := learn_losses(self._losses, state, asked.losses, f"source {source}"):
            engine.submit(state, learnt)
        set_aside = await engine.made_durable(state, change)
        self._check_still(incarnation, source)
        if set_aside:
            level = logging.INFO if asked.begin.generation > before else logging.WARNING
            _log.log(level, "epoch %d of %s set %d messages aside", epoch, source, set_aside)
        if change.writes:
            _log.debug("began epoch %d of %s", epoch, source)
        return set_aside

    def _begin(self, asked: AskedBegin) -> Change[int]:
        core, source = self._engine.core, asked.source
        change = core.begin(source, asked.begin, asked.instance, asked.incarnation)
        core.identities.lives.heard(Who(source))
        return change

    @property
    def _incarnation(self) -> bytes:
        return self._engine.core.standing.record.incarnation

    def _check_still(self, incarnation: bytes, source: SourceName) -> None:
        """Raise InLimbo if the store's incarnation changed while its answer became durable."""
        if incarnation != self._incarnation:
            reason = "it was found to be a copy, or put back from one"
            raise InLimbo(str(source), self._engine.core.store, reason)

    # Receivers.

    async def register_receiver(self, asked: AskedReceiver) -> RegisteredReceiver:
        """Register a receiver with one source, durable on return; or only answer, if asked so."""
        engine, source, session_id = self._engine, asked.source, asked.session_id
        if source not in engine.core.sources and (reason := engine.core.limbo_without(source)):
            raise InLimbo(str(source), engine.core.store, reason)
        self._keeper.check_receiver_free(
            source, session_id, asked.instance, take_over=asked.take_over
        )
        if asked.asks_only:
            told = engine.receivers.look_up(
                source, session_id, asked.reg_id, ended_epoch=asked.ended_epoch
            )
            return RegisteredReceiver(told, bool(engine.core.limbo_of(told.state)))
        change = self._register(asked)
        state = change.answer.state
        state.receivers[session_id].application = asked.application
        # The store may leave limbo meanwhile, with positions that are not in this answer.
        was_in_limbo = bool(engine.core.limbo_of(state))
        came = engine.core.identities.came(state, asked.lifetimes, session_id)
        if came:
            engine.submit(state, came)
        registered = await engine.made_durable(state, change)
        _tell_kept(f"receiver {session_id:#x} of {source}", asked.reg_id, registered.reg_id)
        return RegisteredReceiver(registered, was_in_limbo or bool(engine.core.limbo_of(state)))

    def _register(self, asked: AskedReceiver) -> Change[Registered]:
        return self._engine.receivers.register(
            asked.source,
            asked.session_id,
            asked.reg_id,
            asked.epoch,
            asked.instance,
            waited_for=asked.waited_for,
            ended_epoch=asked.ended_epoch,
            is_open=asked.is_open,
        )

    async def acknowledge(
        self, session_id: int, positions: Iterable[AskedPosition], turn: Turn
    ) -> Moved:
        """Move a receiver's positions with several sources, durable on return.

        turn: the turns of this call.
        """
        engine, moved, commit = self._engine, Moved([], []), 0
        for asked in positions:
            await turn.pause()
            source = asked.source
            try:
                writes = self._move(session_id, asked)
            except QuorateError as error:
                moved.refused.append((source, error))
                continue
            state = engine.core.sources[source]
            position = state.receivers[session_id].acknowledged_upto
            if position < asked.upto:
                moved.shortened.append(asked._replace(upto=position))
            # Without new rows, too: the rows of the same position may not be durable yet.
            commit = max(commit, engine.submitted(state))
            engine.core.identities.lives.heard(Who(source, session_id))
            if writes:
                commit = engine.submit(state, writes, engine.is_synced(source.topic))
        await engine.writer.durable(commit)
        return moved

    def _move(self, session_id: int, asked: AskedPosition) -> tuple[Write, ...]:
        source, epoch, upto, source_epoch, instance = asked
        return self._engine.receivers.acknowledge(
            source, session_id, epoch, upto, source_epoch, instance
        )


def _tell_kept(who: str, wanted: int, has: int) -> None:
    if has and wanted not in (0, has):
        _log.info(
            "%s asks for RegID %d, but keeps RegID %d, which it already has", who, wanted, has
        )
