"""The keeper of identities: their signs of life, their lifetimes, and their deregistration.

The decisions are made in quorate.store.rules (lifetimes, expiry, ended_sources, deregistration,
receiver_tombstones). Here they are only carried out.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from quorate.protocol.errors import (
    Deregistered,
    InLimbo,
    QuorateError,
    ReceiverActive,
    StorageUnreadable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.policy import Membership
from quorate.protocol.stream_end import StreamEnd
from quorate.protocol.wire import (
    begin_to_wire,
    membership_from_wire,
    source_from_wire,
    source_to_wire,
)
from quorate.store.engine import Engine
from quorate.store.rules import (
    receiver_positions,
    receiver_tombstones,
)
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.changes import Agenda
from quorate.store.rules.deregistration import (
    check_receiver,
    is_unused,
)
from quorate.store.rules.ended_sources import (
    EndedSource,
    View,
    is_durable,
    is_settled,
    may_be_unlisted,
    rows_gone,
)
from quorate.store.rules.epochs import check_step
from quorate.store.rules.expiry import is_first_silent, may_expire
from quorate.store.rules.finished import closed_elsewhere, is_over_everywhere
from quorate.store.rules.lifetimes import (
    CONFIRM_SECONDS,
    Observed,
    Who,
    milliseconds,
)
from quorate.store.rules.named_stores import known_to_receivers
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
from quorate.store.rules.store_names import policy_name
from quorate.store.storage.interface import Write
from quorate.store.storage.records import Registration
from quorate.store.tasks.peer_polling import Peers
from quorate.store.tasks.proxy import Proxying
from quorate.store.turns import Turn
from quorate.transport.stream_end import note_answer, request_for
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import SourceInformation

_log = logging.getLogger("quorate.store.tasks.lifecycle")

LOOK_SECONDS = 0.5
"""Seconds from one look at all identities to the next."""
REST_FACTOR = 20
"""A look is followed by a rest that is this many times as long."""
PURGE_ROWS = 1000
"""The count of rows of an ended source that are removed at a time."""


class AskedEnd(NamedTuple):
    """A request for one of the two steps by which a source ends."""

    source: SourceName
    epoch: int
    instance: bytes
    membership: Membership | None = None
    """The policies that the end names; None: only the promise is asked for."""
    incarnation: bytes = b""
    """The incarnation of this store that made the promise, as the asking party heard it."""
    decided_epoch: int = 0
    expired: bool = False
    """Whether a store asks, because the state lifetime is over."""
    durable: bool = False
    """Whether the end is on a stable set of stores."""


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
        draw: Callable[[], bytes] = lambda: uuid.uuid4().bytes,
    ) -> None:
        """Keep the identities of this store.

        - deletion_grace: the seconds for which the messages of ended sources are kept.
        - clock: the monotonic clock that dates the peers' answers.
        - draw: makes the instance that ends a source whose time is over.
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
        self._draw = draw
        self._agenda = Agenda(engine.news, engine.core.sources)
        self._forgetting = Forgetting()
        self._finished_since: dict[SourceName, float] = {}
        """The time when this store found each source finished, in seconds by the clock."""
        self._unread: set[SourceName] = set()
        """Ended sources that stay as they are because rows of them are unreadable."""

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
        """Look at all sources that have ended, and at those of the others that are due."""
        turn = Turn(self._clock)
        for known in list(self._identities.ended.values()):
            await turn.pause()
            await self._try_to_look_at_ended(known)
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
        is_in_limbo = bool(self._core.limbo_of(state))
        if not is_in_limbo and (await self._forget_finished(state) or await self._expire(state)):
            return
        if is_in_limbo:
            return  # readmission comes first
        told = [known for each in answers if (known := each.sources.get(state.name)) is not None]
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

    # Sources whose time is over.

    async def _expire(self, state: SourceState) -> bool:
        """End a source whose state lifetime is over at enough stores. Return whether it has ended.

        Only answers within one lifetime count: there was a moment when none of these stores heard.
        """
        who, record = Who(state.name), state.registration
        if not self._lives.overdue(who):
            return False
        if not (record.begun.epoch or state.held.ranges):
            _log.info("%s never began: only its promise is kept", state.name)
            endings = self._core.remove(state.name, Deregistered(f"Source {state.name}"))
            await self._gone(state, self._identities.shelve(state, self._core.reg_ids), endings)
            return True
        view = self._view(record, self._clock() - self._lives.lifetimes(who).kept_for)
        if may_expire(record, view) and is_first_silent(state.name, view):
            await self._end_everywhere(record, view)
        return self._core.sources.get(state.name) is not state

    async def _end_everywhere(self, record: Registration, view: View) -> None:
        """Act as the coordinator of an end. Each store is asked once; the next look asks again."""
        source, instance = record.name, self._draw()
        known = [record.promised_epoch]
        known += (peer.knowledge(source).promised_epoch for peer in view.peers.values())
        epoch = max(known) + 1
        # Peers may have ended it, and no longer say under which policies. Then its own ones count.
        end = StreamEnd(str(source), [view.me, *sorted(view.peers)], record.begun.policies)
        request = store_v1.DeregisterRequest(
            source=source_to_wire(source),
            epoch=epoch,
            instance=instance,
            expired=True,
            protocol_version=PROTOCOL_VERSION,
        )
        addresses = {view.me: "", **{name: peer.address for name, peer in view.peers.items()}}
        for _ in ("promises", "begins", "enough have begun"):
            for store in end.stores:
                step = end.step(store) if store in addresses else None
                if step is None:
                    continue
                try:
                    answer = await self._ask(addresses[store], request_for(step, request))
                    note_answer(end, store, step, answer)
                except QuorateError as error:
                    end.failed(store, error)
        if not end.done:
            reasons = "; ".join(map(str, end.failures.values()))
            _log.info(
                "%s is to end, as its state lifetime is over, but not yet: %s", source, reasons
            )

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
        return receiver_positions.learn(
            state, record.begun.policies, told, self._identities, reg_ids
        )

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

    # Sources that have ended.

    async def _gone(
        self, state: SourceState, writes: Sequence[Write], endings: tuple[Ending, ...]
    ) -> None:
        self._engine.has_ended(state.name)
        self._finished_since.pop(state.name, None)
        self._forgetting.deleted(state.name)
        await self._engine.made_durable(state, Change(None, tuple(writes), endings))

    async def _try_to_look_at_ended(self, known: EndedSource) -> None:
        """Look at an ended source; an unreadable row of it must not stop other sources."""
        source = known.state.name
        if not self._is_ended(known) or known.is_over or known.state.limbo or not known.epoch:
            return
        self._finished_since.pop(source, None)
        self._forgetting.deleted(source)
        try:
            await self._look_at_ended(known)
        except StorageUnreadable as error:
            if source not in self._unread:
                _log.warning("the rest of %s, which has ended, stays on disk: %s", source, error)
            self._unread.add(source)
        else:
            self._unread.discard(source)

    def _is_ended(self, known: EndedSource) -> bool:
        return self._identities.ended.get(known.state.name) is known

    async def _look_at_ended(self, known: EndedSource) -> None:
        view, writes = self._view(known.state.registration), list[Write]()
        if not known.durable and is_durable(known, view):
            writes += self._identities.became_durable(known, self._core.reg_ids)
        if not known.settled and is_settled(known, view):
            known.settled = True
            writes.append(known.row())
        elif not known.unlisted and may_be_unlisted(known, view):
            known.unlisted = True
        if writes:
            await self._write(known.state, writes)
        theirs = (peer.knowledge(known.state.name) for peer in view.peers.values())
        has_begun_anew = any(each.begun.epoch > known.epoch for each in theirs)
        if known.being_emptied and (has_begun_anew or self._grace_is_over(known)):
            await self._purge(known)

    def _view(self, record: Registration, since: float = 0.0) -> View:
        """Return the answers of reachable peers to questions after a time."""
        told = {
            store: each.answer
            for store, each in self._peers.answering().items()
            if each.asked > since
        }
        me = policy_name(self._core.store, self._engine.address, record.information)
        return View(me, _by_names(told, record.information))

    def _heard_by_name(self, record: Registration) -> dict[str, Heard]:
        """The peers that can be heard, by the names that the source's policies use."""
        return {
            policy_name(name, each.answer.address, record.information): each
            for name, each in self._peers.answering().items()
        }

    def _grace_is_over(self, known: EndedSource) -> bool:
        observed = self._lives.observed
        if known.of_this_run:
            return observed.wall - known.ended_at >= self._grace
        confirmed = observed.now >= min(CONFIRM_SECONDS, self._grace)
        return confirmed and observed.age(known.ended_at, None) >= self._grace

    async def _purge(self, known: EndedSource) -> None:
        # A late row of this source must not appear under its RegID once another source has it.
        await self._engine.written_under(known.state.reg_id)
        if self._is_ended(known) and known.being_emptied:
            reads, reg_ids = self._engine.reads, self._core.reg_ids
            await self._write(
                known.state, self._identities.purge(known, reads, PURGE_ROWS, reg_ids)
            )

    async def make_way(self, source: SourceName) -> None:
        """Remove the rest of an ended stream if the source may begin again."""
        while (known := self._identities.ended.get(source)) is not None and known.being_emptied:
            await self._purge(known)

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
        """End a receiver, or take back an unused promise. Do nothing if there is none.

        Raises Fenced, EpochTooFar, InLimbo, StorageFailed.
        """
        if receiver:
            return await self._deregister_receiver(source, receiver, epoch, instance)
        state, answer = self._core.sources.get(source), store_v1.DeregisterResponse()
        answer.last_sequence = NOTHING
        if (known := self._core.known(source)) is not None:
            self._identities.gave_up(known, epoch, unused_promise_to)
        if state is None:
            ended = self._identities.ended.get(source)
            if ended is not None and ended.state.registration.promised_to == unused_promise_to:
                self._identities.give_reg_id_back(ended, self._core.reg_ids)
            return answer
        answer.reg_id = state.reg_id
        if is_unused(state, epoch, unused_promise_to):
            _log.info("%s is forgotten: it never began", source)
            endings = self._core.remove(source, Deregistered(f"Source {source}"))
            await self._gone(state, self._identities.forget(state, self._core.reg_ids), endings)
        return answer

    async def end_source(self, asked: AskedEnd) -> store_v1.DeregisterResponse:
        """Take one of the two steps by which a source ends, durable on return.

        Raises Fenced, Deregistered, SourceActive, EpochTooFar, NotRegistered, InLimbo,
        StorageFailed.
        """
        core, incarnation = self._core, self._core.standing.record.incarnation
        answer = self._told_of(asked.source)
        if asked.membership is None:
            promise = core.promise_end(
                asked.source,
                asked.epoch,
                asked.instance,
                asked.decided_epoch,
                expired=asked.expired,
            )
            promised = await self._engine.made_durable(promise.answer.state, promise)
            record = promised.registration
            answer.limbo, answer.limbo_reason = bool(promised.limbo), promised.limbo
            answer.begun.CopyFrom(begin_to_wire(promised.begun))
            if record.information is not None:
                answer.information.CopyFrom(record.information)
        else:
            change = core.begin_end(
                asked.source, asked.epoch, asked.membership, asked.instance, asked.incarnation
            )
            if change.writes:
                what = "is deleted: its state lifetime is over"
                what = what if asked.expired else "is deregistered, and its messages are deleted"
                _log.warning("%s %s", asked.source, what)
            self._engine.has_ended(asked.source)
            known, void = self._identities.ended[asked.source], list[Write]()
            if asked.durable and not known.durable:
                void = self._identities.became_durable(known, core.reg_ids)
            change = replace(change, writes=(*change.writes, *void))
            await self._engine.made_durable(known.state, change)
        if incarnation != core.standing.record.incarnation:
            reason = "it was found to be a copy, or put back from one"
            raise InLimbo(str(asked.source), core.store, reason)
        answer.incarnation = incarnation
        answer.known_stores.extend(core.standing.known())
        return answer

    def _told_of(self, source: SourceName) -> store_v1.DeregisterResponse:
        """Return an answer with the RegID and the last number of a source, or of what it was."""
        state = self._core.stream_of(source)
        if state is None:
            return store_v1.DeregisterResponse(last_sequence=NOTHING)
        return store_v1.DeregisterResponse(reg_id=state.reg_id, last_sequence=state.held.high)

    async def _deregister_receiver(
        self, source: SourceName, receiver: int, epoch: int, instance: bytes
    ) -> store_v1.DeregisterResponse:
        state = self._core.stream_of(source)
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

    async def _ask(
        self, address: str, request: store_v1.DeregisterRequest
    ) -> store_v1.DeregisterResponse:
        """Ask one store for a step of an end. address: empty for this store."""
        if address:
            return await self._peers.end_source(address, request)
        return await self.end_source(asked_of(request))

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


def asked_of(request: store_v1.DeregisterRequest) -> AskedEnd:
    """Return a request for a step of an end, from the wire. Raises InvalidArgument."""
    return AskedEnd(
        source_from_wire(request.source),
        request.epoch,
        request.instance,
        membership_from_wire(request.membership) if request.HasField("membership") else None,
        request.incarnation,
        request.decided_epoch,
        request.expired,
        request.durable,
    )
