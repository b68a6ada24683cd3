"""How a receiver registers with the stores of a source, and how it stays registered (DESIGN 4.4).

Pure. `register` and `keep_house` begin what is to be done; what to ask of which stores, or for how
long to rest, comes out of `step`; answers and failures go in, until nothing is under way any more.
What came of it is in `answers`, `joined` and `error`, and `events` tell of it. Which of several
instances of one receiver goes on is decided here; where it starts is not.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from quorate.protocol.consensus import enough_for_receivers
from quorate.protocol.errors import (
    DELETED_HERE,
    FORMER_DIRECTORY,
    Fenced,
    InLimbo,
    QuorateError,
    ReceiverActive,
    RegIdInUse,
    Unreachable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import replaced
from quorate.protocol.limits import NOTHING
from quorate.protocol.policy import Policy
from quorate.receiver.protocol.start_position import (
    StoreAnswer,
    vouching,
)

REST_SECONDS = 0.02
CONTEST_SECONDS = 0.1


def without_outdated(
    answers: Mapping[str, StoreAnswer], ended_epoch: int
) -> tuple[dict[str, StoreAnswer], frozenset[str]]:
    """The answers of stores that know that the receiver had ended up to there, and the others."""
    knowing = {store: each for store, each in answers.items() if each.told_ended >= ended_epoch}
    return knowing, frozenset(answers) - knowing.keys()


def unspent(epoch: int, answers: Mapping[str, StoreAnswer]) -> int:
    """This epoch, or one above all in which any receiver was over, as far as the stores know.

    An instance of this receiver that is over may have been frozen since. Where its end is forgotten
    it must not be taken for this one, which has acknowledged less.
    """
    spent = max((each.spent_epoch for each in answers.values()), default=0)
    return max(epoch, spent + 1)


def over_before(epoch: int, ended_epoch: int, answers: Mapping[str, StoreAnswer]) -> int:
    """Up to where registrations are over, once one begins above this epoch.

    A receiver that has acknowledged nothing has done nothing in lower ones. But where a receiver
    was over in one of them, it may have been frozen since, and wake up just now: what it
    acknowledges is not this receiver's. It finds a row of its epoch at a store with which an
    instance had come in that, and went before it could take another.
    """
    told = answers.values()
    if any(not each.is_new and each.acknowledged_upto > NOTHING for each in told):
        return ended_epoch
    return max(ended_epoch, min(epoch, max((each.spent_epoch for each in told), default=0)))


def is_replaced(policy: Policy, joined: Set[str], newer: Set[str]) -> bool:
    """Whether an instance that these stores are joined by is over, as those have a newer one.

    It is if they are enough for that to have begun. And if this one has too few, and can not have
    enough any more: else each would wait for what the other one has.
    """
    if enough_for_receivers(policy, newer):
        return True
    left = policy.stores - newer
    return not (enough_for_receivers(policy, joined) or enough_for_receivers(policy, left))


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """What a store is asked that is to register this instance."""

    source: SourceName
    session_id: int
    epoch: int
    instance: bytes
    ended_epoch: int
    """Up to there registrations of this receiver are over."""
    spent_epoch: int
    """The same of all receivers of the source."""
    take_over: bool


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Ask each of these stores, all at once; until there is another step, then no more."""

    stores: tuple[str, ...]
    request: RegistrationRequest


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Ask nothing for some time, which chance decides: no longer than so many seconds."""

    at_most: float


Step = Ask | Rest


@dataclass(frozen=True, slots=True)
class Refused:
    """A store does not register the receiver; told once for each kind of reason."""

    store: str
    error: QuorateError


@dataclass(frozen=True, slots=True)
class EpochLeft:
    """It registers above all epochs in which any receiver of the source was over."""

    over: int
    """If not 0: up to there this receiver is over by that."""


@dataclass(frozen=True, slots=True)
class OutdatedForgotten:
    """These stores had not heard yet that this receiver had ended; what they said is void."""

    stores: frozenset[str]


@dataclass(frozen=True, slots=True)
class NewerFound:
    """A store has a newer instance."""

    store: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A store has registered an instance that runs: what it says of the stream may be news."""

    store: str
    answer: StoreAnswer


