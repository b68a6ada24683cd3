"""The store's rules for who may write: promise, begin, adoption and limbo (protocol.md 4).

A state machine without I/O. A request goes in, and a Change comes out. The writes of the Change
must be durable before its answer may be seen. Reads come through
quorate.store.storage.interface.Reads. The batches of a source that may write are taken in
quorate.store.rules.stream. Receivers are in quorate.store.rules.receivers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from quorate.protocol.begin import BeginRecord, end_in
from quorate.protocol.errors import (
    ContentConflict,
    Deregistered,
    Fenced,
    InLimbo,
    InvalidArgument,
    NotRegistered,
    QuorateError,
    SourceActive,
    TopicRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import MESSAGE_BYTES_MAX, SEQUENCE_MAX
from quorate.protocol.lineage import diverges_at
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.policy import Membership
from quorate.protocol.ranges import HeldRange, Range, RangeSet
from quorate.protocol.recovery import Marker
from quorate.store.rules import (
    receiver_positions,
    retention,
)
from quorate.store.rules.batch_check import BatchCheck
from quorate.store.rules.ended_sources import EndedSource
from quorate.store.rules.epochs import check_step
from quorate.store.rules.identities import Identities
from quorate.store.rules.lifetimes import Owner, Who, milliseconds
from quorate.store.rules.readmission import Adoption
from quorate.store.rules.receiver_tombstones import (
    forget_all,
    spent_by_all,
)
from quorate.store.rules.reg_ids import RegIds
from quorate.store.rules.set_aside import set_aside
from quorate.store.rules.source_state import (
    Change,
    Ending,
    SourceState,
)
from quorate.store.rules.store_identity import Standing
from quorate.store.rules.stream import SourceStreams
from quorate.store.storage.interface import (
    Reads,
    Write,
)
from quorate.store.storage.records import (
    Held,
    Registration,
)
from quorate.v1 import messages_pb2 as v1

_CACHED = 4096
"""The topics of which a store remembers whether it keeps them."""


@dataclass(frozen=True, slots=True)
class Promised:
    """The answer to a promise: all that the store knows of the source."""

    state: SourceState
    registration: Registration
    held: tuple[HeldRange, ...]
    stable_upto: int
    markers: tuple[Marker, ...]
    limbo: str
    """Why the store cannot vouch for what it lacks, and promised nothing; empty: it promised."""
    retained_from: int
    begun: BeginRecord
    """The newest begin, with its policies if they are still in force. Those of an end are not once
    it is on a stable set of stores."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A begin that a peer has taken and this store has missed."""

    begun: BeginRecord
    promised_to: bytes
    """The instance that the epoch was promised to; empty: no longer known."""
    information: v1.SourceInformation | None
    reg_id: int = 0
    """The RegID that the source asks for here, or has at the peer; used if it is free."""


@dataclass(frozen=True, slots=True)
class Archived:
    """A source in an archive, for a store that missed its begin or lost it."""

    begun: BeginRecord
    promised_epoch: int
    """The highest promised epoch that was known when the source was archived."""
    information: v1.SourceInformation | None
    reg_id: int = 0
    """The RegID that the source had. An application that chose it wants it here as well."""
    first: int = 0
    """The lowest archived number. All stores had let go of everything below."""
    markers: tuple[Marker, ...] = ()
    """The newest markers below `first`."""


