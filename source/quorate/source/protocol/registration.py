"""How a source registers: promise, decide, begin (protocol.md 4), for all stores together.

Pure. `step` says what to ask of a store; answers and failures go in; `decide` returns what is kept.
A store that joins late takes the same steps as the others. How messages are sent is not known here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    BatchRefused,
    ContentConflict,
    Deregistered,
    Fenced,
    InLimbo,
    InvalidArgument,
    MissingMessages,
    NoQuorum,
    NotRegistered,
    PolicyNotInForce,
    QuorateError,
    RegIdInUse,
    SourceActive,
    SourceDeleted,
    TakenOver,
    TopicRefused,
    joined,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import Incarnations
from quorate.protocol.lineage import NO_LINEAGE
from quorate.protocol.policy import Membership, Policy, named_by
from quorate.protocol.protection import Protection
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import (
    Decision,
    Lost,
    NeedMore,
    Promise,
    decide,
    newest_begun,
    of_generation,
)
from quorate.source.protocol.state_only import never_stable

_MOMENT_SECONDS = 0.5
"""The time, in seconds, that stores which are up may take to answer; nobody is told of it."""
_STUCK_INTERVALS = 10
"""The number of registration intervals without a stream after which the source decides anew."""


class Phase(enum.Enum):
    """The progress of a registration."""

    PROMISING = enum.auto()
    """Stores are asked to promise the epoch; nothing is decided."""
    BEGINNING = enum.auto()
    """The source has decided, and too few stores have begun."""
    CONFIRMING = enum.auto()
    """Enough stores have begun, so the begin counts. The record is to forget where it came from."""
    LOADING = enum.auto()
    """Enough stores have begun. Messages that were kept but are not stable are being fetched."""
    STREAMING = enum.auto()


@dataclass(frozen=True, slots=True)
class AskPromise:
    """Ask the store to promise this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AskBegin:
    """Ask the store to begin an epoch."""

    begin: BeginRecord
    incarnation: bytes
    """The incarnation of the data directory whose answer was decided on."""
    losses: tuple[HeldRange, ...] = ()
    """The losses that operators accepted, so that every store hears of them."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """Open the stream to the store, in this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Ask nothing of this store until something changes."""


Step = AskPromise | AskBegin | OpenStream | Hold


@dataclass(frozen=True, slots=True)
class Grant:
    """A store's answer to the request for a promise."""

    reg_id: int
    incarnation: bytes
    promise: Promise
    store_name: str = ""
    """The store's own name; policies may use another."""
    limbo_reason: str = ""
    """The reason for the store's limbo, for people."""
    addresses: tuple[tuple[str, str], ...] = ()
    """Names and addresses of stores, as this store was told them."""

    @property
    def newest(self) -> int:
        """The newest message that the store holds or has released; -1: none."""
        released = self.promise.retained_from - 1
        return max((item.last for item in self.promise.held), default=released)


@dataclass(frozen=True, slots=True)
class OwnKnowledge:
    """The source's own knowledge of its stream, from its publish store or from before."""

    stable_upto: int
    """The highest sequence number that the source knows was stable."""
    first_unstable: int | None
    """The first message that the source still has and would send again; None: it has no message."""


