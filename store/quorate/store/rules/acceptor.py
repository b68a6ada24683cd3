"""The store's rules for sources: promise, begin, the stream of batches (DESIGN 4.2, 4.3).

A state machine without I/O: a request goes in, a Change comes out, whose writes must be durable
before its answer may be seen. Reads come through quorate.store.storage.interface.Reads. Everything
that decides whether a message is safe is here; receivers are in quorate.store.rules.receivers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from quorate.protocol.errors import (
    DELETED_HERE,
    ContentConflict,
    Fenced,
    InLimbo,
    InvalidArgument,
    NotRegistered,
    QuorateError,
    SourceActive,
    TopicRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage, diverges_at
from quorate.protocol.ranges import HeldRange, RangeSet
from quorate.protocol.recovery import Marker
from quorate.protocol.wire import membership_from_wire, membership_to_wire
from quorate.store.rules import (
    receiver_positions,
    retention,
)
from quorate.store.rules.identities import Identities
from quorate.store.rules.lifetimes import Who
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.receiver_tombstones import (
    forget_all,
    spent_by_all,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.source_state import (
    Change,
    Ending,
    SourceState,
)
from quorate.store.rules.source_tombstones import check_not_ended
from quorate.store.rules.store_identity import Standing
from quorate.store.rules.stream import SourceStreams
from quorate.store.storage import index
from quorate.store.storage.interface import (
    Reads,
    Write,
)
from quorate.store.storage.records import (
    Held,
    Registration,
)
from quorate.v1 import messages_pb2 as v1


@dataclass(frozen=True, slots=True)
class Promised:
    """The answer to a promise: all that the store knows of the source."""

    state: SourceState
    registration: Registration
    held: tuple[HeldRange, ...]
    stable_upto: int
    markers: tuple[Marker, ...]
    limbo: str
    """Why the store can not vouch for what it lacks, and has promised nothing; empty: it has."""
    retained_from: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A begin that a peer has taken and this store has not."""

    lineage: Lineage
    membership: v1.Membership
    promised_to: bytes
    """The instance that the epoch was promised to; empty if that is not known any more."""
    information: v1.SourceInformation | None
    reg_id: int = 0
    """That it says that it wants here, or has at the peer; taken if it is free."""
    ended_epoch: int = 0
    """Up to here epochs were of streams that are deleted."""


@dataclass(frozen=True, slots=True)
class Archived:
    """What an archive says of a source whose begin this store has missed, or lost."""

    lineage: Lineage
    membership: v1.Membership
    promised_epoch: int
    """The highest that was known when it was archived."""
    information: v1.SourceInformation | None
    reg_id: int = 0
    """That the source had: if the application chose it, it wants the same here."""
    first: int = 0
    """What is below had been let go by all stores before it could be archived."""
    markers: tuple[Marker, ...] = ()
    """The newest of what is below."""