class StoreCore:
    """The sources of one store, and the decisions about who may write to them."""

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
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        check: BatchCheck | None = None,
    ) -> None:
        """Hold these sources. Of a topic for which takes_data is False no message is kept.

        - topics: patterns; one of them must match the whole topic.
        - position: the journal's next position.
        - message_bytes_max: the bytes of the largest message that a source may send.
        - check: what sources may send; None: all that is valid.
        """
        self.store = store
        self.standing = standing
        self.identities = identities or Identities.immortal()
        self.sources = sources
        self.reg_ids = reg_ids
        self.takes_data = takes_data
        self._topics = tuple(map(topic_pattern, topics))
        self._keeps = lru_cache(_CACHED)(self._matches)
        self._reads = reads
        for name, state in sources.items():
            state.takes_data = takes_data(name.topic)
        for name, ended in self.identities.ended.items():
            for each in (ended.state, ended.former):
                if each is not None:
                    each.takes_data = takes_data(name.topic)
        self.streams = SourceStreams(
            store, reads, sources, standing, self.check_vouches, position, message_bytes_max, check
        )

    @property
    def in_limbo(self) -> bool:
        """Whether the store cannot vouch for some source, or as a whole."""
        return (
            bool(self.standing.limbo)
            or any(each.limbo for each in self.sources.values())
            or any(each.state.limbo for each in self.identities.ended.values())
        )

    def known(self, source: SourceName) -> SourceState | None:
        """Return a source as whoever registers it sees it: live, or ended; None: it is unknown."""
        ended = self.identities.ended.get(source)
        return self.sources.get(source) or (ended.state if ended is not None else None)

    def stream_of(self, source: SourceName) -> SourceState | None:
        """Return the stream of a source, also before an end that may be void; None: none."""
        ended = self.identities.ended.get(source)
        return self.sources.get(source) or (ended.former if ended is not None else None)

    def limbo_of(self, state: SourceState | None) -> str:
        """Return why the store cannot vouch for what it lacks of a source; empty: it vouches.

        None as the state stands for the store as a whole.
        """
        own = state.limbo if state is not None else self.standing.limbo
        return own or self.standing.unchecked

    def doubt_of(self, state: SourceState) -> str:
        """Return why no one may conclude anything from what the store lacks of a source.

        An empty text means that the store vouches. Besides limbo, unreadable messages are a reason,
        although the store stays in service for that source.
        """
        if reason := self.limbo_of(state):
            return reason
        if state.unreadable:
            return f"it cannot read {', '.join(map(str, state.unreadable))}"
        return ""

    def limbo_without(self, source: SourceName) -> str:
        """Return why the store cannot vouch for a source that it does not know, or that ended."""
        ended = self.identities.ended.get(source)
        return (ended.state.limbo if ended is not None else "") or self.standing.limbo

    def emptying(self, source: SourceName) -> bool:
        """Return whether messages of an ended stream must go before the source can begin here."""
        ended = self.identities.ended.get(source)
        return ended is not None and ended.being_emptied

    def deleting(self, source: SourceName) -> bool:
        """Return whether messages of an ended stream are still here."""
        ended = self.identities.ended.get(source)
        return ended is not None and not ended.emptied

    def check_vouches(self, source: SourceName, state: SourceState | None) -> None:
        """Raise InLimbo if the store cannot vouch for what it lacks of a source."""
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
        """Promise to refuse every lower epoch. A store in limbo answers without a promise.

        take_over: whether to fence a former instance that still gives signs of life.

        decided_epoch: the newest epoch that this instance has decided itself; 0: none so far.

        Raises TopicRefused, InvalidArgument, RegIdInUse, Fenced, SourceActive, EpochTooFar.
        """
        if epoch < 1:
            raise InvalidArgument("epoch", "0 is no epoch; the first is 1")
        self.check_topic(source.topic)
        state = self.known(source)
        if state is None:
            if self.standing.limbo:
                return Change(self._promised(self._unknown(source)))
            check_step(str(source), self.store, epoch, 0)
            state = self._new_source(source, epoch, instance, reg_id)
            return Change(self._promised(state), self._rows(state))
        self.reg_ids.check_not_of_another(state.reg_id, reg_id)
        if (answered := self._answered(state, epoch, instance, decided_epoch)) is not None:
            return answered
        # An instance that was open, and that no other has followed, may always go on. Signs of life
        # are then its own, or those of an older instance.
        protected_for = self.identities.protected_for(state, instance)
        if protected_for > 0 and not (take_over or decided_epoch):
            raise SourceActive(str(source), self.store, milliseconds(protected_for))
        if not state.reg_id:
            state.reg_id = self.reg_ids.claim(reg_id, f"source {source}")
        record = state.registration
        by_take_over = take_over and not decided_epoch
        if record.promised_to == instance:
            by_take_over = record.by_take_over
        return self._promise(
            state, epoch, instance, by_take_over, lambda: state.fenced(record.begun.epoch)
        )

    def promise_end(
        self,
        source: SourceName,
        epoch: int,
        instance: bytes,
        decided_epoch: int = 0,
        *,
        expired: bool = False,
    ) -> Change[Promised]:
        """Promise the epoch in which a source is to end. A store in limbo only answers.

        - decided_epoch: as in `promise`, of an owner; 0: an operator or a store asks.
        - expired: whether a store asks, because the state lifetime is over. A store that has heard
          of the owner within that time refuses.

        Raises InvalidArgument, Fenced, Deregistered, SourceActive, EpochTooFar.
        """
        if epoch < 1:
            raise InvalidArgument("epoch", "0 is no epoch; the first is 1")
        state = self.known(source)
        if state is None:
            if self.standing.limbo:
                return Change(self._promised(self._unknown(source)))
            check_step(str(source), self.store, epoch, 0)
            state = self.identities.fence(source).state
        elif (answered := self._answered(state, epoch, instance, decided_epoch)) is not None:
            return answered
        if expired and self.identities.lives.owner(Who(source)) is Owner.HEARD:
            protected_for = self.identities.lives.protected_for(Who(source))
            raise SourceActive(str(source), self.store, milliseconds(protected_for))
        return self._promise(
            state, epoch, instance, False, lambda: Deregistered(f"Source {source}")
        )

    def _unknown(self, source: SourceName) -> SourceState:
        """Return the state that a store in limbo reports of a source that it does not know."""
        limbo = self.standing.limbo
        return SourceState(0, Registration(source, 0, b""), Held(RangeSet()), limbo=limbo)

    def _answered(
        self, state: SourceState, epoch: int, instance: bytes, decided_epoch: int
    ) -> Change[Promised] | None:
        """Return the answer to an instance that asks once more, or from limbo; None: it is due.

        Raises Fenced, Deregistered, EpochTooFar.
        """
        record, source = state.registration, state.name
        if (epoch, instance) == (record.promised_epoch, record.promised_to):
            return self._promise_again(state)
        if record.begun.ended and 0 < decided_epoch < record.begun.epoch:
            raise Deregistered(f"Source {source}")
        if epoch <= record.promised_epoch:
            raise state.fenced(epoch)
        if 0 < decided_epoch < record.begun.epoch:
            # Another instance has begun since this one was open. A promise would fence that one.
            raise Fenced(str(source), epoch, record.begun.epoch)
        if 0 < decided_epoch < record.promised_epoch and state.is_taken_from(instance):
            # Another instance is taking over from this one, which was open.
            raise state.fenced(epoch)
        if self.limbo_of(state):
            return Change(self._promised(state))
        check_step(str(source), self.store, epoch, record.promised_epoch)
        return None

    def _promise(
        self,
        state: SourceState,
        epoch: int,
        instance: bytes,
        by_take_over: bool,
        error: Callable[[], QuorateError],
    ) -> Change[Promised]:
        """Promise. error: what the source is told whose stream ends by that."""
        record = state.registration
        # An instance with an earlier promise may have begun at other stores.
        fences = record.fences or (record.promised_epoch > 0 and record.promised_to != instance)
        state.registration = replace(
            record,
            promised_epoch=epoch,
            promised_to=instance,
            taken_over=False,
            fences=fences,
            by_take_over=by_take_over,
        )
        endings = state.end_stream(error())
        # The row of what is held goes along: no crash may take the answer back.
        return Change(self._promised(state), self._rows(state), endings)

    def _rows(self, state: SourceState) -> tuple[Write, ...]:
        """Return the rows of a promise: those of a live source, or that of an end."""
        ended = self.identities.ended.get(state.name)
        if ended is not None and ended.state is state:
            return (ended.row(),)
        return state.registration_row(), state.held_row()

    def _promise_again(self, state: SourceState) -> Change[Promised]:
        """Answer an instance that asks once more for the epoch that it was promised."""
        if self.limbo_of(state) or not state.registration.taken_over:
            return Change(self._promised(state))
        # The instance learns from this answer what the store really has: now it may begin.
        state.registration = replace(state.registration, taken_over=False)
        return Change(self._promised(state), self._rows(state))

    def begin(
        self,
        source: SourceName,
        begin: BeginRecord,
        instance: bytes,
        incarnation: bytes,
    ) -> Change[int]:
        """Take over the lineage of a source's new epoch; answers how many messages were set aside.

        Only the instance that was promised the epoch, by this incarnation of the store, may begin.
        Any other instance decided from answers that may no longer be true.
        Every write of this source so far must be readable.

        begin: its generation is that of the stream, of whose end this store may not have heard.

        Raises TopicRefused, InvalidArgument, Fenced, InLimbo, NotRegistered. Raises ContentConflict
        if the lineage would take back messages that are known to be stable.
        """
        epoch, generation = begin.epoch, begin.generation
        if epoch < 1:
            raise InvalidArgument("lineage", "names no epoch")
        if generation >= epoch:
            raise InvalidArgument("generation", f"{generation} is not below epoch {epoch}")
        if begin.membership is None:
            raise InvalidArgument("membership", "is not named")
        self.check_topic(source.topic)
        state = self._check_promised(source, epoch, instance, incarnation)
        if epoch == state.registration.begun.epoch:
            return self._begin_again(state, begin)
        return self._follow_again(source, state.registration, begin)

    def begin_end(
        self,
        source: SourceName,
        epoch: int,
        membership: Membership,
        instance: bytes,
        incarnation: bytes,
    ) -> Change[None]:
        """End a source in an epoch that was promised for that, as `begin` begins one.

        Raises Fenced, InLimbo, NotRegistered.
        """
        state = self._check_promised(source, epoch, instance, incarnation)
        if epoch == state.registration.begun.epoch:
            return Change(None)
        return self._end(source, state.registration, end_in(epoch, membership))

    def _check_promised(
        self, source: SourceName, epoch: int, instance: bytes, incarnation: bytes
    ) -> SourceState:
        """Return a source of which this epoch was promised.

        Raises Fenced, InLimbo, NotRegistered.
        """
        state = self.known(source)
        if state is not None and epoch < state.registration.promised_epoch:
            raise state.fenced(epoch)
        self.check_vouches(source, state)
        self.standing.check_named(source, incarnation)
        if state is None or not self._was_promised(state.registration, epoch, instance):
            raise NotRegistered(
                str(source), f"store {self.store} has not promised epoch {epoch} to this instance"
            )
        return state

    def _end(self, source: SourceName, record: Registration, end: BeginRecord) -> Change[None]:
        """End a source, with this record of the promise."""
        former = self.sources.pop(source, None)
        endings = former.end_stream(Deregistered(f"Source {source}")) if former is not None else ()
        writes = self.identities.end(former, record, end, self.reg_ids)
        return Change(None, tuple(writes), endings)

    @staticmethod
    def _was_promised(record: Registration, epoch: int, instance: bytes) -> bool:
        promised = (record.promised_epoch, record.promised_to)
        return promised == (epoch, instance) and not record.taken_over

    def adopt(self, source: SourceName, missed: Missed) -> Change[int]:
        """Take over a begin that this store missed, as if the promise and the begin came late.

        Answers how many messages were set aside. Every write of this source so far must be
        readable. Raises TopicRefused, InvalidArgument, Fenced, InLimbo, NotRegistered,
        ContentConflict.
        """
        begun = missed.begun
        epoch = begun.epoch
        if epoch < 1:
            raise InvalidArgument("lineage", "names no epoch")
        self.check_topic(source.topic)
        state = self.known(source)
        self.check_vouches(source, state)
        record = state.registration if state is not None else Registration(source, 0, b"")
        if epoch <= record.begun.epoch:
            return Change(0)
        promised = (epoch, missed.promised_to)
        if promised != (record.promised_epoch, record.promised_to):
            if state is not None and epoch <= record.promised_epoch:
                raise state.fenced(epoch)
            record = replace(
                record,
                promised_epoch=epoch,
                promised_to=missed.promised_to,
                taken_over=True,
                by_take_over=False,
            )
        record = replace(record, information=_newer(record.information, missed.information))
        if begun.ended:
            ended = self._end(source, record, begun)
            return Change(0, ended.writes, ended.endings)
        return self._follow_again(source, record, begun, missed.reg_id)

    def take_up(self, source: SourceName, archived: Archived) -> Change[SourceState]:
        """Follow the lineage of an archive.

        An instance that was promised an epoch must ask for it once more, since the answer to its
        promise is no longer true. The checks that come first are in
        quorate.store.rules.archive_restore. Raises ContentConflict.
        """
        state, old = self.sources.get(source), list[Write]()
        if state is None:
            fenced = self.identities.known_epoch(source)
            state = self._live(source, archived.reg_id)
            state.registration = replace(state.registration, promised_epoch=fenced)
            old = self.identities.replaced(source)
        record = replace(
            state.registration,
            taken_over=True,
            information=_newer(state.registration.information, archived.information),
        )
        epoch = max(archived.begun.epoch, archived.promised_epoch)
        if epoch >= record.promised_epoch:
            record = replace(record, promised_epoch=epoch, promised_to=b"", by_take_over=False)
        was_begun = record.begun.epoch > 0
        change = self._follow(state, record, archived.begun)
        # No store or source still has the messages that are missing in the archive itself.
        first = 0 if was_begun else archived.first
        released = retention.take_over(self._reads, state, first, archived.markers)
        return Change(state, (*old, *change.writes, *released), change.endings)

    def _follow_again(
        self,
        source: SourceName,
        record: Registration,
        begin: BeginRecord,
        reg_id: int = 0,
    ) -> Change[int]:
        """Follow a lineage, also of a source that had ended here, or that is unknown.

        Raises NotRegistered while messages of an ended stream are being removed.
        """
        if self.emptying(source):
            raise NotRegistered(str(source), f"store {self.store} is removing its ended stream")
        state = self._live(source, reg_id)
        change = self._follow(state, record, begin)
        return replace(change, writes=(*self.identities.replaced(source), *change.writes))

    def _live(self, source: SourceName, reg_id: int) -> SourceState:
        """Return a source that is to be live here: perhaps the stream before an end, or a new one.

        reg_id: the RegID of a new one, if it is free.
        """
        state, ended = self.sources.get(source), self.identities.ended.get(source)
        if state is None and ended is not None:
            self.identities.lives.begins(Who(source))
            state = ended.former
            if state is not None:
                state.limbo = ended.state.limbo
        if state is None:
            wanted = reg_id if self.reg_ids.is_free(reg_id) else 0
            state = self._new_source(source, 0, b"", wanted, ended)
        return state

    def _follow(self, state: SourceState, record: Registration, begin: BeginRecord) -> Change[int]:
        """Follow a lineage from now on, with this record of the promise."""
        name, before, former = str(state.name), state.registration, state
        was_ended = before.begun.is_older_than(begin.generation)
        parts_at = diverges_at(before.begun.lineage, begin.lineage)
        if parts_at <= state.held.stable_upto and not was_ended:
            raise ContentConflict(name, parts_at, state.held.stable_upto, self.store)
        if was_ended:
            state = former.without_stream()
        # The read comes first: its failure must leave everything as it was.
        count, set_aside_rows = set_aside(self._reads, state, (Range(parts_at, SEQUENCE_MAX),))
        moves = [*set_aside_rows]
        spent = record.spent_receiver_epoch
        if was_ended:
            # The receivers of the former stream ended with it.
            spent = max(spent, spent_by_all(former))
            moves += forget_all(state)
            for session_id in list(state.receivers):
                moves += self.identities.forget_receiver(state, session_id, self.reg_ids)
        endings = former.end_stream(Fenced(name, before.begun.epoch, begin.epoch))
        self.sources[state.name] = state
        state.registration = replace(
            record,
            begun=begin,
            information=_of_generation(record.information, begin.generation),
            spent_receiver_epoch=spent,
        )
        state.renew_losses()
        return Change(count, (state.registration_row(), state.held_row(), *moves), endings)

    def _begin_again(self, state: SourceState, begin: BeginRecord) -> Change[int]:
        record = state.registration
        if begin.lineage != record.begun.lineage:
            raise InvalidArgument(
                "lineage", f"epoch {begin.epoch} of {record.name} began with another one"
            )
        if _is_same(record.begun, begin) or _forgets(record.begun, begin):
            return Change(0)  # a begin that was sent before the confirmed one, and came late
        # A source confirms its begin by naming fewer policies.
        state.registration = replace(record, begun=begin)
        return Change(0, (state.registration_row(),))

    def _new_source(
        self,
        source: SourceName,
        epoch: int,
        instance: bytes,
        reg_id: int,
        ended: EndedSource | None = None,
    ) -> SourceState:
        """Add a source. ended: its end here. The receiver epochs of that stay used up."""
        given = ended.state.reg_id if ended is not None else 0
        spent = ended.state.registration.spent_receiver_epoch if ended is not None else 0
        state = SourceState(
            given or self.reg_ids.claim(reg_id, f"source {source}"),
            Registration(
                source,
                epoch,
                instance,
                may_miss_receivers=self.standing.record.by_hand,
                spent_receiver_epoch=spent,
            ),
            Held(RangeSet()),
            takes_data=self.takes_data(source.topic),
        )
        self.sources[source] = state
        # The silence before this moment is unknown, also for a source that a peer told of.
        self.identities.lives.begins(Who(source))
        return state

    def _matches(self, topic: str) -> bool:
        return any(pattern.matches(topic) for pattern in self._topics)

    def check_topic(self, topic: str) -> None:
        """Raise TopicRefused if the store does not keep this topic."""
        if not self._keeps(topic):
            raise TopicRefused(topic, self.store, ", ".join(each.text for each in self._topics))

    def _promised(self, state: SourceState) -> Promised:
        ended = self.identities.ended.get(state.name)
        has_ended = ended is not None and ended.state is state
        is_over = ended is not None and has_ended and ended.durable
        begun = state.registration.begun
        return Promised(
            state,
            state.registration,
            ended.held_by_epoch() if ended is not None and has_ended else state.held_by_epoch(),
            state.held.stable_upto,
            state.markers,
            self.doubt_of(state),
            state.held.retained_from,
            replace(begun, membership=None) if is_over else begun,
        )

    def remove(self, source: SourceName, error: QuorateError) -> tuple[Ending, ...]:
        """Take a source out of service; its stream ends with this error."""
        return self.sources.pop(source).end_stream(error)

    # Limbo.

    def enter_limbo(self, reason: str, incarnation: bytes) -> Change[None]:
        """Put every source in limbo, under a new incarnation of the store."""
        writes = (
            *self.standing.enter_limbo(reason, incarnation),
            *self.identities.enter_limbo(reason),
        )
        endings: tuple[Ending, ...] = ()
        for state in self.sources.values():
            writes += state.enter_limbo(reason)
            endings += state.end_stream(InLimbo(str(state.name), self.store, reason))
        return Change(None, writes, endings)

    def take_over(self, source: SourceName, adoption: Adoption, reg_id: int = 0) -> Change[int]:
        """Take over the promise and the lineage of a source that stays in limbo for now.

        Answers how many messages were set aside. Every write of this source so far must be
        readable. Raises ContentConflict, and NotRegistered if the source is being deleted here.
        """
        old = list(self.standing.fill())
        if self.emptying(source):
            raise NotRegistered(str(source), f"store {self.store} is removing its ended stream")
        known, is_live = self.known(source), source in self.sources
        record = replace(
            known.registration if known is not None else Registration(source, 0, b""),
            promised_epoch=adoption.promised_epoch,
            promised_to=adoption.promised_to,
            taken_over=True,
            by_take_over=False,
            information=adoption.information,
            clean=adoption.clean,
        )
        begun = adoption.begun
        if begun.ended:
            ended = self._end(source, record, begun)
            return Change(0, (*old, *ended.writes), ended.endings)
        if begun.membership is None and known is not None and not is_live:
            known.registration, known.limbo = record, ""
            return Change(0, (*old, *self._rows(known)))
        reason = (known.limbo if known is not None else "") or self.standing.limbo
        state = self._live(source, reg_id)
        state.limbo = reason
        assert state.limbo, "the promise is taken over only for a source in limbo"
        if begun.membership is None:
            state.registration = record
            change = Change(0, (state.registration_row(), state.held_row()))
        else:
            change = self._follow(state, record, begun)
        old += self.identities.replaced(source)
        return replace(change, writes=(*old, *change.writes, state.limbo_row()))

    def leave_limbo(self, state: SourceState, adoption: Adoption) -> Change[bool]:
        """Vouch again for a source; answers whether the store has all that the adoption asks for.

        If not, nothing changes and the source stays in limbo. Every write of this source so far
        must be readable. Raises StorageFailed, CorruptBatch.
        """
        if self.sources.get(state.name) is not state:
            return Change(False)  # the source was deleted meanwhile
        record = state.registration
        expected = (adoption.promised_epoch, adoption.begun.lineage)
        if (record.promised_epoch, record.begun.lineage) != expected or adoption.fetch.minus(
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


def _is_same(known: BeginRecord, other: BeginRecord) -> bool:
    """Return whether two begins of one epoch are equal, also in the addresses of the stores."""
    mine, theirs = known.membership, other.membership
    return mine == theirs and (mine is None or theirs is None or mine.addresses == theirs.addresses)


def _forgets(known: BeginRecord, other: BeginRecord) -> bool:
    """Return whether the known record of an epoch is the confirmed one of the two.

    A confirmed begin no longer names the policies that the source came from.
    """
    return 0 < len(known.policies) < len(other.policies)


def _of_generation(
    information: v1.SourceInformation | None, generation: int
) -> v1.SourceInformation | None:
    """Return what a source said of itself, unless it said so of a stream that has ended."""
    if information is None or information.epoch < generation:
        return None
    return information


def _newer(
    mine: v1.SourceInformation | None, theirs: v1.SourceInformation | None
) -> v1.SourceInformation | None:
    if mine is None or theirs is None:
        return mine or theirs
    return max(mine, theirs, key=lambda each: (each.epoch, each.version))
