"""The identities of a store: how they live, and the ends of sources.

What quorate.store.rules.acceptor asks about them, and what is done to them, in memory; pure. When,
is for quorate.store.tasks.lifecycle to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from quorate.protocol.begin import BeginRecord
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import RangeSet
from quorate.store.rules import (
    ended_sources,
    receiver_tombstones,
)
from quorate.store.rules.ended_sources import EndedSource
from quorate.store.rules.identity_records import (
    life_key,
    pack_life,
)
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Lives,
    Observed,
    Who,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import SourceState
from quorate.store.storage.interface import (
    Reads,
    Table,
    Write,
)
from quorate.store.storage.records import Held, Registration


class Identities:
    """The living identities, and the sources that have ended."""

    def __init__(self, lives: Lives, ended: Iterable[EndedSource] = ()) -> None:
        self.lives = lives
        self.ended = {each.state.name: each for each in ended}

    @staticmethod
    def immortal() -> Identities:
        """Return the identities of a store that protects and ends none by itself."""
        return Identities(Lives(Observed(0.0, 0.0), lambda _: Lifetimes()))

    # Promises.

    def protected_for(self, state: SourceState, instance: bytes) -> float:
        """Return the seconds for which this instance is refused because another one lives.

        inf: the other one has its stream open. 0: this instance is not refused.
        """
        stream = state.stream
        if stream is not None:
            return inf if stream.instance != instance else 0.0
        record = state.registration
        if record.begun.ended and record.promised_epoch == record.begun.epoch:
            return 0.0
        other = record.promised_to not in (b"", instance)
        return self.lives.protected_for(Who(state.name)) if other else 0.0

    def gave_up(self, state: SourceState, epoch: int, instance: bytes) -> None:
        """An instance takes nothing further that it was promised: it keeps nobody out any more."""
        record = state.registration
        if (record.promised_epoch, record.promised_to) == (epoch, instance) and not state.live:
            self.lives.left(Who(state.name), willingly=True)

    def known_epoch(self, source: SourceName) -> int:
        """Return the highest promised epoch of a source that is not live; 0: none is known."""
        known = self.ended.get(source)
        return known.state.registration.promised_epoch if known is not None else 0

    # Ends of sources.

    def fence(self, source: SourceName) -> EndedSource:
        """Return a new row for a source of which there will be nothing but a promise."""
        known = EndedSource(SourceState(0, Registration(source, 0, b""), Held(RangeSet())))
        self.ended[source] = known
        return known

    def end(
        self,
        former: SourceState | None,
        record: Registration,
        end: BeginRecord,
        reg_ids: RegIds,
    ) -> list[Write]:
        """End a source by this begin, in place of its stream or of an earlier end.

        - former: the live source, which is out of service already; None: there was none.
        - record: the promise.
        """
        known, wall = self.ended.get(record.name), self.lives.observed.wall
        before = former or (known.former if known is not None else None)
        spent = ended_sources.spent_receiver_epoch(before)
        record = ended_sources.end_of(record, end, spent)
        if former is not None:
            known = ended_sources.ended(former, record, wall)
        else:
            known = ended_sources.ended_again(known or self.fence(record.name), record, wall)
            self.give_reg_id_back(known, reg_ids)
        self.ended[record.name] = known
        return [known.row()]

    def give_reg_id_back(self, known: EndedSource, reg_ids: RegIds) -> None:
        """Free the RegID of an instance that was promised an epoch and has not begun."""
        if known.emptied:
            reg_ids.release(known.state.reg_id)
            known.state.reg_id = 0

    def shelve(self, state: SourceState, reg_ids: RegIds) -> list[Write]:
        """Keep nothing but the promise of a source that never began, and is out of service."""
        writes = self.forget(state, reg_ids)
        known = self.fence(state.name)
        known.state.registration = state.registration
        return [*writes, known.row()]

    def replaced(self, source: SourceName) -> list[Write]:
        """Drop the end of a source that is live again, and return its row as gone."""
        known = self.ended.pop(source, None)
        return [] if known is None else [known.row_gone()]

    def became_durable(self, known: EndedSource, reg_ids: RegIds) -> list[Write]:
        """Note that an end is on a stable set, and return the rows of that.

        The stream before it is void. The rows of its messages stay for now.
        """
        former, known.former, known.durable = known.former, None, True
        writes = [known.row()]
        if former is not None:
            writes += ended_sources.rows_of_state_gone(former)
            self._forget_lives(former, reg_ids)
        return writes

    def purge(
        self, known: EndedSource, reads: Reads, rows_max: int, reg_ids: RegIds
    ) -> list[Write]:
        """Remove a part of the messages of a void stream. The last part frees the RegID."""
        writes = ended_sources.rows_gone(reads, known.state.reg_id, rows_max)
        if not writes:
            reg_ids.release(known.state.reg_id)
            known.state.reg_id, known.emptied = 0, True
            writes.append(known.row())
        return writes

    def enter_limbo(self, reason: str) -> list[Write]:
        """Note of each end that the store may have missed, or lost, what came after it."""
        for known in self.ended.values():
            known.state.enter_limbo(reason)
            known.settled = known.unlisted = False
        return [known.row() for known in self.ended.values()]

    def forget(self, state: SourceState, reg_ids: RegIds) -> list[Write]:
        """Delete a source of which nothing needs to be remembered."""
        self._forget_lives(state, reg_ids)
        reg_ids.release(state.reg_id)
        return ended_sources.rows_of_state_gone(state)

    # Receivers.

    def forget_receiver(self, state: SourceState, session_id: int, reg_ids: RegIds) -> list[Write]:
        """Delete a receiver."""
        reg_ids.release(state.receivers.pop(session_id).reg_id)
        self.lives.forget(Who(state.name, session_id))
        return ended_sources.receiver_rows_gone(state, session_id)

    def end_receiver(
        self, state: SourceState, session_id: int, epoch: int, reg_ids: RegIds
    ) -> list[Write]:
        """End a receiver up to this epoch. Nothing is written if that is known."""
        written = receiver_tombstones.note(state, session_id, epoch)
        return [*written, *self.judged_by_end(state, session_id, reg_ids)] if written else []

    def expire_receiver(self, state: SourceState, session_id: int, reg_ids: RegIds) -> list[Write]:
        """Delete a receiver whose time is over. Others may hear it well: it leaves no end."""
        spent = receiver_tombstones.spend(state, state.receivers[session_id].epoch)
        return [*spent, *self.forget_receiver(state, session_id, reg_ids)]

    def judged_by_end(self, state: SourceState, session_id: int, reg_ids: RegIds) -> list[Write]:
        """Drop what a receiver has here of a life that is over, if there is any."""
        record, ended_upto = state.receivers.get(session_id), state.ended_upto(session_id)
        if record is None or record.confirmed_epoch > ended_upto or not ended_upto:
            return []
        if record.epoch <= ended_upto:
            return self.forget_receiver(state, session_id, reg_ids)
        # It has registered since, and this store had not heard yet that it was to be new.
        record.acknowledged_upto, record.confirmed_epoch = NOTHING, record.epoch
        return [state.receiver_row(session_id, record)]

    # Signs of life.

    def came(self, state: SourceState, asked: Lifetimes, receiver: int = 0) -> list[Write]:
        """Note that a source opened its stream, or a receiver registered; return what to write."""
        who = Who(state.name, receiver)
        changed = self.lives.of(who).asked != asked
        self.lives.came(who, asked)
        worth_it = self.lives.lifetimes(who) != Lifetimes() or asked != Lifetimes()
        return [self.life_row(state, receiver)] if changed and worth_it else []

    # Rows.

    def life_row(self, state: SourceState, receiver: int = 0) -> Write:
        """Return the row that a restart reads a life from."""
        life = self.lives.of(Who(state.name, receiver))
        return Write(Table.META, life_key(state.reg_id, receiver), pack_life(life))

    def _forget_lives(self, state: SourceState, reg_ids: RegIds) -> None:
        for session_id, receiver in state.receivers.items():
            reg_ids.release(receiver.reg_id)
            self.lives.forget(Who(state.name, session_id))
        self.lives.forget(Who(state.name))
