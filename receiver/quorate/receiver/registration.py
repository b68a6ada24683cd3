"""Registering a receiver with a source's stores, and where it starts by their answers."""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass

from quorate.protocol.consensus import (
    StartingPoint,
    choose_start,
    enough_for_receivers,
    receiver_consensus,
    starting_point,
)
from quorate.protocol.errors import (
    Fenced,
    InLimbo,
    QuorateError,
    ReceiverActive,
    RegIdInUse,
    Unreachable,
)
from quorate.protocol.identity import SourceName
from quorate.protocol.limits import NOTHING, PROTOCOL_VERSION
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.protocol.wire import lineage_from_wire, source_to_wire
from quorate.receiver.core import first_difference
from quorate.receiver.directory import SourceRecord
from quorate.receiver.options import ReceiverOptions
from quorate.receiver.peers import CALL_SECONDS, Peers, errors_of
from quorate.v1 import store_pb2 as store_v1
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY, Lifetimes

log = logging.getLogger("quorate.receiver")

_NO_ANSWER = -1


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """What a store knows of this receiver and of the source's stream."""

    reg_id: int
    known: bool
    acknowledged_upto: int
    high: int
    stable_upto: int
    lineage: Lineage
    limbo: bool = False
    """The store can not vouch for what it lacks: its position means "at least this"."""
    source_reg_id: int = 0
    low: int = NOTHING
    """The lowest number that the store has."""
    retained_from: int = 0
    """Everything below was let go on purpose."""
    is_new: bool = False
    """The store knows the receiver from this instance only, if at all."""
    state_only: bool = False
    """The store keeps no messages of the topic."""
    told_ended: int = 0
    """Up to which epoch it was told, when asked, that this receiver is over."""
    spent_epoch: int = 0
    """The highest in which any receiver of the source was over, as far as it knows."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where the receiver starts, and what is known of the stream by then."""

    first: int
    point: StartingPoint
    lineage: Lineage
    stable_upto: int
    is_new: bool = False
    """No store knew the receiver: it starts at what is still there."""


def vouching(answers: Mapping[str, StoreAnswer]) -> frozenset[str]:
    """The stores that answered and are outside limbo."""
    return frozenset(store for store, answer in answers.items() if not answer.limbo)


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
    """Up to where registrations are over, once one that came to this epoch leaves it for a higher.

    A new receiver has done nothing in it. But one that was frozen may have had it before, and wake
    up just now: what it acknowledges is not this receiver's.
    """
    is_new = all(each.is_new for each in answers.values())
    return max(ended_epoch, epoch) if is_new else ended_epoch


def is_replaced(policy: Policy, joined: Set[str], newer: Set[str]) -> bool:
    """Whether an instance that these stores are joined by is over, as those have a newer one.

    It is if they are enough for that to have begun. And if this one has too few, and can not have
    enough any more: else each would wait for what the other one has.
    """
    if enough_for_receivers(policy, newer):
        return True
    left = policy.stores - newer
    return not (enough_for_receivers(policy, joined) or enough_for_receivers(policy, left))


def decide_start(
    source: SourceName,
    policy: Policy,
    answers: Mapping[str, StoreAnswer],
    options: ReceiverOptions,
) -> Start:
    """By consensus over the answers, one of which at least is of a store outside limbo. What a
    store says of an outdated lineage counts only as far as that agrees with the newest."""
    lineage = max((answer.lineage for answer in answers.values()), key=lambda one: one.epoch)

    def agreed(answer: StoreAnswer, upto: int) -> int:
        differs = first_difference(answer.lineage, lineage)
        return upto if differs is None else min(upto, differs - 1)

    low = receiver_consensus(
        options.consensus,
        policy,
        {store: agreed(one, one.acknowledged_upto) + 1 for store, one in answers.items()},
        vouching(answers),
    )
    # Of several groups one may serve it that has never heard of it: others that are away may have.
    sure = policy.blocks(policy.stores & vouching(answers))
    is_new = sure and all(one.is_new for one in answers.values())
    released = max(agreed(one, one.retained_from - 1) for one in answers.values()) + 1
    if is_new and low < released:
        there = (one.low for one in answers.values() if low <= one.low <= released)
        low = min(there, default=released)
    high = max(agreed(one, one.high) for one in answers.values())
    stable_upto = max(agreed(one, one.stable_upto) for one in answers.values())
    # A position may be ahead of every store that answered; what it acknowledged exists.
    point = starting_point(source, low, max(high, low - 1), options.request_maximum)
    first = choose_start(point, options.choose_start)
    return Start(first, point, lineage, stable_upto, is_new and 0 < first <= released)