class StoreCore:
    """All sources of one store."""

    def __init__(
        self,
        store: str,
        topics: Sequence[str],
        reads: Reads,
        sources: dict[SourceName, SourceState],
        reg_ids: RegIds,
        position: int,
        standing: Standing,
        identities: Identities | None = None,
        takes_data: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """topics: regular expressions, one of which must match all of a topic.

        takes_data: of which topics messages are kept.
        """
        self.store = store
        self.standing = standing
        self.identities = identities or Identities.immortal()
        self.sources = sources
        self.reg_ids = reg_ids
        self.takes_data = takes_data
        self._topics = tuple(topics)
        self._reads = reads
        for name, state in sources.items():
            state.takes_data = takes_data(name.topic)
        self.streams = SourceStreams(store, reads, sources, standing, self.check_vouches, position)

    @property
    def in_limbo(self) -> bool:
        """There is a source that this store can not vouch for."""
        return bool(self.standing.limbo) or any(each.limbo for each in self.sources.values())

    def limbo_of(self, state: SourceState | None) -> str:
        """Why this store can not vouch for what it lacks of a source; empty: it can."""
        own = state.limbo if state is not None else self.standing.limbo
        return own or self.standing.unchecked

    def doubt_of(self, state: SourceState) -> str:
        """Why what this store lacks of a source says nothing; empty: it vouches.

        Besides limbo: a store that can not read what it had stays in service for that source.
        """
        if reason := self.limbo_of(state):
            return reason
        if state.unreadable:
            return f"it can not read {', '.join(map(str, state.unreadable))}"
        return ""

    def limbo_without(self, source: SourceName) -> str:
        """The same, of a source that this store does not know, or deleted."""
        identities = self.identities
        if source in identities.tombstones and source not in identities.settled:
            return DELETED_HERE
        return self.standing.limbo

    def deleting(self, source: SourceName) -> bool:
        """Whether a source was deleted, and may not be taken up again yet."""
        identities = self.identities
        tombstone = identities.tombstones.get(source)
        return tombstone is not None and not (source in identities.settled and tombstone.emptied)

    def check_vouches(self, source: SourceName, state: SourceState | None) -> None:
        reason = self.limbo_of(state) if state is not None else self.limbo_without(source)
        if reason:
            raise InLimbo(str(source), self.store, reason)

    # Registration.

    def promise(
        self,
        source: SourceName,
        epoch: int,
        instance: bytes,
        reg_id: int,
        take_over: bool,
        decided_epoch: int = 0,
    ) -> Change[Promised]:
        """Promise to take nothing of a lower epoch; in limbo only say what is known.

        decided_epoch: the newest that this instance has decided itself; 0: it was not open yet.
        Raises TopicRefused, InvalidArgument, RegIdInUse, Fenced, SourceActive.
        """
        if epoch < 1:
            raise InvalidArgument("epoch", "0 is no epoch; the first is 1")
        self.check_topic(source.topic)
        state = self.sources.get(source)
        if state is None:
            gone = self.identities.in_the_way(source, epoch, instance)
            if gone is not None:
                return Change(self._promised(gone))
            if self.standing.limbo:
                unknown = SourceState(0, Registration(source, 0, b""), Held(RangeSet()))
                unknown.limbo = self.standing.limbo
                return Change(self._promised(unknown))
            ended = self.identities.ended_epoch(source)
            state = self._new_source(source, epoch, instance, reg_id)
            old = self.identities.replaced(source)
            record = state.registration
            state.registration = replace(record, ended_epoch=ended, fences=bool(old))
            rows = (*old, state.registration_row(), state.held_row())
            return Change(self._promised(state), rows)
        self.reg_ids.check_not_of_another(state.reg_id, reg_id)
        record = state.registration
        if (epoch, instance) == (record.promised_epoch, record.promised_to):
            return self._promise_again(state)
        if epoch <= record.promised_epoch:
            raise Fenced(str(source), epoch, record.promised_epoch)
        if 0 < decided_epoch < record.begun_epoch:
            # It was open, and another one has gone on since. Promising would fence that one.
            raise Fenced(str(source), epoch, record.begun_epoch)
        if self.limbo_of(state):
            return Change(self._promised(state))
        # Who was open, and is followed by nobody, is kept out by nobody: not by what it left
        # behind in an older instance, nor by the signs of life that it gave itself.
        if not (take_over or decided_epoch) and self.identities.protected(state, instance):
            raise SourceActive(str(source), self.store)
        # Whoever was promised something before may have begun at other stores.
        fences = record.fences or (record.promised_epoch > 0 and record.promised_to != instance)
        state.registration = replace(
            record, promised_epoch=epoch, promised_to=instance, taken_over=False, fences=fences
        )
        endings = state.end_stream(Fenced(str(source), record.begun_epoch, epoch))
        # What is held goes with it: the answer must not be taken back by a crash.
        return Change(self._promised(state), (state.registration_row(), state.held_row()), endings)

    def _promise_again(self, state: SourceState) -> Change[Promised]:
        """The same instance asks for the same epoch."""
        if self.limbo_of(state) or not state.registration.taken_over:
            return Change(self._promised(state))
        # It learns from this answer what this store really has: now it may begin.
        state.registration = replace(state.registration, taken_over=False)
        return Change(self._promised(state), (state.registration_row(), state.held_row()))

    def begin(
        self,
        source: SourceName,
        epoch: int,
        lineage: Lineage,
        membership: v1.Membership,
        instance: bytes,
        incarnation: bytes,
        ended_epoch: int = 0,
    ) -> Change[int]:
        """Take a lineage over; answers how many messages were set aside.

        ended_epoch: up to there epochs were of streams that are deleted; this store may have been
        away.

        Only from the instance that this very incarnation promised the epoch: what another one was
        told, or the same by a former incarnation of this store, may not be true any more.
        Every write of this source so far must be readable. Raises TopicRefused, InvalidArgument,
        Fenced, InLimbo, NotRegistered, and ContentConflict if the lineage would take back what this
        store was told is stable.
        """
        if epoch < 1 or lineage.epoch != epoch:
            raise InvalidArgument("lineage", f"its newest epoch is {lineage.epoch}, not {epoch}")
        self.check_topic(source.topic)
        state = self.sources.get(source)
        if state is not None and epoch < state.registration.promised_epoch:
            raise Fenced(str(source), epoch, state.registration.promised_epoch)
        self.check_vouches(source, state)
        self.standing.check_named(source, incarnation)
        if state is None or not self._was_promised(state.registration, epoch, instance):
            raise NotRegistered(
                str(source), f"store {self.store} has not promised epoch {epoch} to this instance"
            )
        if epoch == state.registration.begun_epoch:
            return self._begin_again(state, lineage, membership)
        ended = state.registration.ended_epoch
        check_not_ended(self.store, source, lineage, ended_epoch, ended)
        return self._follow(state, state.registration, lineage, membership, ended_epoch)

    @staticmethod
    def _was_promised(record: Registration, epoch: int, instance: bytes) -> bool:
        promised = (record.promised_epoch, record.promised_to)
        return promised == (epoch, instance) and not record.taken_over

    def adopt(self, source: SourceName, missed: Missed) -> Change[int]:
        """Take over a begin that this store missed, as if its promise and itself came late.

        Answers how many messages were set aside. Every write of this source so far must be
        readable. Raises TopicRefused, InvalidArgument, Fenced, InLimbo, ContentConflict.
        """
        epoch = missed.lineage.epoch
        if epoch < 1:
            raise InvalidArgument("lineage", "names no epoch")
        self.check_topic(source.topic)
        state = self.sources.get(source)
        self.check_vouches(source, state)
        if state is None and self.deleting(source):
            raise NotRegistered(str(source), f"store {self.store} is deleting what it had of it")
        if state is None:
            # What a peer said before it deleted the source, too, would bring it back to life.
            self.identities.check_outlives(source, epoch)
        ended = self.identities.ended_epoch(source)
        ended = state.registration.ended_epoch if state is not None else ended
        check_not_ended(self.store, source, missed.lineage, missed.ended_epoch, ended)
        if state is None:
            free = self.reg_ids.is_free(missed.reg_id)
            state = self._new_source(source, 0, b"", missed.reg_id if free else 0)
        old = self.identities.replaced(source)
        record = state.registration
        if epoch <= record.begun_epoch:
            return Change(0)
        promised = (epoch, missed.promised_to)
        if promised != (record.promised_epoch, record.promised_to):
            if epoch <= record.promised_epoch:
                raise Fenced(str(source), epoch, record.promised_epoch)
            record = replace(
                record, promised_epoch=epoch, promised_to=missed.promised_to, taken_over=True
            )
        record = replace(record, information=_newer(record.information, missed.information))
        ended = max(missed.ended_epoch, ended)
        change = self._follow(state, record, missed.lineage, missed.membership, ended)
        return replace(change, writes=(*old, *change.writes))

    def take_up(self, source: SourceName, archived: Archived) -> Change[SourceState]:
        """Follow the lineage of an archive, promised to nobody who knows what is here now.

        Whoever was promised a higher epoch must ask once more: what it was answered is not true any
        more. What is to be checked before is in quorate.store.rules.archive_restore. Raises
        ContentConflict.
        """
        state, old = self.sources.get(source), list[Write]()
        if state is None:
            free = self.reg_ids.is_free(archived.reg_id)
            state = self._new_source(source, 0, b"", archived.reg_id if free else 0)
            old = self.identities.replaced(source)
        record = replace(
            state.registration,
            taken_over=True,
            information=_newer(state.registration.information, archived.information),
        )
        epoch = max(archived.lineage.epoch, archived.promised_epoch)
        if epoch >= record.promised_epoch:
            record = replace(record, promised_epoch=epoch, promised_to=b"")
        was_begun = record.begun_epoch > 0
        change = self._follow(state, record, archived.lineage, archived.membership)
        # Nobody can be asked any more for what is not even in the archive.
        first = 0 if was_begun else archived.first
        released = retention.take_over(self._reads, state, first, archived.markers)
        return Change(state, (*old, *change.writes, *released), change.endings)

    def _follow(
        self,
        state: SourceState,
        record: Registration,
        lineage: Lineage,
        membership: v1.Membership,
        ended_epoch: int = 0,
    ) -> Change[int]:
        """Follow a lineage from now on, with this record of who was promised what."""
        name, before, former = str(state.name), state.registration, state
        was_ended = 0 < before.begun_epoch <= ended_epoch
        parts_at = diverges_at(before.lineage, lineage)
        if parts_at <= state.held.stable_upto and not was_ended:
            raise ContentConflict(name, parts_at, state.held.stable_upto, self.store)
        if was_ended:
            state = former.without_stream()
        # What reads comes first: a failure must leave everything as it was.
        count, moves = self._set_aside(state, parts_at)
        spent = record.spent_receiver_epoch
        if was_ended:
            # Its receivers ended with it, and begin anew with what follows.
            spent = spent_by_all(former)
            moves += forget_all(state)
            for session_id in list(state.receivers):
                moves += self.identities.forget_receiver(state, session_id, self.reg_ids)
        endings = former.end_stream(Fenced(name, before.begun_epoch, lineage.epoch))
        self.sources[state.name] = state
        state.registration = replace(
            record,
            begun_epoch=lineage.epoch,
            lineage=lineage,
            membership=membership,
            ended_epoch=max(ended_epoch, record.ended_epoch),
            spent_receiver_epoch=spent,
        )
        state.renew_losses()
        return Change(count, (state.registration_row(), state.held_row(), *moves), endings)

    def _begin_again(
        self, state: SourceState, lineage: Lineage, membership: v1.Membership
    ) -> Change[int]:
        record = state.registration
        if lineage != record.lineage:
            raise InvalidArgument(
                "lineage", f"epoch {record.begun_epoch} of {record.name} began with another one"
            )
        if membership == record.membership or _forgets(record.membership, membership):
            return Change(0)  # the latter was sent before the one that came already
        # A source confirms its begin by naming fewer policies.
        state.registration = replace(record, membership=membership)
        return Change(0, (state.registration_row(),))

    def _set_aside(self, state: SourceState, first: int) -> tuple[int, list[Write]]:
        """Take everything from first on out of the stream, but keep it for inspection."""
        moves = index.moves_aside(self._reads, state.reg_id, first)
        held = state.held
        count = sum(
            item.last - max(item.first, first) + 1 for item in held.ranges if item.last >= first
        )
        held.next_sequence = min(held.next_sequence, first)
        held.ranges.remove(first, SEQUENCE_MAX)
        held.set_aside += count
        moves += (*state.drop_markers(first), *state.positions_below(first))
        return count, [*moves, *state.read_well(first, SEQUENCE_MAX)]

    def _new_source(
        self, source: SourceName, epoch: int, instance: bytes, reg_id: int
    ) -> SourceState:
        """One that is not here; of one that was deleted it has what must not be used again."""
        state = SourceState(
            self.reg_ids.claim(reg_id, f"source {source}"),
            Registration(
                source,
                epoch,
                instance,
                may_miss_receivers=self.standing.record.by_hand,
                spent_receiver_epoch=self.identities.spent_receiver_epoch(source),
            ),
            Held(RangeSet()),
            takes_data=self.takes_data(source.topic),
        )
        self.sources[source] = state
        # Also if a peer said so: how long nobody was heard before is not known here.
        self.identities.lives.begins(Who(source))
        return state

    def check_topic(self, topic: str) -> None:
        """Raises TopicRefused."""
        if not any(re.fullmatch(pattern, topic) for pattern in self._topics):
            raise TopicRefused(topic, self.store, ", ".join(self._topics))

    def _promised(self, state: SourceState) -> Promised:
        return Promised(
            state,
            state.registration,
            state.held_by_epoch(),
            state.held.stable_upto,
            state.markers,
            self.doubt_of(state),
            state.held.retained_from,
        )

    def remove(self, source: SourceName, error: QuorateError) -> tuple[Ending, ...]:
        """Take a source out of service; its stream ends with this error."""
        return self.sources.pop(source).end_stream(error)

    # Limbo.

    def enter_limbo(self, reason: str, incarnation: bytes) -> Change[None]:
        """Vouch no more, under a new incarnation, for what is lacking of any source."""
        writes = (
            *self.standing.enter_limbo(reason, incarnation),
            *self.identities.enter_limbo(),
        )
        endings: tuple[Ending, ...] = ()
        for state in self.sources.values():
            writes += state.enter_limbo(reason)
            endings += state.end_stream(InLimbo(str(state.name), self.store, reason))
        return Change(None, writes, endings)

    def take_over(self, source: SourceName, adoption: Adoption, reg_id: int = 0) -> Change[int]:
        """Take over, still in limbo, who was promised what and the lineage.

        Every write of this source so far must be readable. Answers how many messages were set
        aside. Raises ContentConflict, and NotRegistered if it was deleted here meanwhile.
        """
        state, old = self.sources.get(source), list(self.standing.fill())
        if state is None:
            if self.deleting(source):
                raise NotRegistered(str(source), f"store {self.store} is deleting it")
            old += self.identities.replaced(source)
            state = self._new_source(source, 0, b"", reg_id)
            state.limbo = self.standing.limbo
        assert state.limbo, "only what is in limbo is taken over whole"
        record = replace(
            state.registration,
            promised_epoch=adoption.promised_epoch,
            promised_to=adoption.promised_to,
            taken_over=True,
            information=adoption.information,
            clean=adoption.clean,
        )
        if adoption.membership is None:
            state.registration = record
            change = Change(0, (state.registration_row(), state.held_row()))
        else:
            membership = membership_to_wire(adoption.membership)
            ended = adoption.ended_epoch
            change = self._follow(state, record, adoption.lineage, membership, ended)
        return replace(change, writes=(*old, *change.writes, state.limbo_row()))

    def leave_limbo(self, state: SourceState, adoption: Adoption) -> Change[bool]:
        """Vouch again for a source; answers whether all is there that was to be taken over.

        Every write of this source so far must be readable. Raises StorageFailed, CorruptBatch.
        """
        if self.sources.get(state.name) is not state:
            return Change(False)  # it was deleted meanwhile, and what is there now is another one
        record = state.registration
        expected = (adoption.promised_epoch, adoption.lineage)
        if (record.promised_epoch, record.lineage) != expected or adoption.fetch.minus(
            state.held.ranges
        ):
            return Change(False)
        held = state.held
        released = retention.take_over(
            self._reads,
            state,
            adoption.retained_from,
            (adoption.marker,) if adoption.marker is not None else (),
        )
        held.stable_upto = max(held.stable_upto, adoption.stable_upto)
        state.goes_on_at(adoption.floor + 1)
        receivers = receiver_positions.take_over(
            state, adoption.receivers, adoption.ended_receivers, self.identities, self.reg_ids
        )
        state.limbo = ""
        record = state.registration
        spent = max(adoption.spent_receiver_epoch, record.spent_receiver_epoch)
        state.registration = replace(record, may_miss_receivers=False, spent_receiver_epoch=spent)
        return Change(
            True,
            (
                *released,
                state.registration_row(),
                state.held_row(),
                state.limbo_row(),
                *receivers,
            ),
        )


def _forgets(known: v1.Membership | None, other: v1.Membership) -> bool:
    """Whether the known record of an epoch is the confirmed one of the two."""
    if known is None:
        return False
    named = len(membership_from_wire(known).policies)
    return 0 < named < len(membership_from_wire(other).policies)


def _newer(
    mine: v1.SourceInformation | None, theirs: v1.SourceInformation | None
) -> v1.SourceInformation | None:
    if mine is None or theirs is None:
        return mine or theirs
    return max(mine, theirs, key=lambda each: (each.epoch, each.version))
