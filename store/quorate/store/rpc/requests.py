"""What a store does, and in which order, when a source or a receiver asks it for something.

What is looked at before, what is written, what has to be durable before it is answered, and what
must still be so by then. What may be written is decided in quorate.store.rules.acceptor and
.receivers; what is on the wire is known in quorate.store.rpc.service.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from quorate.protocol.errors import InLimbo, QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import Lineage
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
from quorate.v1 import messages_pb2 as v1

_log = logging.getLogger("quorate.store.rpc.requests")


class AskedPromise(NamedTuple):
    source: SourceName
    epoch: int
    instance: bytes
    take_over: bool
    decided_epoch: int
    reg_id: int = 0


class AskedBegin(NamedTuple):
    source: SourceName
    epoch: int
    lineage: Lineage
    membership: v1.Membership
    instance: bytes
    incarnation: bytes
    """Of the store, which promised the epoch."""
    ended_epoch: int
    losses: Sequence[HeldRange]
    """That operators accepted, as whoever begins was told."""


class AskedReceiver(NamedTuple):
    """What it is for is in quorate.store.rules.receivers."""

    source: SourceName
    session_id: int
    epoch: int
    instance: bytes
    take_over: bool
    lifetimes: Lifetimes
    ended_epoch: int
    spent_epoch: int
    reg_id: int = 0
    waited_for: bool = True


class AskedPosition(NamedTuple):
    source: SourceName
    epoch: int
    upto: int
    source_epoch: int
    instance: bytes


class Granted(NamedTuple):
    """A promise, and which incarnation of the store has made it."""

    promised: Promised
    incarnation: bytes


class RegisteredReceiver(NamedTuple):
    answer: Registered
    limbo: bool
    """The store does not vouch for the positions in the answer."""


class Moved(NamedTuple):
    """Which positions were not moved, or not as far as was asked."""

    refused: list[tuple[SourceName, QuorateError]]
    shortened: list[AskedPosition]


class Requests:
    """Those of sources and receivers, of one store. Each raises what the rules do, and
    StorageFailed."""

    def __init__(self, engine: Engine, keeper: Keeper, losses: Losses) -> None:
        self._engine = engine
        self._keeper = keeper
        self._losses = losses

    # Sources.

    async def promise(self, asked: AskedPromise) -> Granted:
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
            _log.info("promised epoch %d to %s", asked.epoch, source)
        return Granted(promised, incarnation)

    def _promise(self, asked: AskedPromise) -> Change[Promised]:
        source, epoch, instance, take_over, decided_epoch, reg_id = asked
        core = self._engine.core
        change = core.promise(source, epoch, instance, reg_id, take_over, decided_epoch)
        if not change.answer.limbo:
            # Before it is durable: it must not be deleted meanwhile as if nobody had asked.
            core.identities.lives.heard(Who(source))
        return change

    async def begin(self, asked: AskedBegin) -> int:
        """Answers how many messages were set aside."""
        engine, source = self._engine, asked.source
        if (state := engine.core.sources.get(source)) is not None:
            await engine.settled(state)
        incarnation = self._incarnation
        change = self._begin(asked)
        state = engine.core.sources[source]
        if learnt := learn_losses(self._losses, state, asked.losses, f"source {source}"):
            engine.submit(state, learnt)
        set_aside = await engine.made_durable(state, change)
        self._check_still(incarnation, source)
        if set_aside:
            _log.warning("epoch %d of %s set %d messages aside", asked.epoch, source, set_aside)
        if change.writes:
            _log.info("began epoch %d of %s", asked.epoch, source)
        return set_aside

    def _begin(self, asked: AskedBegin) -> Change[int]:
        source, epoch, lineage, membership, instance, incarnation, ended_epoch, _ = asked
        core = self._engine.core
        change = core.begin(source, epoch, lineage, membership, instance, incarnation, ended_epoch)
        core.identities.lives.heard(Who(source))
        return change

    @property
    def _incarnation(self) -> bytes:
        return self._engine.core.standing.record.incarnation

    def _check_still(self, incarnation: bytes, source: SourceName) -> None:
        """Raise InLimbo if the store became another one while its answer was made durable."""
        if incarnation != self._incarnation:
            reason = "it was found to be a copy, or to have been put back"
            raise InLimbo(str(source), self._engine.core.store, reason)

    # Receivers.

    async def register_receiver(self, asked: AskedReceiver) -> RegisteredReceiver:
        engine, source, session_id = self._engine, asked.source, asked.session_id
        if source not in engine.core.sources and (reason := engine.core.limbo_without(source)):
            raise InLimbo(str(source), engine.core.store, reason)
        change = self._register(asked)
        state = change.answer.state
        # It may leave limbo before this is durable, with positions that are not in this answer.
        was_in_limbo = bool(engine.core.limbo_of(state))
        came = engine.core.identities.came(state, asked.lifetimes, session_id, asked.instance)
        if came:
            engine.submit(state, came)
        registered = await engine.made_durable(state, change)
        _tell_kept(f"receiver {session_id:#x} of {source}", asked.reg_id, registered.reg_id)
        return RegisteredReceiver(registered, was_in_limbo or bool(engine.core.limbo_of(state)))

    def _register(self, asked: AskedReceiver) -> Change[Registered]:
        source, session_id, instance = asked.source, asked.session_id, asked.instance
        self._keeper.check_receiver_free(source, session_id, instance, take_over=asked.take_over)
        return self._engine.receivers.register(
            source,
            session_id,
            asked.reg_id,
            asked.epoch,
            instance,
            waited_for=asked.waited_for,
            ended_epoch=asked.ended_epoch,
            spent_epoch=asked.spent_epoch,
        )

    async def acknowledge(self, session_id: int, positions: Iterable[AskedPosition]) -> Moved:
        engine, moved, commit = self._engine, Moved([], []), 0
        for asked in positions:
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
            # Also without rows of its own: the same position may still be on its way to the disk.
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
        _log.info("%s asks for RegID %d, and keeps %d, which it has", who, wanted, has)
