"""How a source registers: promise, decide, begin (DESIGN 4.2), for all stores together.

Pure. Which store is asked what comes out of `step`; answers and failures go in; what is kept comes
out of `decide`. A store that joins late takes the same steps as the others took. What happens to
the messages is not known here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    DELETED_HERE,
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
    TopicRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import Incarnations
from quorate.protocol.lineage import NO_LINEAGE, Lineage
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import (
    Decision,
    Lost,
    NeedMore,
    Promise,
    decide,
    ended_upto,
    newest_begun,
    without_ended,
)
from quorate.source.protocol.state_only import never_stable

_STUCK_INTERVALS = 10
"""After so many registration intervals between decision and stream the source decides anew."""


class Phase(enum.Enum):
    PROMISING = enum.auto()
    """Stores are asked to promise the epoch; nothing is decided."""
    BEGINNING = enum.auto()
    """Decided; not enough stores have begun."""
    CONFIRMING = enum.auto()
    """Enough have begun, so that the begin counts: the record forgets where it came from."""
    LOADING = enum.auto()
    """Enough have begun; what was kept but is not stable is being fetched."""
    STREAMING = enum.auto()


@dataclass(frozen=True, slots=True)
class AskPromise:
    epoch: int


@dataclass(frozen=True, slots=True)
class AskBegin:
    epoch: int
    lineage: Lineage
    membership: Membership
    incarnation: bytes
    """Of the store, which promised the epoch: the data directory whose answer was decided on."""
    losses: tuple[HeldRange, ...] = ()
    """What operators accepted as lost, so that every store hears of it."""
    ended_epoch: int = 0
    """Up to here epochs were of streams that are deleted, so that every store hears of it."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    epoch: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Nothing to ask of this store until something changes."""


Step = AskPromise | AskBegin | OpenStream | Hold


@dataclass(frozen=True, slots=True)
class Grant:
    """A store's answer to a promise."""

    reg_id: int
    incarnation: bytes
    promise: Promise
    store_name: str = ""
    """What the store calls itself; policies may call it otherwise."""
    limbo_reason: str = ""
    """Why it can not vouch for what it lacks; for people."""
    addresses: tuple[tuple[str, str], ...] = ()
    """Name and address of stores, as this store was told them."""


@dataclass(frozen=True, slots=True)
class OwnKnowledge:
    """What the source itself knows of its stream, from its publish store or from living on."""

    stable_upto: int
    """The highest number that it knows was stable."""
    first_unstable: int | None
    """The first message that it still has and would send again."""


