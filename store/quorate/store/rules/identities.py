"""The identities of a store: how they live, and what is remembered of those that were deleted.

What quorate.store.rules.acceptor asks about them, and what is done to them, in memory; pure. When,
is for quorate.store.tasks.lifecycle to say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import inf

from quorate.protocol.errors import DELETED_HERE, Deregistered, Fenced
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING
from quorate.protocol.ranges import RangeSet
from quorate.store.rules import (
    receiver_tombstones,
    source_tombstones,
)
from quorate.store.rules.identity_records import (
    Tombstone,
    gone_key,
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
from quorate.store.storage.records import (
    Held,
    ReceiverRecord,
    Registration,
)
from quorate.v1 import store_pb2 as store_v1


class Identities:
    """The living identities, and the tombstones of deleted sources."""

    def __init__(self, lives: Lives, tombstones: Iterable[Tombstone] = ()) -> None:
        self.lives = lives
        self.tombstones = {each.registration.name: each for each in tombstones}
        self.settled: set[SourceName] = set()
        """Deleted sources of which this store vouches that it lacks nothing still needed."""
        self.unlisted: set[SourceName] = set()
        """Deleted sources of which no other store has anything. Only peers that ask hear of it."""
        self.buried_at: dict[SourceName, float] = {}
        """When those were deleted that were deleted in this run, on the steady clock."""
        self.seemed_gone: dict[SourceName, float] = {}
        """Since when all others say that they have deleted them, too, on the steady clock."""

    @staticmethod
    def immortal() -> Identities:
        """Return the identities of a store that protects and deletes none by itself."""
        return Identities(Lives(Observed(0.0, 0.0), lambda _: Lifetimes()))

    # Promises.

    def protected_for(self, state: SourceState, instance: bytes) -> float:
        """Return the seconds for which this instance is refused because another one lives.

        inf: the other one has its stream open. 0: this instance is not refused.
        """
        stream = state.stream
        if stream is not None:
            return inf if stream.instance != instance else 0.0
        other = state.registration.promised_to not in (b"", instance)
        return self.lives.protected_for(Who(state.name)) if other else 0.0

    def in_the_way(self, source: SourceName, epoch: int, instance: bytes) -> SourceState | None:
        """Return the state to report for a deleted source; None if it counts as unknown.

        The state says only that the store cannot vouch. Raises Deregistered. Raises Fenced, because
        deleting must not let an instance in that was fenced before.
        """
        tombstone = self.tombstones.get(source)
        if tombstone is None:
            return None
        record = tombstone.registration
        deregistered = tombstone.cause == store_v1.DELETION_DEREGISTERED
        if deregistered and instance == record.promised_to:
            raise Deregistered(f"Source {source}")
        self.check_outlives(source, epoch, instance)
        if source in self.settled:
            return None
        return SourceState(0, Registration(source, 0, b""), Held(RangeSet()), limbo=DELETED_HERE)

    def check_outlives(self, source: SourceName, epoch: int, instance: bytes = b"") -> None:
        """Raise Fenced if this epoch of a source is older than its deletion.

        instance: who asks. The one that had that epoch here may ask once more: it was kept out by
        nobody, and hears that what it had is deleted.
        """
        tombstone = self.tombstones.get(source)
        if tombstone is None:
            return
        record = tombstone.registration
        is_owner = bool(instance) and (epoch, instance) == (
            record.promised_epoch,
            record.promised_to,
        )
        if epoch <= record.promised_epoch and not is_owner:
            raise Fenced(str(source), epoch, record.promised_epoch)

    def gave_up(self, state: SourceState, epoch: int, instance: bytes) -> None:
        """An instance takes nothing further that it was promised: it keeps nobody out any more."""
        record = state.registration
        if (record.promised_epoch, record.promised_to) == (epoch, instance) and not state.live:
            self.lives.left(Who(state.name), willingly=True)

    def known_epoch(self, source: SourceName) -> int:
        """Return the highest epoch of a source that was deleted; 0 if none is remembered."""
        tombstone = self.tombstones.get(source)
        return tombstone.registration.promised_epoch if tombstone is not None else 0

    def ended_epoch(self, source: SourceName) -> int:
        """The newest epoch of the stream that was deleted last; 0 if none is remembered."""
        tombstone = self.tombstones.get(source)
        return source_tombstones.ended_epoch(tombstone) if tombstone is not None else 0

    def spent_receiver_epoch(self, source: SourceName) -> int:
        """The highest epoch in which a receiver of the deleted stream was over; 0 if none is
        remembered."""
        tombstone = self.tombstones.get(source)
        return tombstone.registration.spent_receiver_epoch if tombstone is not None else 0

    def replaced(self, source: SourceName) -> list[Write]:
        """The source is registered anew: nothing of the old one needs to be remembered."""
        tombstone = self.tombstones.pop(source, None)
        self._forget(source)
        return [] if tombstone is None else [Write(Table.META, gone_key(source), None)]

    # Deletion.

    def bury(
        self,
        state: SourceState,
        cause: store_v1.Deletion,
        reg_ids: RegIds,
        steady: float,
        *,
        blind: bool,
        upto: int = 0,
    ) -> list[Write]:
        """Put a tombstone in the place of a source that is out of service already.

        blind, upto: as in source_tombstones.bury.
        """
        wall = self.lives.observed.wall
        tombstone, writes = source_tombstones.bury(state, cause, wall, blind=blind, upto=upto)
        self.tombstones[state.name] = tombstone
        self.buried_at[state.name] = steady
        self.seemed_gone.pop(state.name, None)
        self._forget_lives(state, reg_ids)
        return writes

    def enter_limbo(self) -> list[Write]:
        """The store may have missed, or lost, what came after the sources that it deleted."""
        self.settled.clear()
        self.unlisted.clear()
        self.seemed_gone.clear()
        self.tombstones = {
            source: source_tombstones.doubted(tombstone)
            for source, tombstone in self.tombstones.items()
        }
        return [
            source_tombstones.tombstone_row(tombstone) for tombstone in self.tombstones.values()
        ]

    def deregistered(self, source: SourceName, epoch: int, steady: float) -> list[Write]:
        """A source that was deleted already is deregistered; raises Fenced.

        If that is news it counts as deleted just now: what peers said before brings nothing back.
        """
        before = self.tombstones[source]
        record = before.registration
        if epoch < record.promised_epoch:
            raise Fenced(str(source), epoch, record.promised_epoch)
        tombstone = replace(
            before,
            registration=replace(record, promised_epoch=epoch),
            cause=store_v1.DELETION_DEREGISTERED,
            deleted_upto=max(epoch, before.deleted_upto),
        )
        if tombstone != before:
            tombstone = replace(tombstone, deleted=self.lives.observed.wall)
            self.buried_at[source] = steady
            self.seemed_gone.pop(source, None)
        if source_tombstones.ended_epoch(tombstone) > source_tombstones.ended_epoch(before):
            # The settled end is an earlier one. This one is not settled: the instance that told
            # this store may have been fenced by all others.
            self.settled.discard(source)
            self.unlisted.discard(source)
        self.tombstones[source] = tombstone
        return [source_tombstones.tombstone_row(tombstone)]

    def forget(self, state: SourceState, reg_ids: RegIds) -> list[Write]:
        """Delete a source of which nothing needs to be remembered."""
        _, writes = source_tombstones.bury(state, store_v1.DELETION_UNSPECIFIED, 0.0, blind=False)
        self._forget_lives(state, reg_ids)
        reg_ids.release(state.reg_id)
        return [write for write in writes if write.value is None]

    def forget_receiver(self, state: SourceState, session_id: int, reg_ids: RegIds) -> list[Write]:
        """Delete a receiver."""
        reg_ids.release(state.receivers.pop(session_id).reg_id)
        self.lives.forget(Who(state.name, session_id))
        return source_tombstones.receiver_rows(state, session_id)

    def end_receiver(
        self, state: SourceState, session_id: int, epoch: int, reg_ids: RegIds
    ) -> list[Write]:
        """A receiver is over up to this epoch; nothing is written if that is known."""
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

    def bring_back(
        self,
        source: SourceName,
        reg_ids: RegIds,
        *,
        anew: bool = False,
    ) -> tuple[SourceState, list[Write]]:
        """Give a deleted source back what is still there of it, in limbo.

        anew: whether it lives on as another stream, so that nothing of the old one counts.
        """
        tombstone = self.tombstones.pop(source)
        self._forget(source)
        self.lives.begins(Who(source))
        if anew:
            tombstone = source_tombstones.void(tombstone)
        if tombstone.emptied:
            tombstone = replace(tombstone, reg_id=reg_ids.claim(0, f"source {source}"))
        tombstone = replace(tombstone, receivers=self._back(tombstone, reg_ids))
        return source_tombstones.brought_back(tombstone)

    def _back(self, tombstone: Tombstone, reg_ids: RegIds) -> dict[int, ReceiverRecord]:
        """The receivers of a deleted source, with a RegID that is nobody's meanwhile."""
        source, rows = tombstone.registration.name, tombstone.receivers
        # Those first that can have their own: no other gets that.
        back = {}
        for session_id in sorted(rows, key=lambda each: not reg_ids.is_free(rows[each].reg_id)):
            own = rows[session_id].reg_id
            wanted = own if reg_ids.is_free(own) else 0
            reg_id = reg_ids.claim(wanted, f"receiver {session_id:#x} of {source}")
            back[session_id] = replace(rows[session_id], reg_id=reg_id)
            self.lives.begins(Who(source, session_id))
        return back

    def purge(
        self, source: SourceName, reads: Reads, rows_max: int, reg_ids: RegIds
    ) -> list[Write]:
        """Remove a part of what is filed under a deleted source's RegID."""
        tombstone, writes = source_tombstones.purge(reads, self.tombstones[source], rows_max)
        self.tombstones[source] = tombstone
        if tombstone.emptied:
            reg_ids.release(tombstone.reg_id)
        return writes

    # Signs of life.

    def came(self, state: SourceState, asked: Lifetimes, receiver: int = 0) -> list[Write]:
        """A source opened its stream, or a receiver registered; what is to be written of that."""
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

    def _forget(self, source: SourceName) -> None:
        self.settled.discard(source)
        self.unlisted.discard(source)
        self.buried_at.pop(source, None)
        self.seemed_gone.pop(source, None)