@dataclass(frozen=True, slots=True)
class TooFewTake:
    """Too few stores take this instance still: those that do now are told nothing yet."""


@dataclass(frozen=True, slots=True)
class Joined:
    """From now on these stores are told what was consumed: enough take this instance."""

    stores: frozenset[str]


@dataclass(frozen=True, slots=True)
class Contested:
    """Another instance has this one's epoch at some store."""

    error: Fenced


Event = (
    Refused
    | EpochLeft
    | OutdatedForgotten
    | NewerFound
    | Answered
    | TooFewTake
    | Joined
    | Contested
)


class Phase(enum.Enum):
    IDLE = enum.auto()
    """Nothing is under way."""
    REGISTERING = enum.auto()
    """Every store is asked, in an epoch that suits all that answer."""
    JOINING = enum.auto()
    """Those that do not know this instance are asked, one after the other, in its epoch."""
    CONFIRMING = enum.auto()
    """It is asked whether enough take it still, since those have that it joins."""
    CONTESTING = enum.auto()
    """Another instance has this one's epoch somewhere: all are asked in a higher one."""
    COMPARING = enum.auto()
    """Somebody has that one as well: all are asked who is how far."""


class Registration:
    """One receiver's registration with the stores of one source; its epoch only goes up."""

    def __init__(
        self,
        source: SourceName,
        stores: Sequence[tuple[str, str]],
        policy: Policy,
        session_id: int,
        instance: bytes,
        interval: float,
        *,
        take_over: bool = False,
    ) -> None:
        """stores: name and address of each of the source's.

        interval: those that say nothing hold it up for no longer, in seconds, if it can go on
        without them.
        """
        self._source = source
        self._session_id = session_id
        self._interval = interval
        self._take_over = take_over
        self._policy = policy
        self._new_at: set[str] = set()
        """Stores that know the receiver from this instance only."""
        self._newer_at: dict[str, int] = {}
        """Stores that have registered a newer instance, and its epoch."""
        self._anothers: set[str] = set()
        """Stores that have another instance in this one's epoch."""
        self._reasons: dict[str, QuorateError] = {}
        self._ask: Ask | None = None
        self._rest: Rest | None = None
        self._awaited: set[str] = set()
        self._held: dict[str, int] = {}
        """Of the stores asked the epoch that they hold against this one; 0: they registered it."""
        self._until = 0.0
        self._unjoined: list[str] = []
        self._joining: set[str] = set()
        self._has_left = False
        self.phase = Phase.IDLE
        self.stores = dict(stores)
        """Where each store of the source is."""
        self.instance = instance
        self.epoch = 1
        """Of the registration: above any that a store had for this receiver."""
        self.ended_epoch = 0
        """Up to there registrations of this identity are over, as far as a store has said."""
        self.spent_epoch = 0
        """The same of all receivers of the source."""
        self.answers: dict[str, StoreAnswer] = {}
        """By name, those that know the receiver in this epoch."""
        self.joined: frozenset[str] = frozenset()
        """Of these the stores that are told what was consumed: enough of them have taken this
        instance together, so that one that was over and was frozen since has heard of it."""
        self.events: list[Event] = []
        self.error: QuorateError | None = None
        """Set once the receiver can not go on, ever."""

    @property
    def in_limbo(self) -> frozenset[str]:
        """Stores that answered, or refused to, because they can not vouch for what they lack."""
        refusing = (name for name, why in self._reasons.items() if isinstance(why, InLimbo))
        return (frozenset(self.answers) - vouching(self.answers)).union(refusing)

    @property
    def deleted(self) -> frozenset[str]:
        """Of those in limbo: who deleted the source, and waits for others that may have it."""
        reasons = self._reasons.items()
        return frozenset(
            name for name, why in reasons if isinstance(why, InLimbo) and why.reason == DELETED_HERE
        )

    @property
    def reg_id(self) -> int:
        """The receiver's at its stores; 0 if they assigned different ones."""
        reg_ids = {answer.reg_id for answer in self.answers.values()}
        return reg_ids.pop() if len(reg_ids) == 1 else 0

    @property
    def enough(self) -> bool:
        """Whether those that answered settle where the receiver starts."""
        return enough_for_receivers(self._policy, vouching(self.answers))

    # What is to be done.

    def source_has(self, stores: Sequence[tuple[str, str]], policy: Policy) -> None:
        """The source has these stores and this policy now: other stores have no say any more."""
        self.stores, self._policy = dict(stores), policy
        for store in self.answers.keys() - self.stores.keys():
            self.forget(store)

    def register(self) -> None:
        """Try every store once, in an epoch that suits all that answer; one in limbo is asked
        again. What comes of it is an error if it is for another instance that too few register it.
        """
        self.phase, self._has_left = Phase.REGISTERING, False

    def keep_house(self) -> None:
        """Register in the epoch in force with stores that were away, or do not know this instance
        any more. They are told what was consumed if enough stores still take it.

        This instance may have been deregistered, and replaced, while it was frozen, out of the
        reach of these. Whoever took its place is known to a stable set: one has to take it again.
        """
        self.phase = Phase.JOINING
        self._unjoined = [store for store in self.stores if store not in self.joined]
        self._joining = set()

    def forget(self, store: str) -> None:
        """The store does not know this receiver any more."""
        self.answers.pop(store, None)
        self.joined -= {store}

    # What stores say.

    def answered(self, ask: Ask, store: str, answer: StoreAnswer) -> None:
        """The store has registered this instance."""
        if not self._awaits(ask, store):
            return
        self._held[store] = 0
        self._newer_at.pop(store, None)
        self._anothers.discard(store)
        self.ended_epoch = max(answer.told_ended, self.ended_epoch)
        self.spent_epoch = max(answer.spent_epoch, self.spent_epoch)
        if not answer.known:
            self._new_at.add(store)
        told_ended = max(answer.told_ended, ask.request.ended_epoch)
        is_new = store in self._new_at
        self.answers[store] = replace(answer, is_new=is_new, told_ended=told_ended)
        self._forget_replaced()
        if store in self.answers:
            self._reasons.pop(store, None)

    def failed(self, ask: Ask, store: str, error: QuorateError) -> None:
        """The store did not register it, or may not have."""
        if not self._awaits(ask, store):
            return
        if isinstance(error, Fenced):
            self._held[store] = self._newer_at[store] = error.promised
        elif isinstance(error, RegIdInUse) and self.phase is Phase.REGISTERING:
            self.error = error
        else:
            self._complain(store, error)

    def acknowledgement_refused(self, store: str, epoch: int, error: QuorateError) -> None:
        """The store takes no position of this instance, which was in that epoch then."""
        if not isinstance(error, Fenced):
            self.forget(store)
        elif error.promised > self.epoch:
            self.error = error
        elif epoch == self.epoch:
            # It has another instance in the very epoch of this one, which it had forgotten. If
            # enough do, that one has begun since. To contest that would give the older one's place
            # in a stream that may have been deregistered to the newer one.
            self._anothers.add(store)
            if enough_for_receivers(self._policy, self._anothers):
                self.error = self._fenced_by(epoch)
        # Else it was this one itself: it has taken a higher epoch meanwhile.

    def _awaits(self, ask: Ask, store: str) -> bool:
        """Answers to what is not asked any more are void, as are those of stores that the source
        does not have any more."""
        if ask is not self._ask:
            return False
        self._awaited.discard(store)
        return store in self.stores

    def _complain(self, store: str, error: QuorateError) -> None:
        before = self._reasons.get(store)
        self._reasons[store] = error
        if type(before) is not type(error):
            self.events.append(Refused(store, error))

    # What follows.

    def step(self, now: float) -> Step | None:
        """What to do now; the same until it is done. None: nothing is under way."""
        while self.phase is not Phase.IDLE and self.error is None:
            if self._rest is not None:
                return self._rest
            if self._ask is None:
                self._begin_round(now)
            elif not self._is_round_over(now):
                return self._ask
            else:
                self._end_round()
        self.phase, self._ask, self._rest = Phase.IDLE, None, None
        return None

    def rested(self) -> None:
        self._rest = None

    def wait_until(self) -> float | None:
        """When to take another step, if those asked have not said anything before; None: they are
        waited for."""
        match self.phase:
            case Phase.JOINING:
                return None
            case Phase.REGISTERING | Phase.CONTESTING if not self.enough:
                return None
        return self._until

    def _begin_round(self, now: float) -> None:
        request = RegistrationRequest(
            self._source,
            self._session_id,
            self.epoch,
            self.instance,
            self.ended_epoch,
            self.spent_epoch,
            self._take_over,
        )
        self._ask = Ask(tuple(self._whom()), request)
        self._awaited, self._held = set(self._ask.stores), {}
        self._until = now + self._interval

    def _whom(self) -> list[str]:
        match self.phase:
            case Phase.JOINING:
                return [store for store in self._unjoined[:1] if store in self.stores]
            case Phase.CONFIRMING:
                return [store for store in self.stores if store not in self._took_last()]
            case Phase.COMPARING:
                return list(self.stores)
        sure = vouching(self.answers)
        return [store for store in self.stores if store not in sure]

    def _is_round_over(self, now: float) -> bool:
        if not self._awaited:
            return True
        if self.phase in (Phase.REGISTERING, Phase.CONTESTING) and self._highest_held():
            return True
        until = self.wait_until()
        return until is not None and now >= until

    def _end_round(self) -> None:
        if self.phase in (Phase.REGISTERING, Phase.CONTESTING) and not self._highest_held():
            self._complain_of_silence()
        match self.phase:
            case Phase.REGISTERING:
                self._all_asked()
            case Phase.JOINING:
                self._one_asked()
            case Phase.CONFIRMING:
                self._confirm()
            case Phase.CONTESTING:
                self._contest_asked()
            case Phase.COMPARING:
                self._compare()
        self._ask = None

    def _all_asked(self) -> None:
        heard = self._highest_held()
        active = [e for e in self._reasons.values() if isinstance(e, ReceiverActive)]
        if heard:
            # Another instance of this receiver, or this one before its answer was lost, holds a
            # higher epoch somewhere: all stores are to know one epoch, above that.
            self._take_epoch(heard + 1)
            self._rest = Rest(REST_SECONDS)
        elif self._forget_outdated():
            pass  # They are asked again.
        elif active and not self.enough:
            self.error = active[0]
        elif self.enough and not self._has_left and self._leave_epoch():
            pass  # All are asked in the new one.
        else:
            self._join_all()
            self.phase = Phase.IDLE

    def _leave_epoch(self) -> bool:
        """Whether it takes another, in which no receiver was over yet, or ends those below."""
        # Once: whoever is over by the next answers was not when this one came, and others may end
        # all the time.
        self._has_left = True
        epoch = unspent(self.epoch, self.answers)
        leaves = epoch > self.epoch
        left = self.epoch if leaves else self.epoch - 1
        over = over_before(left, self.ended_epoch, self.answers)
        if not leaves and over == self.ended_epoch:
            return False
        self.events.append(EpochLeft(over if over > self.ended_epoch else 0))
        self.ended_epoch = over
        if leaves:
            self._take_epoch(epoch)
        else:
            self._forget_outdated()
        return True

    def _one_asked(self) -> None:
        """A store that holds a higher epoch was registered with by another instance that reached
        too few stores to begin, or has begun: then those that know this one will say so."""
        for store, held in self._held.items():
            if held == self.epoch:
                self._contest()
                return
            if held:
                self.events.append(NewerFound(store))
            elif (answer := self.answers.get(store)) is not None:
                self._joining.add(store)
                self.events.append(Answered(store, answer))
        self._unjoined = self._unjoined[1:]
        if not self._unjoined:
            self.phase = Phase.CONFIRMING
            if not self._joining:
                self._kept_house()

    def _confirm(self) -> None:
        if self.epoch in self._held.values():
            self._contest()
            return
        if enough_for_receivers(self._policy, self._takers() & vouching(self.answers)):
            joining = self._joining & self.answers.keys()
            self.joined |= joining
            self.events.append(Joined(frozenset(joining)))
        else:
            self.events.append(TooFewTake())
        self._kept_house()

    def _takers(self) -> Set[str]:
        """The stores that take this instance, as they said after all that it joins had."""
        return self._took_last() | {store for store, held in self._held.items() if not held}

    def _took_last(self) -> Set[str]:
        """The store that it joins, if it is one: the answers of others may be older.

        Since then a newer one may have registered there, and have begun.
        """
        return self._joining if len(self._joining) == 1 else frozenset()

    def _contest(self) -> None:
        """Another instance has the same epoch at stores that this one did not reach: the one that
        notices first takes a higher epoch, and so fences the other."""
        self.events.append(Contested(self._fenced_by(self.epoch)))
        self.joined = frozenset()
        self.phase = Phase.CONTESTING
        self._take_epoch(self.epoch + 1)

    def _contest_asked(self) -> None:
        heard = self._highest_held()
        if heard > self.epoch:
            # It was faster.
            self.error = self._fenced_by(heard)
        elif heard:
            self.phase = Phase.COMPARING
        elif not self._forget_outdated():
            self.events += (Answered(*each) for each in self.answers.items())
            if self.enough:
                self._joining, self.phase = set(self.answers), Phase.CONFIRMING
            else:
                self._kept_house()

    def _compare(self) -> None:
        """Who has the higher epoch at enough stores already has begun, and may be a newer receiver
        after this one was deregistered."""
        others = {store for store, epoch in self._held.items() if epoch >= self.epoch}
        if enough_for_receivers(self._policy, others):
            self.error = self._fenced_by(max(self._held.values()))
            return
        # Both noticed at once: who waits longer comes last, and fences the other.
        self.phase = Phase.CONTESTING
        self._take_epoch(self.epoch + 1)
        self._rest = Rest(CONTEST_SECONDS)

    def _kept_house(self) -> None:
        """As long as one of its stores knows this instance, that tells when it is acknowledged to
        that a newer one has taken its place; but a source that has moved to other stores leaves
        none that does, nor does one that began anew."""
        self.phase = Phase.IDLE
        newer = {store for store, epoch in self._newer_at.items() if epoch > self.epoch}
        if is_replaced(self._policy, self.joined, newer):
            self.error = self._fenced_by(max(self._newer_at.values()))

    def _highest_held(self) -> int:
        """0: no store holds an epoch against this one."""
        return max(self._held.values(), default=0)

    def _complain_of_silence(self) -> None:
        for store, address in self.stores.items():
            if store in self._awaited:
                self._complain(store, Unreachable(address, "it did not answer in time"))

    def _take_epoch(self, epoch: int) -> None:
        self.epoch, self.answers = epoch, {}

    def _forget_outdated(self) -> bool:
        """Whether there were answers of stores that had not heard yet that this receiver had ended:
        they must hear it, and answer anew, before where it was counts."""
        self.answers, outdated = without_outdated(self.answers, self.ended_epoch)
        if outdated:
            self.events.append(OutdatedForgotten(outdated))
        return bool(outdated)

    def _forget_replaced(self) -> None:
        """What a store said from a data directory that another has taken the place of says nothing
        of what the present one has: that one has to answer."""
        for store in sorted(replaced({each: one.word for each, one in self.answers.items()})):
            self.forget(store)
            self._new_at.discard(store)
            self._complain(store, InLimbo(str(self._source), store, FORMER_DIRECTORY))

    def _join_all(self) -> None:
        if self.enough:
            self.joined = frozenset(self.answers)
            self.events.append(Joined(self.joined))

    def _fenced_by(self, epoch: int) -> Fenced:
        return Fenced(f"receiver {self._session_id:#x} of {self._source}", self.epoch, epoch)
