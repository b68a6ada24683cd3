"""How a receiver registers with the stores of a source, and stays registered (protocol.md 9).

Pure. `ask`, `register` and `keep_house` begin an act. `step` says which stores to ask, or how long
to rest; answers and failures go in, until nothing is under way. The results are in `answers`,
`joined` and `error`, and `events` report them. This module decides which of several instances of
one receiver goes on. The place where a receiver starts is not decided here.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from quorate.protocol.consensus import enough_for_receivers
from quorate.protocol.delays import REST, Delays
from quorate.protocol.errors import (
    FORMER_DIRECTORY,
    Deregistered,
    Fenced,
    InLimbo,
    QuorateError,
    ReceiverActive,
    RegIdInUse,
    UnknownTopic,
    Unreachable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.incarnations import replaced
from quorate.protocol.policy import Policy
from quorate.protocol.protection import Protection
from quorate.receiver.protocol.start_position import (
    StoreAnswer,
    vouching,
)


def without_outdated(
    answers: Mapping[str, StoreAnswer], ended_epoch: int
) -> tuple[dict[str, StoreAnswer], frozenset[str]]:
    """Return the answers of stores that know the receiver's last end, and the other stores."""
    knowing = {store: each for store, each in answers.items() if each.told_ended >= ended_epoch}
    return knowing, frozenset(answers) - knowing.keys()


def is_replaced(policy: Policy, joined: Set[str], newer: Set[str]) -> bool:
    """Return whether an instance is over that some stores joined, as others have a newer one.

    It is over if the others are enough for the newer one to have begun. It is also over if its own
    stores are too few, and enough cannot be had. Otherwise each instance would wait for the stores
    of the other.
    """
    if enough_for_receivers(policy, newer):
        return True
    left = policy.stores - newer
    return not (enough_for_receivers(policy, joined) or enough_for_receivers(policy, left))


@dataclass(frozen=True, slots=True)
class RegistrationRequest:
    """The request to a store to register this instance."""

    source: SourceName
    session_id: int
    epoch: int
    instance: bytes
    ended_epoch: int
    """The last epoch in which a registration of this receiver ended."""
    take_over: bool
    asks_only: bool = False
    """Whether the store only answers, and registers nothing."""
    is_open: bool = False
    """Whether the instance runs already."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """Ask each of these stores, all at once. The next step ends the wait for their answers."""

    stores: tuple[str, ...]
    request: RegistrationRequest


@dataclass(frozen=True, slots=True, eq=False)
class Rest:
    """Ask nothing for one of these delays, which are left to chance."""

    delays: Delays


Step = Ask | Rest


@dataclass(frozen=True, slots=True)
class Refused:
    """A store does not register the receiver; reported once for each kind of reason."""

    store: str
    error: QuorateError


@dataclass(frozen=True, slots=True)
class OutdatedForgotten:
    """These stores had not heard that this receiver had ended; their answers are void."""

    stores: frozenset[str]


@dataclass(frozen=True, slots=True)
class NewerFound:
    """A store has a newer instance."""

    store: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A store has registered a running instance; its answer may have news of the stream."""

    store: str
    answer: StoreAnswer


@dataclass(frozen=True, slots=True)
class TooFewTake:
    """Too few stores still take this instance. Those that joined are told nothing yet."""


@dataclass(frozen=True, slots=True)
class Joined:
    """From now on these stores are told what was consumed: enough stores take this instance."""

    stores: frozenset[str]


Event = Refused | OutdatedForgotten | NewerFound | Answered | TooFewTake | Joined


class Phase(enum.Enum):
    IDLE = enum.auto()
    """Nothing is under way."""
    REGISTERING = enum.auto()
    """Every store is asked, in an epoch that suits all that answer."""
    JOINING = enum.auto()
    """Stores that do not know this instance are asked, one after the other, in its epoch."""
    CONFIRMING = enum.auto()
    """The other stores are asked whether they still take this instance."""


