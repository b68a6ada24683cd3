"""The keeper of identities: their signs of life, their lifetimes, and their deregistration.

The decisions are made in quorate.store.rules (lifetimes, source_tombstones, receiver_tombstones,
deregistration). Here they are only carried out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from quorate.protocol.errors import (
    Deregistered,
    InLimbo,
    QuorateError,
    ReceiverActive,
    StorageUnreadable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.store.engine import Engine
from quorate.store.rules import (
    receiver_positions,
    receiver_tombstones,
)
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.changes import Agenda
from quorate.store.rules.deregistration import (
    Verdict,
    check_receiver,
    deregistered_elsewhere,
    judge_source,
    judge_unused,
)
from quorate.store.rules.epochs import check_step
from quorate.store.rules.finished import closed_elsewhere, is_over_everywhere
from quorate.store.rules.identity_records import Tombstone
from quorate.store.rules.lifetimes import (
    CONFIRM_SECONDS,
    Observed,
    Who,
    milliseconds,
)
from quorate.store.rules.peer_knowledge import (
    Heard,
    PeerAnswer,
    SourceKnowledge,
)
from quorate.store.rules.receiver_tombstones import Forgetting
from quorate.store.rules.source_state import (
    Change,
    Ending,
    SourceState,
)
from quorate.store.rules.source_tombstones import (
    View,
    awaited,
    begun_anew,
    deregistered_since,
    gone_everywhere,
    had_nothing,
    is_heard_of,
    known_to_receivers,
    lives_on,
    may_expire,
    policies,
    rows_gone,
    settled,
)
from quorate.store.rules.store_names import policy_name
from quorate.store.storage.interface import Write
from quorate.store.storage.records import Registration
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.proxy import Proxying
from quorate.store.turns import Turn
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import SourceInformation

_log = logging.getLogger("quorate.store.tasks.lifecycle")

LOOK_SECONDS = 0.5
"""Seconds from one look at all identities to the next."""
REST_FACTOR = 20
"""A look is followed by a rest that is this many times as long."""
PURGE_ROWS = 1000
"""The count of rows of a deleted source that are removed at a time."""


class Keeper:
    """The keeper of one store's identities."""

    def __init__(
        self,
        engine: Engine,
        peers: Peers,
        proxying: Proxying,
        losses: Losses,
        deletion_grace: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """deletion_grace: seconds for which the messages of deleted sources are kept.

        clock: the monotonic clock that dates the peers' answers.
        """
        self._engine = engine
        self._core = engine.core
        self._identities = engine.core.identities
        self._lives = engine.core.identities.lives
        self._peers = peers
        self._proxying = proxying
        self._losses = losses
        self._grace = deletion_grace
        self._clock = clock
        self._agenda = Agenda(engine.news, engine.core.sources)
        self._forgetting = Forgetting()
        self._finished_since: dict[SourceName, float] = {}
        """The time when this store found each source finished, in seconds by the clock."""
        self._unread: set[SourceName] = set()
        """Deleted sources that stay as they are because rows of them are unreadable."""

    @property
    def observed(self) -> Observed:
        """The time that this store has seen pass."""
        return self._lives.observed

    async def run(self) -> None:
        """Look at all identities, over and over, until cancelled."""
        while True:
            began = self._clock()
            try:
                await self.look(began)
            except QuorateError as error:
                _log.warning("looking after identities: %s", error)
            except Exception:
                _log.exception("looking after identities failed unexpectedly; another look follows")
            # With many identities a look takes long. It must stay a small part of the work.
            await self._rest(max(LOOK_SECONDS, REST_FACTOR * (self._clock() - began)))

    async def _rest(self, seconds: float) -> None:
        """Sleep, and note the passing time in small steps.

        In one step an identity that left just before the next look would age by the whole rest.
        """
        until = self._clock() + seconds
        while (left := until - self._clock()) > 0:
            await asyncio.sleep(min(left, LOOK_SECONDS))
            self._lives.observed.look(self._clock())

    async def look(self, steady: float) -> None:
        """Look once. steady: the time on the monotonic clock. Raises StorageFailed."""
        self._lives.observed.look(steady)
        due = list(self._agenda.due(steady))
        try:
            await self._look_at_all(due, self._hear_peers(due))
        except BaseException:
            self._agenda.owe(due)
            raise
        await self._proxying.look(steady, Turn(self._clock))

    async def _look_at_all(self, due: Iterable[SourceName], told: Sequence[PeerAnswer]) -> None:
        """Look at all deleted sources, and at those of the others that are due."""
        turn = Turn(self._clock)
        for source, tombstone in list(self._identities.tombstones.items()):
            await turn.pause()
            if self._identities.tombstones.get(source) is tombstone:
                await self._try_to_look_at_deleted(source, tombstone)
        for source in due:
            await turn.pause()
            if (state := self._core.sources.get(source)) is None:
                continue
            await self._look_at(state, told, turn)
            if self._is_due_again(state):
                self._agenda.owe((source,))
            for who in _identities_of(state):
                await turn.pause()
                if self._core.sources.get(state.name) is not state:
                    break
                if not who.receiver or who.receiver in state.receivers:
                    self._write_stamps(state, [who])

    def stop(self) -> None:
        """Write the signs of life that a restart must know."""
        if self._engine.writer.failure is None:
            for state in self._core.sources.values():
                self._write_stamps(state, _identities_of(state), all_of_them=True)

    # Sources and receivers that live.

    def _hear_peers(self, changed: Iterable[SourceName]) -> list[PeerAnswer]:
        """Return the answers of peers that can be heard. changed: the sources with news."""
        answers = [heard.answer for heard in self._peers.answering().values()]
        for source in self._engine.elsewhere.hear(answers, changed):
            self._engine.news.note(source)
            self._engine.directory.changed(source)
        return answers

    def _is_due_again(self, state: SourceState) -> bool:
        """Return whether time, or a later answer, may lead to something though nothing changes."""
        return bool(
            state.name in self._lives.mortal
            or state.ended
            or state.registration.may_miss_receivers
            or self._core.limbo_of(state)
            or self._engine.is_finished(state)
        )

    async def _look_at(self, state: SourceState, answers: Sequence[PeerAnswer], turn: Turn) -> None:
        overdue = await self._overdue_receivers(state, turn)
        if self._core.sources.get(state.name) is not state:
            return
        told = [known for each in answers if (known := each.sources.get(state.name)) is not None]
        for known in told:
            if deregistered_elsewhere(state, known, told):
                _log.info("%s was deregistered while this store was away", state.name)
                await self._bury(state, store_v1.DELETION_DEREGISTERED, known.deleted_upto)
                return
        is_in_limbo = bool(self._core.limbo_of(state))
        if not is_in_limbo and await self._forget_finished(state):
            return
        if self._is_over(state):
            _log.warning("%s is deleted: its state lifetime is over", state.name)
            await self._bury(state, store_v1.DELETION_EXPIRED)
            return
        if is_in_limbo:
            return  # readmission comes first
        writes = self._hear_of_ends(state, told)
        if closed_elsewhere(state, told):
            state.registration = replace(state.registration, clean=True)
            writes.append(state.registration_row())
        for session_id in overdue:
            # It may have been back since, or ended.
            who = Who(state.name, session_id)
            if session_id in state.receivers and self._lives.overdue(who):
                _log.info("receiver %#x of %s is deleted: its time is over", session_id, state.name)
                writes += self._identities.expire_receiver(state, session_id, self._core.reg_ids)
        if writes:
            await self._write(state, writes)

    def _is_over(self, state: SourceState) -> bool:
        """Return whether the lifetime of a source is over at so many stores that it may expire.

        Only answers within one lifetime count: there was a moment when none of these stores heard.
        """
        who = Who(state.name)
        if not self._lives.overdue(who):
            return False
        since = self._clock() - self._lives.lifetimes(who).kept_for
        return may_expire(state.registration, self._view(state.registration, since))

    async def _overdue_receivers(self, state: SourceState, turn: Turn) -> list[int]:
        """Return the receivers whose time is over. A source may have many."""
        overdue = list[int]()
        for session_id in list(state.receivers):
            await turn.pause()
            if self._lives.overdue(Who(state.name, session_id)):
                overdue.append(session_id)
        return overdue

    def _hear_of_ends(self, state: SourceState, told: Sequence[SourceKnowledge]) -> list[Write]:
        """Return the rows that follow from the receivers' tombstones at peers."""
        writes = receiver_tombstones.spend(state, receiver_tombstones.spent_epoch(told))
        for session_id, epoch in receiver_tombstones.news(state, told):
            _log.info(
                "receiver %#x of %s was deregistered while this store was away",
                session_id,
                state.name,
            )
            reg_ids = self._core.reg_ids
            writes += self._identities.end_receiver(state, session_id, epoch, reg_ids)
        record = state.registration
        if record.may_miss_receivers:
            writes += self._learn_receivers(state)
        if state.ended:
            me = policy_name(self._core.store, self._engine.address, record.information)
            named, heard = known_to_receivers(record, me), self._heard_by_name(record)
            now = self._lives.observed.now
            writes += self._forgetting.look(state, named, heard, self._clock(), now)
        return writes

    def _learn_receivers(self, state: SourceState) -> list[Write]:
        record, name = state.registration, state.name
        told = {
            store: each.answer.knowledge(name)
            for store, each in self._heard_by_name(record).items()
            if each.answer.vouches(name)
        }
        reg_ids = self._core.reg_ids
        return receiver_positions.learn(state, policies(record), told, self._identities, reg_ids)

    def _write_stamps(
        self, state: SourceState, known: Iterable[Who], *, all_of_them: bool = False
    ) -> None:
        """Write the signs of life of these identities of a source, as far as they are due."""
        for who in self._lives.stamps(known, all_of_them=all_of_them):
            self._engine.submit(state, [self._identities.life_row(state, who.receiver)], False)

    # Sources that are finished.

    async def _forget_finished(self, state: SourceState) -> bool:
        """Forget a source that is finished at all of its stores. Return whether it was forgotten.

        It leaves no tombstone: no later source has its session ID.
        """
        if not self._is_finished_everywhere(state):
            return False
        # Another source gets the RegID, and must not have these rows.
        await self._remove_rows(state)
        is_present = self._core.sources.get(state.name) is state
        if not (is_present and self._is_finished_everywhere(state)):
            return False
        _log.info("%s is forgotten: it has closed, and nothing of it is left", state.name)
        endings = self._core.remove(state.name, Deregistered(f"Source {state.name}"))
        await self._gone(state, self._identities.forget(state, self._core.reg_ids), endings)
        return True

    def _is_finished_everywhere(self, state: SourceState) -> bool:
        if not self._engine.is_finished(state):
            self._finished_since.pop(state.name, None)
            return False
        since = self._finished_since.setdefault(state.name, self._clock())
        record = state.registration
        me = policy_name(self._core.store, self._engine.address, record.information)
        heard = {
            store: each.answer
            for store, each in self._heard_by_name(record).items()
            if each.counts and each.asked > since
        }
        return is_over_everywhere(state.name, known_to_receivers(record, me), heard)

    async def _remove_rows(self, state: SourceState) -> None:
        """Remove what a source that holds nothing has in the index: batches that were set aside."""
        await self._engine.settled(state)
        while writes := rows_gone(self._engine.reads, state.reg_id, PURGE_ROWS):
            await self._engine.writer.durable(self._engine.submit(state, writes))

    # Sources that are deleted.

    async def _bury(self, state: SourceState, cause: store_v1.Deletion, upto: int = 0) -> None:
        blind = bool(self._core.limbo_of(state))
        endings = self._core.remove(state.name, Deregistered(f"Source {state.name}"))
        writes = self._identities.bury(
            state, cause, self._core.reg_ids, self._clock(), blind=blind, upto=upto
        )
        await self._gone(state, writes, endings)

    async def _gone(
        self, state: SourceState, writes: Sequence[Write], endings: tuple[Ending, ...]
    ) -> None:
        self._engine.announced.discard(state.name)
        self._finished_since.pop(state.name, None)
        self._forgetting.deleted(state.name)
        self._unread.discard(state.name)
        await self._engine.made_durable(state, Change(None, tuple(writes), endings))

    async def _try_to_look_at_deleted(self, source: SourceName, tombstone: Tombstone) -> None:
        """Look at a deleted source; an unreadable row of it must not stop other sources."""
        try:
            await self._look_at_deleted(source, tombstone)
        except StorageUnreadable as error:
            if source not in self._unread:
                _log.warning("the rest of %s, which was deleted, stays on disk: %s", source, error)
            self._unread.add(source)
        else:
            self._unread.discard(source)

    async def _look_at_deleted(self, source: SourceName, tombstone: Tombstone) -> None:
        identities, view = self._identities, self._view(tombstone.registration)
        if source in self._core.sources:
            writes = identities.replaced(source)  # it was taken up again from a peer
            await self._engine.writer.durable(self._engine.writer.submit(writes))
            return
        if upto := deregistered_since(tombstone, view):
            _log.info("%s was deregistered again while this store was away", source)
            writes = identities.deregistered(source, upto, self._clock())
            await self._engine.writer.durable(self._engine.writer.submit(writes))
            return
        is_gone = self._is_gone_at_once(source, tombstone, view)
        if source not in identities.settled:
            self._judge_settled(source, tombstone, view, is_gone)
        is_settled = source in identities.settled
        if is_settled and lives_on(tombstone, view):
            if had_nothing(tombstone):
                await self._bring_back(source, tombstone, view)  # the promise may be for that
            else:
                await self.make_way(source)  # this store has a part in the one that is new
            return
        if is_gone:
            identities.unlisted.add(source)
        elif not is_settled and (lives_on(tombstone, view) or is_heard_of(tombstone, view)):
            await self._bring_back(source, tombstone, view)
            return
        if not tombstone.emptied and self._grace_is_over(source, tombstone):
            await self._purge(source)

    def _judge_settled(
        self, source: SourceName, tombstone: Tombstone, view: View, is_gone: bool
    ) -> None:
        if settled(tombstone, view, is_gone):
            self._identities.settled.add(source)
            self._engine.waits_for.pop(source, None)
        else:
            self._engine.waits_for[source] = awaited(tombstone, view)

    def _is_gone_at_once(self, source: SourceName, tombstone: Tombstone, view: View) -> bool:
        """Return whether at one moment no other store had the deleted source any longer.

        All of them said so, and each said it again when it was asked after that.
        """
        seemed_gone = self._identities.seemed_gone
        if not gone_everywhere(tombstone, view):
            seemed_gone.pop(source, None)
            return False
        since = seemed_gone.setdefault(source, self._clock())
        return gone_everywhere(tombstone, self._view(tombstone.registration, since))

    async def _bring_back(self, source: SourceName, tombstone: Tombstone, view: View) -> None:
        identities, anew = self._identities, begun_anew(tombstone, view)
        if anew or tombstone.dropped:
            # Old rows of the index would mix with those of the batches taken from now on.
            await self._purge_all(source)
        if source not in identities.tombstones:
            return  # the source has registered anew meanwhile
        _log.warning("%s was deleted here, but lives on elsewhere: it is back", source)
        self._engine.waits_for.pop(source, None)
        state, writes = identities.bring_back(source, self._core.reg_ids, anew=anew)
        state.takes_data = self._core.takes_data(source.topic)
        self._core.sources[source] = state
        self._losses.count_again(state)
        await self._write(state, writes)

    def _view(self, record: Registration, since: float = 0.0) -> View:
        """Return the answers of reachable peers to questions after a time.

        Of a deleted source only answers since its deletion count. Older answers of peers that are
        silent now do not count: the source may be back there.
        """
        since = max(since, self._identities.buried_at.get(record.name, 0.0))
        told = {
            store: each.answer
            for store, each in self._peers.answering().items()
            if each.asked > since
        }
        heard = _by_names(told, record.information)
        if (newest := _newest_of_deleted(record, told.values())) is not None:
            for name, answer in _by_names(told, newest).items():
                # The source may have other names for its stores since. None may mean two of them.
                if heard.setdefault(name, answer) is not answer:
                    del heard[name]
        answered = {answer.address for answer in told.values()}
        return View(
            policy_name(self._core.store, self._engine.address, record.information),
            heard,
            self._peers.addresses <= answered,
        )

    def _heard_by_name(self, record: Registration) -> dict[str, Heard]:
        """The peers that can be heard, by the names that the source's policies use."""
        return {
            policy_name(name, each.answer.address, record.information): each
            for name, each in self._peers.answering().items()
        }

    def _grace_is_over(self, source: SourceName, tombstone: Tombstone) -> bool:
        observed = self._lives.observed
        if source in self._identities.buried_at:
            return observed.wall - tombstone.deleted >= self._grace
        confirmed = observed.now >= min(CONFIRM_SECONDS, self._grace)
        return confirmed and observed.age(tombstone.deleted, None) >= self._grace

    async def _purge(self, source: SourceName) -> None:
        tombstones, reg_ids = self._identities.tombstones, self._core.reg_ids
        if (tombstone := tombstones.get(source)) is None:
            return
        # A late row of this source must not appear under its RegID once another source has it.
        await self._engine.written_under(tombstone.reg_id)
        if tombstones.get(source) is not tombstone:
            return
        writes = self._identities.purge(source, self._engine.reads, PURGE_ROWS, reg_ids)
        await self._engine.writer.durable(self._engine.writer.submit(writes))

    async def _purge_all(self, source: SourceName) -> None:
        tombstones = self._identities.tombstones
        while (tombstone := tombstones.get(source)) is not None and not tombstone.emptied:
            await self._purge(source)

    async def make_way(self, source: SourceName) -> None:
        """Remove the rest of a deleted source if that may register again as an unknown one."""
        if source in self._identities.settled:
            await self._purge_all(source)

    # Requests.

    def check_receiver_free(
        self, source: SourceName, session_id: int, instance: bytes, *, take_over: bool
    ) -> None:
        """Raise ReceiverActive if another instance of a receiver is protected."""
        state = self._core.sources.get(source)
        record = state.receivers.get(session_id) if state is not None else None
        if record is None or record.instance == instance or take_over:
            return
        seconds = self._lives.protected_for(Who(source, session_id))
        if seconds > 0:
            name = f"receiver {session_id:#x} of {source}"
            raise ReceiverActive(name, self._core.store, milliseconds(seconds))

    async def deregister(
        self,
        source: SourceName,
        receiver: int,
        epoch: int,
        unused_promise_to: bytes,
        instance: bytes = b"",
    ) -> store_v1.DeregisterResponse:
        """End a source, or a receiver of it. Do nothing if there is none.

        Raises Fenced, EpochTooFar, InLimbo, StorageFailed.
        """
        if receiver:
            return await self._deregister_receiver(source, receiver, epoch, instance)
        state = self._core.sources.get(source)
        if state is None:
            if unused_promise_to:
                # The promise was deleted with the source; returning it must not deregister that.
                return store_v1.DeregisterResponse(last_sequence=NOTHING)
            return await self._deregister_again(source, epoch)
        if unused_promise_to:
            verdict = judge_unused(state, epoch, unused_promise_to)
            self._identities.gave_up(state, epoch, unused_promise_to)
        else:
            check_step(str(source), self._core.store, epoch, state.registration.promised_epoch)
            verdict = judge_source(state, epoch, instance)
        high = state.held.high
        if verdict is Verdict.BURY:
            _log.warning("%s is deregistered, and its messages are deleted", source)
            record = state.registration
            state.registration = replace(record, promised_epoch=max(epoch, record.promised_epoch))
            await self._bury(state, store_v1.DELETION_DEREGISTERED, epoch)
        elif verdict is Verdict.FORGET:
            _log.info("%s is forgotten: it never began", source)
            endings = self._core.remove(source, Deregistered(f"Source {source}"))
            await self._gone(state, self._identities.forget(state, self._core.reg_ids), endings)
        return store_v1.DeregisterResponse(reg_id=state.reg_id, last_sequence=high)

    async def _deregister_again(
        self, source: SourceName, epoch: int
    ) -> store_v1.DeregisterResponse:
        tombstone = self._identities.tombstones.get(source)
        if tombstone is None:
            if reason := self._core.standing.limbo:
                raise InLimbo(str(source), self._core.store, reason)
            return store_v1.DeregisterResponse(last_sequence=NOTHING)
        check_step(str(source), self._core.store, epoch, tombstone.registration.promised_epoch)
        writes = self._identities.deregistered(source, epoch, self._clock())
        await self._engine.writer.durable(self._engine.writer.submit(writes))
        return store_v1.DeregisterResponse(
            reg_id=tombstone.reg_id, last_sequence=tombstone.held.high
        )

    async def _deregister_receiver(
        self, source: SourceName, receiver: int, epoch: int, instance: bytes
    ) -> store_v1.DeregisterResponse:
        state = self._core.sources.get(source)
        if state is None:
            # The source may come back to this store, which would not remember the end.
            if reason := self._core.limbo_without(source):
                raise InLimbo(str(source), self._core.store, reason)
            return store_v1.DeregisterResponse(last_sequence=NOTHING)
        record = state.receivers.get(receiver)
        answer = store_v1.DeregisterResponse(last_sequence=NOTHING)
        known_epoch = max(receiver_tombstones.fence(state, receiver), record.epoch if record else 0)
        check_step(f"receiver {receiver:#x} of {source}", self._core.store, epoch, known_epoch)
        if record is not None:
            check_receiver(Who(source, receiver), record, epoch, instance)
            answer.reg_id, answer.last_sequence = record.reg_id, record.acknowledged_upto
        # An unknown receiver is ended, too: its registration may still be under way.
        reg_ids = self._core.reg_ids
        await self._write(state, self._identities.end_receiver(state, receiver, epoch, reg_ids))
        return answer

    async def _write(self, state: SourceState, writes: Sequence[Write]) -> None:
        await self._engine.writer.durable(self._engine.submit(state, writes))


def _identities_of(state: SourceState) -> list[Who]:
    """Return a source, and each of its receivers."""
    return [Who(state.name, receiver) for receiver in (0, *state.receivers)]


def _by_names(
    told: Mapping[str, PeerAnswer], information: SourceInformation | None
) -> dict[str, PeerAnswer]:
    """Return the answers by the peers' names in the source's policies."""
    return {policy_name(store, each.address, information): each for store, each in told.items()}


def _newest_of_deleted(
    record: Registration, told: Iterable[PeerAnswer]
) -> SourceInformation | None:
    """Return the source's newest information at stores that deleted it.

    Only stores that began a higher epoch than this one count.
    """
    known = (answer.knowledge(record.name) for answer in told)
    gone = [each for each in known if each.deletion and each.begun_epoch > record.begun_epoch]
    newest = max(gone, key=lambda each: each.begun_epoch, default=None)
    return newest.information if newest is not None else None