class Registration:
    """One source's registration with its stores; epochs only go up."""

    def __init__(
        self,
        name: SourceName,
        policy: Policy,
        stores: Sequence[str],
        behaviour: Behaviour,
        interval: float,
        previous: Sequence[Policy] = (),
    ) -> None:
        """stores: those that the source always deals with, first in every list.

        previous: the policies of earlier configurations, until this one was confirmed.
        """
        self._name = name
        self._declared = policy
        self._policy = policy
        self._own_stores = tuple(stores)
        self._previous = tuple(previous)
        self._behaviour = behaviour
        self._interval = interval
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
        self._fenced_at = 0.0
        self._lost: MissingMessages | None = None
        self._ended_epoch = 0
        self._begun_known = 0
        self._decided_epoch = 0
        self._superseded = False
        self._incarnations: dict[str, tuple[str, bytes]] = {}
        self._known = Incarnations()
        self._disbelieved: set[str] = set()
        self.phase = Phase.PROMISING
        self.epoch = 1
        self.lineage = NO_LINEAGE
        self._losses: tuple[HeldRange, ...] = ()
        self.membership = Membership((), (policy,))
        self.addresses: dict[str, str] = {}
        """Where each store is, as far as anybody said."""
        self.error: QuorateError | None = None
        """Set once the source can not go on, ever."""

    @property
    def declared(self) -> Policy:
        """The policy that the source is configured with."""
        return self._declared

    @property
    def policy(self) -> Policy:
        """The policy that this source wants: the declared one, perhaps with backups in it."""
        return self._policy

    def retarget(self, policy: Policy) -> None:
        """Want this policy instead; the next registration goes to it."""
        self._policy = policy

    def start(self, now: float, epoch: int = 1, advance: bool = False) -> None:
        """Ask every store for a promise of this epoch; what was heard before is void.

        advance: what the policies in force made stable, the source's own has too: it may go on
        alone.
        """
        if self._was_open:
            # The first registration has waited for them; that is enough.
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
        """What to ask of this store now."""
        if self.error is not None:
            return Hold()
        grant = self._grants.get(store)
        if grant is None or grant.promise.limbo:
            return AskPromise(self.epoch)
        if self.phase is Phase.STREAMING and self._begun.get(store) == self.membership:
            return OpenStream(self.epoch)
        if self.phase is Phase.PROMISING:
            # What was missing may be there again, or may have been accepted as lost meanwhile.
            again = self._lost is not None or self._waits_longer
            return AskPromise(self.epoch) if again else Hold()
        if self._begun.get(store) == self.membership and not self._waits_longer:
            return Hold()
        return AskBegin(
            self.epoch,
            self.lineage,
            self.membership,
            grant.incarnation,
            self._losses,
            self._ended_epoch,
        )

    def time_passes(self, now: float) -> None:
        """Who waits for some stores longer than that shows the others that it lives: else what it
        waits to go on with may expire there."""
        self._waits_longer = now >= self._started_at + self._interval

    def promised(self, store: str, epoch: int, grant: Grant) -> bool:
        """The store answered; answers for an older epoch are void.

        Returns whether the store came back with another incarnation than it had: then whatever the
        one before acknowledged is void.
        """
        if epoch != self.epoch:
            return False
        if not self._known.is_present(grant.store_name, grant.incarnation):
            self._disbelieved.add(store)
            return False
        self._disbelieved.discard(store)
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
        """Whether the decision did not know what this store says: of a newer begin, or that the
        stream it goes on with was deleted since other stores promised."""
        ended = promise.ended_epoch
        was_ended = self._ended_epoch < ended and self.lineage.reaches_back_to(ended)
        return was_ended or self._begun_known < promise.begun_epoch < self.epoch

    def known(
        self, store_name: str, incarnation: bytes, former: Iterable[bytes], teller: str
    ) -> list[str]:
        """A store says who another one is, or itself was: see Incarnations.heard.

        Returns who was dealt with as another, by the names that policies use: their promises,
        begins and acknowledgements are void. More than one if a disk was copied.
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
        """The store has begun, with this record (None: with the present one).

        Returns whether that was for the epoch in force.
        """
        if epoch != self.epoch or store not in self._grants:
            return False
        self._begun[store] = membership or self.membership
        self._parting.discard(store)
        self._fenced.pop(store, None)
        return True

    def takes_data(self, store: str) -> bool:
        """The store keeps messages of the topic, as it said when it promised."""
        return self._grants[store].promise.takes_data

    def has_begun(self, store: str) -> bool:
        """The store has begun this epoch."""
        return store in self._begun

    def grant(self, store: str) -> Grant | None:
        """What the store answered in this epoch."""
        return self._grants.get(store)

    def is_of_the_same(self, store: str, grant: Grant) -> bool:
        """Whether this answer, in which the store has begun the epoch in force, is of the data
        directory that it had when it promised it.

        Of a former one the answer is void, though the store has joined again since.
        """
        present = self.grant(store)
        return (
            grant.promise.begun_epoch == self.epoch
            and present is not None
            and present.incarnation == grant.incarnation
        )

    def unused_promises(self) -> set[str]:
        """Stores that promised the epoch, if nobody was told more: they may forget that, or need
        at least not keep the next instance out.

        Once a begin may be under way a promise is needed.
        """
        if self.phase is not Phase.PROMISING or self._was_open or self.lineage.terms:
            return set()
        return {store for store, grant in self._grants.items() if not grant.promise.limbo}

    def expected(self, store: str) -> bool:
        """The store promised and nothing has gone wrong with it since."""
        return store not in self._parting and (
            store in self._grants
            and store not in self._failures
            and not self._grants[store].promise.limbo
        )

    def failed(self, store: str, error: QuorateError, now: float) -> None:
        """A call to the store failed, or its stream ended."""
        self._failures[store] = error
        self._parting.discard(store)
        match error:
            case Fenced() if error.epoch < self.epoch:
                # The end of a stream of our own older epoch says nothing about this one.
                del self._failures[store]
            case Fenced() if error.promised < self.epoch:
                # Not this epoch is too low: another instance has begun one since our last.
                self.error = Fenced(str(self._name), self.lineage.epoch, error.promised)
            case Fenced() if self.phase is Phase.PROMISING and not self._was_open:
                self.epoch = max(self.epoch, error.promised) + 1
                self._forget()
                del self._failures[store]
            case Fenced():
                self._note_fence(store, error, now)
            case NotRegistered() | InLimbo():
                self._grants.pop(store, None)
                self._begun.pop(store, None)
            case ContentConflict() | Deregistered():
                self.error = error
            case RegIdInUse() | TopicRefused() | InvalidArgument() if not self._was_open:
                self.error = error

    def _note_fence(self, store: str, error: Fenced, now: float) -> None:
        """Another instance registers: it has won once the rest can make nothing stable.

        One that was open, and is asking for promises itself, leaves it the time to win: an epoch
        that is higher still would fence it while it opens.
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

        Stores where another instance has begun a later one promise it nothing. Who opens knows of
        no epoch, and may take over from any.
        """
        return self._decided_epoch if self._was_open else 0

    def _policies(self) -> tuple[Policy, ...]:
        return self.membership.policies

    def overtake_epoch(self, now: float) -> int | None:
        """An epoch to register with anew, because this registration leads nowhere.

        A store that answered after the decision had begun an epoch that the decision did not know
        of: a promise that it rested on may have been forgotten by a store that was wiped. Or a
        promise to another instance that went nowhere keeps a store away; who made it had the
        registration interval to win over a blocking set. Or a store that was needed to begin, or
        for the messages that were kept, has gone meanwhile: others may do.
        """
        if self.error is not None:
            return None
        if self._superseded:
            return self.epoch + 1
        if self._fenced and now >= self._fenced_at + self._interval:
            return max(*self._fenced.values(), self.epoch) + 1
        # However long it waited for promises: none of that was time to begin.
        stuck_at = self._decided_at + _STUCK_INTERVALS * self._interval
        if self.phase in (Phase.BEGINNING, Phase.CONFIRMING, Phase.LOADING) and now >= stuck_at:
            return self.epoch + 1
        return None

    def wanted(self) -> tuple[str, ...]:
        """The stores to deal with now; others may be left alone."""
        names = [*self._own_stores, *sorted(self._policy.stores)]
        if self.phase is Phase.PROMISING:
            if self._was_open:
                names += sorted(self.membership.stores)
            newest = newest_begun(without_ended(self._promises()).values())
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
        """The stores whose promises are waited for, and for how many seconds at most.

        0 seconds: until enough of them answer.
        """
        if self.phase is not Phase.PROMISING:
            return (), 0.0
        silent = tuple(store for store in self._hopeful() if store not in self._grants)
        return silent, max(0.0, self._started_at + self._interval - now)

    def _hopeful(self) -> list[str]:
        return [
            store
            for store in self.wanted()
            if not self._hopeless(store) and store not in self._excused
        ]

    def decide(self, now: float, own: OwnKnowledge) -> Decision | None:
        """What is kept, once enough stores have promised; the phase is BEGINNING then."""
        hopeful = self._hopeful()
        waited = now >= self._started_at + self._interval
        if waited:
            active = [e for e in self._failures.values() if isinstance(e, SourceActive)]
            if active:
                self.error = active[0]
                return None
        elif not all(store in self._grants for store in hopeful):
            return None
        promises = without_ended(self._promises())
        previous = () if self._moved else self._previous
        if not self._was_open:
            # Later it would be waited for: whoever changed the stores may change them back.
            self.error = never_stable(self._name, self._policy, previous, promises)
        if self.error is not None or not self._may_go_on(promises):
            return None
        membership = newest_begun(promises.values()).membership
        wanted = self._wanted_policy(membership.policies if membership is not None else ())
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

    def _promises(self) -> dict[str, Promise]:
        return {store: grant.promise for store, grant in self._grants.items()}

    def _may_go_on(self, promises: Mapping[str, Promise]) -> bool:
        """Whether the policies in force are this source's, or such that it says it follows on."""
        membership = newest_begun(promises.values()).membership
        if membership is None or self._follows_on(membership):
            return True
        vouching = {store for store, promise in promises.items() if not promise.limbo}
        if self._policy.blocks(vouching & self._policy.stores):
            self.error = PolicyNotInForce(
                str(self._name), ", and ".join(map(str, membership.policies)), str(self._declared)
            )
        return False

    def _follows_on(self, membership: Membership) -> bool:
        return any(
            policy.is_variant_of(known)
            for policy in membership.policies
            for known in (self._declared, self._policy, *self._previous)
        )

    def _hopeless(self, store: str) -> bool:
        """The store's answer will not change by waiting."""
        error = self._failures.get(store)
        return store not in self._grants and error is not None and not error.retryable

    def _give_up_if(self, nobody_is_left: bool) -> None:
        if self._was_open or not nobody_is_left:
            return
        refusals = [self._failures[store] for store in self.wanted() if self._hopeless(store)]
        if refusals:
            self.error = self.unfinished() if self._grants else refusals[0]

    def _agrees(self, decision: Decision, own: OwnKnowledge) -> bool:
        """Whether nothing lies between what the stores have and what the source has itself."""
        needed_upto = own.stable_upto
        if own.first_unstable is not None:
            needed_upto = max(needed_upto, own.first_unstable - 1)
        if own.first_unstable is not None and decision.losses.high >= own.first_unstable:
            # Nobody may be told that these are stable: the source must do without them first.
            self._note_lost(
                max(own.first_unstable, decision.losses.low),
                decision.losses.high,
                ("the publish store of this source; open it without that store",),
            )
            return False
        if needed_upto <= decision.kept_upto:
            return True
        if not decision.policies and ended_upto(self._promises().values()):
            # A blocking set knows of no stream, and that one was deleted: so it was this one.
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
        self._begun_known = max(grant.promise.begun_epoch for grant in self._grants.values())
        self._decided_epoch = self.epoch
        self._ended_epoch = max(self._ended_epoch, ended_upto(self._promises().values()))
        self.lineage = decision.lineage.extended(decision.kept_upto, self.epoch)
        self._losses = self.lineage.parted(decision.losses)
        own = self._policy = self._wanted_policy(decision.policies)
        earlier = () if self._moved else self._previous
        in_force = decision.policies or tuple(dict.fromkeys((*earlier, own)))
        if in_force == (own,):
            # Not the one in the record: who may stand in can have changed.
            in_force = (own,)
        to_policies = tuple(dict.fromkeys((*in_force, own)))
        if own in in_force and 0 < self._advance_from == self._begun_known:
            to_policies = (own,)
        self.membership = Membership(in_force, to_policies, self._addresses(in_force, to_policies))
        self.phase = Phase.BEGINNING
        self._lost = None

    def _wanted_policy(self, in_force: Sequence[Policy]) -> Policy:
        """The one to go to: a backup stands in still, unless this source is just about to change
        that. Else a restart would wait for members that the stream does without."""
        stands = len(in_force) == 1 and in_force[0].is_variant_of(self._declared)
        return in_force[0] if stands and not self._was_open else self._policy

    def _addresses(
        self, in_force: Sequence[Policy], to_policies: Sequence[Policy]
    ) -> tuple[tuple[str, str], ...]:
        named = Membership(tuple(in_force), tuple(to_policies)).stores
        return tuple((store, self.addresses.get(store, "")) for store in sorted(named))

    @property
    def final(self) -> bool:
        """The begun record names the source's own policy and no other."""
        return self.membership.policies == (self._policy,)

    @property
    def changing(self) -> bool:
        """The begun record names policies that it does not go to."""
        return not {*self.membership.from_policies} <= {*self.membership.to_policies}

    def begun_enough(self) -> bool:
        """Whether the stores that have begun satisfy every policy that the record names."""
        begun = self._begun.keys()
        return all(policy.stable(begun, begun) for policy in self._policies())

    def confirm(self) -> None:
        """The begin counts; the record forgets where it came from."""
        self.membership = self.membership.confirmed()
        self.phase = Phase.CONFIRMING

    def confirmed_enough(self) -> bool:
        """Whether later recoveries are sure to find a record that was confirmed."""
        confirmed = {store for store, record in self._begun.items() if record == self.membership}
        return all(policy.stable(confirmed, confirmed) for policy in self._policies())

    def retire(self) -> None:
        """The stream has moved: only the stores of the source's own policy matter from now on.

        The others are told so, if they answer: an old configuration that somebody still runs then
        hears of it before it has done any harm.
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
        self.phase = Phase.LOADING

    def streaming(self) -> None:
        self.phase = Phase.STREAMING
        self._was_open = True

    def _reason(self, store: str) -> str:
        unheard = "no answer yet"
        if store in self._disbelieved:
            unheard = (
                "it answers from a data directory that other stores know as a former one of it. If "
                "a copy of it ran beside it, see that one runs alone, and start this source again"
            )
        if self.addresses and store not in self.addresses:
            unheard = "nobody knows where it is; name it in previous_policies"
        reason = str(self._failures.get(store, unheard))
        return reason if reason.startswith(store) else f"{store}: {reason}"

    def unfinished(self, taking: Set[str] = frozenset()) -> QuorateError:
        """Why the registration is not complete, for a caller who will wait no longer.

        taking: the stores that take the stream now, whatever was wrong with them before.
        """
        if self.error is not None:
            return self.error
        if self._lost is not None:
            return self._lost
        behind = {s for s in self._failures if self._begun.get(s) != self.membership}
        failing = (self._failures.keys() if self.phase is Phase.STREAMING else behind) - taking
        answered = [s for s in self.wanted() if s in self._grants and s not in failing]
        missing = [store for store in self.wanted() if store not in answered]
        reasons = [self._reason(store) for store in missing]
        limbo = [store for store in answered if self._grants[store].promise.limbo]
        reasons += [f"{store}: {self._grants[store].limbo_reason or 'in limbo'}" for store in limbo]
        deleted = [store for store in limbo if self._grants[store].limbo_reason == DELETED_HERE]
        keeping = [store for store, grant in self._grants.items() if not grant.promise.takes_data]
        reasons += [f"{store}: keeps no messages of this topic" for store in keeping]
        return NoQuorum(
            f"Registering source {self._name}",
            ", ".join(answered),
            ", ".join(missing),
            "; ".join(reasons) or "too few stores have begun",
            ", ".join(limbo),
            ", ".join(deleted),
        )
