"""How a source registers: promise, decide, begin (DESIGN 4.2), for all stores together.

Pure. Which store is asked what comes out of `step`; answers and failures go in; what is kept comes
out of `decide`. A store that joins late takes the same steps as the others took. What happens to
the messages is not known here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorate.protocol.consensus import Behaviour
from quorate.protocol.errors import (
    ContentConflict,
    Fenced,
    InLimbo,
    InvalidArgument,
    MissingMessages,
    NoQuorum,
    NotRegistered,
    QuorateError,
    RegIdInUse,
    SourceActive,
    TopicRefused,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.lineage import NO_LINEAGE, Lineage
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange
from quorate.protocol.recovery import Decision, Lost, NeedMore, Promise, decide

_STUCK_INTERVALS = 10
"""After so many registration intervals between decision and stream the source decides anew."""


class Phase(enum.Enum):
    PROMISING = enum.auto()
    """Stores are asked to promise the epoch; nothing is decided."""
    BEGINNING = enum.auto()
    """Decided; not enough stores have begun."""
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
    losses: tuple[HeldRange, ...] = ()
    """What operators accepted as lost, so that every store hears of it."""


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
    ) -> None:
        self._name = name
        self._policy = policy
        self._stores = tuple(stores)
        self._behaviour = behaviour
        self._interval = interval
        self._started_at = 0.0
        self._was_open = False
        self._grants: dict[str, Grant] = {}
        self._begun: set[str] = set()
        self._failures: dict[str, QuorateError] = {}
        self._fenced: dict[str, int] = {}
        self._fenced_at = 0.0
        self._lost: MissingMessages | None = None
        self._begun_known = 0
        self._superseded = False
        self._incarnations: dict[str, tuple[str, bytes]] = {}
        self._said: dict[str, set[bytes]] = {}
        self._former: set[bytes] = set()
        self.phase = Phase.PROMISING
        self.epoch = 1
        self.lineage = NO_LINEAGE
        self._losses: tuple[HeldRange, ...] = ()
        self.membership = Membership((), (policy,))
        self.error: QuorateError | None = None
        """Set once the source can not go on, ever."""

    def start(self, now: float, epoch: int = 1) -> None:
        """Ask every store for a promise of this epoch; what was heard before is void."""
        self.phase = Phase.PROMISING
        self.epoch = max(epoch, self.epoch)
        self._started_at = now
        self._forget()

    def _forget(self) -> None:
        self._grants.clear()
        self._begun.clear()
        self._fenced.clear()
        self._lost = None
        self._superseded = False

    def step(self, store: str) -> Step:
        """What to ask of this store now."""
        if self.error is not None:
            return Hold()
        grant = self._grants.get(store)
        if grant is None or grant.promise.limbo:
            return AskPromise(self.epoch)
        if self.phase is Phase.PROMISING:
            return Hold()
        if store not in self._begun:
            return AskBegin(self.epoch, self.lineage, self.membership, self._losses)
        return OpenStream(self.epoch) if self.phase is Phase.STREAMING else Hold()

    def promised(self, store: str, epoch: int, grant: Grant) -> bool:
        """The store answered; answers for an older epoch are void.

        Returns whether the store came back with another incarnation than it had: then whatever the
        one before acknowledged is void.
        """
        if epoch != self.epoch:
            return False
        if not self._is_present(grant.store_name, grant.incarnation):
            return False
        former = self._incarnations.get(store)
        another = former is not None and former[1] != grant.incarnation
        if another:
            self._begun.discard(store)
        self._incarnations[store] = (grant.store_name, grant.incarnation)
        self._grants[store] = grant
        self._failures.pop(store, None)
        late = self.phase is not Phase.PROMISING
        if late and self._begun_known < grant.promise.begun_epoch < self.epoch:
            self._superseded = True
        return another

    def known(self, store_name: str, incarnation: bytes, former: Iterable[bytes]) -> list[str]:
        """A store says which incarnation another one has, and which that, or itself, had before.

        incarnation: empty if it speaks of itself: its own answers say which it has now.
        Returns who was dealt with as another, by the names that policies use: their promises,
        begins and acknowledgements are void. More than one if a disk was copied.
        """
        if incarnation:
            self._said.setdefault(store_name, set()).add(incarnation)
        self._former.update(former)
        gone = [
            store
            for store, (name, disk) in self._incarnations.items()
            if not self._is_present(name, disk)
        ]
        for store in gone:
            del self._incarnations[store]
            self._grants.pop(store, None)
            self._begun.discard(store)
        return gone

    def _is_present(self, store_name: str, incarnation: bytes) -> bool:
        """Whether nobody knows better; who says otherwise may be behind, but then some store will
        say so: without that the source waits.
        """
        said = self._said.get(store_name, set()) - self._former
        return incarnation not in self._former and said <= {incarnation}

    def begun(self, store: str, epoch: int) -> bool:
        """The store has begun. Returns whether that was for the epoch in force."""
        if epoch != self.epoch or store not in self._grants:
            return False
        self._begun.add(store)
        self._fenced.pop(store, None)
        return True

    def grant(self, store: str) -> Grant | None:
        """What the store answered in this epoch."""
        return self._grants.get(store)

    def unused_promises(self) -> set[str]:
        """Stores that promised the epoch and have nothing of this source, if nobody was told more.

        Once a begin may be under way a promise is needed.
        """
        if self.phase is not Phase.PROMISING or self._was_open or self.lineage.terms:
            return set()
        return {
            store
            for store, grant in self._grants.items()
            if not grant.promise.begun_epoch and not grant.promise.limbo
        }

    def expected(self, store: str) -> bool:
        """The store promised and nothing has gone wrong with it since."""
        return (
            store in self._grants
            and store not in self._failures
            and not self._grants[store].promise.limbo
        )

    def failed(self, store: str, error: QuorateError, now: float) -> None:
        """A call to the store failed, or its stream ended."""
        self._failures[store] = error
        match error:
            case Fenced() if error.epoch < self.epoch:
                # The end of a stream of our own older epoch says nothing about this one.
                del self._failures[store]
            case Fenced() if self.phase is Phase.PROMISING:
                self.epoch = max(self.epoch, error.promised) + 1
                self._forget()
                del self._failures[store]
            case Fenced():
                self._note_fence(store, error, now)
            case NotRegistered() | InLimbo():
                self._grants.pop(store, None)
                self._begun.discard(store)
            case ContentConflict():
                self.error = error
            case RegIdInUse() | TopicRefused() | InvalidArgument() if not self._was_open:
                self.error = error

    def _note_fence(self, store: str, error: Fenced, now: float) -> None:
        """Another instance registers: it has won once the rest can make nothing stable."""
        if not self._fenced:
            self._fenced_at = now
        self._fenced[store] = error.promised
        if any(policy.blocks(policy.stores & self._fenced.keys()) for policy in self._policies()):
            self.error = error

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
        stuck_at = self._started_at + _STUCK_INTERVALS * self._interval
        if self.phase in (Phase.BEGINNING, Phase.LOADING) and now >= stuck_at:
            return self.epoch + 1
        return None

    def decide(self, now: float, own: OwnKnowledge) -> Decision | None:
        """What is kept, once enough stores have promised; the phase is BEGINNING then."""
        hopeful = [store for store in self._stores if not self._hopeless(store)]
        waited = now >= self._started_at + self._interval
        if waited:
            active = [e for e in self._failures.values() if isinstance(e, SourceActive)]
            if active:
                self.error = active[0]
                return None
        elif not all(store in self._grants for store in hopeful):
            return None
        promises = {store: grant.promise for store, grant in self._grants.items()}
        match decide(self._policy, promises, self._behaviour):
            case NeedMore():
                self._give_up_if(not any(store not in self._grants for store in hopeful))
            case Lost(lost, might_have):
                self._note_lost(lost.first, lost.last, might_have)
            case Decision() as decision:
                if self._agrees(decision, own):
                    self._adopt(decision)
                    return decision
        return None

    def _hopeless(self, store: str) -> bool:
        """The store's answer will not change by waiting."""
        error = self._failures.get(store)
        return store not in self._grants and error is not None and not error.retryable

    def _give_up_if(self, nobody_is_left: bool) -> None:
        if self._was_open or not nobody_is_left:
            return
        refusals = [self._failures[store] for store in self._stores if self._hopeless(store)]
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
        silent = tuple(store for store in self._stores if store not in self._grants)
        self._note_lost(decision.kept_upto + 1, needed_upto, silent)
        return False

    def _note_lost(self, first: int, last: int, might_have: Sequence[str]) -> None:
        self._lost = MissingMessages(str(self._name), first, last, ", ".join(might_have))
        if not might_have and not self._was_open:
            self.error = self._lost

    def _adopt(self, decision: Decision) -> None:
        self._begun_known = max(grant.promise.begun_epoch for grant in self._grants.values())
        self.lineage = decision.lineage.extended(decision.kept_upto, self.epoch)
        self._losses = self.lineage.parted(decision.losses)
        in_force = decision.policies or (self._policy,)
        old = self.membership
        if in_force == (self._policy,):
            self.membership = Membership(in_force, in_force)
        elif self.membership.to_policies == (self._policy,) and self._was_ours(decision, old):
            # Enough stores hold the record that goes to our policy alone: it may now forget
            # where it came from.
            self.membership = Membership((self._policy,), (self._policy,))
        elif self._was_ours(decision, old):
            self.membership = Membership(old.to_policies, (self._policy,))
        else:
            to_policies = tuple(dict.fromkeys((*in_force, self._policy)))
            self.membership = Membership(in_force, to_policies)
        self.phase = Phase.BEGINNING
        self._lost = None

    def _was_ours(self, decision: Decision, old: Membership) -> bool:
        """The newest begun record is the one that this source made stable just before."""
        return self._was_open and decision.policies == old.policies

    @property
    def final(self) -> bool:
        """The begun record names the source's own policy and no other."""
        return self.membership.policies == (self._policy,)

    def begun_enough(self) -> bool:
        """Whether the stores that have begun satisfy every policy that the record names."""
        return all(policy.stable(self._begun, self._begun) for policy in self._policies())

    def loading(self) -> None:
        self.phase = Phase.LOADING

    def streaming(self) -> None:
        self.phase = Phase.STREAMING
        self._was_open = True

    def _reason(self, store: str) -> str:
        reason = str(self._failures.get(store, "no answer yet"))
        return reason if reason.startswith(store) else f"{store}: {reason}"

    def unfinished(self) -> QuorateError:
        """Why the registration is not complete, for a caller who will wait no longer."""
        if self.error is not None:
            return self.error
        if self._lost is not None:
            return self._lost
        answered = [store for store in self._stores if store in self._grants]
        silent = [store for store in self._stores if store not in self._grants]
        reasons = [self._reason(store) for store in silent]
        limbo = [store for store, grant in self._grants.items() if grant.promise.limbo]
        reasons += [f"{store}: in limbo" for store in limbo]
        return NoQuorum(
            f"Registering source {self._name}",
            ", ".join(answered),
            ", ".join(silent),
            "; ".join(reasons) or "too few stores have begun",
        )
