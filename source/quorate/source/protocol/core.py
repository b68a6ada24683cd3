"""The source without its I/O: what to ask of each store, what to send it next, what is stable.

Pure: time and answers come in as arguments. The shell (engine, store_session) pulls what is to be
done: `step` for each store, `next_frame` for each open stream, `events` for the application. One
order matters, and `take` and `release` make it visible. A batch is taken from the window, put into
the publish store, and only then released to the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from math import inf

from quorate.protocol.consensus import Behaviour
from quorate.protocol.ends import Told
from quorate.protocol.errors import (
    Closed,
    Fenced,
    InLimbo,
    InvalidArgument,
    NotRegistered,
    QuorateError,
)
from quorate.protocol.fragments import Batch, header_of
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import Layout
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import RangeSet
from quorate.protocol.recovery import Decision
from quorate.protocol.tracker import StabilityTracker
from quorate.source import events
from quorate.source.options import SourceOptions, StabilityEvents
from quorate.source.protocol.admission import Numbering
from quorate.source.protocol.confirmations import Confirmations
from quorate.source.protocol.event_filter import Notices
from quorate.source.protocol.flight_window import Window
from quorate.source.protocol.frames import (
    Framed,
    Packed,
    batch_of,
    framed,
    goodbye_frame,
    information_frame,
    open_frame,
    pack,
)
from quorate.source.protocol.membership_change import Changing
from quorate.source.protocol.outgoing import Limit
from quorate.source.protocol.receiver_pacing import pacing_of
from quorate.source.protocol.registration import (
    Grant,
    OpenStream,
    OwnKnowledge,
    Phase,
    Registration,
    Step,
)
from quorate.source.protocol.resend_plan import (
    Kept,
    Load,
    carried_over,
    conflict,
    first_of,
    newest_marker,
    plan_load,
)
from quorate.source.protocol.retention import Retention
from quorate.source.protocol.source_information import describe, lifetimes_of
from quorate.source.protocol.state_only import who_takes
from quorate.source.protocol.store_addresses import Roster
from quorate.source.protocol.store_cursors import Streams
from quorate.source.protocol.unstable import UnstableMessage, accepted_upto, all_unstable
from quorate.v1.messages_pb2 import Application, SourceInformation


class SourceCore:
    """The state of one source in one process, from its first promise to its goodbye."""

    def __init__(
        self,
        name: SourceName,
        stores: Sequence[StoreAddress],
        policy: Policy,
        options: SourceOptions,
        instance: bytes,
        *,
        stable_upto: int = NOTHING,
        unstable: Sequence[Batch] = (),
        previous: Sequence[Layout] = (),
    ) -> None:
        """Begin unregistered.

        - stores: the stores of the policy with their addresses, its backups too.
        - stable_upto, unstable: what a publish store remembers.
        - previous: earlier configurations, until this one was confirmed.
        """
        self.name = name
        self.address = ""
        """The address on which receivers attach. The shell sets it before it starts."""
        self.events: list[events.Event] = []
        """The events for the application. The shell takes them away."""
        self.error: QuorateError | None = None
        """The error that ended the source for ever; None while it can go on."""
        self.complete = False
        """Whether enough stores take the stream, so that messages are accepted."""
        self.accepting = True
        self.closing = False
        """Whether everything was sent, so that streams may say goodbye."""
        self.marker = b""
        """The application marker that was committed last; empty: none."""
        self.started = False
        """Whether it is known which messages the stream has, so that receivers may attach."""
        self.window = Window(options)
        self.numbering = Numbering(options, self.window)
        self.pacing = pacing_of(options)
        self.confirmations = Confirmations(options.unique_confirmations)
        self.retention = Retention(0)
        self.registration = Registration(
            name,
            policy,
            [store.name for store in stores if store.name not in policy.backups],
            Behaviour(options.consensus),
            options.registration_interval,
            [layout.policy for layout in previous],
        )
        self.tracker = StabilityTracker((policy,), stable_upto)
        self.streams = Streams()
        self.roster = Roster(stores, previous)
        self.registration.addresses = self.roster.addresses
        self._notices = Notices(policy, options, stable_upto)
        told = StabilityEvents(options.stability_events)
        self._tells_stable = told is not StabilityEvents.NONE
        self._tells_stored = told is StabilityEvents.STORE
        self.changing = Changing(policy, options.backup_after)
        self.instance = instance
        """The ID of this object among all with its identity."""
        self._options = options
        self._version = 1
        self._decision: Decision | None = None
        self._from_policies: tuple[Policy, ...] = ()
        self._unstable: list[Batch] = list(unstable)
        self._compared_upto = (
            max(stable_upto, header_of(unstable[0]).first - 1) if unstable else None
        )
        self._streaming_since = 0.0
        self._was_complete_at = 0.0
        """The last time at which messages were accepted; before that, the time of the start."""
        self._streamed_epoch = 0
        self._packed: Packed | None = None

    # -- what others read -------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.registration.epoch

    @property
    def stores(self) -> Mapping[str, StoreAddress]:
        """The stores to deal with now, by name. They change with the policies in force."""
        return self.roster.stores

    @property
    def stable_upto(self) -> int:
        """The highest sequence number with all before it stable, with the source's own content.

        After a restart the source first compares its own messages with those that stores kept.
        Until then, a stable number may have other content.
        """
        stable_upto = self.tracker.stable_upto
        compared_upto = self._compared_upto
        return stable_upto if compared_upto is None else min(stable_upto, compared_upto)

    @property
    def packed_upto(self) -> int:
        """The highest sequence number that was released to the wire."""
        return self.retention.next_sequence - 1

    @property
    def loading(self) -> bool:
        return self.registration.phase is Phase.LOADING

    @property
    def version(self) -> tuple[int, int, int]:
        """The order of two states of the registration information: the higher one is newer."""
        return self.epoch, self._streamed_epoch, self._version

    def information(self) -> SourceInformation:
        """Return what receivers and stores need to know of the source.

        It names an epoch only once that epoch has begun. Otherwise a receiver would wait for an
        epoch that may never begin, and take nothing from the source that went on.
        """
        version = (self._streamed_epoch or self.epoch, self._version)
        stores = self.stores.values()
        return describe(self.name, self.address, self.registration, stores, version, self._options)

    def refusal(self) -> QuorateError | None:
        """Return why no message is accepted; None: messages are."""
        if self.error is not None:
            return self.error
        if not self.accepting:
            return Closed(f"Source {self.name}")
        if self.complete or self.keeps:
            return None
        return NotRegistered(str(self.name), who_takes(self.streams))

    @property
    def keeps(self) -> bool:
        """Whether messages are accepted although too few stores take the stream."""
        return self.numbering.is_enough and not self.complete

    def unfinished(self) -> QuorateError:
        """Return why messages are not accepted yet, for a caller that stops waiting."""
        return self.registration.unfinished(self.streams.connected())

    def unstable(self) -> list[UnstableMessage]:
        batches = self._unstable or [batch_of(item.frame) for item in self.retention.unsettled()]
        return all_unstable(batches, self._packed, self.window, self.stable_upto)

    def step(self, store: str) -> Step:
        """Return what to ask of this store now."""
        return self.registration.step(store)

    # -- registration -----------------------------------------------------------------------

    def start(self, now: float, until: float = -inf) -> None:
        """Register.

        until: the time until which the application waits for the end of another instance's
        protection; inf: for as long as it takes.
        """
        self._was_complete_at = now
        self.registration.wait_until(until)
        self.registration.start(now)
        self._sync_stores()

    def may_begin_at(self, next_sequence: int) -> bool:
        """Return whether `begin_at` may be called, with a publish store that is ready."""
        known_upto = self._decision.kept_upto if self._decision is not None else NOTHING
        return self.numbering.may_begin_at(next_sequence, max(known_upto, self.stable_upto))

    def begin_at(self, next_sequence: int) -> None:
        """Accept messages from this number on before the first registration is complete."""
        self.events += self._notices.quorum_lost(frozenset(), self.registration.policy)
        self.retention = Retention(next_sequence)
        self.window.restart(next_sequence - 1, 0, self.tracker.stable_upto)
        self.registration.wait_until(inf)
        self.go_on()

    def go_on(self) -> None:
        """Note that the publish store may keep messages of the numbers that are known now."""
        self.numbering.is_known = True
        self._open_window()

    def _sync_stores(self) -> None:
        """Deal with the stores that the policies in force name, and with no others."""
        gone = self.roster.deal_with(self.registration.wanted())
        if gone is None:
            return
        for store in gone:
            self.streams.remove(store)
            self.tracker.void(store)
            self.changing.left(store)
            self.pacing.left(store)
            self._notices.left(store)
        for store in self.stores:
            self.streams.add(store)
        self._version += 1

    def _learn(self, addresses: Iterable[tuple[str, str]]) -> None:
        """Learn the addresses of stores that this source's configuration does not have."""
        try:
            self.roster.learn(addresses)
        except InvalidArgument as error:
            self.registration.error = error

    def promised(self, store: str, epoch: int, grant: Grant, now: float) -> None:
        """Note that the store has promised the epoch."""
        if store not in self.stores:
            return
        if self.registration.promised(store, epoch, grant):
            self._void(store)
        if grant.promise.limbo:
            self.events += self._notices.in_limbo(store, grant.limbo_reason)
        if self.registration.phase is Phase.STREAMING:
            self._version += 1
        elif epoch == self.epoch:
            membership = grant.promise.begun.membership
            self._learn((*(membership.addresses if membership else ()), *grant.addresses))
        self._progress(now)
        self._overtake(now)

    def known(
        self,
        store_name: str,
        incarnation: bytes,
        former: Iterable[bytes],
        now: float,
        teller: str,
    ) -> list[str]:
        """Note what a store, the teller, reports of its own or another store's incarnations.

        Return the stores, by the policy's names, whose streams must end now. Call this before
        anything else that the same answer says: a decision must not rest on both.
        """
        gone = self.registration.known(store_name, incarnation, former, teller)
        # A store that the stream has moved away from does not count in any case.
        stores = [store for store in gone if store in self.streams.cursors]
        for store in stores:
            self._void(store)
            self.events.append(events.StoreReplaced(store, incarnation))
        if stores:
            self._progress(now)
        return stores

    def _void(self, store: str) -> None:
        """Void the acknowledgements of the store's former incarnation."""
        self.streams.cursors[store].close()
        self.changing.left(store)
        self.tracker.void(store)
        if self._decision is not None:
            self._decision = self._decision.without(store)
        self._settle()

    def begun(
        self, store: str, epoch: int, now: float, membership: Membership | None = None
    ) -> None:
        """Note that the store has begun the epoch: what it holds of the stream counts from now on.

        membership: what the record that it was given names; None: the present one.
        """
        first = not self.registration.has_begun(store)
        if store not in self.stores or not self.registration.begun(store, epoch, membership):
            return
        grant = self.registration.grant(store)
        assert grant is not None
        self._notices.begun(store)
        if first:
            known = grant.promise.begun.epoch > 0
            succeeded = events.RegistrationSucceeded(store, grant.reg_id, known, grant.newest)
            self.events.append(succeeded)
        beginning = self.registration.phase in (Phase.BEGINNING, Phase.CONFIRMING)
        if self._decision is not None and beginning and self.registration.takes_data(store):
            self.tracker.join(store)
            held = self._decision.holders.get(store)
            if held is not None:
                has = held.union(self._decision.losses)
                upto = has.contiguous_upto(self.tracker.stable_upto + 1)
                self.tracker.acknowledge(store, upto)
        self._progress(now)

    def failed(self, store: str, error: QuorateError, now: float) -> None:
        """Note that a call to the store failed, or that its stream ended."""
        if store not in self.stores:
            return
        cursor = self.streams.cursors[store]
        was_complete = self.complete
        if not cursor.open:
            self.events += self._notices.refused(store, error)
        cursor.close()
        self.changing.left(store)
        self.tracker.leave(store)
        self.registration.failed(store, error, now)
        if self.registration.error is error:
            self.events += self._notices.contradicted(store, error)
        before = len(self.events)
        self._progress(now)
        causes: list[events.Event] = []
        if isinstance(error, InLimbo):
            causes += self._notices.in_limbo(store, error.reason)
        # Failures while the first registration goes on are reported by open() if it fails.
        if self.registration.phase is Phase.STREAMING:
            lost = was_complete and not self.complete
            taking, policy = self.streams.open_stores(), self.registration.policy
            causes += self._notices.unresponsive(store, error, taking, policy, quorum_lost=lost)
        # The failure is reported before its consequences, such as a lost quorum.
        self.events[before:before] = causes
        self._settle()

    def _progress(self, now: float) -> None:
        """Go as far as the answers allow."""
        registration = self.registration
        if registration.phase is Phase.PROMISING and registration.error is None:
            own = OwnKnowledge(self.tracker.stable_upto, first_of(self._unstable))
            decision = registration.decide(now, own)
            if decision is not None:
                self._begin(decision)
        if registration.phase is Phase.BEGINNING and registration.begun_enough():
            self._on_begin_counted(now)
        if registration.phase is Phase.CONFIRMING and registration.confirmed_enough():
            self._note_membership(confirmed=True)
            self._after_begin(now)
        if registration.error is not None:
            self.fail(registration.error)
        elif registration.phase is Phase.STREAMING:
            self._check_complete(now)
        self._sync_stores()

    def _on_begin_counted(self, now: float) -> None:
        """Go on after the begin, which is durable on a stable set of every policy in its record."""
        registration = self.registration
        self._from_policies = registration.membership.from_policies
        if {*self._from_policies} != {*registration.membership.to_policies}:
            self._note_membership(confirmed=False)
        if registration.changing:
            registration.confirm()
        else:
            self._after_begin(now)

    def _note_membership(self, confirmed: bool) -> None:
        self.events.append(
            events.MembershipChanged(
                self._from_policies, self.registration.membership.to_policies, self.epoch, confirmed
            )
        )

    def _begin(self, decision: Decision) -> None:
        went_on = decision.kept_upto > self.packed_upto
        if went_on and (self.started or not self.numbering.withdraw()):
            # Another source went on with the stream: its numbers must not pass for this one's.
            self.registration.error = Fenced(
                str(self.name), self._streamed_epoch, decision.begun.epoch
            )
            return
        self._decision = decision
        self._sync_stores()
        membership = self.registration.membership
        stable_upto = max(decision.stable_upto, self.tracker.stable_upto)
        self.tracker = StabilityTracker(membership.to_policies, stable_upto)
        self._notices.known_stable(stable_upto)
        self.changing.decided(membership, self.registration.policy)

    def _after_begin(self, now: float) -> None:
        if self.registration.final:
            self.registration.retire()
            self.events += self._notices.policy_in_force(self.registration.policy)
        load = self.load()
        if load is None:
            self.loaded((), now)
        else:
            self.registration.loading()

    def load(self) -> Load | None:
        """Return what to fetch from the stores before the stream can go on; None: nothing."""
        assert self._decision is not None
        return plan_load(self._decision, self.stable_upto, self._unstable)

    def loaded(self, kept: Sequence[Kept], now: float) -> None:
        """Take what `load` asked for, in order and complete. The stream goes on from there."""
        assert self._decision is not None
        contradiction = conflict(self.name, kept, self._unstable)
        if contradiction is not None:
            self.fail(contradiction)
            return
        self._compared_upto = None
        kept_upto = self._decision.kept_upto
        stable_upto = self.stable_upto
        self.retention = carried_over(kept, self._unstable, self.epoch, kept_upto, stable_upto, now)
        self._notices.retained_from(self.retention.first)
        self.marker = newest_marker(self._decision, self._unstable)
        self._unstable = []
        self._version = 1
        for cursor in self.streams.cursors.values():
            cursor.information_version = 0
        self.confirmations.begin(kept_upto, self.stable_upto)
        settled_upto = self.confirmations.settled(self.stable_upto)
        self.window.restart(self.packed_upto, self.retention.payload_bytes, settled_upto)
        self.pacing.restart(self.retention.frames())
        self.registration.streaming()
        self.started = True
        self._streaming_since = now
        self._streamed_epoch = self.epoch
        self._settle()

    def _check_complete(self, now: float) -> None:
        taking = self.streams.open_stores()
        policies = self.registration.membership.to_policies
        able = self.error is None and all(policy.stable(taking, taking) for policy in policies)
        able = able and self.pacing.knows_enough(policies)
        if able:
            self.changing.complete()
        if able and not self.complete and not self._others_open_soon(now):
            self._set_complete(True)
            first = self.window.next_sequence
            policy = self.registration.policy
            self.events += self._notices.complete(first, self.epoch, self.streams, policy)
        elif self.complete and not able and not self.changing.is_waited_for(now):
            self._lose_quorum(taking, now)

    def _check_stores(self, now: float) -> None:
        """Go on with a change of the stores, or begin one."""
        registration = self.registration
        if registration.phase is not Phase.STREAMING or self._packed or self.closing:
            return
        if self.changing.brings_up:
            assert self._decision is not None
            if self.changing.is_brought_up(self.stable_upto, self._decision.kept_upto):
                self._register_anew(self.epoch + 1, now, advance=True)
        elif self.complete:
            wanted = self.changing.wanted(registration.policy, self.streams, now)
            if wanted is not None:
                registration.retarget(wanted)
                self._register_anew(self.epoch + 1, now, change=True)

    def looks_due(self, now: float) -> list[str]:
        """Return the stores to ask again for the promise of this epoch, to hear what they hold."""
        is_of_use = self.registration.phase is Phase.STREAMING and not self.closing
        return self.changing.due(now) if is_of_use else []

    def looked(self, store: str, epoch: int, grant: Grant | None, now: float) -> None:
        """Note what a store that was due holds; None: it did not answer."""
        if not self.changing.brings_up or epoch != self.epoch:
            return
        held, retained_from, vouches = None, 0, False
        if grant is not None and self.registration.is_of_the_same(store, grant):
            held = self.registration.lineage.belonging(grant.promise.held)
            retained_from, vouches = grant.promise.retained_from, not grant.promise.limbo
        self.changing.answered(store, held, now, retained_from, vouches=vouches)
        self._check_stores(now)

    def _others_open_soon(self, now: float) -> bool:
        """Return whether a store that promised has only to open its stream, which is worth a
        moment."""
        if now >= self._streaming_since + self._options.registration_interval:
            return False
        return any(
            not cursor.open and self.registration.expected(store)
            for store, cursor in self.streams.cursors.items()
        )

    def _set_complete(self, complete: bool) -> None:
        with self.window.lock:
            self.complete = complete
            self._open_window()

    def _open_window(self) -> None:
        self.window.is_open = self.refusal() is None
        self.window.refresh()

    def _lose_quorum(self, taking: Set[str], now: float) -> None:
        """Stop accepting messages: only these stores still take the stream."""
        self._was_complete_at = now
        self._set_complete(False)
        self.events += self._notices.quorum_lost(taking, self.registration.policy)

    def _register_anew(
        self, epoch: int, now: float, *, change: bool = False, advance: bool = False
    ) -> None:
        """Register with a higher epoch. Unstable messages go along like those of a publish store.

        change: to other stores; advance: to the own policy alone. In both cases messages are still
        accepted, and wait.
        """
        if self.registration.phase is Phase.STREAMING:
            self._unstable = [batch_of(item.frame) for item in self.retention.unsettled()]
            self._compared_upto = self.stable_upto if self._unstable else None
        self.changing.registers(now, to_change=change or advance)
        if self.complete and not (change or advance):
            self._lose_quorum(frozenset(), now)
        self.streams.close_all()
        self.registration.start(now, epoch, advance)
        self._sync_stores()

    def fail(self, error: QuorateError) -> None:
        """End the source for ever with this error."""
        if self.error is None:
            self.error = error
            self._set_complete(False)
            upto = accepted_upto(self._unstable, self.window)
            self.events += self._notices.failed(error, self.stable_upto, upto)

    # -- streams to the stores --------------------------------------------------------------

    def open_frame(self, store: str, application: Application | None = None) -> bytes:
        """Return the first frame of a stream to this store; `opened` takes the answer."""
        if (cursor := self.streams.cursors.get(store)) is not None:
            cursor.information_version = self._version
        grant = self.registration.grant(store)
        return open_frame(
            self.information(),
            self.instance,
            grant.incarnation if grant is not None else b"",
            self.retention.first,
            self.stable_upto,
            lifetimes_of(self._options),
            application,
        )

    def opened(
        self,
        store: str,
        epoch: int,
        next_sequence: int,
        durability: int,
        now: float,
        message_bytes_max: int = 0,
    ) -> bool:
        """Note that the store has everything that the source retains before next_sequence.

        Return whether the stream is of use. It is not if a newer epoch has begun meanwhile.
        """
        if store not in self.stores or self.step(store) != OpenStream(epoch):
            return False
        self.registration.agreed(store)
        takes_data = self.streams.opened(store, next_sequence, durability, self.retention)
        limit = Limit(self._options.message_bytes_max)
        self.window.limit_to(self.streams.limit(store, message_bytes_max, limit))
        self.changing.joined(store, now, takes_data)
        if takes_data:
            self.tracker.rejoin(store, min(next_sequence - 1, self.packed_upto))
        else:
            self.tracker.leave(store)
        taking, policy = self.streams.open_stores(), self.registration.policy
        self.events += self._notices.opened(store, taking, policy, takes_data=takes_data)
        self._settle()
        self._check_complete(now)
        return True

    def receivers_told(self, store: str, told: Told) -> None:
        """Note which receivers a store knows that are waited for, and what they have acknowledged.

        Call this before `opened` if one answer says both. Once enough stores take the stream,
        messages are accepted; then these receivers must be known.
        """
        if store in self.stores:
            self.pacing.heard(store, told)
            self._pace()

    def _pace(self) -> None:
        policies = self.registration.membership.to_policies
        lost = self._decision.losses if self._decision is not None else RangeSet()
        self.pacing.apply(self.window, policies, self.streams.connected(), lost)

    def next_frame(self, store: str, now: float) -> bytes | None:
        """Return the next frame for this store; None: there is none, and the store is idle."""
        cursor = self.streams.cursors[store]
        cursor.idle = False
        if cursor.information_version != self._version:
            cursor.information_version = self._version
            return information_frame(self.information(), self.stable_upto)
        return self.streams.next_frame(store, self.retention, self.stable_upto, now)

    def acknowledged(self, store: str, upto: int, now: float) -> None:
        """Note that the store holds everything up to here."""
        if not self.streams.cursors[store].open:
            return
        if self.streams.acknowledged(store, upto, self.packed_upto, now):
            self.events.append(events.StoreCaughtUp(store, upto))
        before = self.tracker.acknowledged_upto(store) if self._tells_stored else None
        if self.tracker.acknowledge(store, min(upto, self.packed_upto)):
            self._settle()
        else:
            self._trim()
        if self._tells_stored:
            policy = self.registration.policy
            self.events += self._notices.stored(store, before, self.tracker, policy)

    def confirmed(self, session_id: int, reg_id: int, epoch: int, upto: int) -> None:
        """Note that a receiver has consumed everything up to here, by the lineage of that epoch."""
        shared_upto = self.registration.lineage.shared_upto(epoch)
        if not self.started or shared_upto is None:
            return
        upto = min(upto, self.packed_upto, shared_upto)
        if self.confirmations.confirmed(session_id, upto):
            unique = self.confirmations.upto if self._options.unique_confirmations else None
            self.events.append(events.DeliveryConfirmed(session_id, reg_id, upto, unique))
            self._settle()

    def _settle(self) -> None:
        """Act on what has become stable."""
        if self._tells_stable:
            self.events += self._notices.stable(
                self.stable_upto, self.tracker, self.registration.policy
            )
        settled_upto = self.confirmations.settled(self.stable_upto)
        settled_bytes = self.retention.settle(self.stable_upto)
        if settled_upto < self.stable_upto:
            settled_bytes = self.retention.bytes_upto(settled_upto)
        self.window.settle(settled_upto, settled_bytes)
        if self.window.exceeded_noted:
            self.events += self._notices.flight_relieved(self.window, self.stable_upto)
        self._trim()

    def _trim(self) -> None:
        slowest = self.tracker.slowest_upto(self.streams.takers)
        needed_from = min(slowest, self.confirmations.upto) + 1
        self.retention.trim(needed_from, self._options.retention_bytes_max)

    # -- packing ----------------------------------------------------------------------------

    def idle_quorum(self) -> bool:
        """Return whether the fastest stores that could make a message stable are idle."""
        idle = self.streams.idle_stores()
        return all(policy.stable(idle, idle) for policy in self.registration.membership.to_policies)

    def note_exceeded(self) -> None:
        """Report a message that is accepted beyond a bound. The application is told once."""
        if self.window.exceeded:
            self.events += self._notices.flight_exceeded(self.window)
        self.note_lag()

    def note_lag(self) -> None:
        """Report receivers that hold up a message to be sent. The application is told once."""
        if self.window.paced_out:
            self.events += self.pacing.noted(self.window)

    @property
    def can_take(self) -> bool:
        """Whether something has gathered that may be packed now."""
        return (
            bool(self.window.payloads)
            and self._packed is None
            and self.error is None
            and self.registration.phase is Phase.STREAMING
        )

    @property
    def packs_soon(self) -> bool:
        """Whether what has gathered need not gather for longer."""
        return self.can_take and (self.window.full or self.idle_quorum())

    @property
    def can_commit(self) -> bool:
        """Whether a batch of its own may be taken now: nothing has gathered or is on its way."""
        return (
            not self.window.payloads
            and self._packed is None
            and self.registration.phase is Phase.STREAMING
        )

    def take(self, marker: bytes = b"") -> Packed:
        """Pack what has gathered. Call it only if can_take or can_commit allows it."""
        gathered = self.window.take()
        self.marker = marker or self.marker
        self._packed = pack(self.name, self.epoch, gathered, marker)
        return self._packed

    def release(self, packed: Packed, now: float) -> Framed:
        """Release a batch, which is in the publish store, to the wire. Return its frame."""
        self._packed = None
        frame = framed(packed.batch, self.stable_upto, self._options.compression)
        self.retention.append(packed.first, packed.last, frame, self.window.packed_bytes, now)
        self.pacing.sent(packed.last, self.window.packed_bytes)
        self.streams.released(self.stable_upto)
        return frame

    # -- time -------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Act on the time. Call it about once a second, unless `tick_pace` says otherwise."""
        self.registration.time_passes(now)
        self._progress(now)
        self._overtake(now)
        self._check_stores(now)
        self._pace()
        self.events += self.pacing.news(self.window, now)
        self.events += self._notices.waiting(*self.registration.waiting_for(now))
        self.events += self._notices.kept_out(self.registration.waiting_for_identity(now))
        changes = self.complete and self.registration.phase is not Phase.STREAMING
        if changes and not self.changing.is_waited_for(now):
            self._lose_quorum(frozenset(), now)
        self.events += self._notices.overdue(self.retention, self.stable_upto, now)
        self.events += self._notices.reclaimed(self.retention)
        self._give_up(now)

    def _give_up(self, now: float) -> None:
        """End the source if it had too few stores for as long as its options allow."""
        patience = self._options.delays.give_up_after
        if patience is not None and not self.complete and now >= self._was_complete_at + patience:
            self.fail(self.unfinished())

    def _overtake(self, now: float) -> None:
        epoch = self.registration.overtake_epoch(now)
        # Not between take and release: that batch belongs to this epoch.
        if epoch is not None and self._packed is None and not self.closing:
            self._register_anew(epoch, now)

    # -- closing ----------------------------------------------------------------------------

    def stop_accepting(self) -> None:
        """Accept nothing further; accepted messages still go out."""
        self.accepting = False
        self._open_window()

    def close(self) -> None:
        """Let streams say goodbye once they have written all frames."""
        self.stop_accepting()
        self.closing = True

    def end(self, error: QuorateError) -> None:
        """End this identity: every later call raises this error."""
        self.stop_accepting()
        self.error = error
        self._set_complete(False)

    def goodbye_frame(self) -> bytes:
        return goodbye_frame(self.packed_upto, self.stable_upto)