class Registration:
    """One source's registration with its stores. Its epoch never goes down."""

    def __init__(
        self,
        name: SourceName,
        policy: Policy,
        stores: Sequence[str],
        behaviour: Behaviour,
        interval: float,
        previous: Sequence[Policy] = (),
    ) -> None:
        """Begin without answers.

        stores: those that the source always deals with, first in every list. previous: the policies
        of earlier configurations, until this one was confirmed.
        """
        self._name = name
        self._declared = policy
        self._policy = policy
        self._own_stores = tuple(stores)
        self._previous = tuple(previous)
        self._behaviour = behaviour
        self._interval = interval
        self._moment = min(_MOMENT_SECONDS, interval / 4)
        self._started_at = 0.0
        self._decided_at = 0.0
        self._waits_longer = False
        self._was_open = False
        self._grants: dict[str, Grant] = {}
        self._begun: dict[str, Membership] = {}
        self._advance_from = 0
        self._moved = False
        self._parting: set[str] = set()
        self._excused: frozenset[str] = frozenset()
        self._failures: dict[str, QuorateError] = {}
        self._fenced: dict[str, int] = {}
        self._disputing: set[str] = set()
        self._fenced_at = 0.0
        self._lost: MissingMessages | None = None
        self._protection = Protection()
        self._generation = 0
        self._begun_known = 0
        self._decided_epoch = 0
        self._superseded = False
        self._incarnations: dict[str, tuple[str, bytes]] = {}
        self._known = Incarnations()
        self._disbelieved: set[str] = set()
        self.drawn = False
        """Whether no later source has the session ID."""
        self.phase = Phase.PROMISING
        self.epoch = 1
        self.lineage = NO_LINEAGE
        self._losses: tuple[HeldRange, ...] = ()
        self.membership = Membership((), (policy,))
        self.addresses: dict[str, str] = {}
        """The address of each store, by name, as far as any party said."""
        self.error: QuorateError | None = None
        """The error that ended the source for ever; None while it can go on."""

    @property
    def declared(self) -> Policy:
        """The policy of the source's configuration."""
        return self._declared

    @property
    def policy(self) -> Policy:
        """The policy that this source wants: the declared one, perhaps with backups in it."""
        return self._policy

    def retarget(self, policy: Policy) -> None:
        """Want this policy instead. The next registration goes to it."""
        self._policy = policy

    def wait_until(self, until: float) -> None:
        """Set the time until which the application waits while stores protect another instance.

        inf: it waits for as long as it takes.
        """
        self._protection.until = until

    def start(self, now: float, epoch: int = 1, advance: bool = False) -> None:
        """Ask every store for a promise of this epoch. Earlier answers are void.

        advance: whatever the policies in force made stable is stable under the own policy, too. So
        the own policy may go on alone.
        """
        if self._was_open:
            # The first registration has waited for these stores; that is enough.
            self._excused = frozenset(self._failures)
        self._advance_from = self.epoch if advance else 0
        self.phase = Phase.PROMISING
        self.epoch = max(epoch, self.epoch)
        self._started_at = now
        self._waits_longer = False
        self._forget()

    def _forget(self) -> None:
        self._grants.clear()
        self._begun.clear()
        self._fenced.clear()
        self._lost = None
        self._superseded = False
        self._parting.clear()

    def step(self, store: str) -> Step:
        """Return what to ask of this store now."""
        if self.error is not None:
            return Hold()
        grant = self._grants.get(store)
        if grant is None or grant.promise.limbo:
            return AskPromise(self.epoch)
        if self.phase is Phase.STREAMING and self._begun.get(store) == self.membership:
            return OpenStream(self.epoch)
        if self.phase is Phase.PROMISING:
            # A missing message may be back meanwhile, or its loss may have been accepted.
            again = self._lost is not None or self._waits_longer
            return AskPromise(self.epoch) if again else Hold()
        if self._begun.get(store) == self.membership and not self._waits_longer:
            return Hold()
        return AskBegin(
            BeginRecord(self.lineage, self.membership, self._generation),
            grant.incarnation,
            self._losses,
        )

    def time_passes(self, now: float) -> None:
        """Ask stores again that have answered already, once the wait for others takes too long.

        Asking shows these stores that the source lives. Otherwise its registration may expire
        there.
        """
        self._waits_longer = now >= self._started_at + self._interval

    def promised(self, store: str, epoch: int, grant: Grant) -> bool:
        """Note a store's answer. An answer for an older epoch is void.

        Return whether the store came back with another incarnation. Then every acknowledgement of
        the former incarnation is void.
        """
        if epoch != self.epoch:
            return False
        if not self._known.is_present(grant.store_name, grant.incarnation):
            self._disbelieved.add(store)
            return False
        self._disbelieved.discard(store)
        self._protection.ended(store)
        former = self._incarnations.get(store)
        another = former is not None and former[1] != grant.incarnation
        if another:
            self._begun.pop(store, None)
        self._incarnations[store] = (grant.store_name, grant.incarnation)
        self._grants[store] = grant
        self._failures.pop(store, None)
        late = self.phase is not Phase.PROMISING
        if late and self._was_decided_without(grant.promise):
            self._superseded = True
        return another

    def _was_decided_without(self, promise: Promise) -> bool:
        """Return whether the decision was made without a newer begin that this promise names."""
        return self._begun_known < promise.begun.epoch < self.epoch

    def known(
        self, store_name: str, incarnation: bytes, former: Iterable[bytes], teller: str
    ) -> list[str]:
        """Note what a store reports of incarnations; see Incarnations.heard.

        Return the stores, by the policy's names, that are another incarnation now. Their promises,
        begins and acknowledgements are void. There is more than one if a disk was copied.
        """
        if not self._known.heard(store_name, incarnation, former, teller):
            return []
        gone = [
            store
            for store, (name, disk) in self._incarnations.items()
            if not self._known.is_present(name, disk)
        ]
        for store in gone:
            del self._incarnations[store]
            self._grants.pop(store, None)
            self._begun.pop(store, None)
        return gone

    def begun(self, store: str, epoch: int, membership: Membership | None = None) -> bool:
        """Note that the store has begun with this record; None: with the present one.

        Return whether that was for the epoch in force.
        """
        if epoch != self.epoch or store not in self._grants:
            return False
        self._begun[store] = membership or self.membership
        self._parting.discard(store)
        self._fenced.pop(store, None)
        self._disputing.discard(store)
        return True

    def takes_data(self, store: str) -> bool:
        """Return whether the store keeps messages of the topic, as it said when it promised."""
        return self._grants[store].promise.takes_data

    def has_begun(self, store: str) -> bool:
        """Return whether the store has begun this epoch."""
        return store in self._begun

    def grant(self, store: str) -> Grant | None:
        """Return the store's answer in this epoch; None: it has not answered."""
        return self._grants.get(store)

    def is_of_the_same(self, store: str, grant: Grant) -> bool:
        """Return whether this answer is from the data directory that promised the epoch in force.

        The answer must also name that epoch as begun. The answer of a former directory is void,
        even if the store has joined again since.
        """
        present = self.grant(store)
        return (
            grant.promise.begun.epoch == self.epoch
            and present is not None
            and present.incarnation == grant.incarnation
        )

    def unused_promises(self) -> set[str]:
        """Return the stores that promised the epoch, if the source asked for nothing beyond that.

        They may forget the promise, so that it does not keep the next instance out. Once a begin
        may be under way the promises are needed.
        """
        if self.phase is not Phase.PROMISING or self._was_open or self.lineage.terms:
            return set()
        return {store for store, grant in self._grants.items() if not grant.promise.limbo}

    def expected(self, store: str) -> bool:
        """Return whether the store promised and nothing has gone wrong with it since."""
        return store not in self._parting and (
            store in self._grants
            and store not in self._failures
            and not self._grants[store].promise.limbo
        )

    def failed(self, store: str, error: QuorateError, now: float) -> None:
        """Note that a call to the store failed, or that its stream ended."""
        self._failures[store] = error
        self._parting.discard(store)
        if isinstance(error, SourceActive):
            self._protection.refused(store, error, now)
        else:
            self._protection.ended(store)
        match error:
            case Fenced() if error.epoch < self.epoch:
                # A late end of a stream of this source's older epoch says nothing about this one.
                del self._failures[store]
            case Fenced() if self._has_lost_to(error):
                self.error = type(error)(str(self._name), self.lineage.epoch, error.promised)
            case Fenced() if self._is_opening:
                self.epoch = max(self.epoch, error.promised) + 1
                self._forget()
                del self._failures[store]
            case Fenced():
                self._note_fence(store, error, now)
            case NotRegistered() | InLimbo():
                self._grants.pop(store, None)
                self._begun.pop(store, None)
            case ContentConflict() | BatchRefused():
                self._note_dispute(store, error)
            case Deregistered():
                self.error = error
            case RegIdInUse() | TopicRefused() | InvalidArgument() if not self._was_open:
                self.error = error

    @property
    def _is_opening(self) -> bool:
        """Whether the source never was open, and has decided nothing."""
        return self.phase is Phase.PROMISING and not self._was_open

    def _has_lost_to(self, error: Fenced) -> bool:
        """Return whether the identity belongs to the other instance, and this source must end.

        - This epoch is high enough, but the other instance has begun one since this source's last.
        - The other instance was told to take over from this one. If this source registered anew, it
          would fence that instance while it opens. An epoch that this source has decided itself was
          promised to an instance that tried at the same time, or before.
        """
        newer = not self._is_opening and error.promised > self._decided_epoch
        return error.promised < self.epoch or (isinstance(error, TakenOver) and newer)

    def _note_dispute(self, store: str, error: ContentConflict | BatchRefused) -> None:
        """Note that a store wants other content. The source ends once the others are too few."""
        self._disputing.add(store)
        if any(policy.blocks(policy.stores & self._disputing) for policy in self._policies()):
            self.error = error

    def agreed(self, store: str) -> None:
        """Note that a store takes the stream: it holds no other content, or no longer."""
        self._disputing.discard(store)

    def _note_fence(self, store: str, error: Fenced, now: float) -> None:
        """Note that another instance registers.

        It has won once the remaining stores can make nothing stable. A source that was open and
        asks for promises itself leaves the other the time to win. A still higher epoch would fence
        the other while it opens.
        """
        if not self._fenced:
            self._fenced_at = now
        self._fenced[store] = error.promised
        if self.phase is not Phase.PROMISING and any(
            policy.blocks(policy.stores & self._fenced.keys()) for policy in self._policies()
        ):
            self.error = error

    @property
    def decided_epoch(self) -> int:
        """The newest epoch that this source has decided, once it was open; 0 before.

        A store where another instance has begun a later epoch promises this source nothing. A
        source that opens knows of no epoch, and may take over from any.
        """
        return self._decided_epoch if self._was_open else 0

    def _policies(self) -> tuple[Policy, ...]:
        return self.membership.policies

    def overtake_epoch(self, now: float) -> int | None:
        """Return an epoch to register with anew if this registration leads nowhere; else None.

        - A store answered after the decision and had begun an epoch that the decision did not know.
          A wiped store may have forgotten a promise that the decision rested on.
        - A promise to another instance keeps a store away. That instance had the registration
          interval to win a blocking set, and did not.
        - A store that was needed to begin, or for kept messages, has gone since. Others may do.
        """
        if self.error is not None:
            return None
        if self._superseded:
            return self.epoch + 1
        if self._fenced and now >= self._fenced_at + self._interval:
            return max(*self._fenced.values(), self.epoch) + 1
        # The wait for promises does not count: none of it was time to begin.
        stuck_at = self._decided_at + _STUCK_INTERVALS * self._interval
        if self.phase in (Phase.BEGINNING, Phase.CONFIRMING, Phase.LOADING) and now >= stuck_at:
            return self.epoch + 1
        return None

    def wanted(self) -> tuple[str, ...]:
        """Return the stores to deal with now; others may be left alone."""
        names = [*self._own_stores, *sorted(self._policy.stores)]
        if self.phase is Phase.PROMISING:
            if self._was_open:
                names += sorted(self.membership.stores)
            newest = newest_begun(of_generation(self._promises()).values()).begun
            if newest.membership is not None:
                if self._follows_on(newest.membership):
                    names += sorted(newest.membership.stores)
            elif not self._moved:
                names += sorted(store for policy in self._previous for store in policy.stores)
            names += self._grants
        else:
            names += sorted(self.membership.stores | self._parting)
        return tuple(dict.fromkeys(names))

    def waiting_for(self, now: float) -> tuple[tuple[str, ...], float]:
        """Return the stores whose promises are waited for, and for how many seconds at most.

        0 seconds: until enough of them answer.
        """
        if self.phase is not Phase.PROMISING or now < self._started_at + self._moment:
            return (), 0.0
        heard = self._grants.keys() | self._protection.stores
        silent = tuple(
            store for store in self._awaited() if store not in heard and not self._hopeless(store)
        )
        return silent, max(0.0, self._started_at + self._interval - now)

    def waiting_for_identity(self, now: float) -> tuple[tuple[str, ...], float] | None:
        """Return the stores that protect another instance, and for how many seconds at least.

        inf seconds: that instance has its stream open. None: no such store is waited for.
        """
        stores = tuple(store for store in self.wanted() if store in self._protection.stores)
        if not stores or not self._is_kept_out(now) or self.error is not None:
            return None
        seconds = self._protection.ends_in(now)
        if seconds == inf and self._protection.until < inf:
            return None
        return stores, seconds

    def _hopeful(self) -> list[str]:
        return [s for s in self._awaited() if not self._hopeless(s) and s not in self._excused]

    def _awaited(self) -> list[str]:
        """Return the wanted stores that some policy names. Nobody waits for a replica."""
        newest = newest_begun(of_generation(self._promises()).values()).begun
        in_force = (*self.membership.policies, *newest.policies)
        named = named_by((self._declared, self._policy, *self._previous, *in_force))
        return [store for store in self.wanted() if store in named]

    def decide(self, now: float, own: OwnKnowledge) -> Decision | None:
        """Return what is kept, once enough stores have promised. The phase is BEGINNING then."""
        hopeful = self._hopeful()
        if self._is_kept_out(now):
            if not self._protection.is_worth_waiting_for(now):
                self.error = self._protection.refusal
            return None
        if not self._has_waited(now) and not all(store in self._grants for store in hopeful):
            return None
        promises = of_generation(self._promises())
        previous = () if self._moved else self._previous
        if not self._was_open:
            # Later the source waits instead: the stores may be changed back.
            self.error = never_stable(self._name, self._policy, previous, promises)
        if self.error is not None or not self._may_go_on(promises):
            return None
        wanted = self._wanted_policy(newest_begun(promises.values()).begun.policies)
        match decide(wanted, promises, self._behaviour, previous):
            case NeedMore():
                self._give_up_if(not any(store not in self._grants for store in hopeful))
            case Lost(lost, might_have):
                self._note_lost(lost.first, lost.last, might_have)
            case Decision() as decision:
                if self._agrees(decision, own):
                    self._adopt(decision, now)
                    return decision
        return None

    def _has_waited(self, now: float) -> bool:
        return now >= self._started_at + self._interval

    def _is_kept_out(self, now: float) -> bool:
        """Return whether stores that protect another instance keep this one from going on.

        Without a blocking set nothing can become stable, whatever the other stores say. Other
        stores that refuse are waited for as silent ones are.
        """
        refusing = self._protection.stores
        blocked = self._policy.blocks(refusing & self._policy.stores)
        return bool(refusing) and (blocked or self._has_waited(now))

    def _promises(self) -> dict[str, Promise]:
        return {store: grant.promise for store, grant in self._grants.items()}

    def _may_go_on(self, promises: Mapping[str, Promise]) -> bool:
        """Return whether this source may go on under the policies in force.

        They must be its own, or ones that its configuration names as previous.
        """
        membership = newest_begun(promises.values()).begun.membership
        if membership is None or self._follows_on(membership):
            return True
        vouching = {store for store, promise in promises.items() if not promise.limbo}
        if self._policy.blocks(vouching & self._policy.stores):
            self.error = PolicyNotInForce(
                str(self._name),
                ", and ".join(map(str, membership.policies)),
                str(self._declared),
                self._unnamed(membership),
            )
        return False

    def _unnamed(self, membership: Membership) -> str:
        """Return the stores in force as previous_policies has them, if they are a plain list of
        addresses; else empty.

        The name of a store without a name is its address.
        """
        stores = sorted(membership.stores)
        is_plain = all(
            policy.is_variant_of(Policy.majority_of(stores)) for policy in membership.policies
        )
        return ",".join(stores) if is_plain and all(":" in store for store in stores) else ""

    def _follows_on(self, membership: Membership) -> bool:
        return any(
            policy.is_variant_of(known)
            for policy in membership.policies
            for known in (self._declared, self._policy, *self._previous)
        )

    def _hopeless(self, store: str) -> bool:
        """Return whether waiting will not change the store's answer."""
        error = self._failures.get(store)
        return store not in self._grants and error is not None and not error.retryable

    def _give_up_if(self, nobody_is_left: bool) -> None:
        if self._was_open or not nobody_is_left:
            return
        refusals = [self._failures[store] for store in self.wanted() if self._hopeless(store)]
        if refusals:
            self.error = self.unfinished() if self._grants else refusals[0]

    def _agrees(self, decision: Decision, own: OwnKnowledge) -> bool:
        """Return whether no message is missing between what stores have and what the source has."""
        needed_upto = own.stable_upto
        if own.first_unstable is not None:
            needed_upto = max(needed_upto, own.first_unstable - 1)
        if own.first_unstable is not None and decision.losses.high >= own.first_unstable:
            # The lost messages must not be reported as stable: the source must do without them
            # first.
            self._note_lost(
                max(own.first_unstable, decision.losses.low),
                decision.losses.high,
                ("the publish store of this source; open it without that store",),
            )
            return False
        if needed_upto <= decision.kept_upto:
            return True
        if decision.begun.ended:
            # The stream that this source knows has ended.
            self.error = SourceDeleted(str(self._name), needed_upto)
            return False
        silent = tuple(store for store in self.wanted() if store not in self._grants)
        self._note_lost(decision.kept_upto + 1, needed_upto, silent)
        return False

    def _note_lost(self, first: int, last: int, might_have: Sequence[str]) -> None:
        self._lost = MissingMessages(str(self._name), first, last, ", ".join(might_have))
        if not might_have and not self._was_open:
            self.error = self._lost

    def _adopt(self, decision: Decision, now: float) -> None:
        self._decided_at = now
        self._begun_known = max(grant.promise.begun.epoch for grant in self._grants.values())
        self._decided_epoch = self.epoch
        self._generation = decision.begun.generation
        self.lineage = decision.begun.lineage.extended(decision.kept_upto, self.epoch)
        self._losses = self.lineage.parted(decision.losses)
        own = self._policy = self._wanted_policy(decision.begun.policies)
        earlier = () if self._moved else self._previous
        in_force = decision.begun.policies or tuple(dict.fromkeys((*earlier, own)))
        if in_force == (own,):
            # The own policy replaces that of the record: its list of backups may have changed.
            in_force = (own,)
        to_policies = tuple(dict.fromkeys((*in_force, own)))
        if own in in_force and 0 < self._advance_from == self._begun_known:
            to_policies = (own,)
        self.membership = Membership(in_force, to_policies, self._addresses(in_force, to_policies))
        self.phase = Phase.BEGINNING
        self._lost = None

    def _wanted_policy(self, in_force: Sequence[Policy]) -> Policy:
        """Return the policy to go to.

        A backup keeps its place, unless this source is just about to change that. Otherwise a
        restart would wait for members that the stream does without.
        """
        stands = len(in_force) == 1 and in_force[0].is_variant_of(self._declared)
        return in_force[0] if stands and not self._was_open else self._policy

    def _addresses(
        self, in_force: Sequence[Policy], to_policies: Sequence[Policy]
    ) -> tuple[tuple[str, str], ...]:
        named = Membership(tuple(in_force), tuple(to_policies)).stores
        return tuple((store, self.addresses.get(store, "")) for store in sorted(named))

    @property
    def final(self) -> bool:
        """Whether the begun record names the source's own policy and no other."""
        return self.membership.policies == (self._policy,)

    @property
    def changing(self) -> bool:
        """Whether the begun record names policies that it does not go to."""
        return not {*self.membership.from_policies} <= {*self.membership.to_policies}

    def begun_enough(self) -> bool:
        """Return whether the stores that have begun satisfy every policy that the record names."""
        begun = self._begun.keys()
        return all(policy.stable(begun, begun) for policy in self._policies())

    def confirm(self) -> None:
        """Let the record forget where it came from, because the begin counts."""
        self.membership = self.membership.confirmed()
        self.phase = Phase.CONFIRMING

    def confirmed_enough(self) -> bool:
        """Return whether every later recovery will find a record that was confirmed."""
        confirmed = {store for store, record in self._begun.items() if record == self.membership}
        return all(policy.stable(confirmed, confirmed) for policy in self._policies())

    def retire(self) -> None:
        """Drop all stores but those of the source's own policy: the stream has moved.

        The others are told so, if they answer. An old configuration that still runs somewhere then
        hears of it before it does any harm.
        """
        self._moved = True
        staying = {*self._own_stores, *self._policy.stores}
        self._parting = {
            store
            for store, record in self._begun.items()
            if store not in staying and record != self.membership
        }
        staying |= self._parting
        leaving = self._incarnations.keys() - staying
        for store in leaving | (self._failures.keys() - staying):
            self._grants.pop(store, None)
            self._begun.pop(store, None)
            self._failures.pop(store, None)
            self._incarnations.pop(store, None)
            self._fenced.pop(store, None)

    def loading(self) -> None:
        """Note that kept messages are being fetched."""
        self.phase = Phase.LOADING

    def streaming(self) -> None:
        """Note that the stream goes on."""
        self.phase = Phase.STREAMING
        self._was_open = True

    def _reason(self, store: str) -> str:
        unheard = "no answer yet"
        if store in self._disbelieved:
            unheard = (
                "other stores know its data directory as a former one of this store. If a copy of "
                "the store ran beside it, let only one of them run, and start this source again"
            )
        if self.addresses and store not in self.addresses:
            unheard = "its address is not known; name it in previous_policies"
        reason = str(self._failures.get(store, unheard))
        return reason if reason.startswith(store) else f"{store}: {reason}"

    def unfinished(self, taking: Set[str] = frozenset()) -> QuorateError:
        """Return why the registration is not complete, for a caller that stops waiting.

        taking: the stores that take the stream now, whatever was wrong with them before.
        """
        if self.error is not None:
            return self.error
        if self._protection.refusal is not None:
            return self._protection.refusal
        if self._lost is not None:
            return self._lost
        behind = {s for s in self._failures if self._begun.get(s) != self.membership}
        failing = (self._failures.keys() if self.phase is Phase.STREAMING else behind) - taking
        answered = [s for s in self.wanted() if s in self._grants and s not in failing]
        missing = [store for store in self.wanted() if store not in answered]
        reasons = [self._reason(store) for store in missing]
        limbo = [store for store in answered if self._grants[store].promise.limbo]
        reasons += [f"{store}: {self._grants[store].limbo_reason or 'in limbo'}" for store in limbo]
        keeping = [store for store, grant in self._grants.items() if not grant.promise.takes_data]
        reasons += [f"{store}: keeps no messages of this topic" for store in keeping]
        return NoQuorum(
            f"Registering source {self._name}",
            ", ".join(answered),
            ", ".join(missing),
            joined(reasons) or "too few stores have begun",
            ", ".join(limbo),
        )