class Registrar:
    """Registers one receiver of one source with store after store."""

    def __init__(
        self,
        peers: Peers,
        source: SourceName,
        session_id: int,
        reg_ids: Mapping[str, int],
        *,
        options: ReceiverOptions,
        take_over: bool,
        refused: Callable[[str, QuorateError], None],
    ) -> None:
        """reg_ids: by store address, where the application chose one.
        refused: is told of each store that does not register it, once for each kind of reason."""
        self._peers = peers
        self._source = source
        self._session_id = session_id
        self._reg_ids = reg_ids
        self._lifetimes = Lifetimes(
            activity_timeout_seconds=options.activity_timeout or 0.0,
            state_lifetime_seconds=options.state_lifetime or 0.0,
        )
        self._waited_for = options.waited_for
        self._take_over = take_over
        self._refused = refused
        self._reasons: dict[str, QuorateError] = {}
        self._new_at: set[str] = set()
        """Stores that know the receiver from this instance only."""
        self._newer_at: dict[str, int] = {}
        """Stores that have registered a newer instance, and its epoch."""
        self._anothers: set[str] = set()
        """Stores that have another instance in this one's epoch."""
        self.instance = uuid.uuid4().bytes
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

    @property
    def in_limbo(self) -> frozenset[str]:
        """Stores that answered, or refused to, because they can not vouch for what they lack."""
        refusing = (name for name, why in self._reasons.items() if isinstance(why, InLimbo))
        return (frozenset(self.answers) - vouching(self.answers)).union(refusing)

    @property
    def reg_id(self) -> int:
        """The receiver's at its stores; 0 if they assigned different ones."""
        reg_ids = {answer.reg_id for answer in self.answers.values()}
        return reg_ids.pop() if len(reg_ids) == 1 else 0

    def enough(self, policy: Policy) -> bool:
        """Whether those that answered settle where the receiver starts."""
        return enough_for_receivers(policy, vouching(self.answers))

    async def register(self, record: SourceRecord, interval: float) -> None:
        """Try every store of the source once, in an epoch that suits all that answer.

        Stores that say nothing hold it up for no longer than the interval, in seconds, once those
        that answered are enough; one in limbo is asked again. Raises RegIdInUse, and ReceiverActive
        if it is for another instance that too few do.
        """
        await self._register_with_all(record, interval)
        epoch = unspent(self.epoch, self.answers)
        if epoch > self.epoch and self.enough(record.policy):
            # Once: whoever is over by the next answers was not when this one came, and others may
            # end all the time.
            self.ended_epoch = over_before(self.epoch, self.ended_epoch, self.answers)
            self.epoch, self.answers = epoch, {}
            await self._register_with_all(record, interval)
        self._join_all(record.policy)

    async def _register_with_all(self, record: SourceRecord, interval: float) -> None:
        while True:
            heard = await self._ask_all(record, interval)
            if not heard and self._forget_outdated():
                continue
            if not heard:
                active = [e for e in self._reasons.values() if isinstance(e, ReceiverActive)]
                if active and not self.enough(record.policy):
                    raise active[0]
                return
            # Another instance of this receiver, or this one before its answer was lost, holds a
            # higher epoch somewhere: all stores are to know one epoch, above that.
            self.epoch, self.answers = heard + 1, {}
            await asyncio.sleep(random.uniform(0, 0.02))

    async def contest(self, record: SourceRecord, interval: float) -> None:
        """Another instance has the same epoch at stores that this one did not reach: the one that
        notices first takes a higher epoch, and so fences the other.

        Raises Fenced if the other was faster, or has the higher epoch at enough stores already: it
        has begun, and may be a newer receiver after this one was deregistered.
        """
        self.joined = frozenset()
        while True:
            self.epoch, self.answers = self.epoch + 1, {}
            heard = await self._ask_all(record, interval)
            while not heard and self._forget_outdated():
                heard = await self._ask_all(record, interval)
            if not heard:
                self._join_all(record.policy)
                return
            if heard > self.epoch:
                raise self._fenced_by(heard)
            held = await self._ask_again(record, interval)
            others = {name for name, epoch in held.items() if epoch >= self.epoch}
            if enough_for_receivers(record.policy, others):
                raise self._fenced_by(max(held.values()))
            # Both noticed at once: who waits longer comes last, and fences the other.
            await asyncio.sleep(random.uniform(0, 0.1))

    async def join(self, name: str, address: str) -> StoreAnswer | None:
        """Register in the epoch in force with a store that was away, or does not know this instance
        any more; None if it refuses that. Nothing is acknowledged to it before `confirm`.

        A store that holds a higher epoch was registered with by another instance that reached too
        few stores to begin, or has begun: then those that know this one will say so. Raises Fenced
        if another instance has the same epoch there.
        """
        heard = await self._ask(name, address, self.epoch)
        if heard == self.epoch:
            raise self._fenced_by(heard)
        if heard > self.epoch:
            log.warning("store %s has a newer instance of the receiver of %s", name, self._source)
        return self.answers.get(name)

    async def confirm(
        self, joining: Collection[str], record: SourceRecord, interval: float
    ) -> bool:
        """Have stores that have just been joined told what was consumed, if enough stores still
        take this instance. Those that say nothing hold it up for the interval, in seconds.

        This instance may have been deregistered, and replaced, while it was frozen, out of the
        reach of these. Whoever took its place is known to a stable set: one has to take it again.
        Raises Fenced if another instance has the same epoch.
        """
        held = await self._ask_again(record, interval, joining)
        if self.epoch in held.values():
            raise self._fenced_by(self.epoch)
        taken = {*joining, *(store for store, epoch in held.items() if not epoch)}
        if not enough_for_receivers(record.policy, taken & vouching(self.answers)):
            return False
        self.joined |= {*joining}
        return True

    async def _ask_again(
        self, record: SourceRecord, interval: float, but: Collection[str] = ()
    ) -> dict[str, int]:
        """What the stores hold against this epoch now, 0 for nothing; those that say it in time."""
        with self._asking(record, but) as asked:
            if not asked:
                return {}
            done, _ = await asyncio.wait(asked, timeout=interval)
            return {asked[task][0]: held for task in done if (held := task.result()) != _NO_ANSWER}

    def _join_all(self, policy: Policy) -> None:
        if self.enough(policy):
            self.joined = frozenset(self.answers)

    def check_not_replaced(self, policy: Policy) -> None:
        """Raises Fenced if a newer instance has taken this one's place; see `is_replaced`.

        As long as one of its stores knows this instance, that tells when it is acknowledged to; but
        a source that has moved to other stores leaves none that does, nor does one that began anew.
        """
        newer = {name for name, epoch in self._newer_at.items() if epoch > self.epoch}
        if is_replaced(policy, self.joined, newer):
            raise self._fenced_by(max(self._newer_at.values()))

    def is_anothers(self, name: str, policy: Policy) -> None:
        """The store has another instance in the very epoch of this one, which it had forgotten.

        Raises Fenced if enough stores do: that instance has begun since. To contest that would give
        the older one's place in a stream that may have been deregistered to the newer one.
        """
        self._anothers.add(name)
        if enough_for_receivers(policy, self._anothers):
            raise self._fenced_by(self.epoch)

    def _fenced_by(self, epoch: int) -> Fenced:
        return Fenced(f"receiver {self._session_id:#x} of {self._source}", self.epoch, epoch)

    def forget(self, name: str) -> None:
        """The store does not know this receiver any more."""
        self.answers.pop(name, None)
        self.joined -= {name}

    def _forget_outdated(self) -> bool:
        """Whether there were answers of stores that had not heard yet that this receiver had ended:
        they must hear it, and answer anew, before where it was counts."""
        self.answers, outdated = without_outdated(self.answers, self.ended_epoch)
        return bool(outdated)

    async def _ask_all(self, record: SourceRecord, interval: float) -> int:
        with self._asking(record, vouching(self.answers)) as asked:
            return await self._gather(asked, record.policy, interval)

    @contextmanager
    def _asking(
        self, record: SourceRecord, but: Collection[str]
    ) -> Iterator[Mapping[asyncio.Task[int], tuple[str, str]]]:
        """Every store but these, by the task that asks it; who has not said it by the end is asked
        no more."""
        asked = {
            asyncio.ensure_future(self._ask(name, address, self.epoch)): (name, address)
            for name, address in record.stores
            if name not in but
        }
        try:
            yield asked
        finally:
            for task in asked:
                task.cancel()

    async def _gather(
        self,
        pending: Mapping[asyncio.Task[int], tuple[str, str]],
        policy: Policy,
        interval: float,
    ) -> int:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + interval
        waiting, heard = set(pending), 0
        while waiting:
            timeout = None
            if self.enough(policy):
                timeout = max(0.0, deadline - loop.time())
            done, waiting = await asyncio.wait(
                waiting, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                heard = max(heard, task.result())
            if not done:
                for task in waiting:
                    name, address = pending[task]
                    self._complain(name, Unreachable(address, "it did not answer in time"))
                break
            if heard:
                break
        return heard

    async def _ask(self, name: str, address: str, epoch: int) -> int:
        """Returns the epoch that the store holds against this one; 0 if it registered it;
        _NO_ANSWER if it did not say."""
        request = store_v1.RegisterReceiverRequest(
            source=source_to_wire(self._source),
            session_id=self._session_id,
            reg_id=self._reg_ids.get(address, 0),
            epoch=epoch,
            instance=self.instance,
            take_over=self._take_over,
            lifetimes=self._lifetimes,
            not_waited_for=not self._waited_for,
            ended_epoch=self.ended_epoch,
            spent_epoch=self.spent_epoch,
            protocol_version=PROTOCOL_VERSION,
        )
        try:
            with errors_of(address):
                answer = await self._peers.store(address).RegisterReceiver(
                    request, timeout=CALL_SECONDS
                )
            lineage = lineage_from_wire(answer.lineage)
        except RegIdInUse:
            raise
        except Fenced as error:
            self._newer_at[name] = error.promised
            return error.promised
        except QuorateError as error:
            self._complain(name, error)
            return _NO_ANSWER
        self._reasons.pop(name, None)
        self.ended_epoch = max(answer.ended_epoch, self.ended_epoch)
        self.spent_epoch = max(answer.spent_epoch, self.spent_epoch)
        self._newer_at.pop(name, None)
        self._anothers.discard(name)
        if not answer.known:
            self._new_at.add(name)
        self.answers[name] = StoreAnswer(
            answer.reg_id,
            answer.known,
            max(answer.acknowledged_upto, NOTHING),
            answer.high,
            answer.stable_upto,
            lineage,
            answer.limbo,
            answer.source_reg_id,
            answer.low,
            answer.retained_from,
            name in self._new_at,
            answer.durability == DURABILITY_STATE_ONLY,
            max(answer.ended_epoch, request.ended_epoch),
            answer.spent_epoch,
        )
        return 0

    def _complain(self, name: str, error: QuorateError) -> None:
        before = self._reasons.get(name)
        self._reasons[name] = error
        if type(before) is not type(error):
            self._refused(name, error)