class Registration:
    """One receiver's registration with the stores of one source. Its epoch never goes down."""

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
        drawn: bool = False,
    ) -> None:
        """Begin without answers.

        - stores: name and address of each store of the source.
        - interval: seconds that silent stores may hold up a registration that can go on without
          them.
        - drawn: whether no later source has the session ID: then stores forget the source once it
          has closed and they have nothing left of it.
        """
        self._source = source
        self._drawn = drawn
        self._session_id = session_id
        self._interval = interval
        self._take_over = take_over
        self._policy = policy
        self._new_at: set[str] = set()
        """The stores that know the receiver from this instance only."""
        self._newer_at: dict[str, int] = {}
        """The stores that have registered a newer instance, each with its epoch."""
        self._reasons: dict[str, QuorateError] = {}
        self._refusals: dict[str, ReceiverActive] = {}
        """The stores that protect another instance, as they said in this round."""
        self._ask: Ask | None = None
        self._rest: Rest | None = None
        self._awaited: set[str] = set()
        self._silent: frozenset[str] = frozenset()
        """The stores that did not answer in time when they were only asked."""
        self._held: dict[str, int] = {}
        """The epoch that each asked store holds against this one; 0: it registered this one."""
        self._until = 0.0
        self._unjoined: list[str] = []
        self._joining: set[str] = set()
        self.asks_only = True
        """Whether no store was asked yet to register this instance: the answers fence no other."""
        self.phase = Phase.IDLE
        self.protection = Protection()
        """The protection of another instance, which stores may refuse this one for."""
        self.stores = dict(stores)
        """The address of each store of the source, by name."""
        self.instance = instance
        self.epoch = 1
        """The epoch of the registration: above any that a store had for this receiver."""
        self.ended_epoch = 0
        """The last epoch in which a registration of this identity ended, as far as stores said."""
        self.answers: dict[str, StoreAnswer] = {}
        """The answers of the stores that know the receiver in this epoch, by name."""
        self.joined: frozenset[str] = frozenset()
        """The stores that are told what was consumed.

        Enough of them have taken this instance together. So an older one that was frozen hears that
        it is over.
        """
        self.events: list[Event] = []
        self.error: QuorateError | None = None
        """The error that ended the receiver for ever; None while it can go on."""

    @property
    def in_limbo(self) -> frozenset[str]:
        """The stores in limbo: they answered so, or refused because they cannot vouch for what they
        lack."""
        refusing = (name for name, why in self._reasons.items() if isinstance(why, InLimbo))
        return (frozenset(self.answers) - vouching(self.answers)).union(refusing)

    @property
    def reg_id(self) -> int:
        """The RegID of the receiver at its stores; 0: its stores assigned different ones."""
        reg_ids = {answer.reg_id for answer in self.answers.values()}
        return reg_ids.pop() if len(reg_ids) == 1 else 0

    @property
    def enough(self) -> bool:
        """Whether the answers settle where the receiver starts."""
        return enough_for_receivers(self._policy, vouching(self.answers))

    @property
    def is_forgotten(self) -> bool:
        """Whether so many stores have forgotten the source that the others are not enough."""
        left = {store for store in self.stores if not self.forgets(self._reasons.get(store))}
        return len(left) < len(self.stores) and not enough_for_receivers(self._policy, left)

    def forgets(self, error: QuorateError | None) -> bool:
        """Return whether a store that refuses so has forgotten the source, as it is meant to."""
        return self._drawn and isinstance(error, UnknownTopic)

    # Acts.

    def source_has(self, stores: Sequence[tuple[str, str]], policy: Policy) -> None:
        """Set the stores and the policy of the source. Other stores no longer count."""
        self.stores, self._policy = dict(stores), policy
        for store in self.answers.keys() - self.stores.keys():
            self.forget(store)

    def ask(self) -> None:
        """Ask every store once what it would answer to a registration, and register nowhere.

        A receiver that cannot open so leaves a working instance alone. The error is set as by
        `register`.
        """
        self.phase, self.answers, self._silent = Phase.REGISTERING, {}, frozenset()

    def register(self) -> None:
        """Try every store once, in an epoch that suits all that answer.

        A store in limbo is asked again. The error is set if another instance is the reason that too
        few stores register this one, and its protection will not end in time.
        """
        if self.asks_only:
            self.asks_only, self.answers = False, {}
        self.phase = Phase.REGISTERING

    def keep_house(self) -> None:
        """Register in the same epoch with stores that were away or lost this instance.

        They are told what was consumed if enough stores still take this instance. It may have been
        deregistered and replaced while it was frozen, out of reach of these stores. A stable set
        knows its replacement. So one store of that set has to take this instance again.
        """
        self.phase = Phase.JOINING
        self._unjoined = [store for store in self.stores if store not in self.joined]
        self._joining = set()

    def forget(self, store: str) -> None:
        """Drop a store that no longer knows this receiver."""
        self.answers.pop(store, None)
        self.joined -= {store}

    # Inputs.

    def answered(self, ask: Ask, store: str, answer: StoreAnswer) -> None:
        """Note that the store has registered this instance."""
        if not self._awaits(ask, store):
            return
        self._held[store] = 0
        self._newer_at.pop(store, None)
        self.ended_epoch = max(answer.told_ended, self.ended_epoch)
        if not answer.known and not self.asks_only:
            self._new_at.add(store)
        told_ended = max(answer.told_ended, ask.request.ended_epoch)
        is_new = store in self._new_at or not answer.known
        if (answer.is_new, answer.told_ended) != (is_new, told_ended):
            answer = replace(answer, is_new=is_new, told_ended=told_ended)
        self.answers[store] = answer
        self._forget_replaced()
        if store in self.answers:
            self._reasons.pop(store, None)

    def failed(self, ask: Ask, store: str, error: QuorateError) -> None:
        """Note that the store did not register this instance, or may not have."""
        if not self._awaits(ask, store):
            return
        if isinstance(error, Fenced):
            self._held[store] = self._newer_at[store] = error.promised
        elif isinstance(error, Deregistered) or (
            isinstance(error, RegIdInUse) and self.phase is Phase.REGISTERING
        ):
            self.error = error
        else:
            if isinstance(error, ReceiverActive):
                self._refusals[store] = error
            self._complain(store, error)

    def acknowledgement_refused(self, store: str, error: QuorateError) -> None:
        """Note that the store refused a position of this instance."""
        if isinstance(error, Fenced | Deregistered):
            self.error = error
            return
        self.forget(store)
        if self.forgets(error):
            self._reasons[store] = error

    def _awaits(self, ask: Ask, store: str) -> bool:
        """Return whether this answer counts.

        An answer to an earlier step is void. So is that of a store that the source no longer has.
        """
        if ask is not self._ask:
            return False
        self._awaited.discard(store)
        return store in self.stores

    def _complain(self, store: str, error: QuorateError) -> None:
        before = self._reasons.get(store)
        self._reasons[store] = error
        if type(before) is not type(error) and not self.forgets(error):
            self.events.append(Refused(store, error))

    # Results.

    def waiting_for_identity(self, now: float) -> tuple[tuple[str, ...], float] | None:
        """Return the stores that protect another instance, and for how many seconds at least.

        None: no such store is waited for.
        """
        refusing = self.protection.stores
        if not refusing or self.enough:
            return None
        return tuple(each for each in self.stores if each in refusing), self.protection.ends_in(now)

    def step(self, now: float) -> Step | None:
        """Return what to do now, until it is done. None: nothing is under way."""
        while self.phase is not Phase.IDLE and self.error is None:
            if self._rest is not None:
                return self._rest
            if self._ask is None:
                self._begin_round(now)
            elif not self._is_round_over(now):
                return self._ask
            else:
                self._end_round(now)
        self.phase, self._ask, self._rest = Phase.IDLE, None, None
        return None

    def rested(self) -> None:
        self._rest = None

    def wait_until(self) -> float | None:
        """Return when to take another step if the asked stores stay silent; None: it waits for
        them."""
        match self.phase:
            case Phase.JOINING:
                return None
            case Phase.REGISTERING if not self.enough:
                return None
        return self._until

    def _begin_round(self, now: float) -> None:
        request = RegistrationRequest(
            self._source,
            self._session_id,
            self.epoch,
            self.instance,
            self.ended_epoch,
            self._take_over,
            self.asks_only,
            is_open=self.phase is not Phase.REGISTERING,
        )
        self._ask = Ask(tuple(self._whom()), request)
        self._awaited, self._held, self._refusals = set(self._ask.stores), {}, {}
        self._until = now + self._interval

    def _whom(self) -> list[str]:
        match self.phase:
            case Phase.JOINING:
                return [store for store in self._unjoined[:1] if store in self.stores]
            case Phase.CONFIRMING:
                return [store for store in self.stores if store not in self._took_last()]
        sure = vouching(self.answers)
        return [store for store in self.stores if store not in sure]

    def _is_round_over(self, now: float) -> bool:
        if not self._awaited:
            return True
        if self.phase is Phase.REGISTERING and self.enough and self._awaited <= self._silent:
            return True
        if self.phase is Phase.REGISTERING and self._highest_held():
            return True
        if self._is_kept_out():
            return True
        until = self.wait_until()
        return until is not None and now >= until

    def _is_kept_out(self) -> bool:
        """Return whether the stores that do not protect another instance are too few to register.

        Then nothing that they may still answer matters.
        """
        if self.phase is not Phase.REGISTERING or not self._refusals:
            return False
        left = self.stores.keys() - self._refusals.keys()
        return not enough_for_receivers(self._policy, left)

    def _end_round(self, now: float) -> None:
        cut_short = self._highest_held() or self._is_kept_out()
        if self.phase is Phase.REGISTERING and not cut_short:
            self._complain_of_silence()
        match self.phase:
            case Phase.REGISTERING:
                self._all_asked(now)
            case Phase.JOINING:
                self._one_asked()
            case Phase.CONFIRMING:
                self._confirm()
        self._ask = None

    def _all_asked(self, now: float) -> None:
        heard = self._highest_held()
        self._note_protection(now)
        if self.asks_only:
            self._silent = frozenset(self._awaited)
            known = (answer.epoch for answer in self.answers.values())
            self.epoch = max(self.epoch, max(known, default=0) + 1)
        if heard:
            # Some store holds a higher epoch: of another instance, or of this one before its answer
            # was lost. All stores are to know one epoch, above that.
            self._take_epoch(heard + 1)
            self._rest = Rest(REST)
        elif self._forget_outdated():
            pass  # The stores are asked again.
        elif self.protection.stores and not self.enough:
            if not self.protection.is_worth_waiting_for(now):
                self.error = self.protection.refusal
            self.phase = Phase.IDLE
        elif self.asks_only:
            self.phase = Phase.IDLE
        else:
            self._join_all()
            self.phase = Phase.IDLE

    def _note_protection(self, now: float) -> None:
        for store in self.stores:
            if store in self._refusals:
                self.protection.refused(store, self._refusals[store], now)
            elif store not in self._awaited:
                self.protection.ended(store)

    def _one_asked(self) -> None:
        """Act on the answer of one store.

        A higher ballot there is of another instance. Either that one reached too few stores to
        begin, or the stores of this one will say that it has begun.
        """
        for store, held in self._held.items():
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
        if enough_for_receivers(self._policy, self._takers() & vouching(self.answers)):
            joining = self._joining & self.answers.keys()
            self.joined |= joining
            self.events.append(Joined(frozenset(joining)))
        else:
            self.events.append(TooFewTake())
        self._kept_house()

    def _takers(self) -> Set[str]:
        """Return the stores that take this instance, as they said after all that it joins had."""
        return self._took_last() | {store for store, held in self._held.items() if not held}

    def _took_last(self) -> Set[str]:
        """Return the store that this instance joins, if it is only one: other answers may be older.

        A newer instance may have registered at the others since, and have begun.
        """
        return self._joining if len(self._joining) == 1 else frozenset()

    def _kept_house(self) -> None:
        """End this instance if a newer one has taken its place.

        A store that knows this instance reports a newer one when it is acknowledged to. But a
        source that moved to other stores, or began anew, leaves no such store.
        """
        self.phase = Phase.IDLE
        newer = {store for store, epoch in self._newer_at.items() if epoch >= self.epoch}
        if is_replaced(self._policy, self.joined, newer):
            self.error = self._fenced_by(max(self._newer_at.values()))

    def _highest_held(self) -> int:
        """Return the highest epoch that a store holds against this one; 0: none."""
        return max(self._held.values(), default=0)

    def _complain_of_silence(self) -> None:
        for store, address in self.stores.items():
            if store in self._awaited:
                self._complain(store, Unreachable(address, "it did not answer in time"))

    def _take_epoch(self, epoch: int) -> None:
        self.epoch, self.answers = epoch, {}

    def _forget_outdated(self) -> bool:
        """Drop the answers of stores that had not heard that this receiver had ended.

        Return whether there were any. These stores must hear it, and answer anew, before their
        positions count.
        """
        self.answers, outdated = without_outdated(self.answers, self.ended_epoch)
        if outdated:
            self.events.append(OutdatedForgotten(outdated))
        return bool(outdated)

    def _forget_replaced(self) -> None:
        """Drop the answers of data directories that were replaced. The present directory has to
        answer."""
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
